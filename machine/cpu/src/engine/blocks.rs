//! Decoded code: blocks of operations, found by the place of their first byte in RAM and the size
//! of the code segment.
//!
//! A block ends at an unconditional control transfer, after a few conditional ones (which leave it
//! when they are taken), at an instruction that may change what follows means, at the end of its
//! page, or after 32 instructions. A write to a line that holds decoded code changes the
//! generation of its page, which all blocks of the page remember. The cache is the same for all
//! processors of a board: what an operation means does not depend on who runs it.
//!
//! Where a block was left, it remembers which block came next. That is a guess which its key and
//! generation prove or refute, so nothing has to be unlinked when code changes.

use super::bind::{Ready, bind};
use super::coverage::{Coverage, Covered};
use super::prediction;
use super::runs::{Classes, Runs};
use crate::execute::binding::{Bound, Boundary};
use crate::execute::fused::{self, Role};
use crate::operation::decode::{CodeSize, Cost, Dialect, decode, decode_across};
use crate::operation::{InstructionCosts, Kind, Op};
use arch::identity::CpuIndex;
use bus::GuestMemory;
use std::sync::atomic::AtomicU64;
use translate::Mode;

/// Instructions in a block at most.
pub const BLOCK_INSTRUCTIONS: usize = 32;
/// Conditional branches in a block at most.
const CONDITIONS: usize = 4;
/// Slots of the direct-mapped index; a power of two.
const SLOTS: usize = 1 << 16;
/// Operations held before everything is dropped and decoded again: 32 MiB.
const OPERATIONS: usize = 1 << 20;

/// A block's place in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIndex(u32);

impl BlockIndex {
    /// The block that is never found.
    pub const NONE: Self = Self(0);

    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// Where a block was left: the place of its last executed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u32);

impl Exit {
    /// Nothing came before.
    pub const NONE: Self = Self(0);
}

/// An operation's place in the cache, until that is cleared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpPlace(u32);

/// What belongs to an operation and is not needed to execute it.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Picoseconds from the start of the block to the operation's end.
    end: u32,
    /// The block that came next when the block was left here.
    next: u32,
    /// If the operation is the first of a fused pair: where it is as it is alone. Else
    /// [`WHOLE`].
    unfused: u32,
    kind: Kind,
}

/// No place in [`Blocks::unfused`]: the operation is not fused.
const WHOLE: u32 = u32::MAX;

/// A run of decoded instructions.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Index into RAM of the first byte, and the code size in bits 1:0.
    key: u64,
    generation: u32,
    first: u32,
    /// Picoseconds of the whole block.
    pub cost: u32,
    /// If the single instruction continues in another page: that page, and its generation then.
    second: [u32; 2],
    /// Bytes.
    pub length: u16,
    pub(crate) count: u8,
    flags: u8,
}

const _: () = assert!(std::mem::size_of::<Block>() == 32);

impl Block {
    /// Its last instruction is a near branch or does not end a block by itself: translation,
    /// privilege and mode are as before.
    const PLAIN: u8 = 1 << 0;
    const CROSSES: u8 = 1 << 1;

    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & Self::PLAIN != 0
    }

    /// The page that the single instruction continues in, and the page's generation.
    #[inline(always)]
    pub(crate) fn second_page(&self) -> Option<(u32, u32)> {
        (self.flags & Self::CROSSES != 0).then_some((self.second[0], self.second[1]))
    }

    #[inline(always)]
    fn is_current(&self, memory: &GuestMemory, offset: u64, key: u64) -> bool {
        self.key == key && memory.generations.get((offset >> 12) as usize) == Some(&self.generation)
    }
}

const NO_BLOCK: Block = Block {
    key: u64::MAX,
    generation: 0,
    first: 0,
    cost: 0,
    second: [0; 2],
    length: 0,
    count: 0,
    flags: 0,
};

/// Decoded blocks of all processors of a board.
pub struct Blocks {
    slots: Vec<u32>,
    blocks: Vec<Block>,
    ops: Vec<Bound>,
    /// Beside `ops`.
    tails: Vec<Tail>,
    /// Beside `ops`.
    classes: Vec<Cost>,
    /// How often blocks are run, if that is counted.
    runs: Option<Runs>,
    /// Where, of blocks that are no more, if that is kept.
    coverage: Option<Coverage>,
    /// The operations that are the first of a fused pair, as they are alone.
    unfused: Vec<Bound>,
    costs: InstructionCosts,
    /// The least that an instruction costs, in picoseconds.
    least_cost: u64,
    dialect: Dialect,
    /// Stores go through memory's record of them, which the quick forms pass by.
    keeps_stores: bool,
    /// How often everything was dropped.
    clears: u64,
}

impl Blocks {
    /// An empty cache for processors of one dialect.
    pub fn new(costs: InstructionCosts, dialect: Dialect) -> Self {
        let mut cache = Self {
            slots: vec![0; SLOTS],
            blocks: Vec::new(),
            ops: Vec::new(),
            tails: Vec::new(),
            classes: Vec::new(),
            runs: None,
            coverage: None,
            unfused: Vec::new(),
            least_cost: least(&costs),
            costs,
            dialect,
            keeps_stores: false,
            clears: 0,
        };
        cache.clear();
        cache
    }

    /// An empty cache for the same processors at other costs.
    pub(crate) fn alike(&self, costs: InstructionCosts) -> Self {
        Self { keeps_stores: self.keeps_stores, ..Self::new(costs, self.dialect) }
    }

    /// Code that is decoded from now on stores where memory takes note of it.
    pub(crate) fn keep_stores(&mut self) {
        self.keeps_stores = true;
        self.clear();
    }

    pub(crate) fn keeps_stores(&self) -> bool {
        self.keeps_stores
    }

    /// Picoseconds of an instruction of a class.
    pub(crate) fn cost(&self, class: Cost) -> u64 {
        self.costs.0[class as usize] as u64
    }

    /// Other costs, for blocks that are decoded again.
    pub(crate) fn set_costs(&mut self, costs: InstructionCosts) {
        if self.costs != costs {
            self.least_cost = least(&costs);
            self.costs = costs;
            self.clear();
        }
    }

    /// The least that an instruction costs, in picoseconds.
    pub(crate) fn least_cost(&self) -> u64 {
        self.least_cost
    }

    /// How often everything was dropped: places are good as long as this is the same.
    pub(crate) fn clears(&self) -> u64 {
        self.clears
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether a few hundred more blocks can be decoded before everything is dropped.
    pub(crate) fn has_room_for_blocks(&self) -> bool {
        self.ops.len() + 512 * BLOCK_INSTRUCTIONS < OPERATIONS
    }

    /// Counts from here on what so many processors execute. What was decoded is decoded again, and
    /// translated code with it.
    pub fn count_runs(&mut self, processors: usize) {
        self.clear();
        self.runs = Some(Runs::new(processors, OPERATIONS));
    }

    /// The same, and keeps where.
    pub fn count_coverage(&mut self, processors: usize) {
        self.count_runs(processors);
        self.coverage = Some(Coverage::default());
    }

    /// What was executed since this was last called, by place; `None` if that is not kept.
    pub fn take_coverage(&mut self) -> Option<Vec<Covered>> {
        self.collect_coverage();
        self.coverage.as_mut().map(Coverage::take)
    }

    /// Moves what blocks' counters say of places to where it outlives the blocks.
    fn collect_coverage(&mut self) {
        let Some(mut coverage) = self.coverage.take() else { return };
        let mut runs = self.runs.take();
        for block in &self.blocks {
            let first = block.first as usize;
            let classes = &self.classes[first..first + usize::from(block.count)];
            let Some(counted) = &mut runs else { break };
            counted.take(first, classes, |place, runs| {
                let Some(last) = self.alone(block, place) else { return };
                coverage.add(Covered {
                    offset: block.key >> 2,
                    length: last.op.end,
                    instructions: place as u8 + 1,
                    runs,
                });
            });
        }
        (self.coverage, self.runs) = (Some(coverage), runs);
    }

    /// Whether runs are counted.
    pub(crate) fn counts_runs(&self) -> bool {
        self.runs.is_some()
    }

    /// The counters of a processor, for code that counts by itself; none if nothing is counted.
    pub(crate) fn run_counters(&self, cpu: CpuIndex) -> &[AtomicU64] {
        self.runs.as_ref().map_or(&[], |runs| runs.table(cpu))
    }

    /// The number of a block's first counter.
    pub(crate) fn first_counter(&self, block: &Block) -> Option<u32> {
        self.counts_runs().then_some(block.first)
    }

    /// A processor has run the first `count` instructions of a block.
    #[inline(always)]
    pub(crate) fn note_run(&self, cpu: CpuIndex, block: &Block, count: usize) {
        if let (Some(runs), 1..) = (&self.runs, count) {
            runs.note(cpu, block.first as usize + count - 1);
        }
    }

    /// A processor has executed instructions of these classes so often besides.
    pub(crate) fn note_classes(&mut self, cpu: CpuIndex, classes: &Classes, times: u64) {
        if let Some(runs) = &mut self.runs {
            runs.add(cpu, classes, times);
        }
    }

    /// It has spent the time of an instruction of this class besides.
    pub(crate) fn note_class(&mut self, cpu: CpuIndex, class: Cost) {
        let mut classes = [0; Cost::COUNT];
        classes[class as usize] = 1;
        self.note_classes(cpu, &classes, 1);
    }

    /// The class of the first instruction of the block at an index into RAM, if it is decoded.
    pub(crate) fn class_at(
        &self,
        memory: &GuestMemory,
        offset: u64,
        size: CodeSize,
    ) -> Option<Cost> {
        let index = self.find(memory, offset, size)?;
        self.classes.get(self.block(index).first as usize).copied()
    }

    /// What a processor has executed since runs are counted, by class.
    pub fn executed(&self, cpu: CpuIndex) -> Option<Classes> {
        Some(self.runs.as_ref()?.executed(cpu, places(&self.blocks, &self.classes)))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.collect_coverage();
        if let Some(runs) = &mut self.runs {
            runs.fold(places(&self.blocks, &self.classes));
        }
        self.slots.fill(0);
        self.blocks.clear();
        self.ops.clear();
        self.tails.clear();
        self.classes.clear();
        self.unfused.clear();
        self.clears += 1;
        // The block that is never found, and the exit that nothing left through.
        self.blocks.push(NO_BLOCK);
        self.ops.push(Bound { handler: crate::execute::undefined, op: Op::default() });
        self.tails.push(Tail { end: 0, next: 0, unfused: WHOLE, kind: Kind::INVALID });
        self.classes.push(Cost::System);
    }

    #[inline(always)]
    fn key(offset: u64, size: CodeSize) -> u64 {
        offset << 2 | size as u64
    }

    #[inline(always)]
    fn slot(key: u64) -> usize {
        ((key >> 2) ^ (key >> 16) ^ (key & 3) << 14) as usize % SLOTS
    }

    /// The block at its place; places are good until the cache is cleared.
    #[inline(always)]
    pub fn block(&self, index: BlockIndex) -> &Block {
        &self.blocks[index.0 as usize]
    }

    /// What a block is for translated code, if that may run it.
    pub(crate) fn mode(&self, index: BlockIndex) -> Mode {
        if self.block(index).key & 3 == CodeSize::Bits64 as u64 { Mode::Long } else { Mode::Flat }
    }

    /// What the jump cache of translated code knows a block by.
    pub(crate) fn jump_key(&self, index: BlockIndex) -> u64 {
        translate::jump_key(self.block(index).key >> 2, self.mode(index))
    }

    /// The block at an index into RAM, if it is decoded and its bytes have not changed.
    #[inline(always)]
    pub fn find(&self, memory: &GuestMemory, offset: u64, size: CodeSize) -> Option<BlockIndex> {
        let key = Self::key(offset, size);
        let index = self.slots[Self::slot(key)];
        self.blocks[index as usize].is_current(memory, offset, key).then_some(BlockIndex(index))
    }

    /// As `find`, trying first what came after `exit` the last time.
    #[inline(always)]
    pub(crate) fn follow(
        &mut self,
        memory: &GuestMemory,
        exit: Exit,
        offset: u64,
        size: CodeSize,
    ) -> Option<BlockIndex> {
        if exit == Exit::NONE {
            return self.find(memory, offset, size);
        }
        let guess = self.tails[exit.0 as usize].next;
        let is_right = self
            .blocks
            .get(guess as usize)
            .is_some_and(|block| block.is_current(memory, offset, Self::key(offset, size)));
        if is_right {
            return Some(BlockIndex(guess));
        }
        self.find_and_link(memory, exit, offset, size)
    }

    #[inline(never)]
    fn find_and_link(
        &mut self,
        memory: &GuestMemory,
        exit: Exit,
        offset: u64,
        size: CodeSize,
    ) -> Option<BlockIndex> {
        let found = self.find(memory, offset, size)?;
        self.tails[exit.0 as usize].next = found.0;
        Some(found)
    }

    /// Leaving a block after `count` of its operations.
    #[inline(always)]
    pub(crate) fn exit(block: &Block, count: usize) -> Exit {
        Exit(block.first + (count as u32).wrapping_sub(1))
    }

    /// An operation of a block, without one that may be fused to it.
    pub(crate) fn alone(&self, block: &Block, at: usize) -> Option<Bound> {
        self.one(Self::place(block, at)).map(|(bound, _)| bound)
    }

    /// The place of an operation of a block.
    pub(crate) fn place(block: &Block, at: usize) -> OpPlace {
        OpPlace(block.first + at as u32)
    }

    /// The operation at a place, without one that may be fused to it, and its class.
    pub(crate) fn one(&self, place: OpPlace) -> Option<(Bound, Cost)> {
        let at = place.0 as usize;
        // No operation has the place `WHOLE`.
        let unfused = self.tails.get(at)?.unfused;
        let bound = *self.unfused.get(unfused as usize).or(self.ops.get(at))?;
        Some((bound, *self.classes.get(at)?))
    }

    #[inline(always)]
    pub(crate) fn ops(&self, block: &Block) -> &[Bound] {
        let first = block.first as usize;
        self.ops.get(first..first + block.count as usize).unwrap_or(&[])
    }

    /// Which instruction stands at a place of a block.
    pub(crate) fn kind(&self, block: &Block, place: usize) -> Kind {
        self.tails.get(block.first as usize + place).map_or(Kind::INVALID, |tail| tail.kind)
    }

    /// Which instructions a block consists of, whether they are fused to pairs or not.
    pub fn kinds(&self, block: &Block) -> impl Iterator<Item = Kind> {
        (0..usize::from(block.count)).map(move |at| self.kind(block, at))
    }

    /// Picoseconds that the first `count` instructions of a block take.
    #[inline(always)]
    pub(crate) fn time_of(&self, block: &Block, count: usize) -> u64 {
        let last = (block.first as usize + count).wrapping_sub(1);
        if count == 0 { 0 } else { self.tails.get(last).map_or(block.cost, |tail| tail.end).into() }
    }

    /// How many instructions of a block begin within its first `room` picoseconds, at least one.
    pub(crate) fn beginning_within(&self, block: &Block, room: u64) -> usize {
        let first = block.first as usize;
        let tails = &self.tails[first..first + (block.count as usize).saturating_sub(1)];
        1 + tails.partition_point(|tail| u64::from(tail.end) < room)
    }

    /// Decodes the block at `offset`. `next_page` is the index into RAM of the linear page that
    /// follows, wanted only when the first instruction does not fit in its page; without it the
    /// result is `None`.
    pub fn build(
        &mut self,
        memory: &mut GuestMemory,
        offset: u64,
        size: CodeSize,
        next_page: Option<u64>,
    ) -> Option<BlockIndex> {
        if self.ops.len() + BLOCK_INSTRUCTIONS > OPERATIONS {
            self.clear();
        }
        let first = self.ops.len();
        let end = (offset | 0xFFF) + 1;
        let mut at = offset;
        let mut block = Block { flags: Block::PLAIN, ..NO_BLOCK };
        let mut second_page = None;
        let (mut conditions, mut before) = (0, None);
        // The first byte that it rests on.
        let mut begins = offset;
        while self.ops.len() - first < BLOCK_INSTRUCTIONS && at < end {
            let here = &memory.ram[at as usize..end as usize];
            let done = (at - offset) as u16;
            let decoded = match decode(here, size, done, self.dialect) {
                Some(decoded) => decoded,
                None if at != offset => break,
                None => {
                    let next = next_page?;
                    second_page = Some((next >> 12) as u32);
                    decode_across(here, &memory.ram[next as usize..], size, self.dialect)
                }
            };
            let mut ready = bind(decoded, size, !self.keeps_stores);
            let in_front = (at & !0xFFF).max(at.saturating_sub(prediction::REACH));
            if prediction::is_return(ready.kind) {
                begins = begins.min(in_front);
            }
            if prediction::is_mispredicted(ready.kind, &memory.ram[in_front as usize..at as usize])
            {
                ready.cost = Cost::MispredictedReturn;
            }
            if ready.boundary == Boundary::Alone && at != offset {
                break;
            }
            // An operation is in one pair at most.
            let is_second = self.fuse(before, &ready);
            before = if is_second { None } else { ready.role };
            block.cost = self.append(&ready, block.cost);
            at += ready.bound.op.length as u64;
            conditions += usize::from(ready.boundary == Boundary::Condition);
            match ready.boundary {
                Boundary::Within => {}
                Boundary::Condition if conditions < CONDITIONS => {}
                Boundary::Condition | Boundary::Last => break,
                Boundary::Ends | Boundary::Alone => {
                    block.flags = 0;
                    break;
                }
            }
        }
        memory.watch(begins as usize, (at.min(end) - begins) as usize);
        if let Some(page) = second_page {
            memory.watch((page as usize) << 12, (at - end).max(1) as usize);
            block.second = [page, memory.generation_to_remember(page as usize)];
            block.flags |= Block::CROSSES;
        }
        block.key = Self::key(offset, size);
        block.generation = memory.generation_to_remember((offset >> 12) as usize);
        block.first = first as u32;
        block.count = (self.ops.len() - first) as u8;
        block.length = (at - offset) as u16;
        let index = self.blocks.len() as u32;
        self.slots[Self::slot(block.key)] = index;
        self.blocks.push(block);
        Some(BlockIndex(index))
    }

    /// Adds an instruction to the block that has cost `before`; what it costs then.
    fn append(&mut self, ready: &Ready, before: u32) -> u32 {
        let end = before.saturating_add(self.costs.0[ready.cost as usize]);
        self.ops.push(ready.bound);
        self.tails.push(Tail { end, next: 0, unfused: WHOLE, kind: ready.kind });
        self.classes.push(ready.cost);
        end
    }

    /// Lets the last operation do what the one after it does as well, if such a pair exists.
    /// Answers whether it does.
    fn fuse(&mut self, role: Option<Role>, second: &Ready) -> bool {
        let (Some(last), Some(tail)) = (self.ops.last_mut(), self.tails.last_mut()) else {
            return false;
        };
        let Some(fused) = fused::fuse(last, (role, second.role), &second.bound.op) else {
            return false;
        };
        tail.unfused = self.unfused.len() as u32;
        self.unfused.push(std::mem::replace(last, fused));
        true
    }
}

fn least(costs: &InstructionCosts) -> u64 {
    costs.0.iter().copied().min().unwrap_or(0).into()
}

/// The first place of each block, with the classes of its instructions.
fn places<'a>(
    blocks: &'a [Block],
    classes: &'a [Cost],
) -> impl Iterator<Item = (usize, &'a [Cost])> + Clone {
    blocks.iter().filter_map(|block| {
        let first = block.first as usize;
        Some((first, classes.get(first..first + usize::from(block.count))?))
    })
}

#[cfg(test)]
mod tests;
