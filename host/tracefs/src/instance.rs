//! A tracing instance of our own.

use crate::directory::write;
use crate::{Directory, Entry, Error, histogram};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Names of our instances end with the number of their process.
const PREFIX: &str = "avicenna-";

/// What the kernel calls lines that a process has put into a trace.
pub const MARK: &str = "tracing_mark_write";

/// Text of a trace that is read at once, at most.
const LONGEST_TEXT: u64 = 64 << 20;

/// An instance with its events and triggers; all of it goes when this is dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    /// Triggers that were set, and what was written to set them.
    triggers: Vec<(PathBuf, String)>,
}

impl Instance {
    /// The one instance of a process, and of a purpose beside it. What processes that were killed
    /// left behind is removed.
    pub fn create(directory: &Directory) -> Result<Self, Error> {
        Self::named(directory, &format!("{PREFIX}{}", std::process::id()))
    }

    /// A further one.
    pub fn create_for(directory: &Directory, purpose: &str) -> Result<Self, Error> {
        Self::named(directory, &format!("{PREFIX}{}-{purpose}", std::process::id()))
    }

    fn named(directory: &Directory, name: &str) -> Result<Self, Error> {
        let instances = directory.path().join("instances");
        remove_abandoned(&instances, Path::new("/proc"));
        let path = instances.join(name);
        fs::create_dir(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Self { path, triggers: Vec::new() })
    }

    /// Folder of an event.
    pub fn event(&self, category: &str, event: &str) -> PathBuf {
        self.path.join("events").join(category).join(event)
    }

    /// Switches events of KVM on, for their text. Kernels lack those of later ones and of the other
    /// vendor; a kernel that has none of them is refused.
    pub fn enable_kvm_events(&self, events: &[&str]) -> Result<(), Error> {
        let mut enabled = 0;
        for event in events {
            let switch = self.event("kvm", event).join("enable");
            if switch.exists() {
                write(&switch, "1")?;
                enabled += 1;
            }
        }
        if enabled == 0 { Err(Error::NoKvmEvents) } else { Ok(()) }
    }

    /// Sets an option that not every kernel has, such as `options/record-tgid`.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        if path.exists() { write(&path, value) } else { Ok(()) }
    }

    /// Sets a trigger of an event; taken back when this is dropped.
    pub fn set_trigger(&mut self, category: &str, event: &str, text: &str) -> Result<(), Error> {
        let path = self.event(category, event).join("trigger");
        write(&path, text)?;
        self.triggers.push((path, text.to_owned()));
        Ok(())
    }

    /// Takes the triggers back, the last one first.
    pub fn clear_triggers(&mut self) {
        for (path, text) in self.triggers.drain(..).rev() {
            let _ = write(&path, &format!("!{text}"));
        }
    }

    /// Puts a line of our own between the events, with their clock: the event [`MARK`].
    pub fn mark(&self, text: &str) -> Result<(), Error> {
        write(&self.path.join("trace_marker"), text)
    }

    /// What the histograms of an event hold.
    pub fn histogram(&self, category: &str, event: &str) -> Result<Vec<Entry>, Error> {
        let path = self.event(category, event).join("hist");
        let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        Ok(histogram(&text))
    }

    /// The text so far; it stays.
    pub fn text(&self) -> Result<String, Error> {
        let path = self.path.join("trace");
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| file.take(LONGEST_TEXT).read_to_string(&mut text))
            .map_err(|source| Error::File { path, source })?;
        Ok(text)
    }

    /// The text, which is consumed by reading.
    pub fn pipe(&self) -> Result<File, Error> {
        let path = self.path.join("trace_pipe");
        File::open(&path).map_err(|source| Error::File { path, source })
    }

    /// The same, of which reading does not wait for more: that is an error then, `WouldBlock`.
    pub fn pipe_without_waiting(&self) -> Result<File, Error> {
        const O_NONBLOCK: i32 = 0o4000;
        let path = self.path.join("trace_pipe");
        let file = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path);
        file.map_err(|source| Error::File { path, source })
    }

    /// Ends the text: readers get what is left and then the end.
    pub fn stop(&self) {
        // An instance that cannot be stopped is removed with its owner all the same.
        let _ = fs::write(self.path.join("tracing_on"), "0");
    }
}

/// A recorder that was killed leaves its instance, in which the kernel goes on tracing.
pub(crate) fn remove_abandoned(instances: &Path, processes: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.map(|owner| owner.split_once('-').map_or(owner, |(owner, _)| owner));
        let is_number = |owner: &&str| owner.parse::<u32>().is_ok();
        if owner.filter(is_number).is_some_and(|owner| !processes.join(owner).exists()) {
            // The kernel refuses while it is still read.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.clear_triggers();
        let _ = fs::write(self.path.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_whose_process_has_gone_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (instances, processes) = (folder.path().join("instances"), folder.path().join("proc"));
        for name in ["avicenna-7", "avicenna-8", "avicenna-8-inhibits", "avicenna-x", "other-8"] {
            fs::create_dir_all(instances.join(name)).expect("a folder");
        }
        fs::create_dir_all(processes.join("7")).expect("a folder");
        remove_abandoned(&instances, &processes);
        let mut left: Vec<_> = fs::read_dir(&instances)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["avicenna-7", "avicenna-x", "other-8"]);
    }

    #[test]
    fn events_that_a_kernel_lacks_are_passed_over_unless_it_lacks_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let instance = Instance { path: folder.path().to_owned(), triggers: Vec::new() };
        let switch = instance.event("kvm", "kvm_exit").join("enable");
        fs::create_dir_all(instance.event("kvm", "kvm_exit")).expect("a folder");
        fs::write(&switch, "").expect("a file");
        instance.enable_kvm_events(&["kvm_later", "kvm_exit"]).expect("one is there");
        assert_eq!(fs::read_to_string(&switch).expect("a file"), "1");
        let error = instance.enable_kvm_events(&["kvm_later"]).expect_err("none is there");
        assert!(error.to_string().contains("load kvm_amd"), "{error}");
        instance.set_option("options/record-tgid", "1").expect("an option may be missing");
    }
}
