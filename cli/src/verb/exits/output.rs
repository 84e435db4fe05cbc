//! Where a result goes: a file, or standard output, whose reader may have seen enough.

use anyhow::Context as _;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// Writes to a file, or to standard output for none and for `-`.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match path.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
        }
        None => print(bytes).map(|_| ()),
    }
}

/// Writes to standard output at once; whether somebody still reads it.
pub fn print(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        outcome => outcome.map(|()| true).context("cannot write to standard output"),
    }
}
