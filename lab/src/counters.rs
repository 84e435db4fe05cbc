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

/// Exits since the last [`Counters::clear`].
#[derive(Clone, Debug, Default)]
pub struct Counters {
    exits: BTreeMap<u64, Count>,
    open: BTreeMap<VirtualCpu, (u64, Picoseconds)>,
    doorbells: u64,
    /// Counts between the two writes, or what there was at the first of them.
    window: Option<BTreeMap<u64, Count>>,
    is_window_open: bool,
}

impl Counters {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn take(&mut self, record: &Record) {
        match record.event {
            Event::SvmExit { vcpu, code, info1, .. } => {
                self.look_for_window(code, info1);
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

    /// By exit code, between a guest's writes to [`WINDOW_BEGINS`] and [`WINDOW_ENDS`]; all exits
    /// where there were none.
    pub fn window(&self) -> &BTreeMap<u64, Count> {
        match &self.window {
            Some(window) if !self.is_window_open => window,
            _ => &self.exits,
        }
    }

    /// Bits 31:16 of EXITINFO1 are the port. [APM2 "IOIO Intercept Information"]
    fn look_for_window(&mut self, code: ExitCode, info1: u64) {
        let port = (info1 >> 16) as u16;
        if code != ExitCode::IoPort {
            return;
        }
        if port == WINDOW_BEGINS {
            self.window = Some(self.exits.clone());
            self.is_window_open = true;
        } else if port == WINDOW_ENDS && self.is_window_open {
            let before = self.window.take().unwrap_or_default();
            let since = |(code, count): (&u64, &Count)| {
                let old = before.get(code).copied().unwrap_or_default();
                let new = Count {
                    exits: count.exits - old.exits,
                    completed: count.completed - old.completed,
                    handled: Picoseconds(count.handled.0 - old.handled.0),
                };
                (new.exits > 0).then_some((*code, new))
            };
            self.window = Some(self.exits.iter().filter_map(since).collect());
            self.is_window_open = false;
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
        let msr = counters.exits()[&0x7C];
        assert_eq!((msr.exits, msr.completed, msr.handled), (2, 1, Picoseconds(80)));
        assert_eq!(counters.exits()[&0x60].handled, Picoseconds(250));
        assert_eq!(counters.total(), 3);
        assert_eq!(counters.window(), counters.exits(), "no window was asked for");
        counters.clear();
        assert_eq!(counters.total(), 0);
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
        assert_eq!(counters.window().len(), 2, "an open window is not used");
        for record in [exit(5, 1, 0x78), entry(7, 1), port(8, 0xED), entry(9, 1), exit(10, 1, 0x7C)]
        {
            counters.take(&record);
        }
        assert_eq!(counters.window()[&0x78].exits, 1);
        assert!(!counters.window().contains_key(&0x7C));
    }
}
