//! SYSCALL, SYSRET, SYSENTER, SYSEXIT. [APM2 "Fast System Call and Return"]

use crate::operation::Op;
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

impl Cpu {
    pub(crate) fn system_call(&mut self, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
        if !self.control.efer.contains(Efer::SYSCALL) {
            return Err(Stop::INVALID_OPCODE);
        }
        if !self.control.is_long_mode() && !self.model.is_amd() {
            return Err(Stop::INVALID_OPCODE);
        }
        let next = self.registers.next_ip(op);
        let was_stepping = self.pending.attention.contains(Attention::SINGLE_STEP);
        let selector = (self.control.syscall.star >> 32) as u16 & !3;
        let long = self.control.is_long_mode();
        if long {
            self.registers.gpr[RCX] = next;
            self.registers.gpr[R11] = self.registers.flags.bits() & !rflags::RF;
            let target = if op.has(Op::LONG) {
                self.control.syscall.lstar
            } else {
                self.control.syscall.cstar
            };
            self.write_flags(0, self.control.syscall.sfmask | rflags::RF);
            self.registers.ip = target;
        } else {
            self.registers.gpr[RCX] = next & 0xFFFF_FFFF;
            self.write_flags(0, rflags::VM | rflags::IF | rflags::RF);
            self.registers.ip = self.control.syscall.star & 0xFFFF_FFFF;
        }
        self.registers.set_segment(SegmentRegister::Cs, code(selector, long, 0));
        self.registers.set_segment(SegmentRegister::Ss, stack(selector.wrapping_add(8), 0));
        self.set_cpl(0);
        self.settle_step_by_new_flag(was_stepping);
        Err(Stop::BRANCH)
    }

    pub(crate) fn system_return(
        &mut self,
        _: &mut Bus<'_>,
        op: &Op,
        to_64_bit: bool,
    ) -> Result<(), Stop> {
        if !self.control.efer.contains(Efer::SYSCALL) {
            return Err(Stop::INVALID_OPCODE);
        }
        if !self.is_protected() || self.registers.cpl != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let base = (self.control.syscall.star >> 48) as u16;
        let was_stepping = self.pending.attention.contains(Attention::SINGLE_STEP);
        let target = self.registers.gpr[RCX];
        if self.control.is_long_mode() {
            // AMD parts fault only when the target is fetched; Intel's check RCX here.
            if to_64_bit && !self.model.is_amd() && (target as i64) << 16 >> 16 != target as i64 {
                return Err(Stop::GENERAL_PROTECTION);
            }
            let flags = self.registers.gpr[R11];
            self.write_flags(flags, rflags::ALL & !(rflags::RF | rflags::VM | rflags::FIXED));
        } else {
            self.write_flags(rflags::IF, rflags::IF);
        }
        let selector = if to_64_bit { base.wrapping_add(16) } else { base } | 3;
        self.registers.set_segment(SegmentRegister::Cs, code(selector, to_64_bit, 3));
        let selector = base.wrapping_add(8) | if op.has(Op::LONG) { 3 } else { 0 };
        // On AMD parts SS keeps its hidden attributes; a flat stack serves every known kernel.
        self.registers.set_segment(SegmentRegister::Ss, stack(selector | 3, 3));
        self.registers.ip = if to_64_bit { target } else { target & 0xFFFF_FFFF };
        self.set_cpl(3);
        self.settle_step_by_new_flag(was_stepping);
        Err(Stop::BRANCH)
    }

    pub(crate) fn system_enter(&mut self, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
        if self.control.is_real() {
            return Err(Stop::GENERAL_PROTECTION);
        }
        if self.control.is_long_mode() && self.model.is_amd() {
            return Err(Stop::INVALID_OPCODE);
        }
        let selector = self.control.syscall.sysenter_cs as u16 & !3;
        if selector == 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.write_flags(0, rflags::VM | rflags::IF | rflags::RF);
        let long = self.control.is_long_mode();
        self.registers.set_segment(SegmentRegister::Cs, code(selector, long, 0));
        self.registers.set_segment(SegmentRegister::Ss, stack(selector.wrapping_add(8), 0));
        let mask = if long { u64::MAX } else { 0xFFFF_FFFF };
        self.registers.gpr[RSP] = self.control.syscall.sysenter_esp & mask;
        self.registers.ip = self.control.syscall.sysenter_eip & mask;
        self.set_cpl(0);
        Err(Stop::BRANCH)
    }

    pub(crate) fn system_exit(
        &mut self,
        _: &mut Bus<'_>,
        _: &Op,
        to_64_bit: bool,
    ) -> Result<(), Stop> {
        if self.control.is_long_mode() && self.model.is_amd() {
            return Err(Stop::INVALID_OPCODE);
        }
        let base = self.control.syscall.sysenter_cs as u16 & !3;
        if !self.is_protected() || self.registers.cpl != 0 || base == 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let (cs, ss) = if to_64_bit {
            (base.wrapping_add(32), base.wrapping_add(40))
        } else {
            (base.wrapping_add(16), base.wrapping_add(24))
        };
        let mask = if to_64_bit { u64::MAX } else { 0xFFFF_FFFF };
        let (ip, sp) = (self.registers.gpr[RDX] & mask, self.registers.gpr[RCX] & mask);
        self.registers.set_segment(SegmentRegister::Cs, code(cs | 3, to_64_bit, 3));
        self.registers.set_segment(SegmentRegister::Ss, stack(ss | 3, 3));
        self.registers.gpr[RSP] = sp;
        self.registers.ip = ip;
        self.set_cpl(3);
        Err(Stop::BRANCH)
    }
}
