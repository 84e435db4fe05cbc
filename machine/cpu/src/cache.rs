//! Decoded code: blocks of operations, found by the place of their first byte in RAM and the size
//! of the code segment.
//!
//! A block ends at a control transfer, at an instruction that may change what follows means, at the
//! end of its page, or after 32 instructions. A write to a line that holds decoded code changes the
//! generation of its page, which all blocks of the page remember. The cache is the same for all
//! processors of a board: what an operation means does not depend on who runs it.

use crate::decode::{self, Boundary, CodeSize, Cost};
use crate::op::Op;
use bus::GuestMemory;

/// Instructions in a block at most.
pub const BLOCK_INSTRUCTIONS: usize = 32;
/// Slots of the direct-mapped index; a power of two.
const SLOTS: usize = 1 << 16;
/// Operations held before everything is dropped and decoded anew: 32 MiB.
const OPERATIONS: usize = 1 << 20;

/// Picoseconds per class of instruction, chosen by the board's cost profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionCosts(pub [u32; Cost::COUNT]);

/// A run of decoded instructions.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Index into RAM of the first byte, and the code size in bits 1:0.
    key: u64,
    generation: u32,
    first: u32,
    pub count: u16,
    /// Bytes.
    pub length: u16,
    /// Picoseconds of the whole block.
    pub cost: u32,
    /// The single instruction continues in another page, whose generation was this.
    pub second_page: Option<(u32, u32)>,
}

const NO_BLOCK: Block = Block {
    key: u64::MAX,
    generation: 0,
    first: 0,
    count: 0,
    length: 0,
    cost: 0,
    second_page: None,
};

/// Decoded blocks of all processors of a board.
pub struct CodeCache {
    slots: Vec<Block>,
    ops: Vec<Op>,
    costs: InstructionCosts,
}

impl CodeCache {
    pub fn new(costs: InstructionCosts) -> Self {
        Self { slots: vec![NO_BLOCK; SLOTS], ops: Vec::new(), costs }
    }

    /// Picoseconds of an instruction of a class.
    pub fn cost(&self, class: Cost) -> u64 {
        self.costs.0[class as usize] as u64
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slots.fill(NO_BLOCK);
        self.ops.clear();
    }

    #[inline(always)]
    fn key(offset: u64, size: CodeSize) -> u64 {
        offset << 2 | size as u64
    }

    #[inline(always)]
    fn slot(key: u64) -> usize {
        ((key >> 2) ^ (key >> 16) ^ (key & 3) << 14) as usize % SLOTS
    }

    /// The block at an index into RAM, if it is decoded and its bytes have not changed.
    #[inline(always)]
    pub fn find(&self, memory: &GuestMemory, offset: u64, size: CodeSize) -> Option<Block> {
        let key = Self::key(offset, size);
        let block = &self.slots[Self::slot(key)];
        let page = (offset >> 12) as usize;
        (block.key == key && memory.generations.get(page) == Some(&block.generation))
            .then_some(*block)
    }

    #[inline(always)]
    pub fn ops(&self, block: &Block) -> &[Op] {
        let first = block.first as usize;
        self.ops.get(first..first + block.count as usize).unwrap_or(&[])
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
    ) -> Option<Block> {
        if self.ops.len() + BLOCK_INSTRUCTIONS > OPERATIONS {
            self.clear();
        }
        let first = self.ops.len();
        let end = (offset | 0xFFF) + 1;
        let (mut at, mut cost, mut second_page) = (offset, 0u32, None);
        while self.ops.len() - first < BLOCK_INSTRUCTIONS && at < end {
            let here = &memory.ram[at as usize..end as usize];
            let done = (at - offset) as u16;
            let decoded = match decode::decode(here, size, done) {
                Some(decoded) => decoded,
                None if at != offset => break,
                None => {
                    let next = next_page?;
                    second_page = Some((next >> 12) as u32);
                    decode::decode_across(here, &memory.ram[next as usize..], size)
                }
            };
            if decoded.boundary == Boundary::Alone && at != offset {
                break;
            }
            at += decoded.op.length as u64;
            cost = cost.saturating_add(self.costs.0[decoded.cost as usize]);
            self.ops.push(decoded.op);
            if decoded.boundary != Boundary::Within {
                break;
            }
        }
        let in_page = at.min(end) - offset;
        memory.watch(offset as usize, in_page as usize);
        let second_page = second_page.map(|page| {
            memory.watch((page as usize) << 12, (at - end).max(1) as usize);
            (page, memory.generations[page as usize])
        });
        let block = Block {
            key: Self::key(offset, size),
            generation: memory.generations[(offset >> 12) as usize],
            first: first as u32,
            count: (self.ops.len() - first) as u16,
            length: (at - offset) as u16,
            cost,
            second_page,
        };
        self.slots[Self::slot(block.key)] = block;
        Some(block)
    }
}
