//! How many pairs windows have shown, and an estimate of what is left.

use super::coverage::Pair;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// In how many windows each pair was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    windows: BTreeMap<Pair, u64>,
    /// How many pairs there were after each window.
    after: Vec<u64>,
}

/// The orders of two events that were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Coverage {
    /// So many.
    pub pairs: u64,
    /// Of these, how many in one window alone.
    pub once: u64,
    /// How many new ones another window is expected to show, by Good and Turing: those that were
    /// seen in one window alone, by window.
    pub next_window: f64,
    /// How many no other strategy showed.
    pub own: u64,
    /// After 1, 2, 4, 8 windows and so on, and after all: windows, and pairs by then.
    pub curve: Vec<(u64, u64)>,
}

impl Tally {
    pub fn take(&mut self, pairs: &BTreeSet<Pair>) {
        for pair in pairs {
            *self.windows.entry(*pair).or_default() += 1;
        }
        self.after.push(self.windows.len() as u64);
    }

    /// How many pairs the first windows showed, at most so many.
    pub fn in_first(&self, windows: u64) -> u64 {
        let last = self.after.len().min(usize::try_from(windows).unwrap_or(usize::MAX));
        last.checked_sub(1).map_or(0, |last| self.after[last])
    }

    /// What was seen, beside others.
    pub fn coverage<'a>(&self, others: impl Iterator<Item = &'a Self> + Clone) -> Coverage {
        let windows = self.after.len() as u64;
        let once = self.windows.values().filter(|count| **count == 1).count() as u64;
        let is_own = |pair: &&Pair| !others.clone().any(|one| one.windows.contains_key(*pair));
        let mut points: Vec<u64> =
            (0..64).map(|bit| 1 << bit).take_while(|n| *n < windows).collect();
        points.extend((windows > 0).then_some(windows));
        Coverage {
            pairs: self.windows.len() as u64,
            once,
            next_window: once as f64 / windows.max(1) as f64,
            own: self.windows.keys().filter(is_own).count() as u64,
            curve: points.into_iter().map(|point| (point, self.in_first(point))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::coverage::pairs;
    use arch::address::Linear;
    use arch::identity::CpuIndex;
    use arch::time::Picoseconds;
    use trace::{Event, Record};

    /// One pair, which is another for each processor.
    fn pair(cpu: u16) -> Pair {
        let halt = |cpu, at| {
            let event = Event::Halt { rip: Linear(0) };
            Record { at: Picoseconds(at), cpu: CpuIndex(cpu), event }
        };
        let all = pairs(Picoseconds::ZERO, vec![halt(0, 1), halt(cpu, 2)]);
        *all.keys().next().expect("two processors")
    }

    #[test]
    fn what_was_seen_in_one_window_alone_says_what_is_left() {
        let [mut one, mut other] = [Tally::default(), Tally::default()];
        for window in [&[1, 2][..], &[1], &[1, 2, 3], &[4, 1]] {
            one.take(&window.iter().map(|cpu| pair(*cpu)).collect());
        }
        other.take(&BTreeSet::from([pair(3), pair(9)]));
        let coverage = one.coverage([&other].into_iter());
        let expected = Coverage {
            pairs: 4,
            once: 2,
            next_window: 0.5,
            own: 3,
            curve: vec![(1, 2), (2, 2), (4, 4)],
        };
        assert_eq!(coverage, expected);
        assert_eq!((one.in_first(3), one.in_first(0), one.in_first(9)), (3, 0, 4));
        assert_eq!(Tally::default().coverage([&one].into_iter()), Coverage::default());
    }
}
