//! Far JMP, CALL, RET and IRET. [APM2 "Control-Transfer Privilege Checks"] [APM3 "CALL (Far)"]

use super::descriptor::{code_of, is_null, not_present, null_segment, rpl, stack_fault};
use crate::execute::stack;
use crate::memory::Access;
use crate::operation::Op;
use crate::state::Registers;
use crate::system::descriptor;
use crate::system::event;
use crate::system::task;
use crate::width::{RSP, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::exception::INVALID_TSS;
use arch::segment::{Attributes, Descriptor, Segment, SegmentRegister, system};

/// What a far selector leads to.
enum Target {
    Code(Segment),
    CallGate(Descriptor),
    Task(u16),
}

/// JMP far.
pub(crate) fn far_jump(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    selector: u16,
    offset: u64,
) -> Result<(), Stop> {
    if !cpu.is_protected() {
        return cpu.registers.real_jump(selector, offset);
    }
    match far_target(cpu, bus, selector)? {
        Target::Code(segment) => {
            let offset = in_segment(&segment, offset)?;
            descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
            cpu.registers.ip = offset;
        }
        Target::CallGate(gate) => {
            let (segment, offset) = through_gate(cpu, bus, gate, selector, false)?;
            let offset = in_segment(&segment, offset)?;
            descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
            cpu.registers.ip = offset;
        }
        Target::Task(tss) => {
            let next = cpu.registers.next_ip(op);
            return task::switch_task(cpu, bus, tss, super::task::Reason::Jump, next, None);
        }
    }
    Err(Stop::BRANCH)
}

/// Resolves the selector of a far JMP or CALL.
fn far_target(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<Target, Stop> {
    if is_null(selector) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    if attributes.is_code() {
        return code_target(cpu, bus, selector, descriptor).map(Target::Code);
    }
    if attributes.is_code_or_data() {
        return Err(Stop::gp(selector));
    }
    let visible = attributes.dpl() >= cpu.registers.cpl().max(rpl(selector));
    if !visible {
        return Err(Stop::gp(selector));
    }
    let long = cpu.control.is_long_mode();
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
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    descriptor: Descriptor,
) -> Result<Segment, Stop> {
    let attributes = descriptor.attributes();
    let allowed = if attributes.is_conforming() {
        attributes.dpl() <= cpu.registers.cpl()
    } else {
        rpl(selector) <= cpu.registers.cpl() && attributes.dpl() == cpu.registers.cpl()
    };
    let sizes_clash = cpu.control.is_long_mode() && attributes.is_long() && attributes.is_big();
    if !allowed || sizes_clash {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    Ok(descriptor::mark_accessed(cpu, bus, selector, descriptor)?.segment(selector))
}

/// The code segment and offset behind a call gate.
fn through_gate(
    cpu: &mut Cpu,
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
    if cpu.control.is_long_mode() {
        let upper = descriptor::descriptor_upper(cpu, bus, gate_selector, Stop::gp(gate_selector))?;
        offset |= upper << 32;
    } else if !is_32_bit {
        offset &= 0xFFFF;
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    let privilege = if is_call || attributes.is_conforming() {
        attributes.dpl() <= cpu.registers.cpl()
    } else {
        attributes.dpl() == cpu.registers.cpl()
    };
    let right_size = !cpu.control.is_long_mode() || attributes.is_long() && !attributes.is_big();
    if !attributes.is_code() || !privilege || !right_size {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    Ok((descriptor::mark_accessed(cpu, bus, selector, descriptor)?.segment(selector), offset))
}

/// CALL far, the return address in slots of `W`.
pub(crate) fn far_call<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    selector: u16,
    offset: u64,
) -> Result<(), Stop> {
    let (cs, next) =
        (cpu.registers.segment(SegmentRegister::Cs).selector as u64, cpu.registers.next_ip(op));
    if !cpu.is_protected() {
        if offset > cpu.registers.segment(SegmentRegister::Cs).limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        push_pair::<W>(cpu, bus, op, cs, next)?;
        return cpu.registers.real_jump(selector, offset);
    }
    match far_target(cpu, bus, selector)? {
        Target::Code(segment) => {
            let offset = in_segment(&segment, offset)?;
            push_pair::<W>(cpu, bus, op, cs, next)?;
            descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
            cpu.registers.ip = offset;
            Err(Stop::BRANCH)
        }
        Target::CallGate(gate) => call_gate(cpu, bus, op, gate, selector, cs, next),
        Target::Task(tss) => {
            task::switch_task(cpu, bus, tss, super::task::Reason::Call, next, None)
        }
    }
}

/// Pushes CS and the instruction pointer; on a fault the stack pointer is as before.
fn push_pair<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    cs: u64,
    ip: u64,
) -> Result<(), Stop> {
    let before = cpu.registers.gpr[RSP];
    stack::push(cpu, bus, op, W::truncate(cs))?;
    let second = stack::push(cpu, bus, op, W::truncate(ip));
    if second.is_err() {
        cpu.registers.gpr[RSP] = before;
    }
    second
}

fn call_gate(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    gate: Descriptor,
    gate_selector: u16,
    cs: u64,
    next: u64,
) -> Result<(), Stop> {
    let (segment, offset) = through_gate(cpu, bus, gate, gate_selector, true)?;
    let attributes = segment.attributes;
    let inner = !attributes.is_conforming() && attributes.dpl() < cpu.registers.cpl();
    let offset = in_segment(&segment, offset)?;
    if cpu.control.is_long_mode() {
        return long_call_gate(cpu, bus, segment, offset, inner, cs, next);
    }
    let is_32_bit = gate.attributes().kind() == system::CALL_GATE32;
    if !inner {
        if is_32_bit {
            push_pair::<u32>(cpu, bus, op, cs, next)?;
        } else {
            push_pair::<u16>(cpu, bus, op, cs, next)?;
        }
        descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
        cpu.registers.ip = offset;
        return Err(Stop::BRANCH);
    }
    let cpl = attributes.dpl();
    let slot: usize = if is_32_bit { 4 } else { 2 };
    let (ss, sp) = event::inner_stack(cpu, bus, cpl, 0)?;
    let stack = event::inner_stack_segment(cpu, bus, ss, cpl, 0)?;
    let mut values =
        vec![cpu.registers.segment(SegmentRegister::Ss).selector as u64, cpu.registers.gpr[RSP]];
    for parameter in (0..gate.gate_count() as u64).rev() {
        let at = cpu.registers.gpr[RSP].wrapping_add(parameter * slot as u64);
        let linear = stack::stack_linear(cpu, false, at, slot, Access::Read)?;
        let place = cpu.locate_linear(bus, linear, slot, Access::Read, 2)?;
        values.push(cpu.read_place(bus, place));
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
        cpu.write_system(bus, linear, slot, value)?;
    }
    descriptor::set_code_segment(cpu, segment, cpl);
    cpu.registers.set_segment(SegmentRegister::Ss, stack);
    cpu.registers.gpr[RSP] = pointer;
    cpu.registers.ip = offset;
    Err(Stop::BRANCH)
}

fn long_call_gate(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    segment: Segment,
    offset: u64,
    inner: bool,
    cs: u64,
    next: u64,
) -> Result<(), Stop> {
    let cpl = if inner { segment.attributes.dpl() } else { cpu.registers.cpl() };
    let (mut pointer, old) = (cpu.registers.gpr[RSP], cpu.registers.gpr[RSP]);
    let mut values = vec![cs, next];
    if inner {
        let at = 4 + 8 * cpl as u64;
        if at + 7 > cpu.control.tr.limit as u64 {
            return Err(Stop::exception_with(INVALID_TSS, code_of(cpu.control.tr.selector)));
        }
        pointer = cpu.read_system(bus, cpu.control.tr.base.wrapping_add(at), 8)?;
        values.splice(0..0, [cpu.registers.segment(SegmentRegister::Ss).selector as u64, old]);
    }
    for value in values {
        pointer = pointer.wrapping_sub(8);
        cpu.write_system(bus, pointer, 8, value)?;
    }
    descriptor::set_code_segment(cpu, segment, cpl);
    if inner {
        cpu.registers.set_segment(SegmentRegister::Ss, null_segment(cpl as u16));
    }
    cpu.registers.gpr[RSP] = pointer;
    cpu.registers.ip = offset;
    Err(Stop::BRANCH)
}

/// RET far, dropping `extra` bytes of parameters.
pub(crate) fn far_return<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    extra: u64,
) -> Result<(), Stop> {
    let bytes = W::BYTES as u64;
    let ip = stack::peek_stack::<W>(cpu, bus, op, 0)?.zero_extend();
    let selector = stack::peek_stack::<W>(cpu, bus, op, bytes)?.zero_extend() as u16;
    if !cpu.is_protected() {
        if ip > cpu.registers.segment(SegmentRegister::Cs).limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        cpu.registers.move_stack(op, 2 * bytes + extra);
        cpu.registers.set_real_code(selector);
        cpu.registers.ip = ip;
        return Err(Stop::BRANCH);
    }
    let segment = return_segment(cpu, bus, selector)?;
    let ip = in_segment(&segment, ip)?;
    if rpl(selector) == cpu.registers.cpl() {
        cpu.registers.move_stack(op, 2 * bytes + extra);
        descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
        cpu.registers.ip = ip;
        return Err(Stop::BRANCH);
    }
    let sp = stack::peek_stack::<W>(cpu, bus, op, 2 * bytes + extra)?.zero_extend();
    let ss = stack::peek_stack::<W>(cpu, bus, op, 3 * bytes + extra)?.zero_extend() as u16;
    let stack = outer_stack(cpu, bus, ss, rpl(selector), segment.attributes)?;
    enter_outer(cpu, segment, stack, ip, sp.wrapping_add(extra));
    Err(Stop::BRANCH)
}

/// The code segment that a RET or IRET goes back to.
fn return_segment(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<Segment, Stop> {
    if is_null(selector) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    let level = rpl(selector);
    let privilege = if attributes.is_conforming() {
        attributes.dpl() <= level
    } else {
        attributes.dpl() == level
    };
    let sizes_clash = cpu.control.is_long_mode() && attributes.is_long() && attributes.is_big();
    if !attributes.is_code() || level < cpu.registers.cpl() || !privilege || sizes_clash {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    Ok(descriptor::mark_accessed(cpu, bus, selector, descriptor)?.segment(selector))
}

/// The stack segment that a return to privilege level `cpl` loads. A null one is allowed when
/// the target is 64-bit code below level 3.
fn outer_stack(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    cpl: u8,
    target: Attributes,
) -> Result<Segment, Stop> {
    if is_null(selector) && cpu.control.is_long_mode() && target.is_long() && cpl != 3 {
        return if rpl(selector) == cpl {
            Ok(null_segment(selector))
        } else {
            Err(Stop::gp(selector))
        };
    }
    if is_null(selector) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    descriptor::checked_stack_segment(cpu, bus, selector, cpl, Stop::gp, stack_fault)
}

fn enter_outer(cpu: &mut Cpu, code: Segment, stack: Segment, ip: u64, sp: u64) {
    let cpl = rpl(code.selector);
    descriptor::set_code_segment(cpu, code, cpl);
    cpu.registers.set_segment(SegmentRegister::Ss, stack);
    let is_long = cpu.is_64_bit();
    cpu.registers.set_stack_pointer(is_long, sp);
    cpu.registers.ip = ip;
    descriptor::drop_privileged_segments(cpu);
}

/// IRET. [APM3 "IRET"]
pub(crate) fn interrupt_return<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let bytes = W::BYTES as u64;
    if cpu.is_protected() && cpu.registers.flags.has(rflags::NT) {
        if cpu.control.is_long_mode() {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let next = cpu.registers.next_ip(op);
        return task::return_from_task(cpu, bus, next);
    }
    let iopl = (cpu.registers.flags.system >> 12 & 3) as u8;
    if cpu.registers.is_virtual_8086() && iopl < 3 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let ip = stack::peek_stack::<W>(cpu, bus, op, 0)?.zero_extend();
    let selector = stack::peek_stack::<W>(cpu, bus, op, bytes)?.zero_extend() as u16;
    let image = stack::peek_stack::<W>(cpu, bus, op, 2 * bytes)?.zero_extend();
    if !cpu.is_protected() {
        return return_to_real::<W>(cpu, op, ip, selector, image);
    }
    if image & rflags::VM != 0
        && cpu.registers.cpl() == 0
        && bytes == 4
        && !cpu.control.is_long_mode()
    {
        return return_to_virtual(cpu, bus, op, ip, selector, image);
    }
    let segment = return_segment(cpu, bus, selector)?;
    let ip = in_segment(&segment, ip)?;
    let mask = cpu.registers.returned_flags::<W>();
    // 64-bit IRET always restores the stack.
    if rpl(selector) > cpu.registers.cpl() || op.has(Op::LONG) {
        let sp = stack::peek_stack::<W>(cpu, bus, op, 3 * bytes)?.zero_extend();
        let ss = stack::peek_stack::<W>(cpu, bus, op, 4 * bytes)?.zero_extend() as u16;
        let stack = outer_stack(cpu, bus, ss, rpl(selector), segment.attributes)?;
        let outer = rpl(selector) > cpu.registers.cpl();
        descriptor::set_code_segment(cpu, segment, rpl(selector));
        cpu.registers.set_segment(SegmentRegister::Ss, stack);
        let is_long = cpu.is_64_bit();
        cpu.registers.set_stack_pointer(is_long, sp);
        cpu.registers.ip = ip;
        if outer {
            descriptor::drop_privileged_segments(cpu);
        }
    } else {
        cpu.registers.move_stack(op, 3 * bytes);
        descriptor::set_code_segment(cpu, segment, cpu.registers.cpl());
        cpu.registers.ip = ip;
    }
    stack::write_flags(cpu, image, mask);
    unblock_nmi(cpu);
    Err(Stop::BRANCH)
}

fn return_to_real<W: Width>(
    cpu: &mut Cpu,
    op: &Op,
    ip: u64,
    selector: u16,
    image: u64,
) -> Result<(), Stop> {
    if ip > cpu.registers.segment(SegmentRegister::Cs).limit as u64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.move_stack(op, 3 * W::BYTES as u64);
    let mut mask = rflags::STATUS | rflags::TF | rflags::IF | rflags::DF | rflags::NT;
    if !cpu.registers.is_virtual_8086() {
        mask |= rflags::IOPL;
    }
    if W::BYTES > 2 {
        mask |= rflags::RF | rflags::AC | rflags::ID;
    }
    cpu.registers.set_real_code(selector);
    cpu.registers.ip = ip;
    stack::write_flags(cpu, image, mask);
    unblock_nmi(cpu);
    Err(Stop::BRANCH)
}

fn return_to_virtual(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    ip: u64,
    selector: u16,
    image: u64,
) -> Result<(), Stop> {
    let mut slots = [0; 6];
    for (i, slot) in slots.iter_mut().enumerate() {
        *slot = stack::peek_stack::<u32>(cpu, bus, op, 12 + 4 * i as u64)?;
    }
    let [sp, ss, es, ds, fs, gs] = slots;
    stack::write_flags(cpu, image, rflags::ALL & !rflags::FIXED);
    let virtual_segment =
        |selector: u32| Segment { attributes: Attributes(0xF3), ..Segment::real(selector as u16) };
    use SegmentRegister::*;
    for (register, selector) in
        [(Cs, selector as u32), (Ss, ss), (Es, es), (Ds, ds), (Fs, fs), (Gs, gs)]
    {
        cpu.registers.set_segment(register, virtual_segment(selector));
    }
    cpu.registers.gpr[RSP] = sp as u64;
    cpu.registers.ip = ip & 0xFFFF;
    descriptor::set_cpl(cpu, 3);
    unblock_nmi(cpu);
    Err(Stop::BRANCH)
}

/// IRET lets NMIs in again.
fn unblock_nmi(cpu: &mut Cpu) {
    cpu.unblock_nmis();
    cpu.look_for_interrupt();
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

impl Registers {
    fn set_real_code(&mut self, selector: u16) {
        let old = self.segment(SegmentRegister::Cs);
        let segment = if self.is_virtual_8086() {
            Segment { attributes: Attributes(0xF3), ..Segment::real(selector) }
        } else {
            Segment { selector, base: (selector as u64) << 4, ..old }
        };
        self.set_segment(SegmentRegister::Cs, segment);
    }

    /// The flags that IRET may change at the present privilege.
    fn returned_flags<W: Width>(&self) -> u64 {
        let iopl = (self.flags.system >> 12 & 3) as u8;
        let mut mask = rflags::STATUS | rflags::TF | rflags::DF | rflags::NT;
        if W::BYTES > 2 {
            mask |= rflags::RF | rflags::AC | rflags::ID;
        }
        if self.cpl() <= iopl {
            mask |= rflags::IF;
        }
        if self.cpl() == 0 {
            mask |= rflags::IOPL;
            if W::BYTES > 2 {
                mask |= rflags::VIF | rflags::VIP;
            }
        }
        mask
    }
}

impl Registers {
    fn real_jump(&mut self, selector: u16, offset: u64) -> Result<(), Stop> {
        if offset > self.segment(SegmentRegister::Cs).limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.set_real_code(selector);
        self.ip = offset;
        Err(Stop::BRANCH)
    }
}
