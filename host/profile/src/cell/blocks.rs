//! Counts and times by stretches of a recording, whatever its length.

/// Width of a block to begin with: 2^20 ns, about a millisecond, so that a short recording has
/// some.
const FIRST_SHIFT: u32 = 20;
/// Blocks are doubled in width when there would be more.
pub(super) const MOST_BLOCKS: usize = 1024;

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
    /// How many.
    pub count: u64,
    /// Sum of their durations.
    pub time_ns: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { shift: FIRST_SHIFT, first: 0, blocks: Vec::new() }
    }
}

impl Blocks {
    /// Of one block: a power of two.
    pub const fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Base-two logarithm of the width in nanoseconds.
    pub const fn shift(&self) -> u32 {
        self.shift
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

    /// Adds another's blocks, at the wider of the two widths.
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

    /// The block of a time, for which room is made: the width may grow.
    pub fn at(&mut self, at_ns: u64) -> &mut Block {
        let index = (at_ns >> self.shift).wrapping_sub(self.first) as usize;
        if index < self.blocks.len() { &mut self.blocks[index] } else { self.reach(at_ns) }
    }

    /// Start of each block and what is in it.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        (self.first..).zip(&self.blocks).map(|(number, block)| (number << self.shift, *block))
    }
}
