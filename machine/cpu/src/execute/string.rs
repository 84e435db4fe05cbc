//! MOVS, STOS, LODS, SCAS, CMPS, INS, OUTS with their repeat prefixes.
//!
//! A repeated instruction does a bounded number of elements, then gives interrupts their chance and
//! continues: its registers always say what is left.

use super::arithmetic::{Binary, Cmp};
use crate::execute::binding::{Binding, Boundary, Handler, sized};
use crate::execute::io;
use crate::guest::{Io, Sensitive};
use crate::memory::Access;
use crate::memory::segment::is_flat;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, width};
use crate::state::Registers;
use crate::system::debug;
use crate::width::{RAX, RCX, RDI, RDX, RSI, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::segment::SegmentRegister;
use iced_x86::{Instruction, Mnemonic};

/// Elements of one go.
const ELEMENTS: u64 = 4096;
/// Index of ES.
const ES: u8 = 0;

/// What one element's work asks of the repetition.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Stop,
}

fn source<W: Width>(cpu: &Cpu, op: &Op) -> Result<u64, Stop> {
    cpu.operand_at(op, cpu.registers.string_register(op, RSI), W::BYTES, Access::Read)
}

/// The destination is in ES whatever prefix there is.
fn destination<W: Width>(cpu: &Cpu, op: &Op, access: Access) -> Result<u64, Stop> {
    let offset = cpu.registers.string_register(op, RDI);
    if op.has(Op::SEGMENTED) { cpu.segmented(ES, offset, W::BYTES, access) } else { Ok(offset) }
}

/// DEVIATION(SDM2 "REP/REPE/REPZ/REPNE/REPNZ"): with addresses of 32 bits and a count of zero the
/// upper halves of the registers stay, as on AMD's parts; Intel's clear them.
///
/// Does `element` once, or as often as rCX says, then at most `elements` times in one go.
#[inline(always)]
fn repeat(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    elements: u64,
    mut element: impl FnMut(&mut Cpu, &mut Bus<'_>) -> Result<Next, Stop>,
) -> Result<(), Stop> {
    if !op.has(Op::REP) && !op.has(Op::REPNE) {
        element(cpu, bus)?;
        return cpu.pending.after_store();
    }
    let mut left = cpu.registers.string_register(op, RCX);
    let mut budget = elements;
    while left != 0 {
        if budget == 0 || cpu.pending.code_changed() {
            cpu.pending.forget_code_change();
            return Err(Stop::REPEAT);
        }
        let next = element(cpu, bus)?;
        left -= 1;
        budget -= 1;
        cpu.registers.set_string_register(op, RCX, left);
        cpu.clock.spend_cycles(1);
        if next == Next::Stop {
            break;
        }
    }
    cpu.pending.after_store()
}

/// How many elements from `linear` upwards stay in its page. One that does not is done by itself.
fn in_page<W: Width>(linear: u64) -> u64 {
    (0x1000 - (linear & 0xFFF)) / W::BYTES as u64
}

/// Copies as much as lies in one page of RAM on both sides. Zero if nothing does.
fn copy_bulk<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    let (from, to) = (source::<W>(cpu, op)?, destination::<W>(cpu, op, Access::Write)?);
    let left = cpu.registers.string_register(op, RCX);
    let elements = left.min(in_page::<W>(from)).min(in_page::<W>(to));
    if elements < 2 {
        return Ok(0);
    }
    let source = cpu.locate_linear(bus, from, W::BYTES, Access::Read, op.segment)?;
    let target = cpu.locate_linear(bus, to, W::BYTES, Access::Write, ES)?;
    let (Some(source), Some(target)) = (source.ram_offset(), target.ram_offset()) else {
        return Ok(0);
    };
    let bytes = elements as usize * W::BYTES;
    if target > source && target < source + bytes {
        // An overlapping copy repeats a pattern: element by element.
        return Ok(0);
    }
    debug::note_observed(cpu, bus.memory, (from, bytes), Access::Read);
    debug::note_observed(cpu, bus.memory, (to, bytes), Access::Write);
    bus.memory.save_before(target, bytes);
    bus.memory.ram.copy_within(source..source + bytes, target);
    cpu.pending.note_ram_write(bus, target, bytes);
    Ok(elements)
}

fn movs<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let mut elements = ELEMENTS;
    if cpu.bulk_allowed(op, &[op.segment, ES]) {
        let done = copy_bulk::<W>(cpu, bus, op)?;
        if done != 0 {
            cpu.registers.advance::<W>(op, RSI, done);
            cpu.registers.advance::<W>(op, RDI, done);
            return finish_bulk::<W>(cpu, op, done);
        }
        if in_page::<W>(cpu.registers.gpr[RSI]).min(in_page::<W>(cpu.registers.gpr[RDI])) < 2 {
            elements = 1;
        }
    }
    repeat(cpu, bus, op, elements, |cpu, bus| {
        let from = source::<W>(cpu, op)?;
        let value = cpu.read_linear::<W>(bus, from)?;
        let to = destination::<W>(cpu, op, Access::Write)?;
        cpu.write_linear(bus, to, value)?;
        cpu.registers.advance::<W>(op, RSI, 1);
        cpu.registers.advance::<W>(op, RDI, 1);
        Ok(Next::Continue)
    })
}

fn finish_bulk<W: Width>(cpu: &mut Cpu, op: &Op, done: u64) -> Result<(), Stop> {
    let left = cpu.registers.string_register(op, RCX) - done;
    cpu.registers.set_string_register(op, RCX, left);
    cpu.clock.spend_cycles((done * W::BYTES as u64).div_ceil(32));
    cpu.pending.forget_code_change();
    Err(if left == 0 { Stop::END_BLOCK } else { Stop::REPEAT })
}

fn fill_bulk<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    let to = destination::<W>(cpu, op, Access::Write)?;
    let elements = cpu.registers.string_register(op, RCX).min(in_page::<W>(to));
    let target = cpu.locate_linear(bus, to, W::BYTES, Access::Write, ES)?;
    let (Some(target), true) = (target.ram_offset(), elements > 1) else {
        return Ok(0);
    };
    let bytes = elements as usize * W::BYTES;
    let value = W::from_register(&cpu.registers.gpr, RAX as u8);
    debug::note_observed(cpu, bus.memory, (to, bytes), Access::Write);
    let Some(ram) = bus.memory.ram_mut(target, bytes) else {
        return Ok(0);
    };
    if value.zero_extend() == 0 {
        ram.fill(0);
    } else {
        ram.chunks_exact_mut(W::BYTES).for_each(|chunk| value.to_bytes(chunk));
    }
    cpu.pending.note_ram_write(bus, target, bytes);
    Ok(elements)
}

fn stos<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let mut elements = ELEMENTS;
    if cpu.bulk_allowed(op, &[ES]) {
        let done = fill_bulk::<W>(cpu, bus, op)?;
        if done != 0 {
            cpu.registers.advance::<W>(op, RDI, done);
            return finish_bulk::<W>(cpu, op, done);
        }
        if in_page::<W>(cpu.registers.gpr[RDI]) < 2 {
            elements = 1;
        }
    }
    repeat(cpu, bus, op, elements, |cpu, bus| {
        let to = destination::<W>(cpu, op, Access::Write)?;
        let value = W::from_register(&cpu.registers.gpr, RAX as u8);
        cpu.write_linear(bus, to, value)?;
        cpu.registers.advance::<W>(op, RDI, 1);
        Ok(Next::Continue)
    })
}

fn lods<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    repeat(cpu, bus, op, ELEMENTS, |cpu, bus| {
        let from = source::<W>(cpu, op)?;
        cpu.read_linear::<W>(bus, from)?.to_register(&mut cpu.registers.gpr, RAX as u8);
        cpu.registers.advance::<W>(op, RSI, 1);
        Ok(Next::Continue)
    })
}

/// REPE continues while equal, REPNE while not.
fn compared(cpu: &Cpu, op: &Op) -> Next {
    let wanted =
        if op.has(Op::REPNE) { !cpu.registers.flags.zero() } else { cpu.registers.flags.zero() };
    if wanted { Next::Continue } else { Next::Stop }
}

fn scas<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    repeat(cpu, bus, op, ELEMENTS, |cpu, bus| {
        let at = destination::<W>(cpu, op, Access::Read)?;
        let value = cpu.read_linear::<W>(bus, at)?;
        let accumulator = W::from_register(&cpu.registers.gpr, RAX as u8);
        Cmp::apply(&mut cpu.registers.flags, accumulator, value);
        cpu.registers.advance::<W>(op, RDI, 1);
        Ok(compared(cpu, op))
    })
}

fn cmps<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    repeat(cpu, bus, op, ELEMENTS, |cpu, bus| {
        let from = source::<W>(cpu, op)?;
        let first = cpu.read_linear::<W>(bus, from)?;
        let at = destination::<W>(cpu, op, Access::Read)?;
        let second = cpu.read_linear::<W>(bus, at)?;
        Cmp::apply(&mut cpu.registers.flags, first, second);
        cpu.registers.advance::<W>(op, RSI, 1);
        cpu.registers.advance::<W>(op, RDI, 1);
        Ok(compared(cpu, op))
    })
}

fn ins<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let port = cpu.registers.gpr[RDX] as u16;
    io::check_port(cpu, bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::InString })?;
    repeat(cpu, bus, op, ELEMENTS, |cpu, bus| {
        let to = destination::<W>(cpu, op, Access::Write)?;
        // The destination must be writable before the port is read.
        let place = cpu.locate_linear(bus, to, W::BYTES, Access::Write, ES)?;
        let value = io::port_in(cpu, bus, port, W::BYTES as u8);
        cpu.write_place(bus, place, value as u64);
        cpu.registers.advance::<W>(op, RDI, 1);
        Ok(Next::Continue)
    })?;
    Err(Stop::END_BLOCK)
}

fn outs<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let port = cpu.registers.gpr[RDX] as u16;
    io::check_port(cpu, bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::OutString })?;
    repeat(cpu, bus, op, ELEMENTS, |cpu, bus| {
        let from = source::<W>(cpu, op)?;
        let value = cpu.read_linear::<W>(bus, from)?.zero_extend();
        io::port_out(cpu, bus, port, W::BYTES as u8, value as u32);
        cpu.registers.advance::<W>(op, RSI, 1);
        Ok(Next::Continue)
    })?;
    Err(Stop::END_BLOCK)
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    macro_rules! elements {
        ($handler:ident) => {
            sized!(width(i, 0).max(width(i, 1)), $handler)
        };
    }
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsq => elements!(movs),
        // The SSE2 instruction of the same name has no implied memory operand.
        Mnemonic::Movsd if i.is_string_instruction() => elements!(movs),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => elements!(stos),
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => elements!(lods),
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => elements!(scas),
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsq => elements!(cmps),
        Mnemonic::Cmpsd if i.is_string_instruction() => elements!(cmps),
        Mnemonic::Insb => return Binding::alone(ins::<u8>),
        Mnemonic::Insw => return Binding::alone(ins::<u16>),
        Mnemonic::Insd => return Binding::alone(ins::<u32>),
        Mnemonic::Outsb => return Binding::alone(outs::<u8>),
        Mnemonic::Outsw => return Binding::alone(outs::<u16>),
        Mnemonic::Outsd => return Binding::alone(outs::<u32>),
        _ => return None,
    };
    // What a repetition costs beyond its class is known when it ends.
    let repeats = i.has_rep_prefix() || i.has_repne_prefix();
    let boundary = if repeats { Boundary::Last } else { Boundary::Within };
    Some(Binding { handler, boundary, cost: Cost::StringSetup })
}

impl Registers {
    fn string_register(&self, op: &Op, register: usize) -> u64 {
        self.gpr[register] & op.address_mask()
    }

    fn set_string_register(&mut self, op: &Op, register: usize, value: u64) {
        self.gpr[register] = match op.address_shift {
            48 => self.gpr[register] & !0xFFFF | value & 0xFFFF,
            _ => value & op.address_mask(),
        };
    }
}

impl Cpu {
    /// Whether a forward repetition of some elements may be done in bulk: addresses have all bits
    /// of the mode, and the segments begin at 0 and refuse nothing.
    fn bulk_allowed(&self, op: &Op, segments: &[u8]) -> bool {
        /// Of registers without their upper halves.
        const NARROW: u8 = 32;
        let repeats =
            (op.has(Op::REP) || op.has(Op::REPNE)) && !self.registers.flags.has(rflags::DF);
        if !repeats || self.registers.string_register(op, RCX) <= 4 {
            return false;
        }
        if !op.has(Op::SEGMENTED) {
            return op.address_shift == 0;
        }
        op.address_shift == NARROW
            && self.is_protected()
            && segments.iter().all(|number| {
                SegmentRegister::from_encoding(*number)
                    .is_some_and(|register| is_flat(self.registers.segment(register)))
            })
    }
}

impl Registers {
    fn advance<W: Width>(&mut self, op: &Op, register: usize, elements: u64) {
        let bytes = elements.wrapping_mul(W::BYTES as u64);
        let old = self.string_register(op, register);
        let new = if self.flags.has(rflags::DF) {
            old.wrapping_sub(bytes)
        } else {
            old.wrapping_add(bytes)
        };
        self.set_string_register(op, register, new);
    }
}
