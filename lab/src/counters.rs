//! The machine's own count of VM exits, from its trace records.

use arch::svm::ExitCode;
use arch::time::Picoseconds;
use std::collections::BTreeMap;
use trace::{Event, Record, VirtualCpu};

/// Exits of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    pub exits: u64,
    /// Time from these exits to the next entries of their virtual processors.
    #[serde(rename = "handled_ps")]
    pub handled: Picoseconds,
    /// Exits that were followed by an entry: those that `handled` sums up.
    pub completed: u64,
}

/// A guest that writes to these ports says where the part begins and ends that is of interest.
pub const WINDOW_BEGINS: u16 = 0xEC;
pub const WINDOW_ENDS: u16 = 0xED;

/// What was counted in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By exit code.
    pub exits: BTreeMap<u64, Count>,
    /// IPIs that AVIC could not complete, by the reason in the exit's information.
    pub incomplete: BTreeMap<u64, u64>,
    /// APIC accesses that AVIC left to software, by the register's offset.
    pub unaccelerated: BTreeMap<u64, u64>,
    pub doorbells: u64,
}

impl Tally {
    pub fn total(&self) -> u64 {
        self.exits.values().map(|count| count.exits).sum()
    }

    /// What came after `before`, an earlier state of this one.
    fn since(&self, before: &Self) -> Self {
        let count = |(code, count): (&u64, &Count)| {
            let old = before.exits.get(code).copied().unwrap_or_default();
            let new = Count {
                exits: count.exits - old.exits,
                completed: count.completed - old.completed,
                handled: Picoseconds(count.handled.0 - old.handled.0),
            };
            (new.exits > 0).then_some((*code, new))
        };
        let difference = |now: &BTreeMap<u64, u64>, old: &BTreeMap<u64, u64>| {
            let left = now.iter().map(|(key, count)| (*key, count - old.get(key).unwrap_or(&0)));
            left.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            exits: self.exits.iter().filter_map(count).collect(),
            incomplete: difference(&self.incomplete, &before.incomplete),
            unaccelerated: difference(&self.unaccelerated, &before.unaccelerated),
            doorbells: self.doorbells - before.doorbells,
        }
    }
}

/// Exits since the last [`Counters::clear`].
#[derive(Clone, Debug, Default)]
pub struct Counters {
    all: Tally,
    open: BTreeMap<VirtualCpu, (u64, Picoseconds)>,
    /// What there was at the first of the two writes.
    before: Option<Tally>,
    /// What came between them.
    window: Option<Tally>,
}

impl Counters {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn take(&mut self, record: &Record) {
        match record.event {
            Event::SvmExit { vcpu, code, info1, info2, .. } => {
                self.look_for_window(code, info1);
                self.all.exits.entry(code.into_bits()).or_default().exits += 1;
                self.count_avic(code, info1, info2);
                self.open.insert(vcpu, (code.into_bits(), record.at));
            }
            Event::Entry { vcpu, .. } => {
                if let Some((code, at)) = self.open.remove(&vcpu) {
                    let count = self.all.exits.entry(code).or_default();
                    count.completed += 1;
                    count.handled.0 += record.at.0.saturating_sub(at.0);
                }
            }
            Event::Doorbell { .. } => self.all.doorbells += 1,
            _ => {}
        }
    }

    /// Everything.
    pub fn all(&self) -> &Tally {
        &self.all
    }

    /// What came between a guest's writes to [`WINDOW_BEGINS`] and [`WINDOW_ENDS`]; None where
    /// there were not both.
    pub fn window(&self) -> Option<&Tally> {
        self.window.as_ref()
    }

    /// [APM2 "Incomplete IPI"]: bits 63:32 of EXITINFO2 say why. [APM2 "Unaccelerated Access"]:
    /// bits 11:4 of EXITINFO1 are those of the register's offset.
    fn count_avic(&mut self, code: ExitCode, info1: u64, info2: u64) {
        let (counts, key) = match code {
            ExitCode::AvicIncompleteIpi => (&mut self.all.incomplete, info2 >> 32),
            ExitCode::AvicNoAcceleration => (&mut self.all.unaccelerated, info1 & 0xFF0),
            _ => return,
        };
        *counts.entry(key).or_default() += 1;
    }

    /// Bits 31:16 of EXITINFO1 are the port. [APM2 "IOIO Intercept Information"]
    fn look_for_window(&mut self, code: ExitCode, info1: u64) {
        let port = (info1 >> 16) as u16;
        if code != ExitCode::IoPort {
            return;
        }
        if port == WINDOW_BEGINS {
            (self.before, self.window) = (Some(self.all.clone()), None);
        } else if port == WINDOW_ENDS {
            self.window = self.before.take().map(|before| self.all.since(&before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use arch::identity::CpuIndex;

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
        let msr = counters.all().exits[&0x7C];
        assert_eq!((msr.exits, msr.completed, msr.handled), (2, 1, Picoseconds(80)));
        assert_eq!(counters.all().exits[&0x60].handled, Picoseconds(250));
        assert_eq!(counters.all().total(), 3);
        assert_eq!(counters.window(), None, "no window was asked for");
        counters.clear();
        assert_eq!(counters.all().total(), 0);
    }

    #[test]
    fn a_window_holds_what_came_between_the_two_ports() {
        let port = |at, port: u64| {
            let mut record = exit(at, 1, 0x7B);
            if let Event::SvmExit { info1, .. } = &mut record.event {
                *info1 = port << 16;
            }
            record
        };
        let mut counters = Counters::default();
        for record in [exit(1, 1, 0x7C), entry(2, 1), port(3, 0xEC), entry(4, 1)] {
            counters.take(&record);
        }
        assert_eq!(counters.window(), None, "an open window is not used");
        for record in [exit(5, 1, 0x78), entry(7, 1), port(8, 0xED), entry(9, 1), exit(10, 1, 0x7C)]
        {
            counters.take(&record);
        }
        let window = counters.window().expect("both writes");
        assert_eq!(window.exits[&0x78].exits, 1);
        assert!(!window.exits.contains_key(&0x7C));
    }

    #[test]
    fn what_avic_left_to_software_is_counted_by_its_reason_in_the_window_too() {
        let with = |code, info1, info2| {
            let mut record = exit(0, 1, code);
            if let Event::SvmExit { info1: one, info2: two, .. } = &mut record.event {
                (*one, *two) = (info1, info2);
            }
            record
        };
        let mut counters = Counters::default();
        for record in [
            with(0x401, 0, 1 << 32 | 7),
            with(0x7B, 0xEC << 16, 0),
            with(0x401, 0, 1 << 32),
            with(0x402, 0x3_00F0, 0x51),
            with(0x7B, 0xED << 16, 0),
            with(0x402, 0xF0, 0),
        ] {
            counters.take(&record);
        }
        let window = counters.window().expect("both writes");
        assert_eq!(window.incomplete, BTreeMap::from([(1, 1)]));
        assert_eq!(window.unaccelerated, BTreeMap::from([(0xF0, 1)]));
        assert_eq!(counters.all().incomplete[&1], 2);
        assert_eq!(counters.all().unaccelerated[&0xF0], 2);
    }
}
