//! Exits summed up by the kernel's own event histograms, where it loads no programs of ours.
//!
//! A trigger on `kvm_exit` keeps time and reason per thread; one on `kvm_entry` makes an event of
//! the time since, of which the kernel keeps a histogram: exits and time by thread, vCPU, reason
//! and power of two of nanoseconds. [LINUX "Event Histograms", "Inter-event hist triggers"]

use crate::Error;
use crate::sums::{About, OCTAVES, RowKey, Sums};
use std::collections::BTreeMap;
use std::fs;
use tracefs::{Directory, Entry, Instance, SyntheticEvent};

/// Stands for the process of threads that had ended before they were first seen.
const UNKNOWN: u32 = 0;

/// The histograms at work; taken back when dropped. The event can only go after the triggers that
/// use it, and so stands behind the instance.
pub struct Histogram {
    instance: Instance,
    event: SyntheticEvent,
    /// Process of each thread, since threads that have ended cannot be asked.
    processes: BTreeMap<u32, u32>,
    only: Option<u32>,
}

impl Histogram {
    /// `process` restricts it to one virtual machine.
    pub fn start(directory: &Directory, process: Option<u32>) -> Result<Self, Error> {
        let name = format!("avicenna_{}", std::process::id());
        let fields = "u64 ns; u32 reason; u32 isa; pid_t thread; u32 vcpu";
        let event = SyntheticEvent::define(directory, &name, fields)?;
        let instance = Instance::create(directory)?;
        let mut histogram = Self { instance, event, processes: BTreeMap::new(), only: process };
        histogram.set_triggers()?;
        Ok(histogram)
    }

    fn set_triggers(&mut self) -> Result<(), Error> {
        let Self { instance, event, .. } = self;
        let event = event.name();
        let begin = "hist:keys=common_pid:at=common_timestamp,why=exit_reason,on=isa:size=16384";
        instance.set_trigger("kvm", "kvm_exit", begin)?;
        let end = format!(
            "hist:keys=common_pid:ns=common_timestamp-$at,reason=$why,isa=$on,thread=common_pid,\
             vcpu=vcpu_id:size=16384:onmatch(kvm.kvm_exit).trace({event},$ns,$reason,$isa,$thread,\
             $vcpu)"
        );
        instance.set_trigger("kvm", "kvm_entry", &end)?;
        // A histogram has three keys at most, so that a second one tells which vCPU a thread is.
        let sum = "hist:keys=thread,reason,ns.log2:vals=hitcount,ns:size=16384";
        instance.set_trigger("synthetic", event, sum)?;
        let vcpus = "hist:keys=thread,vcpu,isa:size=16384";
        Ok(instance.set_trigger("synthetic", event, vcpus)?)
    }

    /// All rows as they stand.
    pub fn rows(&mut self) -> Result<BTreeMap<RowKey, Sums>, Error> {
        let mut rows = rows_of(&self.instance.histogram("synthetic", self.event.name())?);
        for key in rows.keys() {
            let process = || process_of(key.thread).unwrap_or(UNKNOWN);
            self.processes.entry(key.thread).or_insert_with(process);
        }
        if let Some(only) = self.only {
            rows.retain(|key, _| self.processes.get(&key.thread) == Some(&only));
        }
        let of_process = |(key, sums): (RowKey, Sums)| {
            let process = self.processes.get(&key.thread).copied().unwrap_or(UNKNOWN);
            (RowKey { process, ..key }, sums)
        };
        Ok(rows.into_iter().map(of_process).collect())
    }
}

fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// What a line of a histogram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Vcpu { thread: u32, vcpu: u32, isa: u32 },
    Bucket { thread: u32, reason: u32, bucket: Bucket },
}

/// Exits of one power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// Durations are above half of two to the power of this, and not above it.
    power: u32,
    count: u64,
    time_ns: u64,
}

/// Rows of entries with a thread, a reason and a power of two, and of those that say which vCPU a
/// thread is.
fn rows_of(entries: &[Entry]) -> BTreeMap<RowKey, Sums> {
    let mut vcpus = BTreeMap::new();
    let mut rows: BTreeMap<(u32, u32), Sums> = BTreeMap::new();
    for line in entries.iter().filter_map(line) {
        match line {
            Line::Vcpu { thread, vcpu, isa } => {
                vcpus.insert(thread, (vcpu, isa));
            }
            Line::Bucket { thread, reason, bucket } => {
                add(rows.entry((thread, reason)).or_default(), bucket);
            }
        }
    }
    let with_vcpu = |((thread, reason), sums): ((u32, u32), Sums)| {
        let &(vcpu, isa) = vcpus.get(&thread)?;
        Some((RowKey { process: 0, thread, vcpu, isa, reason, about: About::Nothing }, sums))
    };
    rows.into_iter().filter_map(with_vcpu).collect()
}

fn line(entry: &Entry) -> Option<Line> {
    let thread = entry.number("thread")?;
    if let Some(vcpu) = entry.number("vcpu") {
        return Some(Line::Vcpu { thread, vcpu, isa: entry.number("isa")? });
    }
    let power = entry.key("ns")?.trim_start_matches("~ 2^").parse().ok()?;
    let bucket = Bucket { power, count: entry.value("hitcount")?, time_ns: entry.value("ns")? };
    Some(Line::Bucket { thread, reason: entry.number("reason")?, bucket })
}

/// What is not known of a bucket's exits is taken to be as the middle or the ends of it.
fn add(sums: &mut Sums, bucket: Bucket) {
    let Bucket { power, count, time_ns } = bucket;
    if count == 0 {
        return;
    }
    let power = power.min(OCTAVES as u32);
    let (least, most) = ((1u64 << power) >> 1, 1u64 << power);
    let units = (time_ns / count) >> 10;
    sums.count += count;
    sums.time_ns += time_ns;
    sums.squares = sums.squares.saturating_add(units.saturating_mul(units).saturating_mul(count));
    sums.least_ns = if sums.least_ns == 0 { least } else { sums.least_ns.min(least) };
    sums.most_ns = sums.most_ns.max(most);
    sums.octaves.resize(OCTAVES, 0);
    sums.octaves[power.saturating_sub(1) as usize] += count;
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# event histogram\n#\n# trigger info: hist:keys=thread [active]\n#\n\n\
        { thread:        101, reason:         96, ns: ~ 2^12                       } \
        hitcount:          5  ns:      15000\n\
        { thread:        101, reason:         96, ns: ~ 2^14                       } \
        hitcount:          1  ns:      16384\n\
        { thread:        102, reason:       1026, ns: ~ 2^11                       } \
        hitcount:          7  ns:       9000\n\n\
        Totals:\n    Hits: 13\n    Entries: 3\n    Dropped: 0\n\
        { thread:        101, vcpu:          0, isa:          2 } hitcount:          6\n\
        { thread:        102, vcpu:          1, isa:          2 } hitcount:          7\n";

    #[test]
    fn powers_of_two_of_a_reason_are_one_row() {
        let rows = rows_of(&tracefs::histogram(TEXT));
        assert_eq!(rows.len(), 2);
        let (key, sums) = rows.first_key_value().expect("two rows");
        assert_eq!((key.thread, key.vcpu, key.isa, key.reason), (101, 0, 2, 96));
        assert_eq!((sums.count, sums.time_ns), (6, 31_384));
        assert_eq!((sums.least_ns, sums.most_ns), (2048, 16_384));
        assert_eq!((sums.octaves[11], sums.octaves[13]), (5, 1));
        let damaged = "{ thread: x } hitcount: 1\n{}\n{ reason: 1, ns: ~ 2^99";
        assert!(rows_of(&tracefs::histogram(damaged)).is_empty());
    }
}
