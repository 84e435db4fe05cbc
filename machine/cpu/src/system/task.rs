//! Hardware task switches. [APM2 "Task Management"]

use super::descriptor::{code_of, is_null, null_segment, rpl};
use crate::execute::stack;
use crate::guest::Arrival;
use crate::state::Event;
use crate::system::control;
use crate::system::descriptor;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Cr0, rflags};
use arch::exception::{INVALID_TSS, SEGMENT_NOT_PRESENT};
use arch::segment::{Attributes, Segment, SegmentRegister, system};

/// What asks for the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Jump,
    Call,
    Return,
    Interrupt,
}

/// Offsets of the fields of a TSS.
struct Layout {
    bytes: usize,
    ip: u64,
    flags: u64,
    registers: u64,
    selectors: u64,
    /// Distance between two selector slots.
    stride: u64,
    ldt: u64,
    cr3: Option<u64>,
    limit: u32,
}

const TSS32: Layout = Layout {
    bytes: 4,
    ip: 0x20,
    flags: 0x24,
    registers: 0x28,
    selectors: 0x48,
    stride: 4,
    ldt: 0x60,
    cr3: Some(0x1C),
    limit: 0x67,
};

const TSS16: Layout = Layout {
    bytes: 2,
    ip: 0x0E,
    flags: 0x10,
    registers: 0x12,
    selectors: 0x22,
    stride: 2,
    ldt: 0x2A,
    cr3: None,
    limit: 0x2B,
};

fn layout(attributes: Attributes) -> &'static Layout {
    if attributes.kind() & 8 != 0 { &TSS32 } else { &TSS16 }
}

fn bad_tss(selector: u16) -> Stop {
    Stop::exception_with(INVALID_TSS, code_of(selector))
}

/// Switches to the task of `selector`; `next` is the old task's instruction pointer. Ends in
/// `BRANCH`, or a fault of the old task.
pub(super) fn switch_task(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    reason: Reason,
    next: u64,
    error: Option<u32>,
) -> Result<(), Stop> {
    cpu.arrives(Arrival::TaskSwitch {
        selector,
        is_iret: reason == Reason::Return,
        is_far_jump: reason == Reason::Jump,
        error,
    })?;
    let target = task_descriptor(cpu, bus, selector, reason)?;
    save_task(cpu, bus, next, reason)?;
    enter_task(cpu, bus, selector, target, reason)?;
    if let Some(error) = error {
        push_task_error(cpu, bus, target.attributes, error)?;
    }
    Err(Stop::BRANCH)
}

fn task_descriptor(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    reason: Reason,
) -> Result<Segment, Stop> {
    let bad = if reason == Reason::Return { bad_tss(selector) } else { Stop::gp(selector) };
    if is_null(selector) || selector & 4 != 0 {
        return Err(bad);
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, bad)?;
    let attributes = descriptor.attributes();
    let wanted = if reason == Reason::Return {
        [system::TSS32_BUSY, system::TSS16_BUSY]
    } else {
        [system::TSS32_AVAILABLE, system::TSS16_AVAILABLE]
    };
    if attributes.is_code_or_data() || !wanted.contains(&attributes.kind()) {
        return Err(bad);
    }
    if !attributes.is_present() {
        return Err(Stop::exception_with(SEGMENT_NOT_PRESENT, code_of(selector)));
    }
    let segment = descriptor.segment(selector);
    if segment.limit < layout(attributes).limit {
        return Err(bad_tss(selector));
    }
    Ok(segment)
}

fn save_task(cpu: &mut Cpu, bus: &mut Bus<'_>, next: u64, reason: Reason) -> Result<(), Stop> {
    let tss = layout(cpu.control.tr.attributes);
    let base = cpu.control.tr.base;
    let mut flags = cpu.registers.flags.bits();
    if reason == Reason::Return {
        flags &= !rflags::NT;
    }
    cpu.write_system(bus, base.wrapping_add(tss.ip), tss.bytes, next)?;
    cpu.write_system(bus, base.wrapping_add(tss.flags), tss.bytes, flags)?;
    for number in 0..8 {
        let at = base.wrapping_add(tss.registers + (number * tss.bytes) as u64);
        cpu.write_system(bus, at, tss.bytes, cpu.registers.gpr[number])?;
    }
    let count = if tss.bytes == 4 { 6 } else { 4 };
    for register in SegmentRegister::ALL.into_iter().take(count) {
        let at = base.wrapping_add(tss.selectors + register as u64 * tss.stride);
        let selector = cpu.registers.segment(register).selector;
        cpu.write_system(bus, at, 2, selector as u64)?;
    }
    Ok(())
}

fn enter_task(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    target: Segment,
    reason: Reason,
) -> Result<(), Stop> {
    let tss = layout(target.attributes);
    let base = target.base;
    let ip = cpu.read_system(bus, base + tss.ip, tss.bytes)?;
    let mut flags = cpu.read_system(bus, base + tss.flags, tss.bytes)?;
    let mut registers = [0; 8];
    for (number, register) in registers.iter_mut().enumerate() {
        let at = base + tss.registers + (number * tss.bytes) as u64;
        *register = cpu.read_system(bus, at, tss.bytes)?;
    }
    let mut selectors = [0u16; 6];
    let count = if tss.bytes == 4 { 6 } else { 4 };
    for (number, slot) in selectors.iter_mut().enumerate().take(count) {
        let at = base + tss.selectors + number as u64 * tss.stride;
        *slot = cpu.read_system(bus, at, 2)? as u16;
    }
    let ldt = cpu.read_system(bus, base + tss.ldt, 2)? as u16;
    let cr3 = match tss.cr3 {
        Some(at) => Some(cpu.read_system(bus, base + at, 4)?),
        None => None,
    };
    let old = cpu.control.tr.selector;
    if matches!(reason, Reason::Jump | Reason::Return) {
        descriptor::mark_busy(cpu, bus, old, false)?;
    }
    if reason != Reason::Return {
        descriptor::mark_busy(cpu, bus, selector, true)?;
    }
    if matches!(reason, Reason::Call | Reason::Interrupt) {
        cpu.write_system(bus, base, 2, old as u64)?;
        flags |= rflags::NT;
    }
    cpu.control.tr = target;
    cpu.control.tr.attributes.0 |= 2;
    cpu.control.switch_cr0(Cr0::TASK_SWITCHED, true);
    cpu.debug.leave_task();
    cpu.update_breakpoints();
    if let Some(cr3) = cr3
        && cpu.control.cr0().contains(Cr0::PAGING)
    {
        control::load_cr3(cpu, bus, cr3)?;
    }
    for (number, value) in registers.into_iter().enumerate() {
        let kept = if tss.bytes == 2 { cpu.registers.gpr[number] & 0xFFFF_0000 } else { 0 };
        cpu.registers.gpr[number] = kept | value;
    }
    stack::write_flags(cpu, flags, rflags::ALL & !rflags::FIXED);
    cpu.registers.ip = ip;
    load_task_segments(cpu, bus, selectors, ldt)?;
    let traps = tss.bytes == 4 && cpu.read_system(bus, base + 0x64, 2)? & 1 != 0;
    if traps {
        cpu.debug.pend(arch::control::debug::DR6_TASK_SWITCH);
        cpu.pending.raise(Attention::DEBUG_TRAP);
    }
    Ok(())
}

/// Loads the new task's segments; faults belong to the new task.
fn load_task_segments(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selectors: [u16; 6],
    ldt: u16,
) -> Result<(), Stop> {
    use SegmentRegister::*;
    for register in SegmentRegister::ALL {
        cpu.registers.set_segment(register, null_segment(selectors[register as usize]));
    }
    cpu.control.ldtr = null_segment(ldt);
    if cpu.registers.is_virtual_8086() {
        for register in SegmentRegister::ALL {
            let selector = selectors[register as usize];
            let segment = Segment { attributes: Attributes(0xF3), ..Segment::real(selector) };
            cpu.registers.set_segment(register, segment);
        }
        descriptor::set_cpl(cpu, 3);
        return load_task_ldt(cpu, bus, ldt);
    }
    descriptor::set_cpl(cpu, rpl(selectors[Cs as usize]));
    load_task_ldt(cpu, bus, ldt)?;
    load_task_code(cpu, bus, selectors[Cs as usize])?;
    let ss = selectors[Ss as usize];
    let stack = descriptor::checked_stack_segment(
        cpu,
        bus,
        ss,
        cpu.registers.cpl(),
        bad_tss,
        |selector| Stop::exception_with(arch::exception::STACK, code_of(selector)),
    )?;
    cpu.registers.set_segment(Ss, stack);
    for register in [Ds, Es, Fs, Gs] {
        let selector = selectors[register as usize];
        let segment =
            descriptor::checked_data_segment(cpu, bus, selector).map_err(as_task_fault)?;
        cpu.registers.set_segment(register, segment);
    }
    Ok(())
}

fn load_task_ldt(cpu: &mut Cpu, bus: &mut Bus<'_>, ldt: u16) -> Result<(), Stop> {
    descriptor::load_ldtr(cpu, bus, ldt).map_err(|_| bad_tss(ldt))
}

fn load_task_code(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<(), Stop> {
    if is_null(selector) {
        return Err(bad_tss(selector));
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, bad_tss(selector))?;
    let attributes = descriptor.attributes();
    let privilege = if attributes.is_conforming() {
        attributes.dpl() <= rpl(selector)
    } else {
        attributes.dpl() == rpl(selector)
    };
    if !attributes.is_code() || !privilege {
        return Err(bad_tss(selector));
    }
    if !attributes.is_present() {
        return Err(Stop::exception_with(SEGMENT_NOT_PRESENT, code_of(selector)));
    }
    let segment = descriptor::mark_accessed(cpu, bus, selector, descriptor)?.segment(selector);
    descriptor::set_code_segment(cpu, segment, rpl(selector));
    Ok(())
}

fn push_task_error(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    attributes: Attributes,
    error: u32,
) -> Result<(), Stop> {
    let bytes = layout(attributes).bytes;
    let pointer = cpu.registers.gpr[crate::width::RSP].wrapping_sub(bytes as u64);
    let linear = stack::stack_linear(cpu, false, pointer, bytes, crate::memory::Access::Write)?;
    cpu.write_system(bus, linear, bytes, error as u64)?;
    cpu.registers.set_stack_pointer(false, pointer);
    Ok(())
}

/// IRET with NT: back to the task of the back link.
pub(super) fn return_from_task(cpu: &mut Cpu, bus: &mut Bus<'_>, next: u64) -> Result<(), Stop> {
    let link = cpu.read_system(bus, cpu.control.tr.base, 2)? as u16;
    switch_task(cpu, bus, link, Reason::Return, next, None)
}

/// An event through a task gate.
pub(super) fn deliver_by_task(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    event: Event,
    tss: u16,
) -> Result<(), Stop> {
    let next = cpu.registers.ip;
    match switch_task(cpu, bus, tss, Reason::Interrupt, next, event.error) {
        Err(stop) if stop == Stop::BRANCH => Ok(()),
        other => other,
    }
}

/// A data segment's #GP during a task switch is #TS.
fn as_task_fault(stop: Stop) -> Stop {
    match stop.kind() {
        crate::StopKind::Exception { vector, error: Some(error), .. }
            if vector == arch::exception::GENERAL_PROTECTION =>
        {
            Stop::exception_with(INVALID_TSS, error)
        }
        _ => stop,
    }
}
