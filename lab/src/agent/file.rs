//! Files that come to the host after its boot, and that leave it.

use anyhow::Context;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The largest file that is told.
const MOST_BYTES: u64 = 512 << 20;

/// Whatever comes may be a program.
const MODE: u32 = 0o755;

pub(super) fn put(path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = Path::new(path);
    make_room(path)?;
    let written = std::fs::write(path, bytes);
    let written =
        written.and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(MODE)));
    written.with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn link(path: &str, target: &str) -> anyhow::Result<()> {
    let path = Path::new(path);
    make_room(path)?;
    std::os::unix::fs::symlink(target, path)
        .with_context(|| format!("cannot make the link {}", path.display()))
}

/// A program that runs is not written to: it gets a successor.
fn make_room(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let _ = std::fs::remove_file(path);
    Ok(())
}

pub(super) fn get(path: &str) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read {path}");
    let facts = std::fs::metadata(path).with_context(failed)?;
    anyhow::ensure!(
        facts.is_file() && facts.len() <= MOST_BYTES,
        "{path}: only files, of {} MB at most",
        MOST_BYTES >> 20
    );
    std::fs::read(path).with_context(failed)
}
