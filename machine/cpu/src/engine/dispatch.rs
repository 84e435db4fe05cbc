//! Running blocks: fetch a page, find the block, run its operations, go on with the next.
//!
//! Time is exact per instruction, whatever the blocks: no instruction begins at or after the limit,
//! so an interrupt is taken at the same instruction boundary wherever blocks begin and end.

use super::blocks::{Block, BlockIndex, Blocks, Exit, OpPlace};
use super::drain;
use super::native::Native;
use super::room::{Next, Room};
use crate::engine::ending;
use crate::engine::native::{session, translated_mode};
use crate::execute::binding::Bound;
use crate::operation::decode::CodeSize;
use crate::state::Registers;
use crate::stop::Stop;
use crate::system::branch_record;
use crate::width::BLOCK_IP;
use crate::{Attention, Bus, Cpu};
use arch::control::rflags;
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;

/// The page that instructions come from, while nothing has changed its translation.
#[derive(Clone, Copy)]
struct FetchPage {
    linear: u64,
    /// Index into RAM.
    offset: u64,
    epoch: u64,
    /// A debugger outside the machine wants to know when one of its instructions is come to.
    is_observed: bool,
}

/// Not the address of a page.
const NO_PAGE: u64 = 1;

/// Runs blocks until something needs attention or there is no room left. What it was left at if
/// that asks to be executed by itself.
pub(crate) fn run_blocks(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    mut native: Option<&mut Native>,
    bus: &mut Bus<'_>,
    room: Room,
) -> Option<OpPlace> {
    let mut size = ending::code_size(cpu);
    let mut is_translatable = translated_mode(cpu, size).is_some();
    let mut page = FetchPage { linear: NO_PAGE, offset: 0, epoch: 0, is_observed: false };
    let mut exit = Exit::NONE;
    loop {
        let linear = cpu.registers.fetch_address(size);
        if linear & !0xFFF != page.linear || page.epoch != cpu.translation.tlb.epoch {
            // What waits at this boundary comes before a fault of the fetch.
            if !may_begin(cpu, room) {
                return None;
            }
            match fetch_page(cpu, bus, linear) {
                Ok(offset) => {
                    let epoch = cpu.translation.tlb.epoch;
                    let linear = linear & !0xFFF;
                    let is_observed = cpu.observation.has_point_in(linear, 0x1000);
                    page = FetchPage { linear, offset, epoch, is_observed };
                }
                Err(stop) => {
                    ending::fetch_failed(cpu, blocks, bus, stop);
                    return None;
                }
            }
        }
        // Whether it ends the run is found out before the next block.
        if page.is_observed && cpu.observation.stops_at(linear, cpu.clock.instructions()) {
            return None;
        }
        let offset = page.offset + (linear & 0xFFF);
        let index = match blocks.follow(bus.memory, exit, offset, size) {
            Some(index) => index,
            None if native.as_ref().is_some_and(|native| native.translates_at_once())
                && may_begin(cpu, room) =>
            {
                match any_block(cpu, blocks, bus, linear, size) {
                    Ok(index) => index,
                    Err(stop) => {
                        ending::fetch_failed(cpu, blocks, bus, stop);
                        return None;
                    }
                }
            }
            None => {
                run_part(cpu, blocks, bus, room);
                return None;
            }
        };
        let block = blocks.block(index);
        let is_whole = block.second_page().is_none_or(|second| {
            known_page(cpu, bus, linear | 0xFFF, size).is_some_and(|known| known == second)
        });
        if !is_whole || !has_room(cpu, block, room, size) {
            run_part(cpu, blocks, bus, room);
            return None;
        }
        if page.is_observed && cpu.observation.has_point_in(linear, block.length.into()) {
            run_part(cpu, blocks, bus, room);
            return None;
        }
        let next = match native.as_deref_mut() {
            Some(native) if is_translatable && !page.is_observed => {
                session::run_translated(cpu, blocks, bus, native, (index, offset), room)
            }
            _ => None,
        };
        let block = blocks.block(index);
        match next.unwrap_or_else(|| run_whole(cpu, blocks, bus, block, size)) {
            Next::Chain(through) => exit = through,
            Next::Afresh => {
                size = ending::code_size(cpu);
                is_translatable = translated_mode(cpu, size).is_some();
                page.linear = NO_PAGE;
                exit = Exit::NONE;
            }
            Next::Alone(place) => return Some(place),
            Next::Leave => return None,
        }
    }
}

/// Whether there is room for one more instruction.
#[inline(always)]
fn may_begin(cpu: &Cpu, room: Room) -> bool {
    cpu.clock.now() < room.clock && cpu.clock.instructions() < room.instructions
}

/// Whether the whole block can run without a look at anything else.
#[inline(always)]
fn has_room(cpu: &Cpu, block: &Block, room: Room, size: CodeSize) -> bool {
    let ends_at = cpu.clock.now().0 + u64::from(block.cost);
    ends_at <= room.clock.0
        && cpu.clock.instructions() + u64::from(block.count) <= room.instructions
        && (size == CodeSize::Bits64 || cpu.registers.is_within_code_limit(block.length.into()))
}

#[inline(always)]
fn run_whole(
    cpu: &mut Cpu,
    blocks: &Blocks,
    bus: &mut Bus<'_>,
    block: &Block,
    size: CodeSize,
) -> Next {
    let ip = cpu.registers.ip;
    cpu.registers.gpr[BLOCK_IP as usize] = ip;
    let ops = blocks.ops(block);
    let (at, stop) = execute(cpu, bus, ops);
    let count = match stop {
        None => {
            cpu.registers.ip = ending::wrap(ip.wrapping_add(block.length as u64), size);
            block.count.into()
        }
        Some(Stop::BRANCH) => at + 1,
        Some(Stop::FUSED_BRANCH) => at + 2,
        Some(stop) => {
            return match ops.get(at) {
                Some(op) => ending::leave_block(cpu, blocks, bus, block, (&op.op, at), stop),
                None => Next::Leave,
            };
        }
    };
    ending::complete(cpu, blocks, block, count)
}

/// Executes operations up to the first that does not simply go on, and says which.
#[inline(never)]
fn execute(cpu: &mut Cpu, bus: &mut Bus<'_>, ops: &[Bound]) -> (usize, Option<Stop>) {
    let mut rest = ops.iter();
    while let Some(op) = rest.next() {
        match op.execute(cpu, bus) {
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
pub(crate) fn run_part(cpu: &mut Cpu, blocks: &mut Blocks, bus: &mut Bus<'_>, room: Room) {
    if !may_begin(cpu, room) {
        return;
    }
    let size = ending::code_size(cpu);
    let linear = cpu.registers.fetch_address(size);
    let index = match any_block(cpu, blocks, bus, linear, size) {
        Ok(index) => index,
        Err(stop) => return ending::fetch_failed(cpu, blocks, bus, stop),
    };
    let block = *blocks.block(index);
    let instructions =
        (room.instructions - cpu.clock.instructions()).min(block.count as u64) as usize;
    let time = blocks.beginning_within(&block, room.clock.0 - cpu.clock.now().0);
    let mut count = instructions.min(time);
    if size != CodeSize::Bits64 {
        count = count.min(cpu.registers.within_code_limit(blocks, &block));
        if count == 0 {
            return ending::fetch_failed(cpu, blocks, bus, Stop::GENERAL_PROTECTION);
        }
    }
    let ip = cpu.registers.ip;
    cpu.registers.gpr[BLOCK_IP as usize] = ip;
    let mut end = ip;
    let is_observed =
        cpu.observation.has_points() && cpu.observation.has_point_in(linear, block.length.into());
    if is_observed {
        cpu.observation.note_place(linear);
    }
    for done in 0..count {
        let at = ending::wrap(linear.wrapping_add(end.wrapping_sub(ip)), size);
        if is_observed && done != 0 && cpu.observation.has_point_in(at, 1) {
            count = done;
            break;
        }
        let Some(bound) = blocks.alone(&block, done) else { break };
        let op = &bound.op;
        end = ending::wrap(ip.wrapping_add(op.end as u64), size);
        let drains = bus.memory.keeps_stores() && drain::drains(cpu, op, blocks.kind(&block, done));
        if drains {
            bus.memory.publish_stores();
        }
        let result = bound.execute(cpu, bus);
        if drains {
            bus.memory.publish_stores();
        }
        if let Err(stop) = result {
            if stop != Stop::BRANCH {
                ending::leave_block(cpu, blocks, bus, &block, (op, done), stop);
                return;
            }
            end = cpu.registers.ip;
            cpu.pending.note_branch();
            count = done + 1;
            break;
        }
    }
    cpu.registers.ip = end;
    blocks.note_run(cpu.index, &block, count);
    cpu.clock.spend(Picoseconds(blocks.time_of(&block, count)));
    cpu.clock.count(count as u64);
    cpu.clock.charge_extra();
}

/// Executes the instruction that 64-bit code was left at since it asks to be by itself, if nothing
/// is to be looked at before and there is room; else it is found again.
pub(crate) fn run_asked(
    cpu: &mut Cpu,
    blocks: &Blocks,
    bus: &mut Bus<'_>,
    room: Room,
    place: OpPlace,
) {
    let is_plain = cpu.pending.has_nothing_but(Attention::BY_ITSELF)
        && !cpu.observation.has_points()
        && !cpu.registers.flags.has(rflags::RF)
        && !blocks.counts_runs()
        && cpu.is_64_bit();
    if !is_plain || !may_begin(cpu, room) {
        return;
    }
    let Some((bound, class)) = blocks.one(place) else { return };
    let time = Picoseconds(blocks.cost(class));
    let from = cpu.registers.ip;
    cpu.pending.begin_alone();
    let next = cpu.registers.next_ip(&bound.op);
    match bound.execute(cpu, bus) {
        Ok(()) => cpu.registers.ip = next,
        Err(Stop::END_BLOCK) => {
            cpu.registers.ip = next;
            cpu.pending.set_software_length(bound.op.length.into());
        }
        Err(Stop::BRANCH) => branch_record::record_branch(cpu, from),
        Err(stop) => {
            let charged = if ending::is_charged(stop) { time } else { Picoseconds(0) };
            ending::leave(cpu, bus, &bound.op, (0, charged), stop);
            return cpu.pending.end_alone();
        }
    }
    cpu.clock.spend(time);
    cpu.clock.count(1);
    cpu.clock.charge_extra();
    cpu.pending.end_alone();
}

/// The index into RAM of the page that `linear` is fetched from.
#[inline(always)]
fn fetch_page(cpu: &mut Cpu, bus: &mut Bus<'_>, linear: u64) -> Result<u64, Stop> {
    let set = cpu.registers.access_set();
    let entry = cpu.translation.tlb.entry(set, linear);
    if entry.execute == cpu.translation.tlb.tag(linear) {
        return Ok(entry.offset);
    }
    fetch_page_slow(cpu, bus, linear)
}

/// The page that follows the byte at `last`, and its generation, if the TLB has it for fetches.
#[inline(never)]
fn known_page(cpu: &Cpu, bus: &Bus<'_>, last: u64, size: CodeSize) -> Option<(u32, u32)> {
    let linear = ending::wrap(last.wrapping_add(1), size);
    let entry = cpu.translation.tlb.entry(cpu.registers.access_set(), linear);
    let page = (entry.offset >> 12) as usize;
    let generation = *bus.memory.generations.get(page)?;
    (entry.execute == cpu.translation.tlb.tag(linear)).then_some((page as u32, generation))
}

#[cold]
#[inline(never)]
fn fetch_page_slow(cpu: &mut Cpu, bus: &mut Bus<'_>, linear: u64) -> Result<u64, Stop> {
    if cpu.is_64_bit() && (linear as i64) << 16 >> 16 != linear as i64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    // DEVIATION(APM2 "Memory System"): code is executed from RAM and read-only memory; a fetch from
    // a device or a hole raises #UD, as its all-ones bytes would.
    cpu.locate_fetch(bus, linear)?.ok_or(Stop::INVALID_OPCODE)
}

/// The block at `linear`, decoded now if need be; its one instruction may lie in two pages.
fn any_block(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    bus: &mut Bus<'_>,
    linear: u64,
    size: CodeSize,
) -> Result<BlockIndex, Stop> {
    let page = fetch_page(cpu, bus, linear)?;
    let offset = page + (linear & 0xFFF);
    let found = match blocks.find(bus.memory, offset, size) {
        Some(index) => Some(index),
        None => blocks.build(bus.memory, offset, size, None),
    };
    let second_page = found.map(|index| blocks.block(index).second_page());
    if let (Some(index), Some(None)) = (found, second_page) {
        return Ok(index);
    }
    let next = ending::wrap((linear | 0xFFF).wrapping_add(1), size);
    let next_page = fetch_page(cpu, bus, next)?;
    let number = (next_page >> 12) as u32;
    let generation = bus.memory.generations[number as usize];
    match (found, second_page.flatten()) {
        (Some(index), Some(second)) if second == (number, generation) => Ok(index),
        _ => blocks.build(bus.memory, offset, size, Some(next_page)).ok_or(Stop::INVALID_OPCODE),
    }
}

impl Registers {
    /// The linear address of the next instruction.
    #[inline(always)]
    pub(crate) fn fetch_address(&self, size: CodeSize) -> u64 {
        if size == CodeSize::Bits64 {
            self.ip
        } else {
            self.code_base().wrapping_add(self.ip) & 0xFFFF_FFFF
        }
    }

    /// Outside of 64-bit mode the instruction pointer has 32 bits, though VMRUN loads 64.
    #[inline(always)]
    fn is_within_code_limit(&self, length: u64) -> bool {
        (self.ip & 0xFFFF_FFFF) + length - 1 <= u64::from(self.segment(SegmentRegister::Cs).limit)
    }
}

impl Registers {
    /// How many of the block's instructions lie within CS's limit.
    fn within_code_limit(&self, blocks: &Blocks, block: &Block) -> usize {
        let ops = blocks.ops(block);
        ops.iter().take_while(|bound| self.is_within_code_limit(bound.op.end.into())).count()
    }
}
