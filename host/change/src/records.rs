//! The folder of the records: this user's alone, one run at a time.

use crate::draft::Like;
use crate::error::Error;
use crate::place::{Place, Root, names, sync};
use crate::record::Record;
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Where records are kept, below the root.
pub const FOLDER: &str = "var/lib/avicenna/changes";

/// A record holds the old text of files, twice at most.
const MOST_BYTES: u64 = 1 << 30;

/// Records hold what was in private files: nobody else may look.
const FOLDER_MODE: u32 = 0o700;
const MODE: u32 = 0o600;

/// The folder of the records, open. Locked, it stays so until this is dropped.
pub(crate) struct Records {
    folder: OwnedFd,
    shown: PathBuf,
}

impl Drop for Records {
    /// Unlocks for everybody who has the descriptor: a program that another thread starts just now
    /// holds a copy of it until it runs.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.folder, FlockOperation::Unlock);
    }
}

impl Records {
    /// To be read; `None` if nothing was ever recorded.
    pub(crate) fn open(root: &Root) -> Result<Option<Records>, Error> {
        let shown = root.path().join(FOLDER);
        let Some(folder) = root.open_folder(FOLDER)? else { return Ok(None) };
        let records = Records { folder, shown };
        records.believe(&records.shown, &records.status()?)?;
        Ok(Some(records))
    }

    /// To be written; made if it is not there.
    pub(crate) fn locked(root: &Root) -> Result<Records, Error> {
        let above = root.place_made(FOLDER, 0o755)?;
        let failed = |error: Errno| Error::File { path: above.shown.clone(), source: error.into() };
        match rustix::fs::mkdirat(&above.folder, &above.name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) => sync(&above.folder).map_err(failed)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&above.folder, &above.name, flags, Mode::empty());
        let folder = folder.map_err(failed)?;
        let records = Records { folder, shown: above.shown };
        let status = records.status()?;
        records.believe(&records.shown, &status)?;
        if status.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(&records.folder, Mode::from_raw_mode(FOLDER_MODE))
                .map_err(|error| records.failed(error))?;
        }
        match rustix::fs::flock(&records.folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(records),
            Err(Errno::WOULDBLOCK) => Err(Error::Busy { path: records.shown.clone() }),
            Err(error) => Err(records.failed(error)),
        }
    }

    /// Those that were not taken back, oldest first.
    pub(crate) fn open_ones(&self) -> Result<Vec<Record>, Error> {
        let mut found = vec![];
        for name in self.names()? {
            found.extend(self.read(&name)?.filter(|record| !record.is_rolled_back));
        }
        found.sort_by_key(|record| record.number);
        Ok(found)
    }

    pub(crate) fn next_number(&self) -> Result<u64, Error> {
        let numbers = self.names()?.into_iter();
        let numbers = numbers.filter_map(|name| name.strip_suffix(".json")?.parse::<u64>().ok());
        Ok(numbers.max().unwrap_or(0) + 1)
    }

    pub(crate) fn save(&self, record: &Record) -> Result<(), Error> {
        let place = self.place(&format!("{:06}.json", record.number))?;
        let text = serde_json::to_string_pretty(record)
            .map_err(|source| Error::Record { path: place.shown.clone(), source })?;
        place.replace(text.as_bytes(), Like::Mode(MODE)).map(|_| ())
    }

    fn read(&self, name: &str) -> Result<Option<Record>, Error> {
        let place = self.place(name)?;
        let Some(file) = place.open()? else { return Ok(None) };
        let status = rustix::fs::fstat(&file).map_err(|error| place.failed(error))?;
        self.believe(&place.shown, &status)?;
        let mut text = String::new();
        file.take(MOST_BYTES)
            .read_to_string(&mut text)
            .map_err(|source| Error::File { path: place.shown.clone(), source })?;
        let damaged = |source| Error::Record { path: place.shown.clone(), source };
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = names(&self.folder, &self.shown)?;
        names.retain(|name| name.ends_with(".json"));
        names.sort();
        Ok(names)
    }

    fn place(&self, name: &str) -> Result<Place, Error> {
        let failed = |source| Error::File { path: self.shown.clone(), source };
        let folder = self.folder.try_clone().map_err(failed)?;
        Ok(Place { folder, name: name.into(), shown: self.shown.join(name) })
    }

    /// What a record says is done as this user: it has to come from this user.
    fn believe(&self, path: &std::path::Path, status: &Stat) -> Result<(), Error> {
        let own = rustix::process::geteuid().as_raw();
        let (user, mode) = (status.st_uid, status.st_mode & 0o777);
        match user == own && mode & 0o022 == 0 {
            true => Ok(()),
            false => Err(Error::Foreign { path: path.into(), user, mode, own }),
        }
    }

    fn status(&self) -> Result<Stat, Error> {
        rustix::fs::fstat(&self.folder).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: Errno) -> Error {
        Error::File { path: self.shown.clone(), source: error.into() }
    }
}
