//! PAUSEs of a guest, many at once. [SDM3 "PAUSE-Loop Exiting"]

use super::intercept::pause_loop;
use super::state::PauseLoop;
use crate::Cpu;
use crate::guest::rounds::{Apart, Stamps};

impl PauseLoop {
    /// Whether a PAUSE at time stamp `at` passes, with none before it that did not; `None` if each
    /// must be looked at.
    fn passes(&self, apart: Apart, at: u64) -> Option<bool> {
        let is_new = apart.exceeds(self.gap.into())?;
        let began = self.first.unwrap_or(at);
        Some(is_new || at.wrapping_sub(began) <= self.window.into())
    }

    fn pass(&mut self, apart: Apart, last: u64) {
        if apart.exceeds(self.gap.into()) == Some(true) {
            self.first = Some(last);
        }
        self.last = last;
    }
}

/// As [`crate::guest::vendor::Vendor::pass_rounds`].
pub(super) fn pass_rounds(
    cpu: &mut Cpu,
    apart: Apart,
    stamps: Stamps<'_>,
    most: u64,
) -> Option<u64> {
    // Where nothing is timed every PAUSE exits or none does, and one has passed.
    let Some(times) = pause_loop(cpu) else { return Some(most) };
    // The first that does not pass, by halves.
    let (mut count, mut beyond) = (0, most.checked_add(1)?);
    while beyond - count > 1 {
        let middle = count + (beyond - count) / 2;
        if times.passes(apart, stamps.last(middle))? { count = middle } else { beyond = middle }
    }
    if count != 0 {
        times.pass(apart, stamps.last(count));
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::pause::tests::stamps;
    use bus::Random;

    #[test]
    fn a_loop_is_timed_for_many_as_for_each() {
        let mut random = Random(2);
        for _ in 0..2000 {
            let gap = 1 + random.below(20);
            let stamps = stamps(&mut random, gap);
            let (limit, window) = (random.below(24) as u32, random.below(400) as u32);
            let times = PauseLoop { gap: limit, window, first: Some(stamps[0]), last: stamps[0] };
            let apart = Apart(gap, gap + 1);
            let (mut each, mut many) = (times, times);
            let passed = stamps[1..].iter().take_while(|at| {
                let kept = each;
                let exits = each.exits(**at);
                if exits {
                    each = kept
                }
                !exits
            });
            let passed = passed.count();
            if times.passes(apart, stamps[1]).is_none() {
                assert_eq!(gap, u64::from(limit), "some are longer, some are not");
                continue;
            }
            let passes = |at: &&u64| times.passes(apart, **at) == Some(true);
            assert_eq!(stamps[1..].iter().take_while(passes).count(), passed, "{times:?} {gap}");
            if passed != 0 {
                many.pass(apart, stamps[passed]);
                assert_eq!(many, each, "{times:?} {gap}");
            }
        }
    }
}
