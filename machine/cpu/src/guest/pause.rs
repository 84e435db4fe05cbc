//! The counts of a guest's PAUSEs, as far as a loop that waits has them advanced by many at once:
//! the filter of one vendor, the times of the other.
//! [APM2 "Pause Intercept Filtering"] [SDM3 "PAUSE-Loop Exiting"]

use crate::Cpu;
use crate::svm::PauseFilter;
use crate::vmx::PauseLoop;
use arch::time::Picoseconds;

/// Rounds of a loop, all alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds<'a> {
    /// Picoseconds of one.
    pub time: u64,
    /// When it PAUSEs, from its start, in order.
    pub pauses: &'a [u64],
}

/// How many ticks lie between PAUSEs, at least and at most.
#[derive(Clone, Copy, Debug)]
struct Apart(u64, u64);

impl Apart {
    fn of(rounds: Rounds<'_>, hertz: u64) -> Option<Self> {
        let first = *rounds.pauses.first()?;
        let next = rounds.pauses[1..].iter().copied().chain([rounds.time + first]);
        let gaps = rounds.pauses.iter().zip(next).map(|(pause, next)| Picoseconds(next - pause));
        let ticks = gaps.map(|gap| gap.ticks(hertz));
        let (least, most) = ticks.fold((u64::MAX, 0), |(a, b), gap| (a.min(gap), b.max(gap)));
        // Where a tick begins between them there is one more.
        Some(Self(least, most + 1))
    }

    /// Whether all are longer than `ticks`; `None` if some may be and some not.
    fn exceeds(self, ticks: u64) -> Option<bool> {
        if self.0 > ticks { Some(true) } else { (self.1 <= ticks).then_some(false) }
    }
}

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
        let begins_anew = self.threshold != 0 && apart.exceeds(self.threshold.into()) == Some(true);
        let left =
            if begins_anew { u64::from(self.initial) - 1 } else { u64::from(self.left) - count };
        self.left = left as u16;
        self.last = last;
    }
}

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

impl Cpu {
    /// Of so many rounds from now on, those whose PAUSEs all pass; they are counted.
    pub(crate) fn pass_rounds(&mut self, rounds: Rounds<'_>, most: u64) -> u64 {
        if !self.is_guest() || rounds.pauses.is_empty() {
            return most;
        }
        let start = self.clock;
        let mut passed = 0;
        while passed < most && self.passes_round(rounds, start.0 + passed * rounds.time) {
            passed += 1;
            if passed == 1 {
                let begins = start.0 + rounds.time;
                passed += self.pass_at_once(rounds, begins, most - 1).unwrap_or(0);
            }
        }
        self.clock = start;
        passed
    }

    /// One round, a PAUSE at a time; nothing is counted if one of them exits.
    fn passes_round(&mut self, rounds: Rounds<'_>, begins: u64) -> bool {
        let filter = self.guest.svm.current.as_ref().map(|guest| guest.pause);
        let times = self.guest.vmx.current.as_ref().map(|guest| guest.pause);
        let passes = rounds.pauses.iter().all(|at| {
            self.clock = Picoseconds(begins + at);
            match filter {
                Some(_) => self.svm_passes_pause(),
                None => self.vmx_passes_pause(),
            }
        });
        if !passes {
            if let (Some(guest), Some(filter)) = (self.guest.svm.current.as_mut(), filter) {
                guest.pause = filter;
            }
            if let (Some(guest), Some(times)) = (self.guest.vmx.current.as_mut(), times) {
                guest.pause = times;
            }
        }
        passes
    }

    /// Rounds that come after one that has passed; `None` if each PAUSE must be looked at.
    fn pass_at_once(&mut self, rounds: Rounds<'_>, begins: u64, most: u64) -> Option<u64> {
        let hertz = self.model.tsc_hertz();
        let apart = Apart::of(rounds, hertz)?;
        let offset = self.tsc_offset;
        let at_end = *rounds.pauses.last()?;
        // The time stamp of the last PAUSE of so many rounds.
        let last = |count: u64| {
            let at = Picoseconds(begins + (count - 1) * rounds.time + at_end);
            at.ticks(hertz).wrapping_add(offset)
        };
        let each = rounds.pauses.len() as u64;
        // Where nothing counts every PAUSE exits or none does, and one has passed.
        if self.guest.svm.current.is_some() {
            let Some(filter) = self.svm_pause_filter() else { return Some(most) };
            let count = filter.passing(apart, most.saturating_mul(each))? / each;
            if count != 0 {
                filter.pass(apart, count * each, last(count));
            }
            return Some(count);
        }
        let Some(times) = self.vmx_pause_loop() else { return Some(most) };
        // The first that does not pass, by halves.
        let (mut count, mut beyond) = (0, most.checked_add(1)?);
        while beyond - count > 1 {
            let middle = count + (beyond - count) / 2;
            if times.passes(apart, last(middle))? { count = middle } else { beyond = middle }
        }
        if count != 0 {
            times.pass(apart, last(count));
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bus::Random;

    /// Time stamps of PAUSEs that lie `gap` or one more apart.
    fn stamps(random: &mut Random, gap: u64) -> Vec<u64> {
        let first = 1000 + random.below(3);
        (0..40)
            .scan(first, |at, _| {
                *at += gap + random.below(2);
                Some(*at)
            })
            .collect()
    }

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
                assert_eq!(gap, threshold.into(), "some are longer, some are not");
                continue;
            };
            assert_eq!(count, passed, "{filter:?} {gap}");
            if count != 0 {
                many.pass(apart, count, stamps[count as usize]);
                assert_eq!(many, each, "{filter:?} {gap}");
            }
        }
    }

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
                assert_eq!(gap, limit.into(), "some are longer, some are not");
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
