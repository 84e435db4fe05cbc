//! What a recording says about interrupts beside exits: injections, posting, IPIs, guest log.

use crate::name::{incomplete_ipi_cause, register_name, userspace_reason};
use crate::part::Family;
use crate::profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;

/// How one vector travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VectorUse {
    pub vector: u32,
    pub ipi: u64,
    pub msi: u64,
    pub accepted: u64,
    /// Handed to the hardware APIC.
    pub posted: u64,
    pub injected: u64,
    pub reinjected: u64,
    pub end_of_interrupt: u64,
}

/// Counts by name, most frequent first.
pub type Counts = Vec<(String, u64)>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interrupts {
    /// By vector.
    pub vectors: Vec<VectorUse>,
    pub incomplete_ipis: Counts,
    pub unaccelerated: Counts,
    pub guest_log: Counts,
    pub doorbells: Counts,
    pub kick_slow_path: u64,
    pub lines: Counts,
    pub posted_routes: Counts,
    pub userspace_exits: Counts,
    pub nested_exits: u64,
    pub slept: u64,
    pub polled: u64,
}

impl Interrupts {
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
            Family::Accepted => at(&mut vectors, value).accepted += count,
            Family::Posted => at(&mut vectors, value).posted += count,
            Family::Ipi => at(&mut vectors, value & 0xff).ipi += count,
            Family::Msi => at(&mut vectors, value).msi += count,
            Family::EndOfInterrupt | Family::ParavirtualEndOfInterrupt => {
                at(&mut vectors, value).end_of_interrupt += count
            }
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
    for counts in [
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

fn userspace_name(value: u32) -> String {
    let reason = value & !(1 << 31);
    let error = if value >> 31 != 0 { " (interrupted or failed)" } else { "" };
    match userspace_reason(reason) {
        Some(name) => format!("{name}{error}"),
        None => format!("reason {reason}{error}"),
    }
}
