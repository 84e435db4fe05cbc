//! The kernel's tracing directory: formats of events, and the text of what happens.

use crate::Error;
use crate::format::EventFormat;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

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
    let usable = |place: &&str| Path::new(place).join("events").is_dir();
    match PLACES.into_iter().find(|place| usable(place)) {
        Some(place) => Ok(place.into()),
        None => Err(Error::Unsupported(
            "tracefs is not mounted or may not be read: sudo mount -t tracefs nodev \
             /sys/kernel/tracing"
                .into(),
        )),
    }
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
}

impl Instance {
    /// Creates the instance and switches the events on that this kernel has.
    pub fn create(tracefs: &Path) -> Result<Self, Error> {
        let path = tracefs.join("instances").join(format!("avicenna-{}", std::process::id()));
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        fs::create_dir(&path).map_err(at(&path))?;
        let instance = Self { path };
        let mut enabled = 0;
        for event in EVENTS {
            let switch = instance.path.join("events/kvm").join(event).join("enable");
            if switch.exists() {
                fs::write(&switch, "1").map_err(at(&switch))?;
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
            let path = instance.path.join(option);
            if path.exists() {
                fs::write(&path, value).map_err(at(&path))?;
            }
        }
        Ok(instance)
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

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}
