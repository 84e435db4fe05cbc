//! How blocks end: time and count of what has completed, and what becomes of a stop.

use super::blocks::{Block, Blocks};
use super::room::Next;
use crate::engine::ending;
use crate::guest::Arrival;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost};
use crate::state::Origin;
use crate::stop::{Kind, SoftwareSource, Stop};
use crate::system::{debug, event};
use crate::width::BLOCK_IP;
use crate::{Activity, Attention, Bus, Cpu};
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;
use bus::Happening;

/// Time and count of a block of which `count` instructions were executed, and what comes next.
#[inline(always)]
pub(crate) fn complete(cpu: &mut Cpu, blocks: &Blocks, block: &Block, count: usize) -> Next {
    blocks.note_run(cpu.index, block, count);
    let is_whole = count == block.count as usize;
    cpu.clock.spend(Picoseconds(if is_whole {
        block.cost.into()
    } else {
        blocks.time_of(block, count)
    }));
    cpu.clock.count(count as u64);
    cpu.clock.charge_extra();
    // A branch before the end is a conditional one, after which all is as before.
    match block.is_plain() || !is_whole {
        _ if !cpu.pending.is_quiet() => Next::Leave,
        true => Next::Chain(Blocks::exit(block, count)),
        false => Next::Afresh,
    }
}

/// An operation said something else than "go on" or "branch". `done` operations came before it.
#[inline(never)]
pub(crate) fn leave_block(
    cpu: &mut Cpu,
    blocks: &Blocks,
    bus: &mut Bus<'_>,
    block: &Block,
    (op, done): (&Op, usize),
    stop: Stop,
) -> Next {
    if stop == Stop::ALONE {
        return leave_alone(cpu, blocks, block, (op, done));
    }
    let charged = done + usize::from(is_charged(stop));
    blocks.note_run(cpu.index, block, charged);
    let time = blocks.time_of(block, charged);
    leave(cpu, bus, op, (done, Picoseconds(time)), stop);
    match stop {
        Stop::END_BLOCK if cpu.pending.is_quiet() => Next::Afresh,
        _ => Next::Leave,
    }
}

/// As [`leave_block`], where the operation asks to be executed by itself: nothing of it has been
/// done.
#[inline]
pub(crate) fn leave_alone(
    cpu: &mut Cpu,
    blocks: &Blocks,
    block: &Block,
    (op, done): (&Op, usize),
) -> Next {
    blocks.note_run(cpu.index, block, done);
    cpu.registers.ip = boundaries(cpu, op).0;
    cpu.clock.count(done as u64);
    cpu.clock.spend(Picoseconds(blocks.time_of(block, done)));
    cpu.clock.charge_extra();
    cpu.pending.set_software_length(op.length.into());
    cpu.pending.raise(Attention::BY_ITSELF);
    Next::Alone(Blocks::place(block, done))
}

/// Whether the time of the instruction that has stopped is spent. One that is intercepted is not
/// executed: what it would take is not in its exit.
pub(crate) fn is_charged(stop: Stop) -> bool {
    !matches!(stop.kind(), Kind::Defer | Kind::Alone | Kind::VmExit)
}

/// Where an operation of the block begins, and where the one behind it does.
fn boundaries(cpu: &Cpu, op: &Op) -> (u64, u64) {
    let size = code_size(cpu);
    let next = wrap(cpu.registers.gpr[BLOCK_IP as usize].wrapping_add(op.end.into()), size);
    (wrap(next.wrapping_sub(op.length.into()), size), next)
}

/// An operation said something else than "go on" or "branch". `done` others came before it, and
/// with what is charged of itself they took so much.
pub(crate) fn leave(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    (done, time): (usize, Picoseconds),
    stop: Stop,
) {
    let (this, next) = boundaries(cpu, op);
    let begins = !matches!(stop.kind(), Kind::Defer | Kind::Alone);
    let completes =
        begins && !matches!(stop.kind(), Kind::Repeat | Kind::Exception { .. } | Kind::VmExit);
    cpu.registers.ip = if completes { next } else { this };
    cpu.clock.count(done as u64 + completes as u64);
    cpu.clock.spend(time);
    cpu.clock.charge_extra();
    cpu.pending.set_software_length(op.length as u64);
    ending::stopped(cpu, bus, stop);
}

/// A fault before an instruction takes time as well: a handler that cannot be fetched must not
/// fault for ever at one moment.
#[cold]
pub(crate) fn fetch_failed(cpu: &mut Cpu, blocks: &mut Blocks, bus: &mut Bus<'_>, stop: Stop) {
    charge_delivery(cpu, blocks);
    stopped(cpu, bus, stop);
}

pub(crate) fn charge_delivery(cpu: &mut Cpu, blocks: &mut Blocks) {
    blocks.note_class(cpu.index, Cost::System);
    cpu.clock.spend(Picoseconds(blocks.cost(Cost::System).max(1)));
}

/// Deals with a stop; `cpu.ip` is the next instruction, or this one if it did not complete.
pub(crate) fn stopped(cpu: &mut Cpu, bus: &mut Bus<'_>, stop: Stop) {
    let result = match stop.kind() {
        Kind::EndBlock | Kind::Branch | Kind::FusedBranch | Kind::FusedThrough | Kind::Repeat => {
            Ok(())
        }
        Kind::Defer => {
            cpu.pending.raise(Attention::YIELD);
            Ok(())
        }
        Kind::Alone => {
            cpu.pending.raise(Attention::BY_ITSELF);
            Ok(())
        }
        Kind::Halt => {
            bus.platform.record(cpu.visit(), Happening::Halt { ip: cpu.registers.ip });
            cpu.pending.set_activity(Activity::Halted);
            Ok(())
        }
        Kind::Exception { vector, error, .. } => event::raise_exception(cpu, bus, vector, error),
        Kind::Software { vector, source } => {
            // Delivery clears TF, and the trap goes with it.
            cpu.pending.settle_step(cpu.pending.has(Attention::SINGLE_STEP));
            if source == SoftwareSource::Int1 {
                debug::merge_debug_traps(cpu);
            }
            let event =
                crate::state::Event { vector, error: None, origin: Origin::Software(source) };
            event::raise_software(cpu, bus, event)
        }
        Kind::VmExit | Kind::Shutdown => Err(stop),
    };
    cpu.settle(bus, result);
}

pub(crate) fn code_size(cpu: &Cpu) -> CodeSize {
    let attributes = cpu.registers.segment(SegmentRegister::Cs).attributes;
    if cpu.is_64_bit() {
        CodeSize::Bits64
    } else if attributes.is_big() {
        CodeSize::Bits32
    } else {
        CodeSize::Bits16
    }
}

#[inline(always)]
pub(crate) fn wrap(ip: u64, size: CodeSize) -> u64 {
    if size == CodeSize::Bits64 { ip } else { ip & 0xFFFF_FFFF }
}

impl Cpu {
    /// The end of a delivery: a VM exit or a triple fault may have come of it.
    pub(crate) fn settle(&mut self, bus: &mut Bus<'_>, result: Result<(), Stop>) {
        let Err(stop) = result else { return };
        let is_exit = stop.kind() == Kind::VmExit || self.arrives(Arrival::TripleFault).is_err();
        if is_exit {
            self.leave_virtual_machine(bus);
        } else {
            self.pending.set_activity(Activity::Shutdown);
        }
    }
}
