//! Events counted by `perf_event_open`, where the kernel neither loads programs nor lets its
//! tracing be configured: how many exits, and of the events that tell what they were about.
//!
//! Reasons would need a filter per counter, which is set through an ioctl that has no safe
//! interface; so exits are not split by reason here.

use crate::Error;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tracefs::Directory;

/// Events and what they count.
const EVENTS: [(&str, &str); 16] = [
    ("kvm_exit", "exits"),
    ("kvm_entry", "entries"),
    ("kvm_msr", "accesses to MSRs"),
    ("kvm_pio", "accesses to ports"),
    ("kvm_mmio", "memory-mapped accesses"),
    ("kvm_cpuid", "CPUID instructions"),
    ("kvm_hypercall", "hypercalls"),
    ("kvm_apic", "accesses to the software APIC"),
    ("kvm_apic_ipi", "IPIs sent by KVM"),
    ("kvm_inj_virq", "interrupts injected"),
    ("kvm_apicv_accept_irq", "interrupts handed to the hardware APIC"),
    ("kvm_avic_incomplete_ipi", "incomplete IPIs of AVIC"),
    ("kvm_avic_unaccelerated_access", "unaccelerated accesses of AVIC"),
    ("kvm_avic_ga_log", "entries of the GA log"),
    ("kvm_userspace_exit", "returns to the monitor"),
    ("kvm_vcpu_wakeup", "wake-ups of vCPUs"),
];

/// Threads of one process that are watched at most.
const MOST_THREADS: usize = 1024;

/// The counters at work.
pub struct Counting {
    counters: Vec<(&'static str, Counter)>,
}

impl Counting {
    /// On every CPU, or for the threads that a process has now.
    pub fn start(process: Option<u32>) -> Result<Self, Error> {
        let directory = Directory::find()?;
        let mut counters = Vec::new();
        for (event, meaning) in EVENTS {
            let Some(id) = directory.id("kvm", event) else { continue };
            for place in places(process) {
                let mut builder = Builder::new(Tracepoint::with_id(id));
                builder.exclude_kernel(false).exclude_hv(false).enabled(true);
                match place {
                    Place::Cpu(cpu) => builder.any_pid().one_cpu(cpu),
                    Place::Thread(thread) => builder.observe_pid(thread).any_cpu(),
                };
                let counter = builder.build().map_err(|error| {
                    Error::Unsupported(format!("perf_event_open of {event}: {error}"))
                })?;
                counters.push((meaning, counter));
            }
        }
        if counters.is_empty() {
            return Err(Error::Unsupported(
                "this kernel has no KVM events that may be read: load kvm_amd or kvm_intel".into(),
            ));
        }
        Ok(Self { counters })
    }

    /// Counts as they stand.
    pub fn read(&mut self) -> Result<BTreeMap<&'static str, u64>, Error> {
        let mut sums = BTreeMap::new();
        for (meaning, counter) in &mut self.counters {
            *sums.entry(*meaning).or_insert(0) += counter.read()?;
        }
        Ok(sums)
    }
}

enum Place {
    Cpu(usize),
    Thread(i32),
}

fn places(process: Option<u32>) -> Vec<Place> {
    let Some(process) = process else {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        return cpus(&online).into_iter().map(Place::Cpu).collect();
    };
    let tasks = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.take(MOST_THREADS).map(Place::Thread).collect()
}

/// A list such as `0-3,8`.
fn cpus(list: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last.min(first + 8191));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_as_the_kernel_writes_them() {
        assert_eq!(cpus("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(cpus("0\n"), [0]);
        assert!(cpus("").is_empty());
    }
}
