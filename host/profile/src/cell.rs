//! What is kept of one kind of exit on one vCPU: exact sums, a histogram, and blocks of time.
//!
//! Sums are integers, so that joining parts in any grouping gives the same mean and deviation to
//! the last bit, which a running mean in floating point does not.

mod blocks;

pub use blocks::{Block, Blocks};

/// Buckets per octave of the histogram: a value is known to 1 part in 16.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Durations from 2^OCTAVES ns on (about 18 minutes) share the last octave.
const OCTAVES: usize = 40;
/// One for zero, and those of each octave.
const BUCKETS: usize = 1 + STEPS * OCTAVES;

/// A histogram of durations with logarithmic buckets of linear steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]) }
    }
}

impl Histogram {
    /// Where a value counts: past the end if it is zero or too long.
    ///
    /// The octave and the step in it are the exponent of a double and the first bits of its
    /// fraction.
    #[inline(always)]
    fn place(value: u64) -> usize {
        let places = (value as i64 as f64).to_bits() >> (f64::MANTISSA_DIGITS - 1 - STEP_BITS);
        let one = (f64::MAX_EXP as u64 - 1) << STEP_BITS;
        places.wrapping_sub(one - 1) as usize
    }

    fn bucket(value: u64) -> usize {
        if value == 0 { 0 } else { Self::place(value).min(BUCKETS - 1) }
    }

    /// The smallest value of a bucket.
    fn floor(bucket: usize) -> u64 {
        let Some(place) = bucket.checked_sub(1) else { return 0 };
        let (octave, step) = (place / STEPS, place % STEPS);
        (((STEPS + step) as u64) << octave).div_ceil(STEPS as u64)
    }

    /// One duration, in nanoseconds.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        match self.buckets.get_mut(Self::place(value)) {
            Some(bucket) => *bucket += 1,
            None => self.add_extreme(value),
        }
    }

    #[cold]
    fn add_extreme(&mut self, value: u64) {
        self.buckets[Self::bucket(value)] += 1;
    }

    /// Adds as many of the same length.
    pub fn add_many(&mut self, value: u64, count: u64) {
        self.buckets[Self::bucket(value)] += count;
    }

    /// Adds what another histogram holds.
    pub fn join(&mut self, other: &Self) {
        for (mine, others) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += others;
        }
    }

    /// The value below which `fraction` of the durations lie, interpolated within its bucket and
    /// therefore within 1/16 of the true one.
    pub fn quantile(&self, fraction: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().sum();
        let rank = fraction * total as f64;
        let mut below = 0;
        for (bucket, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            if (below + count) as f64 >= rank {
                let (from, to) = (Self::floor(bucket) as f64, Self::floor(bucket + 1) as f64);
                let within = ((rank - below as f64) / count as f64).clamp(0.0, 1.0);
                return Some(from + (to - from) * within);
            }
            below += count;
        }
        None
    }

    /// Counts per power of two: `(lower bound in ns, count)` of the octaves between the first and
    /// the last that hold something.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut octaves = Vec::new();
        for (bucket, &count) in self.buckets.iter().enumerate() {
            let floor = Self::floor(bucket);
            let octave = if floor == 0 { 0 } else { 1 << floor.ilog2() };
            match octaves.last_mut() {
                Some((last, sum)) if *last == octave => *sum += count,
                _ => octaves.push((octave, count)),
            }
        }
        let last = octaves.iter().rposition(|row| row.1 > 0).map_or(0, |index| index + 1);
        octaves.truncate(last);
        let first = octaves.iter().position(|row| row.1 > 0).unwrap_or(0);
        octaves.split_off(first)
    }
}

/// The statistics of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Exits, or accesses.
    pub count: u64,
    /// The shortest one; `u64::MAX` while there is none.
    pub min_ns: u64,
    /// Sum of all, modulo 2^64.
    pub time_ns: u64,
    /// The longest one.
    pub max_ns: u64,
    squares: u128,
    /// When the first of them began: rows of equal count are listed by it.
    pub first_ns: u64,
    /// All of them by length.
    pub histogram: Histogram,
    /// Without what was added since the latest [`Cell::settle`].
    pub blocks: Blocks,
    unsettled: Unsettled,
}

/// The block that durations are added to, which are nearly always in the same as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unsettled {
    /// Since time zero; [`Unsettled::NO_BLOCK`] while there is nothing to settle.
    number: u64,
    /// What the cell had when it began.
    count: u64,
    time_ns: u64,
}

impl Unsettled {
    const NO_BLOCK: u64 = u64::MAX;
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            count: 0,
            min_ns: u64::MAX,
            time_ns: 0,
            max_ns: 0,
            squares: 0,
            first_ns: u64::MAX,
            histogram: Histogram::default(),
            blocks: Blocks::default(),
            unsettled: Unsettled { number: Unsettled::NO_BLOCK, count: 0, time_ns: 0 },
        }
    }
}

impl Cell {
    /// Adds what lasted from `start_ns` to `end_ns`, which is not earlier.
    #[inline(always)]
    pub fn add(&mut self, start_ns: u64, end_ns: u64) {
        if end_ns >> self.blocks.shift() != self.unsettled.number {
            self.turn(end_ns);
        }
        let duration = end_ns - start_ns;
        self.count += 1;
        self.time_ns = self.time_ns.wrapping_add(duration);
        // 2^128 is out of reach of durations that are differences of plausible clocks.
        self.squares = self.squares.wrapping_add(u128::from(duration) * u128::from(duration));
        // Branches that are hardly ever taken cost less than stores that change nothing.
        if duration < self.min_ns {
            self.shortest(duration);
        }
        if duration > self.max_ns {
            self.longest(duration);
        }
        if start_ns < self.first_ns {
            self.begin(start_ns);
        }
        self.histogram.add(duration);
    }

    /// Goes on in the block of another time.
    #[cold]
    fn turn(&mut self, at_ns: u64) {
        self.settle();
        self.blocks.at(at_ns);
        self.unsettled.number = at_ns >> self.blocks.shift();
    }

    /// Puts what was added into the blocks.
    pub fn settle(&mut self) {
        if let Some((at_ns, added)) = self.unsettled() {
            self.blocks.add_many(at_ns, added.count, added.time_ns);
        }
        let (count, time_ns) = (self.count, self.time_ns);
        self.unsettled = Unsettled { number: Unsettled::NO_BLOCK, count, time_ns };
    }

    /// What was added and is not in the blocks, and a time at which to put it there.
    fn unsettled(&self) -> Option<(u64, Block)> {
        let Unsettled { number, count, time_ns } = self.unsettled;
        let count = self.count - count;
        let time_ns = self.time_ns.wrapping_sub(time_ns);
        (number != Unsettled::NO_BLOCK)
            .then(|| (number << self.blocks.shift(), Block { count, time_ns }))
    }

    #[cold]
    fn shortest(&mut self, duration: u64) {
        self.min_ns = duration;
    }

    #[cold]
    fn longest(&mut self, duration: u64) {
        self.max_ns = duration;
    }

    #[cold]
    fn begin(&mut self, start_ns: u64) {
        self.first_ns = start_ns;
    }

    pub(crate) fn add_squares(&mut self, squares: u128) {
        self.squares = self.squares.wrapping_add(squares);
    }

    /// With a sum of squares that comes from elsewhere.
    pub(crate) fn with_squares(self, squares: u128) -> Self {
        Self { squares, ..self }
    }

    /// Adds what another row holds, as if both had been one.
    pub fn join(&mut self, other: &Self) {
        self.settle();
        self.count += other.count;
        self.time_ns = self.time_ns.wrapping_add(other.time_ns);
        self.squares = self.squares.wrapping_add(other.squares);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.histogram.join(&other.histogram);
        self.blocks.join(&other.blocks);
        if let Some((at_ns, added)) = other.unsettled() {
            self.blocks.add_many(at_ns, added.count, added.time_ns);
        }
        self.settle();
    }

    /// Zero of an empty row.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.time_ns as f64 / self.count as f64 }
    }

    /// The standard error of the mean in per cent of the mean, as `perf kvm stat` prints it.
    pub fn relative_error(&self) -> f64 {
        if self.count < 2 || self.time_ns == 0 {
            return 0.0;
        }
        let (count, time) = (u128::from(self.count), u128::from(self.time_ns));
        // n·Σx² − (Σx)² is exact in integers as long as it fits; beyond, doubles are good enough.
        let spread = match self.squares.checked_mul(count).zip(time.checked_mul(time)) {
            Some((left, right)) => left.saturating_sub(right) as f64,
            None => self.squares as f64 * count as f64 - time as f64 * time as f64,
        };
        let n = self.count as f64;
        let variance_of_mean = spread.max(0.0) / n / (n - 1.0) / n;
        100.0 * variance_of_mean.sqrt() / self.mean_ns()
    }
}

#[cfg(test)]
mod tests;
