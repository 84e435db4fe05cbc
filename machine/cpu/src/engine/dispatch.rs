//! Running blocks: fetch a page, find the block, run its operations, go on with the next.
//!
//! Time is exact per instruction, whatever the blocks: no instruction begins at or after the limit,
//! so an interrupt is taken at the same instruction boundary wherever blocks begin and end.

use super::blocks::{Block, BlockIndex, Blocks, Exit};
use super::native::Native;
use super::room::{Next, Room};
use crate::execute::binding::Bound;
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::state::Registers;
use crate::stop::{Kind, Stop};
use crate::width::BLOCK_IP;
use crate::{Bus, Cpu};
use arch::segment::SegmentRegister;

/// The page that instructions come from, while nothing has changed its translation.
#[derive(Clone, Copy)]
struct FetchPage {
    linear: u64,
    /// Index into RAM.
    offset: u64,
    epoch: u64,
}

/// Not the address of a page.
const NO_PAGE: u64 = 1;

impl Cpu {
    /// Runs blocks until something needs attention or there is no room left.
    pub(crate) fn run_blocks(
        &mut self,
        blocks: &mut Blocks,
        mut native: Option<&mut Native>,
        bus: &mut Bus<'_>,
        room: Room,
    ) {
        let size = self.code_size();
        let mut page = FetchPage { linear: NO_PAGE, offset: 0, epoch: 0 };
        let mut exit = Exit::NONE;
        loop {
            let linear = self.registers.fetch_address(size);
            if linear & !0xFFF != page.linear || page.epoch != self.tlb.epoch {
                // What waits at this boundary comes before a fault of the fetch.
                if !self.may_begin(room) {
                    return;
                }
                match self.fetch_page(bus, linear) {
                    Ok(offset) => {
                        let epoch = self.tlb.epoch;
                        page = FetchPage { linear: linear & !0xFFF, offset, epoch };
                    }
                    Err(stop) => return self.fetch_failed(blocks, bus, stop),
                }
            }
            let offset = page.offset + (linear & 0xFFF);
            let index = match blocks.follow(bus.memory, exit, offset, size) {
                Some(index) => index,
                None if native.as_ref().is_some_and(|native| native.translates_at_once())
                    && self.may_begin(room) =>
                {
                    match self.any_block(blocks, bus, linear, size) {
                        Ok(index) => index,
                        Err(stop) => return self.fetch_failed(blocks, bus, stop),
                    }
                }
                None => return self.run_part(blocks, bus, room),
            };
            let block = blocks.block(index);
            let is_whole = block.second_page().is_none_or(|second| {
                self.known_page(bus, linear | 0xFFF, size).is_some_and(|known| known == second)
            });
            if !is_whole || !self.has_room(block, room, size) {
                return self.run_part(blocks, bus, room);
            }
            let next = match native.as_deref_mut() {
                Some(native) if size == CodeSize::Bits64 => {
                    self.run_translated(blocks, bus, native, (index, offset), room)
                }
                _ => None,
            };
            let block = blocks.block(index);
            match next.unwrap_or_else(|| self.run_whole(blocks, bus, block, size)) {
                Next::Chain(through) => exit = through,
                Next::Leave => return,
            }
        }
    }

    /// Whether there is room for one more instruction.
    #[inline(always)]
    fn may_begin(&self, room: Room) -> bool {
        self.clock < room.clock && self.instructions < room.instructions
    }

    /// Whether the whole block can run without a look at anything else.
    #[inline(always)]
    fn has_room(&self, block: &Block, room: Room, size: CodeSize) -> bool {
        let ends_at = self.clock.0 + u64::from(block.cost);
        ends_at <= room.clock.0
            && self.instructions + u64::from(block.count) <= room.instructions
            && (size == CodeSize::Bits64
                || self.registers.is_within_code_limit(block.length.into()))
    }

    #[inline(always)]
    fn run_whole(
        &mut self,
        blocks: &Blocks,
        bus: &mut Bus<'_>,
        block: &Block,
        size: CodeSize,
    ) -> Next {
        let ip = self.registers.ip;
        self.registers.gpr[BLOCK_IP as usize] = ip;
        let ops = blocks.ops(block);
        let (at, stop) = self.execute(bus, ops);
        let count = match stop {
            None => {
                self.registers.ip = wrap(ip.wrapping_add(block.length as u64), size);
                block.count.into()
            }
            Some(Stop::BRANCH) => at + 1,
            Some(Stop::FUSED_BRANCH) => at + 2,
            Some(stop) => {
                if let Some(op) = ops.get(at) {
                    self.leave_block(blocks, bus, block, (&op.op, at), stop);
                }
                return Next::Leave;
            }
        };
        self.complete(blocks, block, count)
    }

    /// Time and count of a block of which `count` instructions were executed, and what comes next.
    #[inline(always)]
    pub(crate) fn complete(&mut self, blocks: &Blocks, block: &Block, count: usize) -> Next {
        let is_whole = count == block.count as usize;
        self.clock.0 += if is_whole { block.cost.into() } else { blocks.time_of(block, count) };
        self.instructions += count as u64;
        self.charge_extra();
        // A branch before the end is a conditional one, after which all is as before.
        if (block.is_plain() || !is_whole) && self.pending.attention.is_empty() {
            Next::Chain(Blocks::exit(block, count))
        } else {
            Next::Leave
        }
    }

    /// Executes operations up to the first that does not simply go on, and says which.
    #[inline(never)]
    fn execute(&mut self, bus: &mut Bus<'_>, ops: &[Bound]) -> (usize, Option<Stop>) {
        let mut rest = ops.iter();
        while let Some(op) = rest.next() {
            match op.execute(self, bus) {
                Ok(()) => {}
                Err(Stop::FUSED_THROUGH) => {
                    rest.next();
                }
                Err(stop) => return (ops.len() - rest.len() - 1, Some(stop)),
            }
        }
        (ops.len(), None)
    }

    /// Runs as much of one block as there is room for, however the block lies in memory.
    #[inline(never)]
    pub(crate) fn run_part(&mut self, blocks: &mut Blocks, bus: &mut Bus<'_>, room: Room) {
        if !self.may_begin(room) {
            return;
        }
        let size = self.code_size();
        let linear = self.registers.fetch_address(size);
        let index = match self.any_block(blocks, bus, linear, size) {
            Ok(index) => index,
            Err(stop) => return self.fetch_failed(blocks, bus, stop),
        };
        let block = *blocks.block(index);
        let instructions = (room.instructions - self.instructions).min(block.count as u64) as usize;
        let time = blocks.beginning_within(&block, room.clock.0 - self.clock.0);
        let mut count = instructions.min(time);
        if size != CodeSize::Bits64 {
            count = count.min(self.within_code_limit(blocks, &block));
            if count == 0 {
                return self.fetch_failed(blocks, bus, Stop::GENERAL_PROTECTION);
            }
        }
        let ip = self.registers.ip;
        self.registers.gpr[BLOCK_IP as usize] = ip;
        let mut end = ip;
        for done in 0..count {
            let Some(bound) = blocks.alone(&block, done) else { break };
            let op = &bound.op;
            end = wrap(ip.wrapping_add(op.end as u64), size);
            if let Err(stop) = bound.execute(self, bus) {
                if stop != Stop::BRANCH {
                    return self.leave_block(blocks, bus, &block, (op, done), stop);
                }
                end = self.registers.ip;
                self.pending.has_branched = true;
                count = done + 1;
                break;
            }
        }
        self.registers.ip = end;
        self.clock.0 += blocks.time_of(&block, count);
        self.instructions += count as u64;
        self.charge_extra();
    }

    /// Instructions that took more than their class says.
    #[inline(always)]
    pub(crate) fn charge_extra(&mut self) {
        if self.extra_cost != 0 {
            // An element of a string instruction takes about one core cycle.
            let cycles = std::mem::take(&mut self.extra_cost);
            self.clock.0 += cycles * 1_000_000_000_000 / self.model.core_hertz();
        }
    }

    pub(crate) fn code_size(&self) -> CodeSize {
        let attributes = self.registers.segments[SegmentRegister::Cs].attributes;
        if self.is_64_bit() {
            CodeSize::Bits64
        } else if attributes.is_big() {
            CodeSize::Bits32
        } else {
            CodeSize::Bits16
        }
    }

    /// The index into RAM of the page that `linear` is fetched from.
    #[inline(always)]
    fn fetch_page(&mut self, bus: &mut Bus<'_>, linear: u64) -> Result<u64, Stop> {
        let set = self.access_set();
        let entry = self.tlb.entry(set, linear);
        if entry.execute == self.tlb.tag(linear) {
            return Ok(entry.offset);
        }
        self.fetch_page_slow(bus, linear)
    }

    /// The page that follows the byte at `last`, and its generation, if the TLB has it for fetches.
    #[inline(never)]
    fn known_page(&self, bus: &Bus<'_>, last: u64, size: CodeSize) -> Option<(u32, u32)> {
        let linear = wrap(last.wrapping_add(1), size);
        let entry = self.tlb.entry(self.access_set(), linear);
        let page = (entry.offset >> 12) as usize;
        let generation = *bus.memory.generations.get(page)?;
        (entry.execute == self.tlb.tag(linear)).then_some((page as u32, generation))
    }

    #[cold]
    #[inline(never)]
    fn fetch_page_slow(&mut self, bus: &mut Bus<'_>, linear: u64) -> Result<u64, Stop> {
        if self.is_64_bit() && (linear as i64) << 16 >> 16 != linear as i64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        // DEVIATION(APM2 "Memory System"): code is executed from RAM only; a fetch from a device
        // or a hole raises #UD, as its all-ones bytes would.
        self.locate_fetch(bus, linear)?.ok_or(Stop::INVALID_OPCODE)
    }

    /// The block at `linear`, decoded now if need be; its one instruction may lie in two pages.
    fn any_block(
        &mut self,
        blocks: &mut Blocks,
        bus: &mut Bus<'_>,
        linear: u64,
        size: CodeSize,
    ) -> Result<BlockIndex, Stop> {
        let page = self.fetch_page(bus, linear)?;
        let offset = page + (linear & 0xFFF);
        let found = match blocks.find(bus.memory, offset, size) {
            Some(index) => Some(index),
            None => blocks.build(bus.memory, offset, size, None),
        };
        let second_page = found.map(|index| blocks.block(index).second_page());
        if let (Some(index), Some(None)) = (found, second_page) {
            return Ok(index);
        }
        let next = wrap((linear | 0xFFF).wrapping_add(1), size);
        let next_page = self.fetch_page(bus, next)?;
        let number = (next_page >> 12) as u32;
        let generation = bus.memory.generations[number as usize];
        match (found, second_page.flatten()) {
            (Some(index), Some(second)) if second == (number, generation) => Ok(index),
            _ => {
                blocks.build(bus.memory, offset, size, Some(next_page)).ok_or(Stop::INVALID_OPCODE)
            }
        }
    }

    /// How many of the block's instructions lie within CS's limit.
    fn within_code_limit(&self, blocks: &Blocks, block: &Block) -> usize {
        let ops = blocks.ops(block);
        ops.iter()
            .take_while(|bound| self.registers.is_within_code_limit(bound.op.end.into()))
            .count()
    }

    /// An operation said something else than "go on" or "branch". `done` operations came before it.
    #[inline(never)]
    pub(crate) fn leave_block(
        &mut self,
        blocks: &Blocks,
        bus: &mut Bus<'_>,
        block: &Block,
        (op, done): (&Op, usize),
        stop: Stop,
    ) {
        let size = self.code_size();
        let next = wrap(self.registers.gpr[BLOCK_IP as usize].wrapping_add(op.end as u64), size);
        let this = wrap(next.wrapping_sub(op.length as u64), size);
        let completes = !matches!(
            stop.kind(),
            Kind::Repeat | Kind::Defer | Kind::Exception { .. } | Kind::VmExit
        );
        self.registers.ip = if completes { next } else { this };
        self.instructions += done as u64 + completes as u64;
        let charged = if stop == Stop::DEFER { done } else { done + 1 };
        self.clock.0 += blocks.time_of(block, charged);
        self.charge_extra();
        self.pending.software_length = op.length as u64;
        self.stopped(bus, stop);
    }
}

#[inline(always)]
fn wrap(ip: u64, size: CodeSize) -> u64 {
    if size == CodeSize::Bits64 { ip } else { ip & 0xFFFF_FFFF }
}

impl Registers {
    /// The linear address of the next instruction.
    #[inline(always)]
    fn fetch_address(&self, size: CodeSize) -> u64 {
        if size == CodeSize::Bits64 {
            self.ip
        } else {
            self.code_base().wrapping_add(self.ip) & 0xFFFF_FFFF
        }
    }

    /// Outside of 64-bit mode the instruction pointer has 32 bits, though VMRUN loads 64.
    #[inline(always)]
    fn is_within_code_limit(&self, length: u64) -> bool {
        (self.ip & 0xFFFF_FFFF) + length - 1 <= u64::from(self.segments[SegmentRegister::Cs].limit)
    }
}
