//! SYSCALL, SYSRET, SYSENTER, SYSEXIT. [APM2 "Fast System Call and Return"]

use crate::execute::stack;
use crate::operation::Op;
use crate::system::debug;
use crate::system::descriptor;
use crate::width::{R11, RCX, RDX, RSP};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Efer, rflags};
use arch::segment::{Attributes, Segment, SegmentRegister};

fn code(selector: u16, is_long: bool, dpl: u16) -> Segment {
    let size = if is_long { 0xA00 } else { 0xC00 };
    Segment {
        selector,
        attributes: Attributes(size | 0x9B | dpl << 5),
        limit: 0xFFFF_FFFF,
        base: 0,
    }
}

fn stack(selector: u16, dpl: u16) -> Segment {
    Segment { selector, attributes: Attributes(0xC93 | dpl << 5), limit: 0xFFFF_FFFF, base: 0 }
}

pub(crate) fn system_call(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !cpu.control.efer().contains(Efer::SYSCALL) {
        return Err(Stop::INVALID_OPCODE);
    }
    if !cpu.control.is_long_mode() && !cpu.model.differences().has_legacy_syscall {
        return Err(Stop::INVALID_OPCODE);
    }
    let next = cpu.registers.next_ip(op);
    let was_stepping = cpu.pending.has(Attention::SINGLE_STEP);
    let selector = (cpu.control.syscall.star >> 32) as u16 & !3;
    let long = cpu.control.is_long_mode();
    if long {
        cpu.registers.gpr[RCX] = next;
        cpu.registers.gpr[R11] = cpu.registers.flags.bits() & !rflags::RF;
        let target =
            if op.has(Op::LONG) { cpu.control.syscall.lstar } else { cpu.control.syscall.cstar };
        stack::write_flags(cpu, 0, cpu.control.syscall.sfmask | rflags::RF);
        cpu.registers.ip = target;
    } else {
        cpu.registers.gpr[RCX] = next & 0xFFFF_FFFF;
        stack::write_flags(cpu, 0, rflags::VM | rflags::IF | rflags::RF);
        cpu.registers.ip = cpu.control.syscall.star & 0xFFFF_FFFF;
    }
    cpu.registers.set_segment(SegmentRegister::Cs, code(selector, long, 0));
    cpu.registers.set_segment(SegmentRegister::Ss, stack(selector.wrapping_add(8), 0));
    descriptor::set_cpl(cpu, 0);
    debug::settle_step_by_new_flag(cpu, was_stepping);
    Err(Stop::BRANCH)
}

pub(crate) fn system_return(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    to_64_bit: bool,
) -> Result<(), Stop> {
    if !cpu.control.efer().contains(Efer::SYSCALL) {
        return Err(Stop::INVALID_OPCODE);
    }
    if !cpu.is_protected() || cpu.registers.cpl() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let base = (cpu.control.syscall.star >> 48) as u16;
    let was_stepping = cpu.pending.has(Attention::SINGLE_STEP);
    let target = cpu.registers.gpr[RCX];
    if cpu.control.is_long_mode() {
        let checks = to_64_bit && cpu.model.differences().checks_sysret_target;
        if checks && (target as i64) << 16 >> 16 != target as i64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let flags = cpu.registers.gpr[R11];
        stack::write_flags(cpu, flags, rflags::ALL & !(rflags::RF | rflags::VM | rflags::FIXED));
    } else {
        stack::write_flags(cpu, rflags::IF, rflags::IF);
    }
    let selector = if to_64_bit { base.wrapping_add(16) } else { base } | 3;
    cpu.registers.set_segment(SegmentRegister::Cs, code(selector, to_64_bit, 3));
    let selector = base.wrapping_add(8) | if op.has(Op::LONG) { 3 } else { 0 };
    // On AMD parts SS keeps its hidden attributes; a flat stack serves every known kernel.
    cpu.registers.set_segment(SegmentRegister::Ss, stack(selector | 3, 3));
    cpu.registers.ip = if to_64_bit { target } else { target & 0xFFFF_FFFF };
    descriptor::set_cpl(cpu, 3);
    debug::settle_step_by_new_flag(cpu, was_stepping);
    Err(Stop::BRANCH)
}

pub(crate) fn system_enter(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    if cpu.control.is_real() {
        return Err(Stop::GENERAL_PROTECTION);
    }
    if cpu.control.is_long_mode() && !cpu.model.differences().has_long_sysenter {
        return Err(Stop::INVALID_OPCODE);
    }
    let selector = cpu.control.syscall.sysenter_cs as u16 & !3;
    if selector == 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    stack::write_flags(cpu, 0, rflags::VM | rflags::IF | rflags::RF);
    let long = cpu.control.is_long_mode();
    cpu.registers.set_segment(SegmentRegister::Cs, code(selector, long, 0));
    cpu.registers.set_segment(SegmentRegister::Ss, stack(selector.wrapping_add(8), 0));
    let mask = if long { u64::MAX } else { 0xFFFF_FFFF };
    cpu.registers.gpr[RSP] = cpu.control.syscall.sysenter_esp & mask;
    cpu.registers.ip = cpu.control.syscall.sysenter_eip & mask;
    descriptor::set_cpl(cpu, 0);
    Err(Stop::BRANCH)
}

pub(crate) fn system_exit(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: &Op,
    to_64_bit: bool,
) -> Result<(), Stop> {
    if cpu.control.is_long_mode() && !cpu.model.differences().has_long_sysenter {
        return Err(Stop::INVALID_OPCODE);
    }
    let base = cpu.control.syscall.sysenter_cs as u16 & !3;
    if !cpu.is_protected() || cpu.registers.cpl() != 0 || base == 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let (cs, ss) = if to_64_bit {
        (base.wrapping_add(32), base.wrapping_add(40))
    } else {
        (base.wrapping_add(16), base.wrapping_add(24))
    };
    let mask = if to_64_bit { u64::MAX } else { 0xFFFF_FFFF };
    let (ip, sp) = (cpu.registers.gpr[RDX] & mask, cpu.registers.gpr[RCX] & mask);
    cpu.registers.set_segment(SegmentRegister::Cs, code(cs | 3, to_64_bit, 3));
    cpu.registers.set_segment(SegmentRegister::Ss, stack(ss | 3, 3));
    cpu.registers.gpr[RSP] = sp;
    cpu.registers.ip = ip;
    descriptor::set_cpl(cpu, 3);
    Err(Stop::BRANCH)
}
