//! The directory itself: where it is, and what it says about events.

use crate::Error;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The kernel's tracing directory.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory, if it is mounted and may be read.
    pub fn find() -> Result<Self, Error> {
        Self::find_in(&PLACES)
    }

    fn find_in(places: &[&'static str]) -> Result<Self, Error> {
        let usable = |place: &&&str| Path::new(place).join("events").is_dir();
        if let Some(place) = places.iter().find(usable) {
            return Ok(Self(place.into()));
        }
        let is_refused = |place: &&&'static str| {
            fs::read_dir(place).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        Err(match places.iter().find(is_refused) {
            Some(place) => Error::Refused { place },
            None => Error::NotMounted,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Folder of an event.
    pub fn event(&self, category: &str, event: &str) -> PathBuf {
        self.0.join("events").join(category).join(event)
    }

    /// Removes instances that processes of ours left when they were killed: an event that they
    /// count keeps its module from being unloaded.
    pub fn remove_abandoned(&self) {
        crate::instance::remove_abandoned(&self.0.join("instances"), Path::new("/proc"));
    }

    /// KVM's tracepoints are there, which takes a loaded vendor module.
    pub fn has_kvm_events(&self) -> bool {
        self.0.join("events/kvm").is_dir()
    }

    /// Text of the file that describes an event's fields.
    pub fn format(&self, category: &str, event: &str) -> Result<String, Error> {
        let path = self.event(category, event).join("format");
        fs::read_to_string(&path).map_err(|source| Error::File { path, source })
    }

    /// The number of an event; `None` if this kernel has none of that name or hides it.
    pub fn id(&self, category: &str, event: &str) -> Option<u64> {
        fs::read_to_string(self.event(category, event).join("id")).ok()?.trim().parse().ok()
    }
}

/// An event that is made of others; it goes when this is dropped.
#[derive(Debug)]
pub struct SyntheticEvent {
    definitions: PathBuf,
    name: String,
}

impl SyntheticEvent {
    /// `fields` such as `u64 ns; u32 reason`.
    pub fn define(directory: &Directory, name: &str, fields: &str) -> Result<Self, Error> {
        let definitions = directory.path().join("synthetic_events");
        if !definitions.exists() {
            return Err(Error::NoSyntheticEvents);
        }
        write(&definitions, &format!("{name} {fields}"))?;
        Ok(Self { definitions, name: name.to_owned() })
    }

    /// As histograms name it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for SyntheticEvent {
    fn drop(&mut self) {
        let _ = write(&self.definitions, &format!("!{}", self.name));
    }
}

/// Writes to a control file, which names what it refuses only in `error_log`.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = fs::OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_of_tracefs_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let place: &'static str = folder.path().to_str().expect("text").to_owned().leak();
        let error = Directory::find_in(&[place]).expect_err("no tracefs");
        assert!(error.to_string().contains("mount -t tracefs"), "{error}");
        fs::create_dir_all(folder.path().join("events/kvm/kvm_exit")).expect("a folder");
        let directory = Directory::find_in(&["/nonexistent", place]).expect("found");
        assert!(directory.path() == folder.path() && directory.has_kvm_events());
        assert_eq!(directory.id("kvm", "kvm_exit"), None);
        fs::write(folder.path().join("events/kvm/kvm_exit/id"), "1234\n").expect("a file");
        assert_eq!(directory.id("kvm", "kvm_exit"), Some(1234));
        let error = directory.format("kvm", "kvm_exit").expect_err("no file").to_string();
        assert!(error.ends_with("kvm_exit/format"), "{error}");
    }
}
