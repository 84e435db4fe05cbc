//! Descriptor tables and the loading of segment registers.
//! [APM2 "Segmented Virtual Memory"] [APM2 "Data-Access Privilege Checks"]

use crate::state::{Control, Registers};
use crate::{Attention, Bus, Cpu, Stop};
use arch::exception;
use arch::segment::{Attributes, Descriptor, Segment, SegmentRegister, system};

const ACCESSED: u64 = 1 << 40;

/// Selector without RPL, as error codes carry it.
pub(super) const fn code_of(selector: u16) -> u32 {
    (selector & !3) as u32
}

pub(super) const fn not_present(selector: u16) -> Stop {
    Stop::exception_with(exception::SEGMENT_NOT_PRESENT, code_of(selector))
}

pub(super) const fn stack_fault(selector: u16) -> Stop {
    Stop::exception_with(exception::STACK, code_of(selector))
}

pub(super) const fn is_null(selector: u16) -> bool {
    selector & !3 == 0
}

pub(super) const fn rpl(selector: u16) -> u8 {
    (selector & 3) as u8
}

/// Reads a descriptor; `fault` if the selector lies outside its table.
pub(super) fn descriptor(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    fault: Stop,
) -> Result<Descriptor, Stop> {
    let at = cpu.control.descriptor_address(selector, 8).ok_or(fault)?;
    Ok(Descriptor(cpu.read_system(bus, at, 8)?))
}

/// The upper half of a 16-byte descriptor: bits 63:32 of its base. [APM2 "System Descriptors"]
pub(super) fn descriptor_upper(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    fault: Stop,
) -> Result<u64, Stop> {
    let at = cpu.control.descriptor_address(selector, 16).ok_or(fault)?;
    let upper = cpu.read_system(bus, at + 8, 8)?;
    if upper >> 40 & 0x1F != 0 {
        return Err(fault);
    }
    Ok(upper)
}

/// Sets the accessed bit in the table, as a load of the descriptor does.
pub(super) fn mark_accessed(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    descriptor: Descriptor,
) -> Result<Descriptor, Stop> {
    if descriptor.0 & ACCESSED != 0 {
        return Ok(descriptor);
    }
    let marked = Descriptor(descriptor.0 | ACCESSED);
    if let Some(at) = cpu.control.descriptor_address(selector, 8) {
        cpu.write_system(bus, at + 4, 4, marked.0 >> 32)?;
    }
    Ok(marked)
}

/// Sets or clears the busy bit of a TSS descriptor in the table.
pub(super) fn mark_busy(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    busy: bool,
) -> Result<(), Stop> {
    let Some(at) = cpu.control.descriptor_address(selector, 8) else {
        return Err(Stop::gp(selector));
    };
    let upper = cpu.read_system(bus, at + 4, 4)?;
    let upper = upper & !(1 << 9) | (busy as u64) << 9;
    cpu.write_system(bus, at + 4, 4, upper)
}

/// Loads CS and takes the privilege level from its RPL.
pub(super) fn set_code_segment(cpu: &mut Cpu, segment: Segment, cpl: u8) {
    let selector = segment.selector & !3 | cpl as u16;
    cpu.registers.set_segment(SegmentRegister::Cs, Segment { selector, ..segment });
    set_cpl(cpu, cpl);
}

pub(crate) fn set_cpl(cpu: &mut Cpu, cpl: u8) {
    cpu.registers.set_cpl(cpl);
    cpu.update_access_mode();
    cpu.look_for_user_interrupt();
}

/// MOV, POP, LDS …: loads a data or stack segment register.
pub(crate) fn load_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    register: SegmentRegister,
    selector: u16,
) -> Result<(), Stop> {
    if !cpu.is_protected() {
        return cpu.registers.load_real_segment(register, selector);
    }
    let segment = if register == SegmentRegister::Ss {
        checked_stack_segment(cpu, bus, selector, cpu.registers.cpl(), Stop::gp, stack_fault)?
    } else {
        checked_data_segment(cpu, bus, selector)?
    };
    cpu.registers.set_segment(register, segment);
    Ok(())
}

/// A stack segment for privilege level `cpl`; `bad` and `absent` make the faults.
pub(super) fn checked_stack_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    cpl: u8,
    bad: fn(u16) -> Stop,
    absent: fn(u16) -> Stop,
) -> Result<Segment, Stop> {
    if is_null(selector) {
        let allowed = cpu.is_64_bit() && cpl != 3 && rpl(selector) == cpl;
        return if allowed { Ok(null_segment(selector)) } else { Err(bad(0)) };
    }
    let descriptor = descriptor(cpu, bus, selector, bad(selector))?;
    let attributes = descriptor.attributes();
    let right = attributes.is_writable_data() && attributes.dpl() == cpl && rpl(selector) == cpl;
    if !right {
        return Err(bad(selector));
    }
    if !attributes.is_present() {
        return Err(absent(selector));
    }
    Ok(mark_accessed(cpu, bus, selector, descriptor)?.segment(selector))
}

pub(super) fn checked_data_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
) -> Result<Segment, Stop> {
    if is_null(selector) {
        return Ok(null_segment(selector));
    }
    let descriptor = descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    if !attributes.is_code_or_data() || !attributes.is_readable() {
        return Err(Stop::gp(selector));
    }
    let privileged = cpu.registers.cpl().max(rpl(selector)) > attributes.dpl();
    if !attributes.is_conforming() && privileged {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    Ok(mark_accessed(cpu, bus, selector, descriptor)?.segment(selector))
}

pub(crate) fn load_ldtr(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<(), Stop> {
    if is_null(selector) {
        cpu.control.ldtr = Segment { selector, ..Segment::default() };
        return Ok(());
    }
    if selector & 4 != 0 {
        return Err(Stop::gp(selector));
    }
    let descriptor = descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    if attributes.is_code_or_data() || attributes.kind() != system::LDT {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    cpu.control.ldtr = system_segment(cpu, bus, selector, descriptor)?;
    Ok(())
}

/// A system segment, whose base has 64 bits in long mode.
fn system_segment(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    descriptor: Descriptor,
) -> Result<Segment, Stop> {
    let mut segment = descriptor.segment(selector);
    if cpu.control.is_long_mode() {
        let upper = descriptor_upper(cpu, bus, selector, Stop::gp(selector))?;
        segment.base |= upper << 32;
        if (segment.base as i64) << 16 >> 16 != segment.base as i64 {
            return Err(Stop::gp(selector));
        }
    }
    Ok(segment)
}

pub(crate) fn load_tr(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<(), Stop> {
    if is_null(selector) || selector & 4 != 0 {
        return Err(Stop::gp(selector));
    }
    let descriptor = descriptor(cpu, bus, selector, Stop::gp(selector))?;
    let attributes = descriptor.attributes();
    let kind = attributes.kind();
    let available = kind == system::TSS32_AVAILABLE
        || kind == system::TSS16_AVAILABLE && !cpu.control.is_long_mode();
    if attributes.is_code_or_data() || !available {
        return Err(Stop::gp(selector));
    }
    if !attributes.is_present() {
        return Err(not_present(selector));
    }
    let mut segment = system_segment(cpu, bus, selector, descriptor)?;
    mark_busy(cpu, bus, selector, true)?;
    segment.attributes.0 |= 2;
    cpu.control.tr = segment;
    Ok(())
}

/// A code or data segment that the present privilege may see, for LAR, LSL, VERR, VERW.
fn visible(cpu: &mut Cpu, bus: &mut Bus<'_>, selector: u16) -> Result<Option<Descriptor>, Stop> {
    let Some(at) = cpu.control.descriptor_address(selector, 8) else { return Ok(None) };
    if is_null(selector) {
        return Ok(None);
    }
    let descriptor = Descriptor(cpu.read_system(bus, at, 8)?);
    let attributes = descriptor.attributes();
    let allowed =
        attributes.is_conforming() || cpu.registers.cpl().max(rpl(selector)) <= attributes.dpl();
    Ok(allowed.then_some(descriptor))
}

/// What LAR gives: bits 63:32 of the descriptor masked with 00FFFF00h (limit bits undefined).
pub(crate) fn access_rights(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
) -> Result<Option<u32>, Stop> {
    let Some(descriptor) = visible(cpu, bus, selector)? else { return Ok(None) };
    let attributes = descriptor.attributes();
    let valid = attributes.is_code_or_data()
        || match attributes.kind() {
            system::LDT | system::TSS32_AVAILABLE | system::TSS32_BUSY | system::CALL_GATE32 => {
                true
            }
            system::TSS16_AVAILABLE
            | system::TSS16_BUSY
            | system::CALL_GATE16
            | system::TASK_GATE => !cpu.control.is_long_mode(),
            _ => false,
        };
    Ok(valid.then_some((descriptor.0 >> 32) as u32 & 0x00FF_FF00))
}

pub(crate) fn segment_limit(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
) -> Result<Option<u32>, Stop> {
    let Some(descriptor) = visible(cpu, bus, selector)? else { return Ok(None) };
    let attributes = descriptor.attributes();
    let valid = attributes.is_code_or_data()
        || match attributes.kind() {
            system::LDT | system::TSS32_AVAILABLE | system::TSS32_BUSY => true,
            system::TSS16_AVAILABLE | system::TSS16_BUSY => !cpu.control.is_long_mode(),
            _ => false,
        };
    Ok(valid.then_some(descriptor.limit()))
}

pub(crate) fn may_access(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    selector: u16,
    write: bool,
) -> Result<bool, Stop> {
    let Some(descriptor) = visible(cpu, bus, selector)? else { return Ok(false) };
    let attributes = descriptor.attributes();
    Ok(attributes.is_code_or_data()
        && if write { attributes.is_writable_data() } else { attributes.is_readable() })
}

/// After a return to an outer level: data segments that it may not use become null.
pub(super) fn drop_privileged_segments(cpu: &mut Cpu) {
    for register in
        [SegmentRegister::Es, SegmentRegister::Ds, SegmentRegister::Fs, SegmentRegister::Gs]
    {
        let segment = cpu.registers.segment(register);
        let attributes = segment.attributes;
        let keeps = !attributes.is_present()
            || attributes.is_conforming()
            || attributes.dpl() >= cpu.registers.cpl();
        if !keeps || is_null(segment.selector) {
            // The base outlives its descriptor: kernels whose GS holds a selector find their
            // own data after a round through user mode.
            let base = if cpu.control.is_long_mode() { segment.base } else { 0 };
            cpu.registers.set_segment(register, Segment { base, ..Segment::default() });
        }
    }
    cpu.pending.raise(Attention::INTERRUPT);
}

/// A segment register that holds a null selector.
pub(super) fn null_segment(selector: u16) -> Segment {
    Segment { selector, ..Segment::default() }
}

impl Control {
    /// The linear address of a selector's descriptor of `bytes`; `None` beyond the table's limit.
    fn descriptor_address(&self, selector: u16, bytes: u32) -> Option<u64> {
        let offset = (selector & !7) as u32;
        let (base, limit) = if selector & 4 == 0 {
            (self.gdtr.base, self.gdtr.limit as u32)
        } else if is_null(self.ldtr.selector) || !self.ldtr.attributes.is_present() {
            return None;
        } else {
            (self.ldtr.base, self.ldtr.limit)
        };
        (offset + bytes - 1 <= limit).then(|| base.wrapping_add(offset as u64))
    }
}

impl Registers {
    /// In real mode the hidden attributes and limit stay ("unreal mode"); in virtual-8086 mode they
    /// are fixed.
    fn load_real_segment(&mut self, register: SegmentRegister, selector: u16) -> Result<(), Stop> {
        let segment = if self.is_virtual_8086() {
            Segment { attributes: Attributes(0xF3), ..Segment::real(selector) }
        } else {
            let old = self.segment(register);
            Segment { selector, base: (selector as u64) << 4, ..old }
        };
        self.set_segment(register, segment);
        Ok(())
    }
}
