//! Delivery of exceptions and interrupts through the interrupt table.
//! [APM2 "Interrupt Control Transfers"] [APM2 "Exceptions and Interrupts"]

use super::descriptor::{code_of, is_null, null_segment, rpl};
use crate::costs::Step;
use crate::execute::stack;
use crate::guest::Arrival;
use crate::memory::{Access, sets};
use crate::state::Registers;
use crate::state::{Event, Origin};
use crate::stop::Kind;
use crate::system::branch_record;
use crate::system::descriptor;
use crate::system::local_apic;
use crate::system::task;
use crate::system::uintr;
use crate::width::RSP;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::exception::{self, Class};
use arch::identity::Vector;
use arch::segment::{Descriptor, Segment, SegmentRegister, system};
use bus::Happening;

/// A stack being built: where it is and how wide its slots are.
struct Frame {
    segment: Segment,
    pointer: u64,
    mask: u64,
    slot: u64,
    set: usize,
    is_long: bool,
}

/// The descriptor-table error code of a vector.
const fn idt_code(vector: u8, external: u32) -> u32 {
    (vector as u32) << 3 | 2 | external
}

/// Delivers an event; faults on the way become what the manual's table of double faults says.
/// `Err` is a VM exit or the end: shutdown. [APM2 "#DF—Double-Fault Exception"]
pub(crate) fn raise(cpu: &mut Cpu, bus: &mut Bus<'_>, first: Event) -> Result<(), Stop> {
    raise_checked(cpu, bus, first, true)
}

/// As `raise`, for an event that a hypervisor injects: its own intercept does not apply.
pub(crate) fn raise_injected(cpu: &mut Cpu, bus: &mut Bus<'_>, first: Event) -> Result<(), Stop> {
    raise_checked(cpu, bus, first, false)
}

fn raise_checked(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    first: Event,
    is_intercepted: bool,
) -> Result<(), Stop> {
    if is_intercepted {
        note_arrival(cpu, first)?;
    }
    let mut event = first;
    loop {
        cpu.pending.begin_delivery(event);
        let from = cpu.registers.ip;
        let stop = match deliver(cpu, bus, event) {
            Ok(()) => {
                cpu.pending.end_delivery();
                branch_record::record_event(cpu, event.vector, from);
                cpu.clock.take(Step::EventDelivery);
                cpu.note_delivery();
                return Ok(());
            }
            Err(stop) => stop,
        };
        let Kind::Exception { vector, error, .. } = stop.kind() else { return Err(stop) };
        let second = Event { vector, error, origin: Origin::Exception };
        // Its own intercept comes before what the two are combined into, which has one as well.
        // [APM2 "Exception Intercepts"] [SDM3 "Information for VM Exits During Event Delivery"]
        note_arrival(cpu, second)?;
        event = match combine(event, second) {
            Some(event) if event.vector == second.vector => event,
            Some(double) => {
                note_arrival(cpu, double)?;
                double
            }
            None => {
                cpu.pending.end_delivery();
                return Err(Stop::SHUTDOWN);
            }
        };
    }
}

/// An exception is about to be delivered, or to be combined with another.
fn note_arrival(cpu: &mut Cpu, event: Event) -> Result<(), Stop> {
    let Event { vector, error, origin } = event;
    if origin == Origin::Exception {
        cpu.arrives(Arrival::Exception { vector, error, next_ip: 0 })?;
        if vector == exception::PAGE_FAULT {
            cpu.control.cr2 = cpu.pending.fault_address();
        }
    }
    Ok(())
}

/// The event that follows from a fault during delivery; `None` is a triple fault.
fn combine(first: Event, second: Event) -> Option<Event> {
    let class = match first.origin {
        Origin::Exception => exception::class(first.vector),
        _ => Class::Benign,
    };
    let double = match (class, exception::class(second.vector)) {
        (Class::DoubleFault, Class::Contributory | Class::PageFault) => return None,
        (Class::Contributory, Class::Contributory) => true,
        (Class::PageFault, Class::Contributory | Class::PageFault) => true,
        _ => false,
    };
    Some(if double {
        Event { vector: exception::DOUBLE_FAULT, error: Some(0), origin: Origin::Exception }
    } else {
        second
    })
}

/// One delivery. On `Err` of an exception the processor is as it was.
pub(crate) fn deliver(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Event) -> Result<(), Stop> {
    bus.memory.publish_stores();
    if cpu.control.is_real() {
        deliver_real(cpu, bus, event.vector)
    } else if cpu.control.is_long_mode() {
        deliver_long(cpu, bus, event)
    } else {
        deliver_protected(cpu, bus, event)
    }
}

fn deliver_real(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
    let at = vector as u64 * 4;
    if at + 3 > cpu.control.idtr.limit as u64 {
        return Err(Stop::exception_with(exception::GENERAL_PROTECTION, idt_code(vector, 0)));
    }
    let target = cpu.read_system(bus, cpu.control.idtr.base.wrapping_add(at), 4)?;
    let mut frame = cpu.registers.present_frame(2);
    let flags = cpu.registers.flags.bits();
    let (cs, ip) = (cpu.registers.segment(SegmentRegister::Cs).selector as u64, cpu.registers.ip);
    for value in [flags, cs, ip] {
        push_frame(cpu, bus, &mut frame, value)?;
    }
    cpu.registers.gpr[RSP] = cpu.registers.gpr[RSP] & !frame.mask | frame.pointer & frame.mask;
    stack::write_flags(cpu, 0, rflags::IF | rflags::TF | rflags::AC | rflags::RF);
    let selector = (target >> 16) as u16;
    let segment = Segment {
        selector,
        base: (selector as u64) << 4,
        ..cpu.registers.segment(SegmentRegister::Cs)
    };
    cpu.registers.set_segment(SegmentRegister::Cs, segment);
    cpu.registers.ip = target & 0xFFFF;
    Ok(())
}

/// The gate of a vector, checked against software's privilege.
fn gate(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Event, bytes: u64) -> Result<Descriptor, Stop> {
    let external = event.origin.external_bit(cpu.model.differences());
    let bad = |vector| Stop::exception_with(vector, idt_code(event.vector, external));
    let at = event.vector as u64 * bytes;
    if at + bytes - 1 > cpu.control.idtr.limit as u64 {
        return Err(bad(exception::GENERAL_PROTECTION));
    }
    let gate = Descriptor(cpu.read_system(bus, cpu.control.idtr.base.wrapping_add(at), 8)?);
    let attributes = gate.attributes();
    let known = !attributes.is_code_or_data()
        && match attributes.kind() {
            system::INTERRUPT_GATE32 | system::TRAP_GATE32 => true,
            system::INTERRUPT_GATE16 | system::TRAP_GATE16 | system::TASK_GATE => bytes == 8,
            _ => false,
        };
    let allowed = !event.origin.checks_gate_privilege() || attributes.dpl() >= cpu.registers.cpl();
    if !known || !allowed {
        return Err(bad(exception::GENERAL_PROTECTION));
    }
    if !attributes.is_present() {
        return Err(bad(exception::SEGMENT_NOT_PRESENT));
    }
    Ok(gate)
}

/// The handler's code segment and privilege level.
fn handler_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    external: u32,
) -> Result<(Segment, u8), Stop> {
    let gp = |code: u32| Stop::exception_with(exception::GENERAL_PROTECTION, code | external);
    if is_null(selector) {
        return Err(gp(0));
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, gp(code_of(selector)))?;
    let attributes = descriptor.attributes();
    let right_size = !cpu.control.is_long_mode() || attributes.is_long() && !attributes.is_big();
    if !attributes.is_code() || attributes.dpl() > cpu.registers.cpl() || !right_size {
        return Err(gp(code_of(selector)));
    }
    if !attributes.is_present() {
        return Err(Stop::exception_with(
            exception::SEGMENT_NOT_PRESENT,
            code_of(selector) | external,
        ));
    }
    let cpl = if attributes.is_conforming() { cpu.registers.cpl() } else { attributes.dpl() };
    let descriptor = descriptor::mark_accessed(cpu, bus, selector, descriptor)?;
    Ok((descriptor.segment(selector), cpl))
}

fn deliver_protected(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Event) -> Result<(), Stop> {
    let gate = gate(cpu, bus, event, 8)?;
    let kind = gate.attributes().kind();
    if kind == system::TASK_GATE {
        return task::deliver_by_task(cpu, bus, event, gate.gate_selector());
    }
    let external = event.origin.external_bit(cpu.model.differences());
    let (code, cpl) = handler_segment(cpu, bus, gate.gate_selector(), external)?;
    let from_virtual = cpu.registers.is_virtual_8086();
    if from_virtual && cpl != 0 {
        let code = code_of(gate.gate_selector()) | external;
        return Err(Stop::exception_with(exception::GENERAL_PROTECTION, code));
    }
    let is_32_bit = kind & 8 != 0;
    let slot = if is_32_bit { 4 } else { 2 };
    let offset = if is_32_bit { gate.gate_offset() } else { gate.gate_offset() & 0xFFFF } as u64;
    if offset > code.limit as u64 {
        return Err(Stop::exception_with(exception::GENERAL_PROTECTION, external));
    }
    let switches = cpl < cpu.registers.cpl() || from_virtual;
    let mut frame = if switches {
        inner_frame(cpu, bus, cpl, slot, external)?
    } else {
        cpu.registers.present_frame(slot)
    };
    if from_virtual {
        use SegmentRegister::{Ds, Es, Fs, Gs};
        for register in [Gs, Fs, Ds, Es] {
            let selector = cpu.registers.segment(register).selector as u64;
            push_frame(cpu, bus, &mut frame, selector)?;
        }
    }
    if switches {
        let (ss, sp) =
            (cpu.registers.segment(SegmentRegister::Ss).selector as u64, cpu.registers.gpr[RSP]);
        push_frame(cpu, bus, &mut frame, ss)?;
        push_frame(cpu, bus, &mut frame, sp)?;
    }
    push_return(cpu, bus, &mut frame, event)?;
    enter_handler(cpu, &frame, code, cpl, offset, kind & 1 == 0, switches);
    if from_virtual {
        for register in
            [SegmentRegister::Es, SegmentRegister::Ds, SegmentRegister::Fs, SegmentRegister::Gs]
        {
            cpu.registers.set_segment(register, null_segment(0));
        }
    }
    Ok(())
}

/// RFLAGS, CS and the instruction pointer as the handler's IRET finds them.
fn interrupted(cpu: &Cpu, event: Event) -> [u64; 3] {
    let is_fault = event.origin == Origin::Exception
        && !matches!(event.vector, exception::DEBUG | exception::DOUBLE_FAULT);
    let resume = if is_fault { rflags::RF } else { 0 };
    let flags = cpu.registers.flags.bits() | resume;
    [flags, cpu.registers.segment(SegmentRegister::Cs).selector.into(), cpu.registers.ip]
}

fn push_return(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    frame: &mut Frame,
    event: Event,
) -> Result<(), Stop> {
    for value in interrupted(cpu, event) {
        push_frame(cpu, bus, frame, value)?;
    }
    match event.error {
        Some(error) => push_frame(cpu, bus, frame, error as u64),
        None => Ok(()),
    }
}

/// Commits the transfer to the handler.
fn enter_handler(
    cpu: &mut Cpu,
    frame: &Frame,
    code: Segment,
    cpl: u8,
    offset: u64,
    is_interrupt_gate: bool,
    switches: bool,
) {
    if switches {
        cpu.registers.set_segment(SegmentRegister::Ss, frame.segment);
        cpu.registers.gpr[RSP] = frame.pointer & frame.mask;
    } else {
        cpu.registers.gpr[RSP] = cpu.registers.gpr[RSP] & !frame.mask | frame.pointer & frame.mask;
    }
    let mut cleared = rflags::TF | rflags::NT | rflags::RF | rflags::VM;
    if is_interrupt_gate {
        cleared |= rflags::IF;
    }
    stack::write_flags(cpu, 0, cleared);
    descriptor::set_code_segment(cpu, code, cpl);
    cpu.registers.ip = offset;
}

fn deliver_long(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Event) -> Result<(), Stop> {
    let external = event.origin.external_bit(cpu.model.differences());
    let gate = gate(cpu, bus, event, 16)?;
    let at = cpu.control.idtr.base.wrapping_add(event.vector as u64 * 16 + 8);
    let upper = cpu.read_system(bus, at, 8)?;
    let offset = gate.gate_offset() as u64 | upper << 32;
    let (code, cpl) = handler_segment(cpu, bus, gate.gate_selector(), external)?;
    let stack_index = gate.gate_count() & 7;
    let switches = cpl < cpu.registers.cpl();
    let pointer = if stack_index != 0 {
        task_pointer(cpu, bus, 0x24 + 8 * (stack_index as u64 - 1), external)?
    } else if switches {
        task_pointer(cpu, bus, 4 + 8 * cpl as u64, external)?
    } else {
        cpu.registers.gpr[RSP]
    };
    let (ss, sp) =
        (cpu.registers.segment(SegmentRegister::Ss).selector as u64, cpu.registers.gpr[RSP]);
    let mut frame = Frame {
        segment: null_segment(cpl as u16),
        pointer: pointer & !15,
        mask: u64::MAX,
        slot: 8,
        set: if cpl == 3 { sets::USER } else { sets::SUPERVISOR },
        is_long: true,
    };
    let [flags, cs, ip] = interrupted(cpu, event);
    let values = [ss, sp, flags, cs, ip, event.error.unwrap_or(0).into()];
    push_slots(cpu, bus, &mut frame, &values[..5 + usize::from(event.error.is_some())])?;
    if (offset as i64) << 16 >> 16 != offset as i64 {
        return Err(Stop::exception_with(exception::GENERAL_PROTECTION, external));
    }
    let is_interrupt = gate.attributes().kind() == system::INTERRUPT_GATE32;
    let keeps_stack_segment = !switches;
    let old_ss = cpu.registers.segment(SegmentRegister::Ss);
    enter_handler(cpu, &frame, code, cpl, offset, is_interrupt, true);
    if keeps_stack_segment {
        cpu.registers.set_segment(SegmentRegister::Ss, old_ss);
    }
    Ok(())
}

/// A stack pointer from the 64-bit TSS.
fn task_pointer(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u64, external: u32) -> Result<u64, Stop> {
    if offset + 7 > cpu.control.tr.limit as u64 {
        return Err(Stop::exception_with(
            exception::INVALID_TSS,
            code_of(cpu.control.tr.selector) | external,
        ));
    }
    let pointer = cpu.read_system(bus, cpu.control.tr.base.wrapping_add(offset), 8)?;
    if (pointer as i64) << 16 >> 16 != pointer as i64 {
        return Err(Stop::exception_with(exception::STACK, external));
    }
    Ok(pointer)
}

/// The stack of an inner privilege level, from the TSS.
fn inner_frame(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    cpl: u8,
    slot: u64,
    external: u32,
) -> Result<Frame, Stop> {
    let (selector, pointer) = inner_stack(cpu, bus, cpl, external)?;
    let segment = inner_stack_segment(cpu, bus, selector, cpl, external)?;
    let mask = if segment.attributes.is_big() { 0xFFFF_FFFF } else { 0xFFFF };
    let set = if cpl == 3 { sets::USER } else { sets::SUPERVISOR };
    Ok(Frame { segment, pointer, mask, slot, set, is_long: false })
}

/// SS and ESP (or SP) of a privilege level in the legacy TSS.
pub(super) fn inner_stack(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    cpl: u8,
    external: u32,
) -> Result<(u16, u64), Stop> {
    let is_32_bit = cpu.control.tr.attributes.kind() & 8 != 0;
    let (at, size) = if is_32_bit { (4 + 8 * cpl as u64, 4) } else { (2 + 4 * cpl as u64, 2) };
    if at + size as u64 + 1 > cpu.control.tr.limit as u64 {
        return Err(Stop::exception_with(
            exception::INVALID_TSS,
            code_of(cpu.control.tr.selector) | external,
        ));
    }
    let place = cpu.control.tr.base.wrapping_add(at);
    let pointer = cpu.read_system(bus, place, size)?;
    let selector = cpu.read_system(bus, place.wrapping_add(size as u64), 2)? as u16;
    Ok((selector, pointer))
}

/// A stack segment named by a TSS: #TS if it does not fit.
pub(super) fn inner_stack_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    cpl: u8,
    external: u32,
) -> Result<Segment, Stop> {
    let bad = Stop::exception_with(exception::INVALID_TSS, code_of(selector) | external);
    if is_null(selector) {
        return Err(Stop::exception_with(exception::INVALID_TSS, external));
    }
    let descriptor = descriptor::descriptor(cpu, bus, selector, bad)?;
    let attributes = descriptor.attributes();
    if rpl(selector) != cpl || attributes.dpl() != cpl || !attributes.is_writable_data() {
        return Err(bad);
    }
    if !attributes.is_present() {
        return Err(Stop::exception_with(exception::STACK, code_of(selector) | external));
    }
    Ok(descriptor::mark_accessed(cpu, bus, selector, descriptor)?.segment(selector))
}

/// Pushes slots of eight bytes: at once if they lie in one page that the TLB has, as mostly.
fn push_slots(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    frame: &mut Frame,
    values: &[u64],
) -> Result<(), Stop> {
    const SLOT: usize = size_of::<u64>();
    let mut left = values;
    while let Some((value, others)) = left.split_first() {
        let bytes = SLOT * left.len();
        let end = frame.pointer.wrapping_sub(bytes as u64);
        if let Some(at) = cpu.translation.ram_known_in(frame.set, end, bytes, Access::Write)
            && let Some(ram) = bus.memory.ram_mut(at, bytes)
        {
            for (slot, value) in ram.rchunks_exact_mut(SLOT).zip(left) {
                slot.copy_from_slice(&value.to_le_bytes());
            }
            cpu.pending.note_ram_write(bus, at, bytes);
            frame.pointer = end;
            return Ok(());
        }
        push_frame(cpu, bus, frame, *value)?;
        left = others;
    }
    Ok(())
}

fn push_frame(cpu: &mut Cpu, bus: &mut Bus<'_>, frame: &mut Frame, value: u64) -> Result<(), Stop> {
    let pointer = frame.pointer.wrapping_sub(frame.slot) & frame.mask;
    let linear = if frame.is_long {
        pointer
    } else {
        if !crate::memory::within_limit(&frame.segment, pointer, frame.slot) {
            return Err(Stop::STACK);
        }
        frame.segment.base.wrapping_add(pointer) & 0xFFFF_FFFF
    };
    let size = frame.slot as usize;
    let place = cpu.locate_for(bus, linear, size, Access::Write, frame.set)?;
    cpu.write_place(bus, place, value);
    frame.pointer = frame.pointer & !frame.mask | pointer;
    Ok(())
}

/// Takes an interrupt of the local APIC or the 8259s.
pub(crate) fn take_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
    if uintr::is_notification(cpu, vector) {
        local_apic::end_interrupt(cpu, bus);
        return raise_interrupt(cpu, bus, vector);
    }
    let happening = Happening::Interrupt { vector: Vector(vector), ip: cpu.registers.ip };
    bus.platform.record(cpu.visit(), happening);
    cpu.let_others_look();
    raise_interrupt(cpu, bus, vector)
}

/// Delivers a maskable interrupt, physical, virtual or injected; one that is a notification of user
/// interrupts is processed, and the flow goes on where it was. A fault on the way is that of an
/// interrupt in delivery. [SDM3 "User-Interrupt Notification Processing"]
pub(crate) fn raise_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
    let event = Event { vector, error: None, origin: Origin::External };
    if !uintr::is_notification(cpu, vector) {
        return raise(cpu, bus, event);
    }
    cpu.pending.begin_delivery(event);
    let Err(stop) = uintr::process_notification(cpu, bus) else {
        cpu.pending.end_delivery();
        cpu.note_delivery();
        return Ok(());
    };
    match stop.kind() {
        Kind::Exception { vector, error, .. } => raise_exception(cpu, bus, vector, error),
        _ => Err(stop),
    }
}

/// Delivers an exception that an instruction raised; `cpu.ip` is what is to be pushed.
pub(crate) fn raise_exception(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    vector: u8,
    error: Option<u32>,
) -> Result<(), Stop> {
    let happening =
        Happening::Exception { vector, error: error.unwrap_or(0), ip: cpu.registers.ip };
    bus.platform.record(cpu.visit(), happening);
    raise(cpu, bus, Event { vector, error, origin: Origin::Exception })
}

pub(crate) fn take_nmi(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    cpu.pending.take_nmi();
    cpu.pending.set_blocks_nmis(true);
    raise(cpu, bus, Event { vector: exception::NMI, error: None, origin: Origin::External })
}

/// Delivers INT n and kin; `cpu.ip` is the instruction after it. A fault on the way is
/// reported at the instruction itself.
pub(crate) fn raise_software(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Event) -> Result<(), Stop> {
    let next = cpu.registers.ip;
    let this = next.wrapping_sub(cpu.pending.software_length());
    cpu.software_arrives(event, this)?;
    cpu.pending.begin_delivery(event);
    let result = deliver(cpu, bus, event);
    let Err(stop) = result else {
        cpu.pending.end_delivery();
        branch_record::record_event(cpu, event.vector, this);
        return Ok(());
    };
    cpu.registers.ip = this;
    match stop.kind() {
        Kind::Exception { vector, error, .. } => raise_exception(cpu, bus, vector, error),
        _ => {
            cpu.report_next_ip(next);
            Err(stop)
        }
    }
}

impl Registers {
    /// The stack in use.
    fn present_frame(&self, slot: u64) -> Frame {
        Frame {
            segment: self.segment(SegmentRegister::Ss),
            pointer: self.gpr[RSP],
            mask: self.stack_mask(false),
            slot,
            set: if self.cpl() == 3 { sets::USER } else { sets::SUPERVISOR },
            is_long: false,
        }
    }
}
