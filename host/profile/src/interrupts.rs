//! What a recording says about interrupts beside exits: injections, posting, IPIs, GA log.

use crate::name::{incomplete_ipi_cause, ipi_name, register_name, userspace_reason};
use crate::part::Family;
use crate::profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;

/// How one vector travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VectorUse {
    /// 0 to 255.
    pub vector: u32,
    /// Sent by KVM for a write of the ICR.
    pub ipi: u64,
    /// Message-signalled, by a device.
    pub msi: u64,
    /// Taken by the software APIC.
    pub accepted: u64,
    /// Handed to the hardware APIC.
    pub posted: u64,
    /// Put into the guest by KVM at an entry.
    pub injected: u64,
    /// Given once more, since its delivery was cut short.
    pub reinjected: u64,
    /// However it was told to KVM.
    pub end_of_interrupt: u64,
    /// Those of them that took no exit, because the guest left a note in memory.
    pub paravirtual_end: u64,
}

/// Vectors below are the processor's own. [APM2 "Vectors"]
const LOWEST_VECTOR: u32 = 16;

/// Counts by name, most frequent first.
pub type Counts = Vec<(String, u64)>;

/// Everything that is counted about interrupts beside exits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupts {
    /// By vector.
    pub vectors: Vec<VectorUse>,
    /// INIT, SIPI, NMI and the like, which carry no vector.
    pub other_ipis: Counts,
    /// Accepted where no vector can be: INIT, NMI, and KVM's wake-up of a spinning vCPU.
    pub accepted_without_vector: u64,
    /// Ends of interrupt while none was in service.
    pub stray_ends: u64,
    /// IPIs that AVIC left to KVM, by cause.
    pub incomplete_ipis: Counts,
    /// APIC accesses that AVIC left to KVM, by register, direction and manner.
    pub unaccelerated: Counts,
    /// Entries of the IOMMU's GA log, by vCPU.
    pub guest_log: Counts,
    /// Doorbells that KVM rang, by the vCPU meant.
    pub doorbells: Counts,
    /// Incomplete IPIs whose targets KVM had to search for.
    pub kick_slow_path: u64,
    /// Lines raised, by global system interrupt.
    pub lines: Counts,
    /// Device interrupts whose posting began or ended, by vector.
    pub posted_routes: Counts,
    /// Returns to the monitor, by reason.
    pub userspace_exits: Counts,
    /// Exits of guests that the guest runs.
    pub nested_exits: u64,
    /// Halted vCPUs that woke after their thread had slept.
    pub slept: u64,
    /// Halted vCPUs that woke while KVM polled.
    pub polled: u64,
}

impl Interrupts {
    /// No such event was recorded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Gathers the tallies of a profile, of one process if given.
pub fn interrupts_of(profile: &Profile, process: Option<u32>) -> Interrupts {
    let mut found = Interrupts::default();
    let mut vectors: BTreeMap<u32, VectorUse> = BTreeMap::new();
    let wanted = profile
        .tallies
        .iter()
        .filter(|tally| process.is_none_or(|process| process == tally.process));
    for tally in wanted {
        let (value, count) = (tally.value, tally.count);
        match tally.family {
            Family::Injected => at(&mut vectors, value).injected += count,
            Family::Reinjected => at(&mut vectors, value).reinjected += count,
            Family::Accepted if value < LOWEST_VECTOR => found.accepted_without_vector += count,
            Family::Accepted => at(&mut vectors, value).accepted += count,
            Family::Posted => at(&mut vectors, value).posted += count,
            Family::Ipi => match ipi_name(value) {
                Some(name) => add(&mut found.other_ipis, name.into(), count),
                None => at(&mut vectors, value & 0xff).ipi += count,
            },
            Family::Msi => at(&mut vectors, value).msi += count,
            Family::EndOfInterrupt if value > 0xff => found.stray_ends += count,
            Family::EndOfInterrupt => at(&mut vectors, value).end_of_interrupt += count,
            Family::ParavirtualEndOfInterrupt if value > 0xff => {}
            Family::ParavirtualEndOfInterrupt => at(&mut vectors, value).paravirtual_end += count,
            Family::Line => add(&mut found.lines, format!("GSI {value}"), count),
            Family::IncompleteIpi => {
                add(&mut found.incomplete_ipis, incomplete_ipi_cause(value).into(), count)
            }
            Family::UnacceleratedAccess => {
                add(&mut found.unaccelerated, unaccelerated_name(value), count)
            }
            Family::GuestLog => add(&mut found.guest_log, format!("vCPU {value}"), count),
            Family::Doorbell => add(&mut found.doorbells, format!("vCPU {value}"), count),
            Family::KickSlowPath => found.kick_slow_path += count,
            Family::PostedRoute => {
                let verb = if value >> 8 & 1 != 0 { "posted" } else { "no longer posted" };
                add(&mut found.posted_routes, format!("vector {} {verb}", value & 0xff), count);
            }
            Family::UserspaceExit => add(&mut found.userspace_exits, userspace_name(value), count),
            Family::Wakeup if value == 1 => found.slept += count,
            Family::Wakeup => found.polled += count,
            Family::NestedExit => found.nested_exits += count,
        }
    }
    found.vectors = vectors.into_values().collect();
    for row in &mut found.vectors {
        // KVM traces a paravirtual end as `kvm_eoi` too, where that is recorded.
        row.end_of_interrupt = row.end_of_interrupt.max(row.paravirtual_end);
    }
    for counts in [
        &mut found.other_ipis,
        &mut found.incomplete_ipis,
        &mut found.unaccelerated,
        &mut found.guest_log,
        &mut found.doorbells,
        &mut found.lines,
        &mut found.posted_routes,
        &mut found.userspace_exits,
    ] {
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }
    found
}

fn at(vectors: &mut BTreeMap<u32, VectorUse>, vector: u32) -> &mut VectorUse {
    vectors.entry(vector).or_insert(VectorUse { vector, ..VectorUse::default() })
}

/// The same name may come from several processes.
fn add(counts: &mut Counts, name: String, count: u64) {
    match counts.iter_mut().find(|row| row.0 == name) {
        Some(row) => row.1 += count,
        None => counts.push((name, count)),
    }
}

fn unaccelerated_name(value: u32) -> String {
    let offset = value as u16;
    let name = register_name(offset).map_or_else(|| format!("{offset:#x}"), str::to_owned);
    let access = if value >> 16 & 1 != 0 { "write" } else { "read" };
    let manner = if value >> 17 & 1 != 0 { "trap" } else { "fault" };
    format!("APIC {name} {access} ({manner})")
}

/// An error is that of `KVM_RUN`; with a signal the reason says so, with others it may be none.
fn userspace_name(value: u32) -> String {
    const UNKNOWN: u32 = 0;
    const SIGNAL: u32 = 10;
    let (reason, has_failed) = (value & !(1 << 31), value >> 31 != 0);
    match (reason, userspace_reason(reason)) {
        (SIGNAL, Some(name)) => format!("{name} (a signal came)"),
        (UNKNOWN, _) if has_failed => "KVM_RUN failed".into(),
        (_, Some(name)) if has_failed => format!("{name} (KVM_RUN failed)"),
        (_, Some(name)) => name.into(),
        (_, None) => format!("reason {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Options, Part};
    use trace::kvm::{KvmEvent, Stamp};

    fn interrupts(events: &[KvmEvent]) -> Interrupts {
        let mut part = Part::new(&Options::default());
        let stamp = Stamp { time_ns: 1, process: 1, thread: 2, cpu: 0 };
        events.iter().for_each(|event| part.event(&stamp, event));
        interrupts_of(&part.finish(), None)
    }

    #[test]
    fn a_paravirtual_end_of_interrupt_is_traced_twice_and_counted_once() {
        let end =
            |is_paravirtual| KvmEvent::EndOfInterrupt { apic: 0, vector: 0xfb, is_paravirtual };
        let rows = [
            (vec![end(false), end(true), end(false)], (2, 1)),
            (vec![end(true), end(true)], (2, 2)),
            (vec![end(false)], (1, 0)),
        ];
        for (events, counts) in rows {
            let found = interrupts(&events).vectors[0];
            assert_eq!((found.end_of_interrupt, found.paravirtual_end), counts, "{events:?}");
        }
        let stray = KvmEvent::EndOfInterrupt { apic: 0, vector: -1, is_paravirtual: false };
        let found = interrupts(&[stray]);
        assert_eq!((found.vectors.len(), found.stray_ends), (0, 1));
    }

    #[test]
    fn only_interrupts_with_a_vector_are_tabled_by_vector() {
        let ipi = |icr_low| KvmEvent::SendIpi { icr_low, destination: 1 };
        let found = interrupts(&[ipi(0xfb), ipi(0x8fc), ipi(0x4500), ipi(0x4699), ipi(0x4400)]);
        let vectors: Vec<u32> = found.vectors.iter().map(|row| row.vector).collect();
        assert_eq!(vectors, [0xfb, 0xfc]);
        let others: Vec<&str> = found.other_ipis.iter().map(|row| row.0.as_str()).collect();
        assert_eq!(others, ["INIT", "NMI", "SIPI"]);
        let accepted = |vector, delivery_mode| KvmEvent::AcceptInterrupt {
            apic: 0,
            vector,
            delivery_mode,
            is_level: false,
            is_posted: false,
        };
        // Fixed, INIT, KVM's wake-up of a spinning vCPU, and a start-up IPI to page 99h.
        let all = [accepted(0xfb, 0), accepted(0, 5), accepted(0, 3), accepted(0x99, 6)];
        let found = interrupts(&all);
        assert_eq!((found.vectors.len(), found.accepted_without_vector), (1, 3));
    }

    #[test]
    fn a_signal_is_told_from_a_failure() {
        let exit = |reason, errno| KvmEvent::UserspaceExit { reason, errno };
        let rows = [
            (exit(2, 0), "IO"),
            (exit(10, -4), "INTR (a signal came)"),
            (exit(0, -11), "KVM_RUN failed"),
            (exit(17, -14), "INTERNAL_ERROR (KVM_RUN failed)"),
            (exit(99, 0), "reason 99"),
        ];
        for (event, name) in rows {
            assert_eq!(interrupts(&[event]).userspace_exits, [(name.to_owned(), 1)]);
        }
    }
}
