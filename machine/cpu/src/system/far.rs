//! Far JMP, CALL, RET and IRET. [APM2 "Control-Transfer Privilege Checks"] [APM3 "CALL (Far)"]

use super::descriptor::{code_of, is_null, not_present, null_segment, rpl, stack_fault};
use crate::memory::Access;
use crate::operation::Op;
use crate::width::{RSP, Width};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::rflags;
use arch::exception::INVALID_TSS;
use arch::segment::{Attributes, Descriptor, Segment, SegmentRegister, system};

/// What a far selector leads to.
enum Target {
    Code(Segment),
    CallGate(Descriptor),
    Task(u16),
}

impl Cpu {
    /// JMP far.
    pub(crate) fn far_jump(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        selector: u16,
        offset: u64,
    ) -> Result<(), Stop> {
        if !self.is_protected() {
            return self.real_jump(selector, offset);
        }
        match self.far_target(bus, selector)? {
            Target::Code(segment) => {
                let offset = in_segment(&segment, offset)?;
                self.set_code_segment(segment, self.registers.cpl);
                self.registers.ip = offset;
            }
            Target::CallGate(gate) => {
                let (segment, offset) = self.through_gate(bus, gate, selector, false)?;
                let offset = in_segment(&segment, offset)?;
                self.set_code_segment(segment, self.registers.cpl);
                self.registers.ip = offset;
            }
            Target::Task(tss) => {
                let next = self.registers.next_ip(op);
                return self.switch_task(bus, tss, super::task::Reason::Jump, next, None);
            }
        }
        Err(Stop::BRANCH)
    }

    fn real_jump(&mut self, selector: u16, offset: u64) -> Result<(), Stop> {
        if offset > self.registers.segments[SegmentRegister::Cs].limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.set_real_code(selector);
        self.registers.ip = offset;
        Err(Stop::BRANCH)
    }

    fn set_real_code(&mut self, selector: u16) {
        let old = self.registers.segments[SegmentRegister::Cs];
        let segment = if self.registers.is_virtual_8086() {
            Segment { attributes: Attributes(0xF3), ..Segment::real(selector) }
        } else {
            Segment { selector, base: (selector as u64) << 4, ..old }
        };
        self.registers.set_segment(SegmentRegister::Cs, segment);
    }

    /// Resolves the selector of a far JMP or CALL.
    fn far_target(&mut self, bus: &mut Bus<'_>, selector: u16) -> Result<Target, Stop> {
        if is_null(selector) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let descriptor = self.descriptor(bus, selector, Stop::gp(selector))?;
        let attributes = descriptor.attributes();
        if attributes.is_code() {
            return self.code_target(bus, selector, descriptor).map(Target::Code);
        }
        if attributes.is_code_or_data() {
            return Err(Stop::gp(selector));
        }
        let visible = attributes.dpl() >= self.registers.cpl.max(rpl(selector));
        if !visible {
            return Err(Stop::gp(selector));
        }
        let long = self.control.is_long_mode();
        let target = match attributes.kind() {
            system::CALL_GATE32 => Target::CallGate(descriptor),
            system::CALL_GATE16 if !long => Target::CallGate(descriptor),
            system::TASK_GATE if !long => Target::Task(descriptor.gate_selector()),
            system::TSS32_AVAILABLE | system::TSS16_AVAILABLE if !long => Target::Task(selector),
            _ => return Err(Stop::gp(selector)),
        };
        if !attributes.is_present() {
            return Err(not_present(selector));
        }
        Ok(target)
    }

    /// A code segment reached without a gate: privilege does not change.
    fn code_target(
        &mut self,
        bus: &mut Bus<'_>,
        selector: u16,
        descriptor: Descriptor,
    ) -> Result<Segment, Stop> {
        let attributes = descriptor.attributes();
        let allowed = if attributes.is_conforming() {
            attributes.dpl() <= self.registers.cpl
        } else {
            rpl(selector) <= self.registers.cpl && attributes.dpl() == self.registers.cpl
        };
        let sizes_clash =
            self.control.is_long_mode() && attributes.is_long() && attributes.is_big();
        if !allowed || sizes_clash {
            return Err(Stop::gp(selector));
        }
        if !attributes.is_present() {
            return Err(not_present(selector));
        }
        Ok(self.mark_accessed(bus, selector, descriptor)?.segment(selector))
    }

    /// The code segment and offset behind a call gate.
    fn through_gate(
        &mut self,
        bus: &mut Bus<'_>,
        gate: Descriptor,
        gate_selector: u16,
        is_call: bool,
    ) -> Result<(Segment, u64), Stop> {
        let selector = gate.gate_selector();
        if is_null(selector) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let is_32_bit = gate.attributes().kind() == system::CALL_GATE32;
        let mut offset = gate.gate_offset() as u64;
        if self.control.is_long_mode() {
            let upper = self.descriptor_upper(bus, gate_selector, Stop::gp(gate_selector))?;
            offset |= upper << 32;
        } else if !is_32_bit {
            offset &= 0xFFFF;
        }
        let descriptor = self.descriptor(bus, selector, Stop::gp(selector))?;
        let attributes = descriptor.attributes();
        let privilege = if is_call || attributes.is_conforming() {
            attributes.dpl() <= self.registers.cpl
        } else {
            attributes.dpl() == self.registers.cpl
        };
        let right_size =
            !self.control.is_long_mode() || attributes.is_long() && !attributes.is_big();
        if !attributes.is_code() || !privilege || !right_size {
            return Err(Stop::gp(selector));
        }
        if !attributes.is_present() {
            return Err(not_present(selector));
        }
        Ok((self.mark_accessed(bus, selector, descriptor)?.segment(selector), offset))
    }

    /// CALL far, the return address in slots of `W`.
    pub(crate) fn far_call<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        selector: u16,
        offset: u64,
    ) -> Result<(), Stop> {
        let (cs, next) = (
            self.registers.segments[SegmentRegister::Cs].selector as u64,
            self.registers.next_ip(op),
        );
        if !self.is_protected() {
            if offset > self.registers.segments[SegmentRegister::Cs].limit as u64 {
                return Err(Stop::GENERAL_PROTECTION);
            }
            self.push_pair::<W>(bus, op, cs, next)?;
            return self.real_jump(selector, offset);
        }
        match self.far_target(bus, selector)? {
            Target::Code(segment) => {
                let offset = in_segment(&segment, offset)?;
                self.push_pair::<W>(bus, op, cs, next)?;
                self.set_code_segment(segment, self.registers.cpl);
                self.registers.ip = offset;
                Err(Stop::BRANCH)
            }
            Target::CallGate(gate) => self.call_gate(bus, op, gate, selector, cs, next),
            Target::Task(tss) => self.switch_task(bus, tss, super::task::Reason::Call, next, None),
        }
    }

    /// Pushes CS and the instruction pointer; on a fault the stack pointer is as before.
    fn push_pair<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        cs: u64,
        ip: u64,
    ) -> Result<(), Stop> {
        let before = self.registers.gpr[RSP];
        self.push(bus, op, W::truncate(cs))?;
        let second = self.push(bus, op, W::truncate(ip));
        if second.is_err() {
            self.registers.gpr[RSP] = before;
        }
        second
    }

    fn call_gate(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        gate: Descriptor,
        gate_selector: u16,
        cs: u64,
        next: u64,
    ) -> Result<(), Stop> {
        let (segment, offset) = self.through_gate(bus, gate, gate_selector, true)?;
        let attributes = segment.attributes;
        let inner = !attributes.is_conforming() && attributes.dpl() < self.registers.cpl;
        let offset = in_segment(&segment, offset)?;
        if self.control.is_long_mode() {
            return self.long_call_gate(bus, segment, offset, inner, cs, next);
        }
        let is_32_bit = gate.attributes().kind() == system::CALL_GATE32;
        if !inner {
            if is_32_bit {
                self.push_pair::<u32>(bus, op, cs, next)?;
            } else {
                self.push_pair::<u16>(bus, op, cs, next)?;
            }
            self.set_code_segment(segment, self.registers.cpl);
            self.registers.ip = offset;
            return Err(Stop::BRANCH);
        }
        let cpl = attributes.dpl();
        let slot: usize = if is_32_bit { 4 } else { 2 };
        let (ss, sp) = self.inner_stack(bus, cpl, 0)?;
        let stack = self.inner_stack_segment(bus, ss, cpl, 0)?;
        let mut values = vec![
            self.registers.segments[SegmentRegister::Ss].selector as u64,
            self.registers.gpr[RSP],
        ];
        for parameter in (0..gate.gate_count() as u64).rev() {
            let at = self.registers.gpr[RSP].wrapping_add(parameter * slot as u64);
            let linear = self.stack_linear(false, at, slot, Access::Read)?;
            let place = self.locate_linear(bus, linear, slot, Access::Read, 2)?;
            values.push(self.read_place(bus, place));
        }
        values.extend([cs, next]);
        let mask = if stack.attributes.is_big() { 0xFFFF_FFFF } else { 0xFFFF };
        let mut pointer = sp;
        for value in values {
            pointer = pointer.wrapping_sub(slot as u64) & mask;
            if !crate::memory::within_limit(&stack, pointer, slot as u64) {
                return Err(stack_fault(ss));
            }
            let linear = stack.base.wrapping_add(pointer) & 0xFFFF_FFFF;
            self.write_system(bus, linear, slot, value)?;
        }
        self.set_code_segment(segment, cpl);
        self.registers.set_segment(SegmentRegister::Ss, stack);
        self.registers.gpr[RSP] = pointer;
        self.registers.ip = offset;
        Err(Stop::BRANCH)
    }

    fn long_call_gate(
        &mut self,
        bus: &mut Bus<'_>,
        segment: Segment,
        offset: u64,
        inner: bool,
        cs: u64,
        next: u64,
    ) -> Result<(), Stop> {
        let cpl = if inner { segment.attributes.dpl() } else { self.registers.cpl };
        let (mut pointer, old) = (self.registers.gpr[RSP], self.registers.gpr[RSP]);
        let mut values = vec![cs, next];
        if inner {
            let at = 4 + 8 * cpl as u64;
            if at + 7 > self.control.tr.limit as u64 {
                return Err(Stop::exception_with(INVALID_TSS, code_of(self.control.tr.selector)));
            }
            pointer = self.read_system(bus, self.control.tr.base.wrapping_add(at), 8)?;
            values
                .splice(0..0, [self.registers.segments[SegmentRegister::Ss].selector as u64, old]);
        }
        for value in values {
            pointer = pointer.wrapping_sub(8);
            self.write_system(bus, pointer, 8, value)?;
        }
        self.set_code_segment(segment, cpl);
        if inner {
            self.registers.set_segment(SegmentRegister::Ss, null_segment(cpl as u16));
        }
        self.registers.gpr[RSP] = pointer;
        self.registers.ip = offset;
        Err(Stop::BRANCH)
    }

    /// RET far, dropping `extra` bytes of parameters.
    pub(crate) fn far_return<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        extra: u64,
    ) -> Result<(), Stop> {
        let bytes = W::BYTES as u64;
        let ip = self.peek_stack::<W>(bus, op, 0)?.zero_extend();
        let selector = self.peek_stack::<W>(bus, op, bytes)?.zero_extend() as u16;
        if !self.is_protected() {
            if ip > self.registers.segments[SegmentRegister::Cs].limit as u64 {
                return Err(Stop::GENERAL_PROTECTION);
            }
            self.move_stack(op, 2 * bytes + extra);
            self.set_real_code(selector);
            self.registers.ip = ip;
            return Err(Stop::BRANCH);
        }
        let segment = self.return_segment(bus, selector)?;
        let ip = in_segment(&segment, ip)?;
        if rpl(selector) == self.registers.cpl {
            self.move_stack(op, 2 * bytes + extra);
            self.set_code_segment(segment, self.registers.cpl);
            self.registers.ip = ip;
            return Err(Stop::BRANCH);
        }
        let sp = self.peek_stack::<W>(bus, op, 2 * bytes + extra)?.zero_extend();
        let ss = self.peek_stack::<W>(bus, op, 3 * bytes + extra)?.zero_extend() as u16;
        let stack = self.outer_stack(bus, ss, rpl(selector), segment.attributes)?;
        self.enter_outer(segment, stack, ip, sp.wrapping_add(extra));
        Err(Stop::BRANCH)
    }

    /// The code segment that a RET or IRET goes back to.
    fn return_segment(&mut self, bus: &mut Bus<'_>, selector: u16) -> Result<Segment, Stop> {
        if is_null(selector) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let descriptor = self.descriptor(bus, selector, Stop::gp(selector))?;
        let attributes = descriptor.attributes();
        let level = rpl(selector);
        let privilege = if attributes.is_conforming() {
            attributes.dpl() <= level
        } else {
            attributes.dpl() == level
        };
        let sizes_clash =
            self.control.is_long_mode() && attributes.is_long() && attributes.is_big();
        if !attributes.is_code() || level < self.registers.cpl || !privilege || sizes_clash {
            return Err(Stop::gp(selector));
        }
        if !attributes.is_present() {
            return Err(not_present(selector));
        }
        Ok(self.mark_accessed(bus, selector, descriptor)?.segment(selector))
    }

    /// The stack segment that a return to privilege level `cpl` loads. A null one is allowed when
    /// the target is 64-bit code below level 3.
    fn outer_stack(
        &mut self,
        bus: &mut Bus<'_>,
        selector: u16,
        cpl: u8,
        target: Attributes,
    ) -> Result<Segment, Stop> {
        if is_null(selector) && self.control.is_long_mode() && target.is_long() && cpl != 3 {
            return if rpl(selector) == cpl {
                Ok(null_segment(selector))
            } else {
                Err(Stop::gp(selector))
            };
        }
        if is_null(selector) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.checked_stack_segment(bus, selector, cpl, Stop::gp, stack_fault)
    }

    fn enter_outer(&mut self, code: Segment, stack: Segment, ip: u64, sp: u64) {
        let cpl = rpl(code.selector);
        self.set_code_segment(code, cpl);
        self.registers.set_segment(SegmentRegister::Ss, stack);
        let is_long = self.is_64_bit();
        self.set_stack_pointer(is_long, sp);
        self.registers.ip = ip;
        self.drop_privileged_segments();
    }

    /// IRET. [APM3 "IRET"]
    pub(crate) fn interrupt_return<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
    ) -> Result<(), Stop> {
        let bytes = W::BYTES as u64;
        if self.is_protected() && self.registers.flags.has(rflags::NT) {
            if self.control.is_long_mode() {
                return Err(Stop::GENERAL_PROTECTION);
            }
            let next = self.registers.next_ip(op);
            return self.return_from_task(bus, next);
        }
        let iopl = (self.registers.flags.system >> 12 & 3) as u8;
        if self.registers.is_virtual_8086() && iopl < 3 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let ip = self.peek_stack::<W>(bus, op, 0)?.zero_extend();
        let selector = self.peek_stack::<W>(bus, op, bytes)?.zero_extend() as u16;
        let image = self.peek_stack::<W>(bus, op, 2 * bytes)?.zero_extend();
        if !self.is_protected() {
            return self.return_to_real::<W>(op, ip, selector, image);
        }
        if image & rflags::VM != 0
            && self.registers.cpl == 0
            && bytes == 4
            && !self.control.is_long_mode()
        {
            return self.return_to_virtual(bus, op, ip, selector, image);
        }
        let segment = self.return_segment(bus, selector)?;
        let ip = in_segment(&segment, ip)?;
        let mask = self.returned_flags::<W>();
        // 64-bit IRET always restores the stack.
        if rpl(selector) > self.registers.cpl || op.has(Op::LONG) {
            let sp = self.peek_stack::<W>(bus, op, 3 * bytes)?.zero_extend();
            let ss = self.peek_stack::<W>(bus, op, 4 * bytes)?.zero_extend() as u16;
            let stack = self.outer_stack(bus, ss, rpl(selector), segment.attributes)?;
            let outer = rpl(selector) > self.registers.cpl;
            self.set_code_segment(segment, rpl(selector));
            self.registers.set_segment(SegmentRegister::Ss, stack);
            let is_long = self.is_64_bit();
            self.set_stack_pointer(is_long, sp);
            self.registers.ip = ip;
            if outer {
                self.drop_privileged_segments();
            }
        } else {
            self.move_stack(op, 3 * bytes);
            self.set_code_segment(segment, self.registers.cpl);
            self.registers.ip = ip;
        }
        self.write_flags(image, mask);
        self.unblock_nmi();
        Err(Stop::BRANCH)
    }

    /// The flags that IRET may change at the present privilege.
    fn returned_flags<W: Width>(&self) -> u64 {
        let iopl = (self.registers.flags.system >> 12 & 3) as u8;
        let mut mask = rflags::STATUS | rflags::TF | rflags::DF | rflags::NT;
        if W::BYTES > 2 {
            mask |= rflags::RF | rflags::AC | rflags::ID;
        }
        if self.registers.cpl <= iopl {
            mask |= rflags::IF;
        }
        if self.registers.cpl == 0 {
            mask |= rflags::IOPL;
            if W::BYTES > 2 {
                mask |= rflags::VIF | rflags::VIP;
            }
        }
        mask
    }

    fn return_to_real<W: Width>(
        &mut self,
        op: &Op,
        ip: u64,
        selector: u16,
        image: u64,
    ) -> Result<(), Stop> {
        if ip > self.registers.segments[SegmentRegister::Cs].limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.move_stack(op, 3 * W::BYTES as u64);
        let mut mask = rflags::STATUS | rflags::TF | rflags::IF | rflags::DF | rflags::NT;
        if !self.registers.is_virtual_8086() {
            mask |= rflags::IOPL;
        }
        if W::BYTES > 2 {
            mask |= rflags::RF | rflags::AC | rflags::ID;
        }
        self.set_real_code(selector);
        self.registers.ip = ip;
        self.write_flags(image, mask);
        self.unblock_nmi();
        Err(Stop::BRANCH)
    }

    fn return_to_virtual(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        ip: u64,
        selector: u16,
        image: u64,
    ) -> Result<(), Stop> {
        let mut slots = [0; 6];
        for (i, slot) in slots.iter_mut().enumerate() {
            *slot = self.peek_stack::<u32>(bus, op, 12 + 4 * i as u64)?;
        }
        let [sp, ss, es, ds, fs, gs] = slots;
        self.write_flags(image, rflags::ALL & !rflags::FIXED);
        let virtual_segment = |selector: u32| Segment {
            attributes: Attributes(0xF3),
            ..Segment::real(selector as u16)
        };
        use SegmentRegister::*;
        for (register, selector) in
            [(Cs, selector as u32), (Ss, ss), (Es, es), (Ds, ds), (Fs, fs), (Gs, gs)]
        {
            self.registers.set_segment(register, virtual_segment(selector));
        }
        self.registers.gpr[RSP] = sp as u64;
        self.registers.ip = ip & 0xFFFF;
        self.set_cpl(3);
        self.unblock_nmi();
        Err(Stop::BRANCH)
    }

    /// IRET lets NMIs in again.
    fn unblock_nmi(&mut self) {
        self.unblock_nmis();
        self.pending.attention |= Attention::INTERRUPT;
    }
}

/// The offset, checked against the segment that will be CS.
fn in_segment(segment: &Segment, offset: u64) -> Result<u64, Stop> {
    if segment.attributes.is_long() {
        return if (offset as i64) << 16 >> 16 == offset as i64 {
            Ok(offset)
        } else {
            Err(Stop::GENERAL_PROTECTION)
        };
    }
    let offset = offset & 0xFFFF_FFFF;
    if offset > segment.limit as u64 { Err(Stop::GENERAL_PROTECTION) } else { Ok(offset) }
}
