//! The kernel's tracing directory: formats of events, and the text of what happens.

use crate::Error;
use crate::format::EventFormat;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Names of our instances end with the number of their process.
const INSTANCE: &str = "avicenna-";

/// Events whose text makes a full recording.
const EVENTS: [&str; 14] = [
    "kvm_entry",
    "kvm_exit",
    "kvm_mmio",
    "kvm_pio",
    "kvm_msr",
    "kvm_apicv_inhibit_changed",
    "kvm_avic_incomplete_ipi",
    "kvm_avic_unaccelerated_access",
    "kvm_avic_ga_log",
    "kvm_inj_virq",
    "kvm_apic_ipi",
    "kvm_apic_accept_irq",
    "kvm_apicv_accept_irq",
    "kvm_userspace_exit",
];

/// The directory, if it is mounted and may be read.
pub fn find() -> Result<PathBuf, Error> {
    find_in(&PLACES)
}

fn find_in(places: &[&str]) -> Result<PathBuf, Error> {
    let usable = |place: &&&str| Path::new(place).join("events").is_dir();
    if let Some(place) = places.iter().find(usable) {
        return Ok(place.into());
    }
    let is_refused = |place: &&&str| {
        fs::read_dir(place).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    Err(Error::Unsupported(match places.iter().find(is_refused) {
        Some(place) => format!("{place} may not be read by this user"),
        None => "tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing".into(),
    }))
}

/// The format of a KVM event on the running kernel.
pub fn format(tracefs: &Path, event: &str) -> Result<EventFormat, Error> {
    let path = tracefs.join("events/kvm").join(event).join("format");
    let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    EventFormat::parse("kvm", &text)
        .ok_or_else(|| Error::Unsupported(format!("the format of {event} is not understood")))
}

/// A tracing instance of our own, so that nobody else's settings are touched; removed when
/// dropped.
pub struct Instance {
    path: PathBuf,
    /// Triggers that were set, and what was written to set them.
    triggers: Vec<(PathBuf, String)>,
}

impl Instance {
    pub fn create(tracefs: &Path) -> Result<Self, Error> {
        let instances = tracefs.join("instances");
        remove_abandoned(&instances, Path::new("/proc"));
        let path = instances.join(format!("{INSTANCE}{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Self { path, triggers: Vec::new() })
    }

    /// Switches the events on that this kernel has, for their text.
    pub fn enable_events(&self) -> Result<(), Error> {
        let mut enabled = 0;
        for event in EVENTS {
            let switch = self.path.join("events/kvm").join(event).join("enable");
            if switch.exists() {
                write(&switch, "1")?;
                enabled += 1;
            }
        }
        if enabled == 0 {
            return Err(Error::Unsupported(
                "this kernel has no KVM events: load kvm_amd or kvm_intel".into(),
            ));
        }
        // Threads with their processes, so that virtual machines can be told apart.
        for (option, value) in [("options/record-tgid", "1"), ("buffer_size_kb", "8192")] {
            let path = self.path.join(option);
            if path.exists() {
                write(&path, value)?;
            }
        }
        Ok(())
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

    /// Folder of an event.
    pub fn event(&self, category: &str, event: &str) -> PathBuf {
        self.path.join("events").join(category).join(event)
    }

    /// The text, which is consumed by reading.
    pub fn pipe(&self) -> Result<File, Error> {
        let path = self.path.join("trace_pipe");
        File::open(&path).map_err(|source| Error::File { path, source })
    }

    /// Ends the text: readers get what is left and then the end.
    pub fn stop(&self) {
        // An instance that cannot be stopped is removed with its owner all the same.
        let _ = fs::write(self.path.join("tracing_on"), "0");
    }
}

/// A recorder that was killed leaves its instance, in which the kernel goes on tracing.
fn remove_abandoned(instances: &Path, processes: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(INSTANCE));
        let is_number = |owner: &&str| owner.parse::<u32>().is_ok();
        if owner.filter(is_number).is_some_and(|owner| !processes.join(owner).exists()) {
            // The kernel refuses where somebody still reads it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Writes to a control file, which names what it refuses only in `error_log`.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = fs::OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| Error::File { path: path.to_owned(), source })
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
        for name in ["avicenna-7", "avicenna-8", "avicenna-x", "other-8"] {
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
    fn what_is_missing_of_tracefs_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().to_str().expect("text");
        let error = find_in(&[place]).expect_err("no tracefs");
        assert!(error.to_string().contains("mount -t tracefs"), "{error}");
        fs::create_dir(folder.path().join("events")).expect("a folder");
        assert_eq!(find_in(&["/nonexistent", place]).expect("found"), folder.path());
    }
}
