//! A profile of exits that were already summed up elsewhere, interval by interval.
//!
//! The kernel keeps counts by power of two, so percentiles are known to a factor of two; blocks
//! of time are as fine as the intervals. Everything else is exact, but for the deviation, whose
//! squares are in units of 1024 ns.

use crate::cell::Cell;
use crate::key::{Key, PackedDetail};
use crate::profile::{Profile, Vcpu};
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// What one row added in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub process: u32,
    pub thread: u32,
    pub vcpu: u32,
    pub isa: u32,
    pub reason: u32,
    pub detail: PackedDetail,
    pub count: u64,
    pub time_ns: u64,
    /// Sum of squares of units of 1024 ns.
    pub squares: u64,
    pub least_ns: u64,
    pub most_ns: u64,
    /// Counts by power of two of nanoseconds.
    pub octaves: Vec<u64>,
}

/// Collects intervals.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    vcpus: BTreeMap<(u32, u32, u32), BTreeMap<Key, Cell>>,
    isa: Option<Isa>,
    start_ns: u64,
    end_ns: u64,
    events: u64,
}

impl Sampled {
    pub fn new(start_ns: u64) -> Self {
        Self { start_ns, end_ns: start_ns, ..Self::default() }
    }

    /// Time has passed, whether anything happened or not.
    pub fn until(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.max(end_ns);
    }

    pub fn add(&mut self, added: &Added) {
        if added.count == 0 {
            return;
        }
        self.isa = self.isa.or(Isa::from_number(added.isa));
        self.events += added.count;
        let vcpu = self.vcpus.entry((added.process, added.vcpu, added.thread)).or_default();
        let cell = vcpu.entry(Key::exit(added.reason, added.detail)).or_default();
        cell.add_summed(added, self.end_ns);
    }

    pub fn profile(&self) -> Profile {
        let vcpus = self.vcpus.iter().map(|(&(process, number, thread), cells)| Vcpu {
            process,
            thread,
            number,
            cells: cells.iter().map(|(key, cell)| (*key, cell.clone())).collect(),
            unpaired: 0,
            discarded: 0,
        });
        let mut profile = Profile {
            vcpus: vcpus.collect(),
            tallies: Vec::new(),
            inhibits: Vec::new(),
            events: self.events,
            lost_events: 0,
            ignored: 0,
            isa: self.isa,
            span_ns: Some((self.start_ns, self.end_ns)),
        };
        crate::profile::align_blocks(&mut profile.vcpus);
        profile
    }
}

impl Cell {
    fn add_summed(&mut self, added: &Added, end_ns: u64) {
        self.count += added.count;
        self.time_ns = self.time_ns.wrapping_add(added.time_ns);
        self.add_squares(u128::from(added.squares) << 20);
        self.min_ns = self.min_ns.min(added.least_ns);
        self.max_ns = self.max_ns.max(added.most_ns);
        self.first_ns = self.first_ns.min(end_ns);
        for (octave, count) in added.octaves.iter().enumerate() {
            // In the middle of its octave, of which nothing else is known.
            self.histogram.add_many((3u64 << octave) >> 1, *count);
        }
        self.blocks.add_many(end_ns.saturating_sub(1), added.count, added.time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_and_keep_their_time() {
        let mut sampled = Sampled::new(0);
        for second in 1..=10u64 {
            sampled.until(second * 1_000_000_000);
            sampled.add(&Added {
                process: 7,
                thread: 8,
                vcpu: 0,
                isa: 2,
                reason: 0x7c,
                detail: PackedDetail::UNKNOWN,
                count: 100,
                time_ns: 100 * 3000,
                squares: 100 * 9,
                least_ns: 2500,
                most_ns: 3500,
                octaves: [vec![0; 11], vec![100]].concat(),
            });
        }
        let profile = sampled.profile();
        let cell = &profile.vcpus[0].cells[0].1;
        assert_eq!((cell.count, cell.mean_ns(), cell.min_ns), (1000, 3000.0, 2500));
        let blocks = cell.blocks.iter().filter(|(_, block)| block.count > 0).count();
        assert_eq!((blocks, profile.seconds()), (10, 10.0));
        let median = cell.histogram.quantile(0.5).expect("not empty");
        assert!((2048.0..4096.0).contains(&median), "{median}");
    }
}
