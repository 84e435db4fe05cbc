//! Exits for Prometheus: few series, by machine and reason.

use super::machine::Recording;
use crate::prometheus::{Kind, Metrics};

/// Every machine's exits of every recording.
pub fn metrics(recordings: &[Recording], metrics: &mut Metrics) {
    let machines = || recordings.iter().flat_map(|recording| &recording.machines);
    let count = "avicenna_vm_exits_total";
    metrics.family(count, Kind::Counter, "VM exits of the recording, by reason.");
    for machine in machines() {
        let pid = machine.process.to_string();
        for row in &machine.summary.table.rows {
            let labels = [("vm", &*machine.name), ("pid", &pid), ("reason", &*row.name)];
            metrics.sample(count, &labels, row.count);
        }
    }
    let seconds = "avicenna_vm_exit_seconds_total";
    metrics.family(
        seconds,
        Kind::Counter,
        "Time from exits to the next entry, by reason; that of hlt is mostly the guest's waiting.",
    );
    for machine in machines() {
        let pid = machine.process.to_string();
        for row in &machine.summary.table.rows {
            let labels = [("vm", &*machine.name), ("pid", &pid), ("reason", &*row.name)];
            metrics.sample(seconds, &labels, row.time_ns as f64 / 1e9);
        }
    }
    let avoidable = "avicenna_vm_exits_avoidable_total";
    metrics.family(
        avoidable,
        Kind::Counter,
        "VM exits that hardware interrupt virtualization can take away, at most.",
    );
    for machine in machines() {
        let labels = [("vm", &*machine.name), ("pid", &machine.process.to_string())];
        metrics.sample(avoidable, &labels, machine.summary.ceiling.avoidable.count);
    }
    let vcpus = "avicenna_vm_vcpus";
    metrics.family(vcpus, Kind::Gauge, "vCPUs that entered the guest.");
    for machine in machines() {
        let labels = [("vm", &*machine.name), ("pid", &machine.process.to_string())];
        metrics.sample(vcpus, &labels, machine.vcpus);
    }
    let length = "avicenna_vm_exits_recorded_seconds";
    metrics.family(
        length,
        Kind::Gauge,
        "Length of the recording that the exits are of: exits divided by this are exits per second.",
    );
    for machine in machines() {
        let labels = [("vm", &*machine.name), ("pid", &machine.process.to_string())];
        metrics.sample(length, &labels, machine.summary.seconds);
    }
}

/// The metrics of recordings alone, made at so many seconds since 1970.
pub fn prometheus(recordings: &[Recording], seconds: u64) -> String {
    let mut all = Metrics::default();
    metrics(recordings, &mut all);
    all.finish("exits", seconds)
}
