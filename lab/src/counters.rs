//! The machine's own count of VM exits, from its trace records.

use arch::time::Picoseconds;
use std::collections::BTreeMap;
use trace::{Event, Record, VirtualCpu};

/// Exits of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    pub exits: u64,
    /// Time from these exits to the next entries of their virtual processors.
    pub handled: Picoseconds,
    /// Exits that were followed by an entry: those that `handled` sums up.
    pub completed: u64,
}

/// Exits since the last [`Counters::clear`].
#[derive(Clone, Debug, Default)]
pub struct Counters {
    exits: BTreeMap<u64, Count>,
    open: BTreeMap<VirtualCpu, (u64, Picoseconds)>,
    interrupts_sent: u64,
    doorbells: u64,
}

impl Counters {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn take(&mut self, record: &Record) {
        match record.event {
            Event::SvmExit { vcpu, code, .. } => {
                self.exits.entry(code.into_bits()).or_default().exits += 1;
                self.open.insert(vcpu, (code.into_bits(), record.at));
            }
            Event::Entry { vcpu, .. } => {
                if let Some((code, at)) = self.open.remove(&vcpu) {
                    let count = self.exits.entry(code).or_default();
                    count.completed += 1;
                    count.handled.0 += record.at.0.saturating_sub(at.0);
                }
            }
            Event::InterruptSent { .. } => self.interrupts_sent += 1,
            Event::Doorbell { .. } => self.doorbells += 1,
            _ => {}
        }
    }

    /// By exit code.
    pub fn exits(&self) -> &BTreeMap<u64, Count> {
        &self.exits
    }

    pub fn total(&self) -> u64 {
        self.exits.values().map(|count| count.exits).sum()
    }

    pub fn doorbells(&self) -> u64 {
        self.doorbells
    }

    /// Interrupts sent by local APICs of the host's processors.
    pub fn interrupts_sent(&self) -> u64 {
        self.interrupts_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use arch::identity::CpuIndex;
    use arch::svm::ExitCode;

    fn exit(at: u64, vcpu: u64, code: u64) -> Record {
        let event = Event::SvmExit {
            vcpu: VirtualCpu(SystemPhysical(vcpu)),
            code: ExitCode::from_bits(code),
            info1: 0,
            info2: 0,
            interrupt_info: 0,
            rip: Linear(0),
        };
        Record { at: Picoseconds(at), cpu: CpuIndex(0), event }
    }

    fn entry(at: u64, vcpu: u64) -> Record {
        let event =
            Event::Entry { vcpu: VirtualCpu(SystemPhysical(vcpu)), injected: 0, rip: Linear(0) };
        Record { at: Picoseconds(at), cpu: CpuIndex(1), event }
    }

    #[test]
    fn time_runs_from_an_exit_to_the_next_entry_of_the_same_virtual_processor() {
        let mut counters = Counters::default();
        for record in [
            exit(100, 1, 0x7C),
            exit(150, 2, 0x60),
            entry(180, 1),
            entry(400, 2),
            exit(500, 1, 0x7C),
        ] {
            counters.take(&record);
        }
        let msr = counters.exits()[&0x7C];
        assert_eq!((msr.exits, msr.completed, msr.handled), (2, 1, Picoseconds(80)));
        assert_eq!(counters.exits()[&0x60].handled, Picoseconds(250));
        assert_eq!(counters.total(), 3);
        counters.clear();
        assert_eq!(counters.total(), 0);
    }
}
