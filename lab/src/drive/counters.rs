//! The machine's own count of VM exits, from its trace records.

use crate::protocol::{WINDOW_BEGINS, WINDOW_ENDS};
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::svm::ExitCode;
use arch::time::Picoseconds;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, svm, vmx};
use trace::{Event, Record, VirtualCpu};

/// Why a virtual machine was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// Whose words it is in.
    pub isa: Isa,
    /// The exit code, or the exit-reason field with the bit that flags a failed entry.
    pub code: u64,
}

impl Reason {
    /// The name that KVM's tracepoints use.
    pub fn name(self) -> String {
        let known = u32::try_from(self.code).ok().and_then(|code| self.isa.reason_name(code));
        known.map_or_else(|| format!("{:#x}", self.code), str::to_owned)
    }

    /// Whether the guest had nothing to do: waiting is not work.
    pub fn is_wait(self) -> bool {
        let waits: &[u32] = match self.isa {
            Isa::Svm => &[svm::HLT, svm::IDLE_HALT],
            Isa::Vmx => &[vmx::HLT],
        };
        waits.iter().any(|code| u64::from(*code) == self.code)
    }
}

impl Serialize for Reason {
    /// The code alone: one machine has one vendor.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.code)
    }
}

/// Exits of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Count {
    /// All of them.
    pub exits: u64,
    /// Time from these exits to the next entries of their vCPUs.
    #[serde(rename = "handled_ps")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub handled: Picoseconds,
    /// Exits that were followed by an entry: those that `handled` sums up.
    pub completed: u64,
}

/// A posted vector that waits for longer was forgotten: no host takes that long to wake a virtual
/// processor, and what wakes it in the end is another interrupt.
const LATE: Picoseconds = Picoseconds::from_milliseconds(1);

/// What was counted in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By reason.
    pub exits: BTreeMap<Reason, Count>,
    /// IPIs that AVIC could not complete, by the reason in the exit's information.
    pub incomplete: BTreeMap<u64, u64>,
    /// APIC accesses that AVIC or APICv left to software, by the register's offset.
    pub unaccelerated: BTreeMap<u64, u64>,
    /// Doorbells that were rung.
    pub doorbells: u64,
    /// Vectors that were put into a virtual APIC or a posted-interrupt descriptor, by whomever.
    pub posted: u64,
    /// Those of them that were put where the same vector still waited: two became one.
    pub merged: u64,
    /// Vectors that had waited for more than a millisecond when they were accepted, or when another
    /// one became one with them.
    pub late: u64,
    /// Entries in an IOMMU's log of interrupts whose vCPU did not run.
    pub logged: u64,
}

impl Tally {
    /// Exits of all reasons.
    pub fn total(&self) -> u64 {
        self.exits.values().map(|count| count.exits).sum()
    }

    /// What came after `before`, an earlier state of this one.
    fn since(&self, before: &Self) -> Self {
        let count = |(code, count): (&Reason, &Count)| {
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
            posted: self.posted - before.posted,
            merged: self.merged - before.merged,
            late: self.late - before.late,
            logged: self.logged - before.logged,
        }
    }
}

/// Exits since the last [`Counters::clear`].
#[derive(Clone, Debug, Default)]
pub struct Counters {
    all: Tally,
    open: BTreeMap<VirtualCpu, (Reason, Picoseconds)>,
    /// Vectors that were posted and not accepted yet, and since when.
    waiting: BTreeMap<(SystemPhysical, Vector), Picoseconds>,
    /// What there was at the first of the two writes.
    before: Option<Tally>,
    /// What came between them.
    window: Option<Tally>,
}

impl Counters {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts what a record tells of.
    pub fn take(&mut self, record: &Record) {
        match record.event {
            Event::SvmExit { vcpu, code, info1, info2, .. } => {
                if code == ExitCode::IoPort {
                    self.look_for_window(info1);
                }
                self.count_avic(code, info1, info2);
                self.exit(vcpu, Reason { isa: Isa::Svm, code: code.into_bits() }, record.at);
            }
            Event::VmxExit { vcpu, reason, qualification, .. } => {
                if reason == vmx::IO_INSTRUCTION {
                    self.look_for_window(qualification);
                }
                self.count_apicv(reason, qualification);
                self.exit(vcpu, Reason { isa: Isa::Vmx, code: reason.into() }, record.at);
            }
            Event::Entry { vcpu, .. } => {
                if let Some((code, at)) = self.open.remove(&vcpu) {
                    let count = self.all.exits.entry(code).or_default();
                    count.completed += 1;
                    count.handled.0 += record.at.0.saturating_sub(at.0);
                }
            }
            Event::Doorbell { .. } => self.all.doorbells += 1,
            Event::Posted { place, vector } => {
                self.all.posted += 1;
                if let Some(since) = self.waiting.insert((place, vector), record.at) {
                    self.all.merged += 1;
                    self.count_late(since, record.at);
                }
            }
            // Whose page it is the record does not say; a device's vector has one target.
            Event::VirtualInterruptAccepted { vector, .. } => {
                let all = std::mem::take(&mut self.waiting).into_iter();
                let (own, others): (Vec<_>, Vec<_>) = all.partition(|((_, one), _)| *one == vector);
                self.waiting.extend(others);
                own.iter().for_each(|(_, since)| self.count_late(*since, record.at));
            }
            Event::GuestLogged { .. } => self.all.logged += 1,
            _ => {}
        }
    }

    fn count_late(&mut self, since: Picoseconds, now: Picoseconds) {
        self.all.late += u64::from(now.0.saturating_sub(since.0) > LATE.0);
    }

    fn exit(&mut self, vcpu: VirtualCpu, reason: Reason, at: Picoseconds) {
        self.all.exits.entry(reason).or_default().exits += 1;
        self.open.insert(vcpu, (reason, at));
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

    /// [SDM3 "APIC-Write VM Exits"] [SDM3 "Exit Qualification for APIC-Access VM Exits"]: bits 11:0
    /// of the qualification are the register's offset.
    fn count_apicv(&mut self, reason: u32, qualification: u64) {
        if matches!(reason, vmx::APIC_WRITE | vmx::APIC_ACCESS) {
            *self.all.unaccelerated.entry(qualification & 0xFF0).or_default() += 1;
        }
    }

    /// Bits 31:16 of EXITINFO1 or of the qualification are the port. [APM2 "IOIO Intercept
    /// Information"] [SDM3 "Exit Qualification for I/O Instructions"]
    fn look_for_window(&mut self, access: u64) {
        let port = (access >> 16) as u16;
        if port == WINDOW_BEGINS {
            (self.before, self.window) = (Some(self.all.clone()), None);
        } else if port == WINDOW_ENDS {
            // Of several guests: from the last that begins to the first that ends.
            if let Some(before) = self.before.take() {
                self.window = Some(self.all.since(&before));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::Linear;
    use arch::identity::CpuIndex;

    fn svm(code: u64) -> Reason {
        Reason { isa: Isa::Svm, code }
    }

    fn vmx_exit(at: u64, reason: u32, qualification: u64) -> Record {
        let event = Event::VmxExit {
            vcpu: VirtualCpu(SystemPhysical(1)),
            reason,
            qualification,
            guest_physical: 0,
            interruption: 0,
            vectoring: 0,
            instruction: 0,
            rip: Linear(0),
        };
        Record { at: Picoseconds(at), cpu: CpuIndex(0), event }
    }

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
        let msr = counters.all().exits[&svm(0x7C)];
        assert_eq!((msr.exits, msr.completed, msr.handled), (2, 1, Picoseconds(80)));
        assert_eq!(counters.all().exits[&svm(0x60)].handled, Picoseconds(250));
        assert_eq!(counters.all().total(), 3);
        assert_eq!(counters.window(), None, "no window was asked for");
        counters.clear();
        assert_eq!(counters.all().total(), 0);
    }

    #[test]
    fn a_vector_that_is_posted_where_it_waits_is_one_with_the_one_before() {
        let vector = Vector(0xE1);
        let posted = Event::Posted { place: SystemPhysical(0x1000), vector };
        let taken = Event::VirtualInterruptAccepted { vcpu: VirtualCpu(SystemPhysical(1)), vector };
        let mut counters = Counters::default();
        for event in [posted, taken, posted, posted, taken, posted] {
            counters.take(&Record { at: Picoseconds(0), cpu: CpuIndex(0), event });
        }
        assert_eq!((counters.all().posted, counters.all().merged), (4, 1));
        assert_eq!(counters.all().late, 0);
    }

    #[test]
    fn a_vector_whose_processor_nobody_woke_is_late_wherever_it_is_found() {
        let vector = Vector(0xE1);
        let posted = Event::Posted { place: SystemPhysical(0x1000), vector };
        let taken = Event::VirtualInterruptAccepted { vcpu: VirtualCpu(SystemPhysical(1)), vector };
        let us = |us: u64| Picoseconds(us * 1_000_000);
        for (what, events, late) in [
            ("accepted in time", vec![(posted, us(0)), (taken, us(900))], 0),
            ("accepted late", vec![(posted, us(0)), (taken, us(1100))], 1),
            (
                "met by the next one",
                vec![(posted, us(0)), (posted, us(5000)), (taken, us(5010))],
                1,
            ),
            ("met by one that is near", vec![(posted, us(0)), (posted, us(2)), (taken, us(9))], 0),
        ] {
            let mut counters = Counters::default();
            for (event, at) in events {
                counters.take(&Record { at, cpu: CpuIndex(0), event });
            }
            assert_eq!(counters.all().late, late, "{what}");
        }
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
        assert_eq!(window.exits[&svm(0x78)].exits, 1);
        assert!(!window.exits.contains_key(&svm(0x7C)));
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

    #[test]
    fn exits_of_vmx_are_counted_with_their_window_and_what_apicv_left() {
        let mut counters = Counters::default();
        for record in [
            vmx_exit(0, 56, 0x300),
            vmx_exit(10, 30, 0xEC << 16 | 8),
            entry(25, 1),
            vmx_exit(30, 56, 0x300),
            vmx_exit(40, 44, 0x1 << 12 | 0x390),
            vmx_exit(50, 45, 0xF3),
            vmx_exit(60, 30, 0xED << 16 | 8),
            vmx_exit(70, 12, 0),
        ] {
            counters.take(&record);
        }
        let of = |code| Reason { isa: Isa::Vmx, code };
        assert_eq!(counters.all().exits[&of(30)].handled, Picoseconds(15));
        assert_eq!(counters.all().unaccelerated, BTreeMap::from([(0x300, 2), (0x390, 1)]));
        let window = counters.window().expect("both writes");
        assert_eq!(window.unaccelerated, BTreeMap::from([(0x300, 1), (0x390, 1)]));
        assert!(!window.exits.contains_key(&of(12)));
        assert_eq!((of(45).name().as_str(), of(12).is_wait()), ("EOI_INDUCED", true));
        assert_eq!((svm(12).is_wait(), svm(0x78).is_wait()), (false, true));
    }
}
