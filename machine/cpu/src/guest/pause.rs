//! The counts of a guest's PAUSEs, as far as a loop that waits has them advanced by many at once.
//! What counts or times them is the vendor's.

use super::rounds::{Apart, Rounds, Stamps};
use super::vendor::Vendor;
use crate::Cpu;
use arch::time::Picoseconds;

/// Of so many rounds from now on in a guest, those whose PAUSEs all pass; they are counted.
pub(crate) fn pass_rounds<V: Vendor>(cpu: &mut Cpu, rounds: Rounds<'_>, most: u64) -> u64 {
    if rounds.pauses.is_empty() {
        return most;
    }
    let start = cpu.clock.now();
    let mut passed = 0;
    while passed < most && passes_round::<V>(cpu, rounds, start.0 + passed * rounds.time) {
        passed += 1;
        if passed == 1 {
            let begins = start.0 + rounds.time;
            passed += pass_at_once::<V>(cpu, rounds, begins, most - 1).unwrap_or(0);
        }
    }
    cpu.clock.move_to(start);
    passed
}

/// One round, a PAUSE at a time; nothing is counted if one of them exits.
fn passes_round<V: Vendor>(cpu: &mut Cpu, rounds: Rounds<'_>, begins: u64) -> bool {
    let before = V::pauses(cpu);
    let passes = rounds.pauses.iter().all(|at| {
        cpu.clock.move_to(Picoseconds(begins + at));
        V::passes_pause(cpu)
    });
    if !passes && let Some(before) = before {
        V::set_pauses(cpu, before);
    }
    passes
}

/// Rounds that come after one that has passed; `None` if each PAUSE must be looked at.
fn pass_at_once<V: Vendor>(
    cpu: &mut Cpu,
    rounds: Rounds<'_>,
    begins: u64,
    most: u64,
) -> Option<u64> {
    let hertz = cpu.model.tsc_hertz();
    let apart = Apart::of(rounds, hertz)?;
    let stamps = Stamps { rounds, begins, hertz, offset: cpu.clock.tsc_offset() };
    V::pass_rounds(cpu, apart, stamps, most)
}

#[cfg(test)]
pub(crate) mod tests {
    use bus::Random;

    /// Time stamps of PAUSEs that lie `gap` or one more apart.
    pub(crate) fn stamps(random: &mut Random, gap: u64) -> Vec<u64> {
        let first = 1000 + random.below(3);
        (0..40)
            .scan(first, |at, _| {
                *at += gap + random.below(2);
                Some(*at)
            })
            .collect()
    }
}
