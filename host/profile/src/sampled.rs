//! A profile of exits that were already summed up elsewhere, interval by interval.
//!
//! The kernel keeps counts by power of two, so percentiles are known to a factor of two; blocks
//! of time are as fine as the intervals. Everything else is exact, but for the deviation, whose
//! squares are in units of 1024 ns, or of short exits follow from the octaves.

use crate::cell::Cell;
use crate::key::{Key, PackedDetail};
use crate::profile::{Profile, Vcpu};
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// What one row added in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Of the virtual machine's monitor.
    pub process: u32,
    /// Of the vCPU.
    pub thread: u32,
    /// As KVM numbers it.
    pub vcpu: u32,
    /// As `kvm_exit` has it: 1 for VMX, 2 for SVM.
    pub isa: u32,
    /// As `kvm_exit` has it.
    pub reason: u32,
    /// What the exits were about.
    pub detail: PackedDetail,
    /// Exits that ended in the interval.
    pub count: u64,
    /// Sum of their durations.
    pub time_ns: u64,
    /// Sum of squares of units of 1024 ns.
    pub squares: u64,
    /// The shortest one.
    pub least_ns: u64,
    /// The longest one.
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
    /// The interval that things are added to.
    begin_ns: u64,
    end_ns: u64,
    events: u64,
}

impl Sampled {
    /// Nothing yet; `start_ns` is of the clock that [`Sampled::until`] is told.
    pub fn new(start_ns: u64) -> Self {
        Self { start_ns, begin_ns: start_ns, end_ns: start_ns, ..Self::default() }
    }

    /// Time has passed, whether anything happened or not.
    pub fn until(&mut self, end_ns: u64) {
        if end_ns > self.end_ns {
            (self.begin_ns, self.end_ns) = (self.end_ns, end_ns);
        }
    }

    /// Takes a row of the interval that ends at the time told last.
    pub fn add(&mut self, added: &Added) {
        if added.count == 0 {
            return;
        }
        self.isa = self.isa.or(Isa::from_number(added.isa));
        self.events += added.count;
        let vcpu = self.vcpus.entry((added.process, added.vcpu, added.thread)).or_default();
        let cell = vcpu.entry(Key::exit(added.reason, added.detail)).or_default();
        cell.add_summed(added, self.begin_ns, self.end_ns);
    }

    /// All that was collected so far.
    pub fn profile(&self) -> Profile {
        let vcpus = self.vcpus.iter().map(|(&(process, number, thread), cells)| Vcpu {
            process,
            thread,
            number,
            cells: cells.iter().map(|(key, cell)| (*key, cell.clone())).collect(),
            unpaired: 0,
            discarded: 0,
        });
        let mut profile = Profile::of(vcpus.collect(), self.isa);
        profile.events = self.events;
        profile.span_ns = Some((self.start_ns, self.end_ns));
        crate::profile::align_blocks(&mut profile.vcpus);
        profile
    }
}

impl Cell {
    fn add_summed(&mut self, added: &Added, begin_ns: u64, end_ns: u64) {
        self.count += added.count;
        self.time_ns = self.time_ns.wrapping_add(added.time_ns);
        self.add_squares(squares(added));
        self.min_ns = self.min_ns.min(added.least_ns);
        self.max_ns = self.max_ns.max(added.most_ns);
        self.first_ns = self.first_ns.min(end_ns);
        for (octave, count) in added.octaves.iter().enumerate() {
            // In the middle of its octave, of which nothing else is known.
            self.histogram.add_many((3u64 << octave) >> 1, *count);
        }
        self.spread(added, begin_ns, end_ns);
    }

    /// Over the interval, evenly: blocks are made as wide as it, so that there are two at most and
    /// none is taken for an observation of its own.
    fn spread(&mut self, added: &Added, begin_ns: u64, end_ns: u64) {
        let length = end_ns.saturating_sub(begin_ns).max(1);
        let bits = length.checked_next_power_of_two().map_or(63, u64::trailing_zeros);
        self.blocks.widen_to(bits);
        let width = self.blocks.width_ns();
        let boundary =
            (begin_ns / width + 1).saturating_mul(width).min(begin_ns.saturating_add(length));
        let before = u128::from(boundary - begin_ns);
        let part = |sum: u64| (u128::from(sum) * before / u128::from(length)) as u64;
        let (count, time_ns) = (part(added.count), part(added.time_ns));
        self.blocks.add_many(begin_ns, count, time_ns);
        let (count, time_ns) = (added.count - count, added.time_ns - time_ns);
        if count > 0 {
            self.blocks.add_many(boundary.max(begin_ns.saturating_add(length) - 1), count, time_ns);
        }
    }
}

/// Sum of squares in ns, no larger than the shortest and the longest allow: two exits of one length
/// have no spread, whatever their octave has.
fn squares(added: &Added) -> u128 {
    let (count, time) = (u128::from(added.count), u128::from(added.time_ns));
    if count == 1 {
        return time * time;
    }
    let (least, most) = (u128::from(added.least_ns), u128::from(added.most_ns));
    // The mean lies between the two, unless they are of other exits too.
    if least * count > time || most * count < time {
        return told_squares(added);
    }
    // Of all with this mean, the spread is largest if each is one of the two.
    let largest = time * (least + most) - count * least * most;
    told_squares(added).min(largest)
}

/// Units of 1024 ns say nothing of short exits, whose spread is that of their octaves then: evenly
/// over each, and scaled to the time they took.
fn told_squares(added: &Added) -> u128 {
    const SHORT_NS: u64 = 16 << 10;
    let told = u128::from(added.squares) << 20;
    let octaves =
        || added.octaves.iter().enumerate().map(|(at, n)| ((1u128 << at) as f64, *n as f64));
    let time: f64 = octaves().map(|(floor, count)| 1.5 * floor * count).sum();
    if added.time_ns / added.count.max(1) >= SHORT_NS || time <= 0.0 {
        return told;
    }
    let scale = added.time_ns as f64 / time;
    let sum: f64 = octaves().map(|(floor, count)| 7.0 / 3.0 * floor * floor * count).sum();
    told.max((sum * scale * scale) as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_exits_have_the_spread_of_their_octaves() {
        let mut octaves = vec![0; 20];
        (octaves[9], octaves[12]) = (900, 100);
        let added = Added {
            process: 1,
            thread: 2,
            vcpu: 0,
            isa: 2,
            reason: 0x7c,
            detail: PackedDetail::UNKNOWN,
            count: 1000,
            time_ns: 900 * 768 + 100 * 6144,
            squares: 0,
            least_ns: 600,
            most_ns: 7000,
            octaves,
        };
        let mut cell = Cell::default();
        cell.add_summed(&added, 0, 1);
        // Nine tenths at 768 ns and one at 6144: a deviation of 1.25 times the mean.
        assert!((cell.relative_error() - 4.0).abs() < 0.3, "{}", cell.relative_error());
        let long = Added { time_ns: 1000 << 20, squares: 5, ..added };
        assert_eq!(told_squares(&long), 5 << 20);
    }

    #[test]
    fn exits_of_one_length_have_no_spread() {
        for (count, ns) in [(2, 3000), (7, 700), (3, 40_000)] {
            let added = Added {
                process: 1,
                thread: 2,
                vcpu: 0,
                isa: 2,
                reason: 0x7c,
                detail: PackedDetail::UNKNOWN,
                count,
                time_ns: count * ns,
                squares: count * (ns >> 10) * (ns >> 10),
                least_ns: ns,
                most_ns: ns,
                octaves: [vec![0; ns.ilog2() as usize], vec![count]].concat(),
            };
            let mut cell = Cell::default();
            cell.add_summed(&added, 0, 1);
            let error = cell.relative_error();
            assert!(error < 1e-9 || ns >= 16 << 10 && error < 2.0, "{count} of {ns} ns: {error}");
        }
    }

    #[test]
    fn a_rate_that_stays_the_same_does_so_in_every_block() {
        let mut sampled = Sampled::new(500_000_000);
        for second in 1..=200u64 {
            sampled.until(500_000_000 + second * 1_000_000_000);
            sampled.add(&Added {
                process: 7,
                thread: 8,
                vcpu: 0,
                isa: 2,
                reason: 0x7c,
                detail: PackedDetail::UNKNOWN,
                count: 1000,
                time_ns: 1000 * 3000,
                squares: 9000,
                least_ns: 2500,
                most_ns: 3500,
                octaves: [vec![0; 11], vec![1000]].concat(),
            });
        }
        let profile = sampled.profile();
        let blocks = &profile.vcpus[0].cells[0].1.blocks;
        let counts: Vec<u64> = blocks.iter().map(|(_, block)| block.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 200_000);
        let expected = 1000.0 * blocks.width_ns() as f64 / 1e9;
        let inner = &counts[1..counts.len() - 1];
        assert!(inner.iter().all(|count| (*count as f64 - expected).abs() < 2.0), "{counts:?}");
    }

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
