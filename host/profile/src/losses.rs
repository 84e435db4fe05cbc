//! Where a recording lost events: nothing that spans such a moment on its CPU can be trusted.

use std::collections::BTreeMap;

/// Moments remembered one by one: 128 MiB of them. With more, whatever ends counts as spanning one.
const MOST_MOMENTS: usize = 1 << 24;

/// When events of which host CPU were lost.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// When losses were noticed, by host CPU, sorted.
    moments: BTreeMap<u32, Vec<u64>>,
    remembered: usize,
    pub events: u64,
}

impl Losses {
    pub fn add(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.events += events;
        // A loss that does not say when it was is only counted.
        if at_ns == 0 || self.is_full() {
            return;
        }
        let moments = self.moments.entry(cpu).or_default();
        // Nearly always behind all of them: a CPU's come in the order of time.
        let place = match moments.last() {
            Some(last) if *last >= at_ns => moments.partition_point(|moment| *moment < at_ns),
            _ => moments.len(),
        };
        if moments.get(place) != Some(&at_ns) {
            moments.insert(place, at_ns);
            self.remembered += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.remembered >= MOST_MOMENTS
    }

    /// Forgets the moments, not how many events were lost.
    pub fn forget_moments(&mut self) {
        self.moments.clear();
        self.remembered = 0;
    }

    pub fn has_moments(&self) -> bool {
        self.remembered > 0
    }

    /// Whether something was lost on a CPU after one time and not after another.
    pub fn has_within(&self, cpu: u32, after_ns: u64, until_ns: u64) -> bool {
        self.is_full()
            || self.moments.get(&cpu).is_some_and(|moments| {
                let next = moments.partition_point(|moment| *moment <= after_ns);
                moments.get(next).is_some_and(|moment| *moment <= until_ns)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_within_what_begins_before_and_does_not_end_before() {
        let mut losses = Losses::default();
        assert!(!losses.has_moments());
        for (cpu, at_ns) in [(0, 50), (0, 20), (0, 50), (1, 70), (u32::MAX, 0)] {
            losses.add(cpu, at_ns, 2);
        }
        assert_eq!((losses.events, losses.remembered), (10, 3));
        for (cpu, after_ns, until_ns, expected) in [
            (0, 19, 20, true),
            (0, 20, 30, false),
            (0, 20, 50, true),
            (0, 50, 90, false),
            (1, 0, 69, false),
            (1, 0, 70, true),
            (2, 0, 99, false),
        ] {
            let found = losses.has_within(cpu, after_ns, until_ns);
            assert_eq!(found, expected, "CPU {cpu} from {after_ns} to {until_ns}");
        }
        losses.forget_moments();
        assert!(!losses.has_moments() && !losses.has_within(0, 0, 99));
        assert_eq!(losses.events, 10);
    }

    #[test]
    fn every_moment_of_a_long_recording_is_remembered() {
        let mut losses = Losses::default();
        (1..=100_000).for_each(|n| losses.add(n % 3, u64::from(n) * 10, 1));
        assert!(losses.has_within(1, 5, 15) && losses.has_within(2, 15, 25));
        assert!(!losses.has_within(2, 5, 15));
    }
}
