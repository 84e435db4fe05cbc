//! Where a result goes that a user names with `-o`.

use crate::draft::{Draft, Like, Told};
use crate::error::Error;
use crate::place::Place;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A named file, there as a whole or not at all; or what this process has open already.
#[derive(Debug)]
pub enum Output {
    /// A file that is put in its place when it is whole.
    Draft(Draft),
    /// A terminal, `/dev/null`, a pipe of the shell.
    Open(File),
}

impl Output {
    /// Where to write a result.
    pub fn to(path: &Path) -> Result<Output, Error> {
        Ok(match opened(path)? {
            Some(file) => Output::Open(file),
            None => {
                let draft = Place::of(path).and_then(Draft::new).map_err(unwritten)?;
                draft.check()?;
                Output::Draft(draft)
            }
        })
    }

    /// Where to write what grows as long as the program runs: there from the start.
    pub fn growing(path: &Path, like: Like) -> Result<File, Error> {
        Output::to(path)?.grow(like)
    }

    /// It is put in its place now, and grows there.
    pub fn grow(self, like: Like) -> Result<File, Error> {
        match self {
            Output::Draft(draft) => draft.put_first(like).map_err(unwritten),
            Output::Open(file) => Ok(file),
        }
    }

    /// All of it is written.
    pub fn finish(self, like: Like) -> Result<Told, Error> {
        match self {
            Output::Draft(draft) => draft.put(like).map_err(unwritten),
            Output::Open(_) => Ok(Told::default()),
        }
    }

    /// Writes a whole result.
    pub fn write(path: &Path, bytes: &[u8], like: Like) -> Result<Told, Error> {
        let mut output = Output::to(path)?;
        let failed = |source| Error::Output { path: path.into(), source };
        output.write_all(bytes).and_then(|()| output.flush()).map_err(failed)?;
        output.finish(like)
    }
}

/// The same error, of a result that is waited for.
fn unwritten(error: Error) -> Error {
    match error {
        Error::File { path, source } => Error::Output { path, source },
        error => error,
    }
}

/// A character device or a pipe that the system or the shell put into `/dev`, where nobody else
/// can.
fn opened(path: &Path) -> Result<Option<File>, Error> {
    let folder = path.parent();
    let folders = ["/dev", "/dev/fd", "/proc/self/fd"];
    if !folders.iter().any(|own| folder == Some(Path::new(own))) {
        return Ok(None);
    }
    let failed = |source| Error::Output { path: path.into(), source };
    let kind = path.metadata().map_err(failed)?.file_type();
    if kind.is_block_device() || kind.is_dir() {
        let kind = if kind.is_dir() { "a folder" } else { "a disk" };
        return Err(Error::Special { path: path.into(), kind });
    }
    File::options().write(true).open(path).map(Some).map_err(failed)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Draft(draft) => draft.write(bytes),
            Output::Open(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Draft(draft) => draft.flush(),
            Output::Open(file) => file.flush(),
        }
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Output::Draft(draft) => draft.seek(to),
            Output::Open(file) => file.seek(to),
        }
    }
}
