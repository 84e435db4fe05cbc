//! MOV, PUSH, POP of segment registers; LDS and kin; far JMP, CALL, RET; IRET; INT n, INT3, INTO,
//! INT1, BOUND; LAR, LSL, VERR, VERW, ARPL; LLDT, LTR, SLDT, STR. The rules are in
//! [`crate::system`].

use crate::costs::Step;
use crate::execute::arithmetic;
use crate::execute::binding::{Binding, Handler};
use crate::execute::privileged;
use crate::execute::stack;
use crate::guest::{Sensitive, Table};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_register, width};
use crate::state::Registers;
use crate::stop::SoftwareSource;
use crate::system::descriptor;
use crate::system::far;
use crate::width::{RSP, Width};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::rflags;
use arch::cpuid::Feature;
use arch::segment::SegmentRegister;
use iced_x86::{Code, Instruction, Mnemonic};

fn named(number: u8) -> Result<SegmentRegister, Stop> {
    SegmentRegister::from_encoding(number).ok_or(Stop::INVALID_OPCODE)
}

/// MOV to memory writes 16 bits; to a register, the operand size.
fn mov_from_segment<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let selector = cpu.registers.segment(named(op.b)?).selector;
    if op.has(Op::MEMORY) {
        cpu.write(bus, op, selector)?;
        return cpu.pending.after_store();
    }
    W::truncate(selector as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// After a load of SS one instruction runs before interrupts and debug traps.
fn load(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    register: SegmentRegister,
    selector: u16,
) -> Result<(), Stop> {
    descriptor::load_segment(cpu, bus, register, selector)?;
    if register == SegmentRegister::Ss {
        cpu.pending.raise(Attention::SHADOW | Attention::STACK_SHADOW);
    }
    Err(Stop::END_BLOCK)
}

fn mov_to_segment(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let register = named(op.a)?;
    if register == SegmentRegister::Cs {
        return Err(Stop::INVALID_OPCODE);
    }
    let selector = if op.has(Op::MEMORY) {
        cpu.read::<u16>(bus, op)?
    } else {
        cpu.registers.gpr[op.b as usize] as u16
    };
    load(cpu, bus, register, selector)
}

fn push_segment<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let selector = cpu.registers.segment(named(op.a)?).selector;
    if W::BYTES == 4 {
        // A 32-bit push of a selector moves the stack by 4 and writes 2 bytes, as processors do.
        let is_long = op.has(Op::LONG);
        let new = cpu.registers.gpr[RSP].wrapping_sub(4);
        let linear = stack::stack_linear(cpu, is_long, new, 2, Access::Write)?;
        cpu.write_stack(bus, linear, selector)?;
        cpu.registers.set_stack_pointer(is_long, new);
    } else {
        stack::push(cpu, bus, op, W::truncate(selector as u64))?;
    }
    cpu.pending.after_store()
}

fn pop_segment<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let register = named(op.a)?;
    let selector = stack::peek_stack::<W>(cpu, bus, op, 0)?.zero_extend() as u16;
    // A new SS changes the stack's size only after the pop.
    let is_long = op.has(Op::LONG);
    let (mask, old) = (cpu.registers.stack_mask(is_long), cpu.registers.gpr[RSP]);
    let result = load(cpu, bus, register, selector);
    if result == Err(Stop::END_BLOCK) {
        let new = old.wrapping_add(W::BYTES as u64);
        cpu.registers.gpr[RSP] =
            if mask == 0xFFFF { old & !0xFFFF | new & mask } else { new & mask };
    }
    result
}

/// LDS, LES, LFS, LGS, LSS.
fn load_far_pointer<W: Width, const REGISTER: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let offset_at = cpu.registers.effective_address(op);
    let (offset, selector) = far_pointer::<W>(cpu, bus, op, offset_at)?;
    let result = load(cpu, bus, named(REGISTER)?, selector);
    if result == Err(Stop::END_BLOCK) {
        W::truncate(offset).to_register(&mut cpu.registers.gpr, op.a);
    }
    result
}

fn far_pointer<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    at: u64,
) -> Result<(u64, u16), Stop> {
    let linear = cpu.operand_at(op, at, W::BYTES, Access::Read)?;
    let offset = cpu.read_linear::<W>(bus, linear)?.zero_extend();
    let next = at.wrapping_add(W::BYTES as u64) & op.address_mask();
    let linear = cpu.operand_at(op, next, 2, Access::Read)?;
    Ok((offset, cpu.read_linear::<u16>(bus, linear)?))
}

fn jmp_far<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (offset, selector) = far_target::<W>(cpu, bus, op)?;
    far::far_jump(cpu, bus, op, selector, offset)
}

fn call_far<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (offset, selector) = far_target::<W>(cpu, bus, op)?;
    far::far_call::<W>(cpu, bus, op, selector, offset)
}

fn far_target<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(u64, u16), Stop> {
    if op.has(Op::MEMORY) {
        let at = cpu.registers.effective_address(op);
        return far_pointer::<W>(cpu, bus, op, at);
    }
    Ok((op.immediate & 0xFFFF_FFFF & W::MASK, (op.immediate >> 32) as u16))
}

fn ret_far<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    far::far_return::<W>(cpu, bus, op, op.immediate & 0xFFFF)
}

fn iret<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Iret)?;
    cpu.clock.take(Step::EventReturn);
    far::interrupt_return::<W>(cpu, bus, op)
}

fn int_n(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::IntN)?;
    cpu.registers.check_virtual_8086_int()?;
    Err(Stop::software(op.immediate as u8, SoftwareSource::Int))
}

fn int3(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Err(Stop::software(arch::exception::BREAKPOINT, SoftwareSource::Int3))
}

fn int1(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Icebp)?;
    Err(Stop::software(arch::exception::DEBUG, SoftwareSource::Int1))
}

fn into(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    if cpu.registers.flags.overflow() {
        return Err(Stop::software(arch::exception::OVERFLOW, SoftwareSource::Into));
    }
    Ok(())
}

fn bound<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let at = cpu.registers.effective_address(op);
    let linear = cpu.operand_at(op, at, 2 * W::BYTES, Access::Read)?;
    let low = cpu.read_linear::<W>(bus, linear)?.sign_extend() as i64;
    let high = cpu.read_linear::<W>(bus, linear + W::BYTES as u64)?.sign_extend() as i64;
    let index = W::from_register(&cpu.registers.gpr, op.a).sign_extend() as i64;
    if index < low || index > high {
        return Err(Stop::exception(arch::exception::BOUND_RANGE));
    }
    Ok(())
}

/// A 16-bit selector operand.
fn selector_operand(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, register: u8) -> Result<u16, Stop> {
    if op.has(Op::MEMORY) {
        cpu.read::<u16>(bus, op)
    } else {
        Ok(cpu.registers.gpr[register as usize] as u16)
    }
}

fn needs_protected_mode(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.is_protected() { Ok(()) } else { Err(Stop::INVALID_OPCODE) }
}

fn lar<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    let selector = selector_operand(cpu, bus, op, op.b)?;
    let rights = descriptor::access_rights(cpu, bus, selector)?;
    cpu.registers.flags.set_zero(rights.is_some());
    if let Some(rights) = rights {
        W::truncate(rights as u64).to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

fn lsl<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    let selector = selector_operand(cpu, bus, op, op.b)?;
    let limit = descriptor::segment_limit(cpu, bus, selector)?;
    cpu.registers.flags.set_zero(limit.is_some());
    if let Some(limit) = limit {
        W::truncate(limit as u64).to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

fn verify<const WRITE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    let selector = selector_operand(cpu, bus, op, op.a)?;
    let allowed = descriptor::may_access(cpu, bus, selector, WRITE)?;
    cpu.registers.flags.set_zero(allowed);
    // The form with a register does not overwrite buffers. [Intel's "Microarchitectural Data
    // Sampling"]
    if WRITE && op.has(Op::MEMORY) && cpu.model.has(Feature::MdClear) {
        cpu.clock.take(Step::BufferClear);
    }
    Ok(())
}

fn arpl(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    let source = cpu.registers.gpr[op.b as usize] as u16;
    if op.has(Op::MEMORY) {
        let place = cpu.locate::<u16>(bus, op)?;
        let target = arithmetic::load::<u16>(cpu, bus, place);
        cpu.registers.flags.set_zero(target & 3 < source & 3);
        if target & 3 < source & 3 {
            return arithmetic::store(cpu, bus, place, target & !3 | source & 3);
        }
        return Ok(());
    }
    let target = cpu.registers.gpr[op.a as usize] as u16;
    cpu.registers.flags.set_zero(target & 3 < source & 3);
    if target & 3 < source & 3 {
        (target & !3 | source & 3).to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

fn lldt(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::WriteTable(Table::Ldtr))?;
    let selector = selector_operand(cpu, bus, op, op.a)?;
    descriptor::load_ldtr(cpu, bus, selector)
}

fn ltr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::WriteTable(Table::Tr))?;
    let selector = selector_operand(cpu, bus, op, op.a)?;
    descriptor::load_tr(cpu, bus, selector)
}

fn store_selector<W: Width, const LDT: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    needs_protected_mode(cpu)?;
    privileged::check_umip(cpu)?;
    cpu.before(bus, op, Sensitive::ReadTable(if LDT { Table::Ldtr } else { Table::Tr }))?;
    let selector = if LDT { cpu.control.ldtr.selector } else { cpu.control.tr.selector };
    if op.has(Op::MEMORY) {
        cpu.write(bus, op, selector)?;
        return cpu.pending.after_store();
    }
    W::truncate(selector as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

macro_rules! wide {
    ($width:expr, $handler:ident $(, $argument:expr)*) => {
        match $width {
            2 => $handler::<u16 $(, { $argument })*> as Handler,
            4 => $handler::<u32 $(, { $argument })*>,
            _ => $handler::<u64 $(, { $argument })*>,
        }
    };
}

fn far(i: &Instruction) -> Option<Handler> {
    use Code::*;
    Some(match i.code() {
        Jmp_ptr1616 | Jmp_m1616 => jmp_far::<u16>,
        Jmp_ptr1632 | Jmp_m1632 => jmp_far::<u32>,
        Jmp_m1664 => jmp_far::<u64>,
        Call_ptr1616 | Call_m1616 => call_far::<u16>,
        Call_ptr1632 | Call_m1632 => call_far::<u32>,
        Call_m1664 => call_far::<u64>,
        Retfw | Retfw_imm16 => ret_far::<u16>,
        Retfd | Retfd_imm16 => ret_far::<u32>,
        Retfq | Retfq_imm16 => ret_far::<u64>,
        Iretw => iret::<u16>,
        Iretd => iret::<u32>,
        Iretq => iret::<u64>,
        _ => return None,
    })
}

fn selectors(i: &Instruction) -> Option<Handler> {
    use Code::*;
    let w = width(i, 0);
    let is_segment =
        |operand| is_register(i, operand) && i.op_register(operand).is_segment_register();
    Some(match i.mnemonic() {
        Mnemonic::Mov if is_segment(1) => wide!(w, mov_from_segment),
        Mnemonic::Mov if is_segment(0) => mov_to_segment,
        Mnemonic::Push if is_segment(0) => match i.code() {
            Pushw_ES | Pushw_CS | Pushw_SS | Pushw_DS | Pushw_FS | Pushw_GS => push_segment::<u16>,
            Pushd_ES | Pushd_CS | Pushd_SS | Pushd_DS | Pushd_FS | Pushd_GS => push_segment::<u32>,
            _ => push_segment::<u64>,
        },
        Mnemonic::Pop if is_segment(0) => match i.code() {
            Popw_ES | Popw_CS | Popw_SS | Popw_DS | Popw_FS | Popw_GS => pop_segment::<u16>,
            Popd_ES | Popd_SS | Popd_DS | Popd_FS | Popd_GS => pop_segment::<u32>,
            _ => pop_segment::<u64>,
        },
        Mnemonic::Les => wide!(w, load_far_pointer, 0),
        Mnemonic::Lds => wide!(w, load_far_pointer, 3),
        Mnemonic::Lss => wide!(w, load_far_pointer, 2),
        Mnemonic::Lfs => wide!(w, load_far_pointer, 4),
        Mnemonic::Lgs => wide!(w, load_far_pointer, 5),
        Mnemonic::Lldt => lldt,
        Mnemonic::Ltr => ltr,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    if let Some(handler) = far(i).or_else(|| selectors(i)) {
        return Binding::ends(handler);
    }
    let w = width(i, 0);
    match i.mnemonic() {
        Mnemonic::Int => Binding::ends(int_n),
        Mnemonic::Int3 => Binding::ends(int3),
        Mnemonic::Int1 => Binding::ends(int1),
        Mnemonic::Into => Binding::ends(into),
        Mnemonic::Bound => Binding::within(if w == 2 { bound::<u16> } else { bound::<u32> }),
        Mnemonic::Lar => Binding::within(wide!(w, lar)),
        Mnemonic::Lsl => Binding::within(wide!(w, lsl)),
        Mnemonic::Verr => Binding::within(verify::<false>),
        Mnemonic::Verw => Binding::within(verify::<true>),
        Mnemonic::Arpl => Binding::within(arpl),
        Mnemonic::Sldt => Binding::within(wide!(w, store_selector, true)),
        Mnemonic::Str => Binding::within(wide!(w, store_selector, false)),
        _ => None,
    }
}

impl Registers {
    /// INT n in virtual-8086 mode needs IOPL 3, unless the redirection bitmap keeps it there.
    /// [APM2 "Virtual-8086 Mode Interrupt Handling"]
    fn check_virtual_8086_int(&mut self) -> Result<(), Stop> {
        let iopl = self.flags.system & rflags::IOPL;
        // DEVIATION(APM2 "Interrupt-Redirection Bitmap"): with CR4.VME interrupts of virtual-8086
        // mode are not redirected to its own vector table.
        if self.is_virtual_8086() && iopl != rflags::IOPL {
            return Err(Stop::GENERAL_PROTECTION);
        }
        Ok(())
    }
}
