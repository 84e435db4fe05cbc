//! PAUSEs of a guest. [APM2 "Pause Intercept Filtering"]

use super::state::PauseFilter;
use crate::Cpu;
use crate::guest::rounds::{Apart, Stamps};
use arch::svm::intercept::Vector3;

impl PauseFilter {
    /// Of `most` PAUSEs that come after one that has passed, those that pass; `None` if each must
    /// be looked at.
    fn passing(&self, apart: Apart, most: u64) -> Option<u64> {
        match self.threshold != 0 && apart.exceeds(self.threshold.into())? {
            true => Some(most),
            false => Some(most.min(self.left.into())),
        }
    }

    /// So many have passed, the last at time stamp `last`.
    fn pass(&mut self, apart: Apart, count: u64, last: u64) {
        let begins_again =
            self.threshold != 0 && apart.exceeds(self.threshold.into()) == Some(true);
        let left =
            if begins_again { u64::from(self.initial) - 1 } else { u64::from(self.left) - count };
        self.left = left as u16;
        self.last = last;
    }
}

/// Counts a PAUSE of the guest now; false if it exits.
pub(super) fn passes(cpu: &mut Cpu) -> bool {
    let now = cpu.clock.tsc();
    let Some(guest) = cpu.guest.running.svm_mut() else { return true };
    if !guest.intercepts.vector3.contains(Vector3::PAUSE) {
        return true;
    }
    let filter = guest.pause.as_mut().filter(|filter| filter.initial != 0);
    filter.is_some_and(|filter| filter.passes(now))
}

/// What counts the guest's PAUSEs, if something does.
fn filter(cpu: &mut Cpu) -> Option<&mut PauseFilter> {
    let guest = cpu.guest.running.svm_mut()?;
    let is_intercepted = guest.intercepts.vector3.contains(Vector3::PAUSE);
    guest.pause.as_mut().filter(|filter| is_intercepted && filter.initial != 0)
}

/// As [`crate::guest::vendor::Vendor::pass_rounds`].
pub(super) fn pass_rounds(
    cpu: &mut Cpu,
    apart: Apart,
    stamps: Stamps<'_>,
    most: u64,
) -> Option<u64> {
    // Where nothing counts every PAUSE exits or none does, and one has passed.
    let Some(filter) = filter(cpu) else { return Some(most) };
    let each = stamps.each();
    let count = filter.passing(apart, most.saturating_mul(each))? / each;
    if count != 0 {
        filter.pass(apart, count * each, stamps.last(count));
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::pause::tests::stamps;
    use bus::Random;

    #[test]
    fn a_filter_counts_many_as_it_counts_each() {
        let mut random = Random(1);
        for _ in 0..2000 {
            let gap = 1 + random.below(20);
            let (threshold, left) = (random.below(24) as u16, random.below(30) as u16);
            let filter = PauseFilter { initial: 1 + left, threshold, left, last: 0 };
            let stamps = stamps(&mut random, gap);
            let (mut each, mut many) = (filter, filter);
            each.last = stamps[0];
            let passed = stamps[1..].iter().take_while(|at| {
                let kept = each;
                let passes = each.passes(**at);
                if !passes {
                    each = kept
                }
                passes
            });
            let passed = passed.count() as u64;
            let apart = Apart(gap, gap + 1);
            let Some(count) = many.passing(apart, stamps.len() as u64 - 1) else {
                assert_eq!(gap, u64::from(threshold), "some are longer, some are not");
                continue;
            };
            assert_eq!(count, passed, "{filter:?} {gap}");
            if count != 0 {
                many.pass(apart, count, stamps[count as usize]);
                assert_eq!(many, each, "{filter:?} {gap}");
            }
        }
    }
}
