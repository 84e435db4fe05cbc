//! One file: read with its mode, owner and attributes, replaced in one step, restored.

use crate::attributes;
use crate::draft::{Draft, Like, Told, sweep};
use crate::error::Error;
use crate::place::{Place, Root};
use crate::saved::Saved;
use rustix::fs::Stat;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

/// Configurations are smaller; what is larger is none.
const MOST_BYTES: u64 = 64 << 20;

impl Place {
    /// The file; `None` if it does not exist.
    pub fn read(&self) -> Result<Option<Saved>, Error> {
        Ok(self.look()?.map(|(saved, _)| saved))
    }

    fn look(&self) -> Result<Option<(Saved, Stat)>, Error> {
        let Some(file) = self.open()? else { return Ok(None) };
        let status = rustix::fs::fstat(&file).map_err(|error| self.failed(error))?;
        let attributes = attributes::of(&file).map_err(|error| self.failed(error))?;
        let text = self.text(file)?;
        let saved = Saved {
            text,
            mode: status.st_mode & 0o777,
            user: status.st_uid,
            group: status.st_gid,
            attributes,
        };
        Ok(Some((saved, status)))
    }

    fn text(&self, file: File) -> Result<String, Error> {
        let failed = |source| Error::File { path: self.shown.clone(), source };
        let mut text = String::new();
        let length = file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if length as u64 > MOST_BYTES {
            return Err(failed(ErrorKind::FileTooLarge.into()));
        }
        Ok(text)
    }

    /// Replaces the content in one step.
    pub fn replace(self, text: &[u8], like: Like) -> Result<Told, Error> {
        sweep(&self);
        let mut draft = Draft::new(self)?;
        draft.write_all(text).map_err(|source| draft.failed(source))?;
        draft.put(like)
    }

    /// Replaces the content, if it still is what it is thought to be.
    pub fn replace_text(self, before: &str, after: &str) -> Result<Told, Error> {
        let swapped = || Error::Swapped { path: self.shown.clone() };
        let Some((current, status)) = self.look()? else { return Err(swapped()) };
        if current.text != before {
            return Err(swapped());
        }
        self.replace_seen(after.as_bytes(), Like::Present(0o600), Some(status))
    }

    fn replace_seen(self, text: &[u8], like: Like, seen: Option<Stat>) -> Result<Told, Error> {
        sweep(&self);
        let mut draft = Draft::new(self)?;
        draft.write_all(text).map_err(|source| draft.failed(source))?;
        draft.put_over(like, seen)
    }
}

/// A file below a root; `None` if it does not exist.
pub(crate) fn read(root: &Root, path: &str) -> Result<Option<Saved>, Error> {
    Ok(look(root, path)?.map(|(saved, _)| saved))
}

/// The same, with what tells it from every other file and state.
pub(crate) fn look(root: &Root, path: &str) -> Result<Option<(Saved, Stat)>, Error> {
    root.place(path)?.map_or(Ok(None), |place| place.look())
}

/// What new folders of configurations are.
const FOLDER_MODE: u32 = 0o755;

/// Writes a file below a root, in place of the one that was seen there; a new one is readable by
/// all, as configurations are.
pub(crate) fn write(
    root: &Root,
    path: &str,
    text: &str,
    seen: Option<Stat>,
) -> Result<Told, Error> {
    let place = root.place_made(path, FOLDER_MODE)?;
    place.replace_seen(text.as_bytes(), Like::Present(0o644), seen)
}

/// Makes the file what it was, or nothing.
pub(crate) fn restore(root: &Root, path: &str, before: Option<&Saved>) -> Result<(), Error> {
    match before {
        Some(saved) => {
            let place = root.place_made(path, FOLDER_MODE)?;
            place.replace(saved.text.as_bytes(), Like::Saved(saved)).map(|_| ())
        }
        None => root.place(path)?.map_or(Ok(()), |place| place.remove().map(|_| ())),
    }
}
