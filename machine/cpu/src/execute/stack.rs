//! PUSH, POP, PUSHA, POPA, ENTER, LEAVE, PUSHF, POPF.

use crate::execute::binding::{Binding, Handler};
use crate::guest::Sensitive;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, is_register, width};
use crate::state::Registers;
use crate::width::{RBP, RSP, Width};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Cr4, rflags};
use arch::segment::SegmentRegister;
use iced_x86::{Code, Instruction, Mnemonic};

/// Index of SS.
pub(super) const SS: u8 = 2;

#[inline(always)]
pub(crate) fn stack_linear(
    cpu: &Cpu,
    is_long: bool,
    offset: u64,
    size: usize,
    access: Access,
) -> Result<u64, Stop> {
    if is_long {
        return Ok(offset);
    }
    cpu.segmented(SS, offset & cpu.registers.stack_mask(false), size, access)
}

/// Pushes a value; on a fault nothing has changed.
#[inline(always)]
pub(crate) fn push<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    value: W,
) -> Result<(), Stop> {
    let is_long = op.has(Op::LONG);
    let new = cpu.registers.gpr[RSP].wrapping_sub(W::BYTES as u64);
    let linear = stack_linear(cpu, is_long, new, W::BYTES, Access::Write)?;
    cpu.write_stack(bus, linear, value)?;
    cpu.registers.set_stack_pointer(is_long, new);
    Ok(())
}

/// The value `depth` bytes above the stack pointer.
#[inline(always)]
pub(crate) fn peek_stack<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    depth: u64,
) -> Result<W, Stop> {
    let at = cpu.registers.gpr[RSP].wrapping_add(depth);
    let linear = stack_linear(cpu, op.has(Op::LONG), at, W::BYTES, Access::Read)?;
    cpu.read_stack(bus, linear)
}

#[inline(never)]
pub(super) fn push_r<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = W::from_register(&cpu.registers.gpr, op.a);
    push(cpu, bus, op, value)?;
    cpu.pending.after_store()
}

fn push_i<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    push(cpu, bus, op, W::truncate(op.immediate))?;
    cpu.pending.after_store()
}

fn push_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = cpu.read::<W>(bus, op)?;
    push(cpu, bus, op, value)?;
    cpu.pending.after_store()
}

#[inline(never)]
pub(super) fn pop_r<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = peek_stack::<W>(cpu, bus, op, 0)?;
    cpu.registers.move_stack(op, W::BYTES as u64);
    value.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// An address based on the stack pointer uses its value after the pop. [APM3 "POP"]
fn pop_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = peek_stack::<W>(cpu, bus, op, 0)?;
    let before = cpu.registers.gpr[RSP];
    cpu.registers.move_stack(op, W::BYTES as u64);
    let written = cpu.write(bus, op, value);
    if written.is_err() {
        cpu.registers.gpr[RSP] = before;
    }
    written?;
    cpu.pending.after_store()
}

fn pusha<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let before = cpu.registers.gpr[RSP];
    for number in 0..8 {
        let value = if number == RSP { before } else { cpu.registers.gpr[number] };
        if let Err(stop) = push(cpu, bus, op, W::truncate(value)) {
            cpu.registers.gpr[RSP] = before;
            return Err(stop);
        }
    }
    cpu.pending.after_store()
}

fn popa<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let mut values = [W::truncate(0); 8];
    for (i, value) in values.iter_mut().enumerate() {
        *value = peek_stack::<W>(cpu, bus, op, (i * W::BYTES) as u64)?;
    }
    for (i, value) in values.into_iter().enumerate() {
        let number = 7 - i;
        if number != RSP {
            value.to_register(&mut cpu.registers.gpr, number as u8);
        }
    }
    cpu.registers.move_stack(op, 8 * W::BYTES as u64);
    Ok(())
}

/// [APM3 "ENTER"]
fn enter<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let before = cpu.registers.gpr[RSP];
    let undo = |cpu: &mut Cpu, stop: Stop| {
        cpu.registers.gpr[RSP] = before;
        stop
    };
    let levels = op.c & 31;
    let frame = W::from_register(&cpu.registers.gpr, RBP as u8);
    push(cpu, bus, op, frame).map_err(|stop| undo(cpu, stop))?;
    let new_frame = cpu.registers.gpr[RSP];
    let mut display = cpu.registers.gpr[RBP];
    for _ in 1..levels {
        display = display.wrapping_sub(W::BYTES as u64);
        let at = stack_linear(cpu, op.has(Op::LONG), display, W::BYTES, Access::Read);
        let value = at.and_then(|at| cpu.read_stack::<W>(bus, at));
        let value = value.map_err(|stop| undo(cpu, stop))?;
        push(cpu, bus, op, value).map_err(|stop| undo(cpu, stop))?;
    }
    if levels > 0 {
        push(cpu, bus, op, W::truncate(new_frame)).map_err(|stop| undo(cpu, stop))?;
    }
    let size = op.immediate & 0xFFFF;
    let top = cpu.registers.gpr[RSP].wrapping_sub(size);
    // The new top of the stack must be writable.
    let is_long = op.has(Op::LONG);
    let probe = stack_linear(cpu, is_long, top, W::BYTES, Access::Write)
        .and_then(|at| cpu.locate_linear(bus, at, W::BYTES, Access::Write, SS));
    probe.map_err(|stop| undo(cpu, stop))?;
    cpu.registers.set_stack_pointer(is_long, top);
    W::truncate(new_frame).to_register(&mut cpu.registers.gpr, RBP as u8);
    cpu.pending.after_store()
}

fn leave<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let is_long = op.has(Op::LONG);
    let at = cpu.registers.gpr[RBP];
    let linear = stack_linear(cpu, is_long, at, W::BYTES, Access::Read)?;
    let value = cpu.read_stack::<W>(bus, linear)?;
    cpu.registers.set_stack_pointer(is_long, at.wrapping_add(W::BYTES as u64));
    value.to_register(&mut cpu.registers.gpr, RBP as u8);
    Ok(())
}

/// Sets RFLAGS to `bits` where `mask` has ones, and does what follows from a changed IF, TF, AC
/// or RF.
pub(crate) fn write_flags(cpu: &mut Cpu, bits: u64, mask: u64) {
    let old = cpu.registers.flags.system;
    cpu.registers.flags.change(bits, mask);
    let new = cpu.registers.flags.system;
    if new & rflags::IF != 0 && old & rflags::IF == 0 {
        cpu.open_to_interrupts();
    }
    cpu.pending.set(Attention::SINGLE_STEP, new & rflags::TF != 0);
    if new & rflags::RF != 0 {
        cpu.pending.raise(Attention::BREAKPOINTS);
    }
    if (new ^ old) & (rflags::AC | rflags::VM) != 0 {
        cpu.update_access_mode();
    }
}

fn pushf<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Pushf)?;
    let mut bits = cpu.registers.flags.bits() & !(rflags::RF | rflags::VM);
    if cpu.registers.is_virtual_8086() && cpu.registers.iopl() < 3 {
        if W::BYTES != 2 || !cpu.control.cr4().contains(Cr4::VME) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        // The pushed image shows IOPL 3 and VIF in the place of IF.
        let virtual_if = if cpu.registers.flags.has(rflags::VIF) { rflags::IF } else { 0 };
        bits = bits & !rflags::IF | virtual_if | rflags::IOPL;
    }
    push(cpu, bus, op, W::truncate(bits))?;
    cpu.pending.after_store()
}

/// [APM3 "POPF"]: IOPL changes at CPL 0 only, IF where CPL ≤ IOPL.
fn popf<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Popf)?;
    let bits = peek_stack::<W>(cpu, bus, op, 0)?.zero_extend();
    let mut mask = rflags::STATUS | rflags::TF | rflags::DF | rflags::NT;
    if W::BYTES > 2 {
        mask |= rflags::AC | rflags::ID;
    }
    let mut bits = bits;
    if cpu.registers.is_virtual_8086() && cpu.registers.iopl() < 3 {
        if W::BYTES != 2 || !cpu.control.cr4().contains(Cr4::VME) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let asks = bits & rflags::IF != 0;
        if bits & rflags::TF != 0 || asks && cpu.registers.flags.has(rflags::VIP) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        mask |= rflags::VIF;
        bits = bits & !rflags::VIF | if asks { rflags::VIF } else { 0 };
    } else {
        if cpu.registers.cpl() <= cpu.registers.iopl() || cpu.registers.is_virtual_8086() {
            mask |= rflags::IF;
        }
        if cpu.registers.cpl() == 0 {
            mask |= rflags::IOPL;
        }
        if W::BYTES > 2 {
            mask |= rflags::RF;
            bits &= !rflags::RF;
        }
    }
    cpu.registers.move_stack(op, W::BYTES as u64);
    write_flags(cpu, bits, mask);
    Err(Stop::END_BLOCK)
}

macro_rules! wide {
    ($width:expr, $handler:ident) => {
        match $width {
            2 => $handler::<u16> as Handler,
            4 => $handler::<u32>,
            _ => $handler::<u64>,
        }
    };
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    use Code::*;
    let is_segment = is_register(i, 0) && i.op_register(0).is_segment_register();
    let handler = match i.mnemonic() {
        Mnemonic::Push if is_segment => return None,
        Mnemonic::Pop if is_segment => return None,
        Mnemonic::Push if is_memory(i, 0) => wide!(width(i, 0), push_m),
        Mnemonic::Push if is_register(i, 0) => wide!(width(i, 0), push_r),
        Mnemonic::Push => match i.code() {
            Push_imm16 | Pushw_imm8 => push_i::<u16>,
            Pushd_imm8 | Pushd_imm32 => push_i::<u32>,
            _ => push_i::<u64>,
        },
        Mnemonic::Pop if is_memory(i, 0) => wide!(width(i, 0), pop_m),
        Mnemonic::Pop => wide!(width(i, 0), pop_r),
        Mnemonic::Pusha => pusha::<u16>,
        Mnemonic::Pushad => pusha::<u32>,
        Mnemonic::Popa => popa::<u16>,
        Mnemonic::Popad => popa::<u32>,
        Mnemonic::Enter => match i.code() {
            Enterw_imm16_imm8 => enter::<u16>,
            Enterd_imm16_imm8 => enter::<u32>,
            _ => enter::<u64>,
        },
        Mnemonic::Leave => match i.code() {
            Leavew => leave::<u16>,
            Leaved => leave::<u32>,
            _ => leave::<u64>,
        },
        Mnemonic::Pushf => pushf::<u16>,
        Mnemonic::Pushfd => pushf::<u32>,
        Mnemonic::Pushfq => pushf::<u64>,
        Mnemonic::Popf => return Binding::ends(popf::<u16>),
        Mnemonic::Popfd => return Binding::ends(popf::<u32>),
        Mnemonic::Popfq => return Binding::ends(popf::<u64>),
        _ => return None,
    };
    Binding::costing(handler, Cost::Store)
}

impl Registers {
    /// All bits of the stack pointer that the stack segment's size lets change.
    #[inline(always)]
    pub(crate) fn stack_mask(&self, is_long: bool) -> u64 {
        if is_long {
            u64::MAX
        } else if self.segment(SegmentRegister::Ss).attributes.is_big() {
            0xFFFF_FFFF
        } else {
            0xFFFF
        }
    }

    fn iopl(&self) -> u8 {
        (self.flags.system >> 12 & 3) as u8
    }
}

impl Registers {
    #[inline(always)]
    pub(crate) fn set_stack_pointer(&mut self, is_long: bool, value: u64) {
        let mask = self.stack_mask(is_long);
        self.gpr[RSP] = match mask {
            0xFFFF => self.gpr[RSP] & !0xFFFF | value & 0xFFFF,
            mask => value & mask,
        };
    }
}

impl Registers {
    #[inline(always)]
    pub(crate) fn move_stack(&mut self, op: &Op, bytes: u64) {
        let new = self.gpr[RSP].wrapping_add(bytes);
        self.set_stack_pointer(op.has(Op::LONG), new);
    }
}
