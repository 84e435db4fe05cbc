//! Where a result goes: a file, or standard output, whose reader may have seen enough.

use crate::terminal;
use change::{Like, Output};
use std::path::Path;

/// Who reads a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person: nothing in it may steer a terminal.
    Person,
    /// A program, by the rules of a format.
    Program,
}

/// Writes to a file, or to standard output for none and for `-`.
pub fn write(path: Option<&Path>, bytes: &[u8], reader: Reader) -> anyhow::Result<()> {
    match (path.filter(|path| *path != Path::new("-")), reader) {
        (Some(path), _) => {
            Output::write(path, bytes, Like::Umask)?;
        }
        (None, Reader::Person) => {
            terminal::print(&String::from_utf8_lossy(bytes));
        }
        (None, Reader::Program) => {
            terminal::program(bytes);
        }
    }
    Ok(())
}
