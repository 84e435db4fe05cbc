//! What is kept of one kind of exit on one vCPU: exact sums, a histogram, and blocks of time.
//!
//! Sums are integers, so that joining parts in any grouping gives the same mean and deviation to
//! the last bit, which a running mean in floating point does not.

/// Buckets per octave of the histogram: a value is known to 1 part in 16.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Durations from 2^OCTAVES ns on (about 18 minutes) share the last octave.
const OCTAVES: usize = 40;

/// A histogram of durations with logarithmic buckets of linear steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; STEPS * (OCTAVES - STEP_BITS as usize + 1)]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; STEPS * (OCTAVES - STEP_BITS as usize + 1)]) }
    }
}

impl Histogram {
    /// Values below `STEPS` have a bucket each; above, the octave and the next four bits choose.
    #[inline]
    fn bucket(value: u64) -> usize {
        let value = value.min((1 << OCTAVES) - 1);
        let octave = 63 - (value | STEPS as u64).leading_zeros();
        let shift = octave - STEP_BITS;
        (shift as usize) * STEPS + (value >> shift) as usize
    }

    /// The smallest value of a bucket.
    fn floor(bucket: usize) -> u64 {
        let (row, step) = (bucket / STEPS, bucket % STEPS);
        match row {
            0 => step as u64,
            _ => ((STEPS + step) as u64) << (row - 1),
        }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        // In bounds for every value: `bucket` clamps it.
        self.buckets[Self::bucket(value)] += 1;
    }

    /// Adds as many of the same length.
    pub fn add_many(&mut self, value: u64, count: u64) {
        self.buckets[Self::bucket(value)] += count;
    }

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

/// Width of a block to begin with: 2^27 ns, about an eighth of a second.
const FIRST_SHIFT: u32 = 27;
/// Blocks are doubled in width when there would be more.
const MOST_BLOCKS: usize = 1024;

/// Counts and times by stretches of the recording, all of one width that is a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    shift: u32,
    /// Number of the first block since time zero.
    first: u64,
    blocks: Vec<Block>,
}

/// What ended within one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub count: u64,
    pub time_ns: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { shift: FIRST_SHIFT, first: 0, blocks: Vec::new() }
    }
}

impl Blocks {
    pub const fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    pub const fn shift(&self) -> u32 {
        self.shift
    }

    #[inline]
    pub fn add(&mut self, at_ns: u64, duration_ns: u64) {
        let index = (at_ns >> self.shift).wrapping_sub(self.first) as usize;
        let block = match self.blocks.get_mut(index) {
            Some(block) => block,
            None => self.reach(at_ns),
        };
        block.count += 1;
        block.time_ns = block.time_ns.wrapping_add(duration_ns);
    }

    /// Adds what was summed up elsewhere.
    pub fn add_many(&mut self, at_ns: u64, count: u64, time_ns: u64) {
        let block = self.at(at_ns);
        block.count += count;
        block.time_ns = block.time_ns.wrapping_add(time_ns);
    }

    /// Makes room for a time outside the blocks there are.
    #[cold]
    fn reach(&mut self, at_ns: u64) -> &mut Block {
        if self.blocks.is_empty() {
            self.first = at_ns >> self.shift;
            self.blocks.push(Block::default());
        }
        loop {
            let number = at_ns >> self.shift;
            let last = self.first + self.blocks.len() as u64 - 1;
            if number.max(last) - number.min(self.first) < MOST_BLOCKS as u64 {
                break;
            }
            self.widen();
        }
        let number = at_ns >> self.shift;
        if number < self.first {
            let missing = (self.first - number) as usize;
            self.blocks.splice(0..0, std::iter::repeat_n(Block::default(), missing));
            self.first = number;
        }
        let index = (number - self.first) as usize;
        if index >= self.blocks.len() {
            self.blocks.resize(index + 1, Block::default());
        }
        &mut self.blocks[index]
    }

    /// Doubles the width; at most 37 times, after which there is one block.
    fn widen(&mut self) {
        let mut wider = Vec::with_capacity(self.blocks.len() / 2 + 1);
        let first = self.first >> 1;
        for (number, block) in (self.first..).zip(&self.blocks) {
            let index = ((number >> 1) - first) as usize;
            wider.resize(wider.len().max(index + 1), Block::default());
            wider[index].count += block.count;
            wider[index].time_ns = wider[index].time_ns.saturating_add(block.time_ns);
        }
        (self.shift, self.first, self.blocks) = (self.shift + 1, first, wider);
    }

    /// Widens until blocks have this width.
    pub fn widen_to(&mut self, shift: u32) {
        while self.shift < shift.min(63) {
            self.widen();
        }
    }

    pub fn join(&mut self, other: &Self) {
        let mut other = other.clone();
        self.widen_to(other.shift);
        other.widen_to(self.shift);
        // `reach` may widen mine in between, so that a block is placed by its time.
        for (number, block) in (other.first..).zip(&other.blocks) {
            if block.count > 0 {
                let mine = self.at(number << other.shift);
                mine.count += block.count;
                mine.time_ns = mine.time_ns.saturating_add(block.time_ns);
            }
        }
    }

    fn at(&mut self, at_ns: u64) -> &mut Block {
        let index = (at_ns >> self.shift).wrapping_sub(self.first) as usize;
        if index < self.blocks.len() { &mut self.blocks[index] } else { self.reach(at_ns) }
    }

    /// Start of each block and what is in it.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        (self.first..).zip(&self.blocks).map(|(number, block)| (number << self.shift, *block))
    }
}

/// The statistics of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub count: u64,
    pub time_ns: u64,
    squares: u128,
    pub min_ns: u64,
    pub max_ns: u64,
    /// When the first of them began: rows of equal count are listed by it.
    pub first_ns: u64,
    pub histogram: Histogram,
    pub blocks: Blocks,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            count: 0,
            time_ns: 0,
            squares: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            first_ns: u64::MAX,
            histogram: Histogram::default(),
            blocks: Blocks::default(),
        }
    }
}

impl Cell {
    /// Adds what lasted from `start_ns` to `end_ns`, which is not earlier.
    #[inline]
    pub fn add(&mut self, start_ns: u64, end_ns: u64) {
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
        self.blocks.add(end_ns, duration);
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

    pub fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.time_ns = self.time_ns.wrapping_add(other.time_ns);
        self.squares = self.squares.wrapping_add(other.squares);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.histogram.join(&other.histogram);
        self.blocks.join(&other.blocks);
    }

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
