//! Initial RAM disks: the tree of files that a kernel starts with, as a cpio archive.
//! [LINUX "initramfs buffer format"]

use crate::host::elf;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const SYMBOLIC_LINK: u32 = 0o120_777;
const CONSOLE: u32 = 0o020_600;

/// Files by path without the leading slash.
#[derive(Clone, Debug, Default)]
pub struct Initramfs {
    files: BTreeMap<PathBuf, Vec<u8>>,
    links: BTreeMap<PathBuf, PathBuf>,
    /// Those that are there even if nothing is in them.
    folders: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// Puts a file at a path; what leads out of the tree is left out.
    pub fn add(&mut self, path: impl AsRef<Path>, bytes: Vec<u8>) {
        self.files.insert(relative(path.as_ref()), bytes);
    }

    /// Whether there is something at a path.
    pub fn contains(&self, path: &Path) -> bool {
        let path = relative(path);
        self.files.contains_key(&path) || self.links.contains_key(&path)
    }

    /// Paths, without the leading slash, and what is there.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// Paths of links, without the leading slash, and where they lead.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.links.iter().map(|(path, target)| (path.as_path(), target.as_path()))
    }

    /// Leaves out what another tree has as well.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.files.retain(|path, bytes| other.files.get(path) != Some(bytes));
    }

    /// Puts a symbolic link at a path.
    pub fn link(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.links.insert(relative(path.as_ref()), target.into());
    }

    /// Makes a folder at a path.
    pub fn add_folder(&mut self, path: impl AsRef<Path>) {
        self.folders.insert(relative(path.as_ref()));
    }

    /// Adds a program of this machine at `path`, and what it is linked to where it expects it.
    pub fn add_program(&mut self, path: &str, program: &Path) -> anyhow::Result<()> {
        self.add_closure(path, program, elf::closure(program)?);
        Ok(())
    }

    /// The same of a program in a folder that may be a root with libraries of its own: those that
    /// this machine does not have are left out.
    pub(crate) fn add_program_of_folder(
        &mut self,
        path: &str,
        program: &Path,
    ) -> anyhow::Result<()> {
        self.add_closure(path, program, elf::closure_of_what_is_here(program)?);
        Ok(())
    }

    fn add_closure(&mut self, path: &str, program: &Path, mut files: BTreeMap<PathBuf, Vec<u8>>) {
        if let Some(bytes) = files.remove(program) {
            self.add(path, bytes);
        }
        files.into_iter().for_each(|(path, bytes)| self.add(path, bytes));
    }

    /// The archive.
    pub fn to_cpio(&self) -> Vec<u8> {
        let mut archive = Archive::default();
        let mut folders: BTreeSet<PathBuf> =
            ["dev", "proc", "sys", "run", "tmp"].map(PathBuf::from).into();
        folders.extend(self.folders.iter().cloned());
        for path in self.files.keys().chain(self.links.keys()).chain(&self.folders) {
            folders.extend(path.ancestors().skip(1).map(Path::to_owned));
        }
        folders.remove(Path::new(""));
        for folder in &folders {
            archive.entry(folder, DIRECTORY, (0, 0), &[]);
        }
        archive.entry(Path::new("dev/console"), CONSOLE, (5, 1), &[]);
        for (path, bytes) in &self.files {
            archive.entry(path, EXECUTABLE, (0, 0), bytes);
        }
        for (path, target) in &self.links {
            archive.entry(path, SYMBOLIC_LINK, (0, 0), target.as_os_str().as_encoded_bytes());
        }
        archive.finish()
    }
}

fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// A "newc" archive under construction.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), data: &[u8]) {
        self.entries += 1;
        let name = path.as_os_str().as_encoded_bytes();
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            data.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name);
        self.bytes.push(0);
        self.align();
        self.bytes.extend(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_paths_stay_inside() {
        let mut tree = Initramfs::default();
        tree.add("/../a/b/file", b"text".to_vec());
        tree.link("/a/link", "b/file");
        let cpio = tree.to_cpio();
        let place = |name: &str| {
            let name = format!("{name}\0");
            cpio.windows(name.len()).position(|window| window == name.as_bytes())
        };
        assert!(place("a") < place("a/b") && place("a/b") < place("a/b/file"));
        assert!(place("a/link").is_some() && place("TRAILER!!!").is_some());
        assert!(place("../a/b/file").is_none());
        assert_eq!(cpio.len() % 4, 0);
    }
}
