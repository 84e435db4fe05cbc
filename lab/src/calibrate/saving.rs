//! What a hidden host records of its exits with the feature off, and what each of them takes there
//! by the guest's own clock with the feature off and on: the proof of what a recording is said to
//! save.
//!
//! How long the whole command takes does not tell: of one host and the same work it differs by a
//! fifth of what is saved from one run to the next.

use super::collect::{Collected, collect};
use super::measured::Row;
use super::place::{Moment, Place};
use super::recording::is_msr;
use crate::plan::ModuleParameter;
use crate::watch::Watch;
use arch::apic::Register;
use board::cost::CostProfile;
use profile::{Detail, Key, Profile, Selection};
use trace::exit_reason::Isa;

/// The benchmark guest with one vCPU: interrupts that it sends itself, their ends, and exits.
const WORK: [&str; 6] = [
    "/proc/self/exe",
    "bench",
    "--vcpus",
    "1",
    "--append",
    "tests=self,eoi,exits samples=2000 warmup=10",
];
/// Where the hidden host writes what it records.
const FILE: &str = "/exits.json";

/// Exits that the guest times, of those that the feature takes away: the register of the APIC,
/// whether it is written, and the guest's name.
const TIMED: [(Register, bool, &str); 4] = [
    (Register::Id, false, "apic_read_id"),
    (Register::TaskPriority, true, "apic_write_task_priority"),
    (Register::EndOfInterrupt, true, "eoi"),
    (Register::Command, true, "self_ipi shorthand"),
];

/// The same work three times.
#[derive(Clone, Debug)]
pub struct Worked {
    /// What `exits record` wrote with the feature off.
    pub recording: Vec<u8>,
    /// What the guest timed without being recorded, with the feature off and on.
    times: Vec<Row>,
}

impl Worked {
    /// Nanoseconds that the feature saved of the exits that were recorded and that the guest times.
    pub fn saved_ns(&self, recorded: &Profile) -> f64 {
        let Some(isa) = recorded.isa else { return 0.0 };
        let time = |conditions: &str, kind: &str| {
            let name = format!("{conditions} {kind}");
            Some(self.times.iter().find(|row| row.name == name)?.value)
        };
        let of = |(key, count): (Key, u64)| {
            let kind = timed(isa, key)?;
            Some(count as f64 * (time("off", &kind)? - time("on", &kind)?))
        };
        let rows = recorded.rows(&Selection::default()).into_iter();
        rows.filter_map(|(key, cell)| of((key, cell.count))).sum()
    }
}

/// The guest's name of such an exit.
fn timed(isa: Isa, key: Key) -> Option<String> {
    let (offset, is_write) = match key.detail() {
        Detail::Register { offset, is_write } => (offset, is_write),
        Detail::Icr(_) => (Register::Command.offset(), true),
        _ => return None,
    };
    let is_it = |of: &&(Register, bool, &str)| (of.0.offset(), of.1) == (offset, is_write);
    let mode = if is_msr(isa, key) { "x2apic" } else { "xapic" };
    Some(format!("{mode} {}", TIMED.iter().find(is_it)?.2))
}

/// Has a host of this profile do the work with KVM's module loaded for either setting, off first.
pub fn work(
    place: &mut Place<'_>,
    host: &CostProfile,
    (off, on): (&[ModuleParameter], &[ModuleParameter]),
    moment: Moment,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Worked> {
    let record = ["/proc/self/exe", "exits", "record", "-o", FILE, "--"];
    let recorded: Vec<&str> = record.into_iter().chain(WORK).collect();
    place.printed(&recorded, off, host, moment, watch)?;
    let recording = place.fetch(FILE, watch)?;
    let mut times = Collected::default();
    for (conditions, parameters) in [("off", off), ("on", on)] {
        collect(&mut times, conditions, &place.printed(&WORK, parameters, host, moment, watch)?)?;
    }
    Ok(Worked { recording, times: times.rows() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Cell, PackedDetail, Vcpu};
    use trace::exit_reason::svm;

    #[test]
    fn what_is_saved_is_by_how_much_sooner_each_recorded_exit_ends_by_the_guests_clock() {
        let mut cell = Cell::default();
        (0..10).for_each(|one| cell.add(one * 10_000, one * 10_000 + 900));
        let keys = [
            Key::exit(svm::MSR, PackedDetail::register(0xB0, true)),
            Key::exit(svm::NESTED_PAGE_FAULT, PackedDetail::register(0x300, true)),
            Key::exit(svm::MSR, PackedDetail::register(0x390, false)),
        ];
        let cells = keys.map(|key| (key, cell.clone())).into_iter().collect();
        let vcpu = Vcpu { process: 1, thread: 1, number: 0, cells, unpaired: 0, discarded: 0 };
        let recorded = Profile::of(vec![vcpu], Some(Isa::Svm));
        let times = [
            ("off x2apic eoi", 800.0),
            ("on x2apic eoi", 100.0),
            ("off xapic self_ipi shorthand", 1400.0),
            ("on xapic self_ipi shorthand", 400.0),
            ("off x2apic apic_read_current_count", 700.0),
            ("on x2apic apic_read_current_count", 1200.0),
        ];
        let times = times.map(|(name, time)| Row::of_loop(name, &[time])).into();
        let worked = Worked { recording: Vec::new(), times };
        assert_eq!(worked.saved_ns(&recorded), 10.0 * 700.0 + 10.0 * 1000.0);
    }
}
