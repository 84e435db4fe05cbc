//! A folder of this machine as the root of a Linux guest, such as an unpacked container image.

use super::{MOST_BYTES, MOST_FILES};
use crate::host::initramfs::Initramfs;
use crate::linux::place::GUEST_ROOT;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Where programs are looked for that are called by their name.
const PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The program of a root that a name stands for, as the guest calls it. What links lead to is not
/// looked at: they may be meant for the guest.
pub(crate) fn which(root: &Path, name: &str) -> Option<String> {
    let is_there = |path: &String| {
        let there = root.join(path.trim_start_matches('/'));
        std::fs::symlink_metadata(there).is_ok_and(|facts| !facts.is_dir())
    };
    let places: Vec<String> = match name.contains('/') {
        true => vec![name.to_owned()],
        false => PATH.iter().map(|folder| format!("{folder}/{name}")).collect(),
    };
    places.into_iter().find(is_there)
}

/// Bytes of all files of a root, which the guest has in its RAM.
pub(crate) fn bytes(root: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    walk(root, &mut |_, path, facts| {
        sum += if facts.is_file() { facts.len() } else { 0 };
        anyhow::ensure!(sum <= MOST_BYTES, too_much(path));
        Ok(())
    })?;
    Ok(sum)
}

/// Adds all of it: files, and links as they are. Devices and sockets are left out; the guest makes
/// its own.
pub(super) fn add(guest: &mut Initramfs, root: &Path) -> anyhow::Result<()> {
    walk(root, &mut |there, path, facts| {
        let there = Path::new(GUEST_ROOT).join(there);
        if facts.is_symlink() {
            guest.link(there, std::fs::read_link(path)?);
        } else if facts.is_file() {
            guest.add(there, std::fs::read(path)?);
        } else if facts.is_dir() {
            guest.add_folder(there);
        }
        Ok(())
    })
}

fn too_much(path: &Path) -> String {
    format!(
        "{}: at most {MOST_FILES} files of {} MB together make a root: it goes into the guest's RAM",
        path.display(),
        MOST_BYTES >> 20
    )
}

/// Tells of everything in a folder: its path in the guest, its path here, and what it is.
fn walk(
    root: &Path,
    tell: &mut dyn FnMut(&Path, &Path, &std::fs::Metadata) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut files = 0;
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(root.to_owned(), PathBuf::new())];
    while let Some((folder, there)) = waiting.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry.with_context(|| folder.display().to_string())?;
            let (path, there) = (entry.path(), there.join(entry.file_name()));
            let facts = entry.metadata().with_context(|| path.display().to_string())?;
            files += 1;
            anyhow::ensure!(files <= MOST_FILES, too_much(root));
            tell(&there, &path, &facts).with_context(|| path.display().to_string())?;
            if facts.is_dir() {
                waiting.push((path, there));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_taken_with_its_links_and_names_its_own_programs() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("usr/bin")).expect("a writable folder");
        std::fs::create_dir(root.join("empty")).expect("a writable folder");
        std::fs::write(root.join("usr/bin/tool"), "text").expect("a writable folder");
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).expect("a link");
        std::os::unix::fs::symlink("/no/such", root.join("usr/bin/own")).expect("a link");
        let mut guest = Initramfs::default();
        add(&mut guest, root).expect("a folder");
        assert!(guest.contains(&Path::new(GUEST_ROOT).join("usr/bin/tool")));
        let cpio = String::from_utf8_lossy(&guest.to_cpio()).into_owned();
        assert!(cpio.contains("empty\0") && cpio.contains("/no/such"), "{cpio}");
        assert_eq!(bytes(root).expect("a folder"), 4);
        for (name, path) in [
            ("tool", Some("/usr/bin/tool")),
            ("own", Some("/usr/bin/own")),
            ("/bin/tool", Some("/bin/tool")),
            ("bin", None),
            ("cat", None),
        ] {
            assert_eq!(which(root, name).as_deref(), path, "{name}");
        }
        assert!(add(&mut guest, &root.join("nosuch")).is_err());
    }
}
