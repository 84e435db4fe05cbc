//! How often blocks were run, up to which of their instructions, by which processor: from that
//! follow, exactly, the instructions executed by class. Off unless a caller asks, for each run of a
//! block then writes a counter.
//!
//! A counter stands beside each decoded operation and says how often a run of its block ended
//! behind it, so an operation was executed as often as its own counter and those behind it in its
//! block say together. Translated code counts in the same places.

use crate::operation::decode::Cost;
use arch::identity::CpuIndex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Instructions by class.
pub type Classes = [u64; Cost::COUNT];

/// The counters of all processors.
pub(super) struct Runs {
    /// A table for each processor, with a counter for each place of an operation.
    tables: Vec<Box<[AtomicU64]>>,
    /// What was executed of blocks that are no more, and what no block's counter has.
    others: Vec<Classes>,
}

impl Runs {
    pub fn new(processors: usize, places: usize) -> Self {
        let table = || (0..places).map(|_| AtomicU64::new(0)).collect();
        Self {
            tables: (0..processors).map(|_| table()).collect(),
            others: vec![[0; Cost::COUNT]; processors],
        }
    }

    /// Of one processor, for code that counts by itself.
    pub fn table(&self, cpu: CpuIndex) -> &[AtomicU64] {
        self.tables.get(usize::from(cpu.0)).map_or(&[], |table| table)
    }

    /// A run has ended behind the operation at `place`. Processors take turns, so nobody else
    /// writes meanwhile.
    pub fn note(&self, cpu: CpuIndex, place: usize) {
        if let Some(counter) = self.table(cpu).get(place) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Instructions were executed that no block's counter has.
    pub fn add(&mut self, cpu: CpuIndex, classes: &Classes, times: u64) {
        if let Some(others) = self.others.get_mut(usize::from(cpu.0)) {
            add(others, classes, times);
        }
    }

    /// What a processor has executed, by class; `blocks` are the first place and the classes of
    /// each block there is.
    pub fn executed<'a>(
        &self,
        cpu: CpuIndex,
        blocks: impl Iterator<Item = (usize, &'a [Cost])>,
    ) -> Classes {
        let table = self.table(cpu);
        let mut sum = self.others.get(usize::from(cpu.0)).copied().unwrap_or_default();
        for (first, classes) in blocks {
            let counters = table.get(first..first + classes.len()).unwrap_or(&[]);
            let mut runs = 0;
            for (counter, class) in counters.iter().zip(classes).rev() {
                runs += counter.load(Ordering::Relaxed);
                sum[*class as usize] += runs;
            }
        }
        sum
    }

    /// What ended behind each of the operations from `first` on, all processors together; those
    /// counters begin at zero again, and what they said of classes is kept.
    pub fn take(&mut self, first: usize, classes: &[Cost], mut each: impl FnMut(usize, u64)) {
        for (table, others) in self.tables.iter_mut().zip(&mut self.others) {
            let counters = table.get_mut(first..first + classes.len()).unwrap_or(&mut []);
            let mut runs = 0;
            for (place, (counter, class)) in counters.iter_mut().zip(classes).enumerate().rev() {
                let ended = std::mem::take(counter.get_mut());
                runs += ended;
                others[*class as usize] += runs;
                if ended != 0 {
                    each(place, ended);
                }
            }
        }
    }

    /// The blocks are dropped: what they were run is kept, and their places begin at zero.
    pub fn fold<'a>(&mut self, blocks: impl Iterator<Item = (usize, &'a [Cost])> + Clone) {
        for number in 0..self.tables.len() {
            self.others[number] = self.executed(CpuIndex(number as u16), blocks.clone());
            for counter in self.tables[number].iter_mut() {
                *counter.get_mut() = 0;
            }
        }
    }
}

fn add(sum: &mut Classes, classes: &Classes, times: u64) {
    for (sum, count) in sum.iter_mut().zip(classes) {
        *sum += count * times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: CpuIndex = CpuIndex(1);

    #[test]
    fn a_run_counts_every_instruction_up_to_where_it_ended() {
        let mut runs = Runs::new(2, 8);
        let classes = [Cost::Simple, Cost::Load, Cost::Branch];
        let blocks = || [(3, classes.as_slice())].into_iter();
        for (place, times) in [(3, 5), (4, 0), (5, 2)] {
            (0..times).for_each(|_| runs.note(CPU, place));
        }
        let of = |all: Classes| [Cost::Simple, Cost::Load, Cost::Branch].map(|c| all[c as usize]);
        assert_eq!(of(runs.executed(CPU, blocks())), [7, 2, 2]);
        assert_eq!(of(runs.executed(CpuIndex(0), blocks())), [0, 0, 0]);

        let mut ended = Vec::new();
        runs.take(3, &classes, |place, times| ended.push((place, times)));
        assert_eq!(ended, [(2, 2), (0, 5)], "what never ended a run is left out");
        runs.take(3, &classes, |_, _| panic!("it is taken"));
        assert_eq!(of(runs.executed(CPU, blocks())), [7, 2, 2], "by class it is kept");

        runs.fold(blocks());
        runs.note(CPU, 3);
        let mut more = [0; Cost::COUNT];
        more[Cost::Branch as usize] = 1;
        runs.add(CPU, &more, 10);
        assert_eq!(of(runs.executed(CPU, blocks())), [8, 2, 12]);
    }
}
