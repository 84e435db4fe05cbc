//! What the lab keeps from one run to the next: in the user's cache folder.
//!
//! Kernels that are found there are booted without a further question, so nobody else may have been
//! able to put them there.

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Access for the user alone.
const MODE: Mode = Mode::RWXU;

/// A folder of ours there.
pub(crate) fn folder(part: &str) -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name);
    folder_of(variable("XDG_CACHE_HOME"), variable("HOME"), &std::env::temp_dir(), part)
}

fn folder_of(
    cache: Option<OsString>,
    home: Option<OsString>,
    temporary: &Path,
    part: &str,
) -> anyhow::Result<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    // A folder that is named is meant.
    if let Some(cache) = cache.and_then(absolute) {
        std::fs::create_dir_all(&cache)
            .with_context(|| format!("cannot create {}", cache.display()))?;
        return below(&cache, "avicenna", part);
    }
    // The home may be another user's: sudo leaves it so where it is told to.
    if let Some(home) = home.and_then(absolute).filter(|home| home.is_dir()) {
        let cache = home.join(".cache");
        let _ = rustix::fs::mkdir(&cache, MODE);
        if let Ok(folder) = below(&cache, "avicenna", part) {
            return Ok(folder);
        }
    }
    below(temporary, &format!("avicenna-{}", rustix::process::geteuid().as_raw()), part)
}

fn below(above: &Path, name: &str, part: &str) -> anyhow::Result<PathBuf> {
    let mut folder = above.to_owned();
    for name in [name, part] {
        folder.push(name);
        own(&folder)?;
    }
    Ok(folder)
}

/// Makes the folder, or makes sure that it is this user's and that nobody else writes to it.
fn own(folder: &Path) -> anyhow::Result<()> {
    match rustix::fs::mkdir(folder, MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => {
            return Err(error).with_context(|| format!("cannot create {}", folder.display()));
        }
    }
    let status = rustix::fs::statat(rustix::fs::CWD, folder, AtFlags::SYMLINK_NOFOLLOW)?;
    let user = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        bail!("{} is not a folder: kernels from there are not trusted", folder.display());
    }
    if status.st_uid != user || status.st_mode & 0o022 != 0 {
        bail!(
            "{} belongs to user {} with mode {:o}: kernels from there are not trusted; it has to \
             belong to user {user}, and nobody else may write there (XDG_CACHE_HOME names another)",
            folder.display(),
            status.st_uid,
            status.st_mode & 0o777
        );
    }
    Ok(())
}

/// Removes what fetches that were killed have left: temporary folders of yesterday and before.
pub(crate) fn sweep(folder: &Path) {
    let old = SystemTime::now() - Duration::from_secs(24 * 3600);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(".tmp");
        let modified = entry.metadata().and_then(|facts| facts.modified());
        if is_temporary && modified.is_ok_and(|modified| modified < old) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn folder_of_another_user_is_not_trusted_and_a_relative_one_is_none() {
        let temporary = tempfile::tempdir().expect("a writable folder");
        let at = |name: &str| temporary.path().join(name);
        let home = at("home");
        fs::create_dir(&home).expect("a writable folder");
        let find = |cache: Option<&Path>, home: Option<&Path>| {
            let word = |path: &Path| path.as_os_str().to_owned();
            folder_of(cache.map(word), home.map(word), temporary.path(), "kernels")
        };
        let own = format!("avicenna-{}", rustix::process::geteuid().as_raw());
        let fallback = at(&own).join("kernels");
        let usual = home.join(".cache/avicenna/kernels");
        assert_eq!(find(None, Some(&home)).expect("a folder"), usual);
        for relative in ["", "cache"] {
            let found = find(Some(Path::new(relative)), Some(&home)).expect("a folder");
            assert_eq!(found, usual, "{relative:?}");
        }
        assert_eq!(find(None, None).expect("a folder"), fallback);
        let mode = fs::metadata(at(&own)).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // Others could write there.
        let ours = home.join(".cache/avicenna");
        fs::set_permissions(&ours, Permissions::from_mode(0o777)).expect("our folder");
        assert_eq!(find(None, Some(&home)).expect("a folder"), fallback);
        let said = find(Some(&home.join(".cache")), None).expect_err("not trusted").to_string();
        assert!(said.contains("are not trusted"), "{said}");
        fs::set_permissions(&ours, Permissions::from_mode(0o700)).expect("our folder");
        if chown(&ours, Some(1000), None).is_ok() {
            assert_eq!(find(None, Some(&home)).expect("a folder"), fallback);
        }
        // Another process was first.
        fs::remove_dir_all(at(&own)).expect("our folder");
        symlink(&home, at(&own)).expect("a link");
        assert!(find(None, None).is_err());
    }
}
