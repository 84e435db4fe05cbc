//! Saving and restoring processor state: FXSAVE, FXRSTOR, the XSAVE family, XGETBV and XSETBV,
//! LDMXCSR and STMXCSR. [SDM1 "Managing State Using the XSAVE Feature Set"]
//!
//! Components are x87, SSE, AVX, PKRU and that of user interrupts. Which are in use (XINUSE) is
//! decided by their contents, so that it is the same on every host; the modified optimization of
//! XSAVEOPT is not taken.

use crate::CpuModel;
use crate::execute::binding::{Binding, Handler};
use crate::float::extended::Extended;
use crate::guest::Sensitive;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost};
use crate::state::component::{self, EXTENDED_REGION};
use crate::state::{Registers, UserInterrupts, X87};
use crate::width::{RAX, RCX, RDX};
use crate::{Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4, Efer};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// XCOMP_BV: the area is compacted.
const COMPACTED: u64 = 1 << 63;
const DEFAULT_MXCSR: u32 = 0x1F80;
/// The legacy region and the header.
const HEADER: usize = 512;
/// Bytes of the high halves of sixteen YMM registers.
const HIGH_HALVES: usize = 256;
/// Fields of the legacy region.
const POINTERS: usize = 6;
const MXCSR: usize = 24;
const REGISTERS: usize = 32;
const XMM: usize = 160;

/// The bytes that hold XMM registers: eight outside 64-bit mode.
fn xmm_count(op: &Op) -> usize {
    if op.has(Op::LONG) { 16 } else { 8 }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

/// Lays out bytes 0 to 23 and the registers; `is_wide` is the form with 64-bit pointers.
fn lay_out_x87(cpu: &Cpu, area: &mut [u8; HEADER], is_wide: bool) {
    let unit = &cpu.registers.x87;
    area[0..2].copy_from_slice(&unit.control.to_le_bytes());
    area[2..4].copy_from_slice(&unit.status.to_le_bytes());
    area[4] = unit.valid;
    for index in 0..8 {
        let at = REGISTERS + 16 * index;
        area[at..at + 10].copy_from_slice(&unit.st(index as u8).to_bytes());
    }
    if cpu.model.differences().saves_pointers_of_exceptions_alone && !unit.has_pending() {
        return;
    }
    area[6..8].copy_from_slice(&unit.opcode.to_le_bytes());
    area[8..16].copy_from_slice(&unit.instruction_pointer.to_le_bytes());
    area[16..24].copy_from_slice(&unit.data_pointer.to_le_bytes());
    if !is_wide {
        let segment = |segment: u16| u32::from(segment).to_le_bytes();
        area[12..16].copy_from_slice(&segment(unit.instruction_segment));
        area[20..24].copy_from_slice(&segment(unit.data_segment));
    }
}

fn write_x87_state(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    linear: u64,
    is_wide: bool,
) -> Result<(), Stop> {
    let mut area = [0; HEADER];
    lay_out_x87(cpu, &mut area, is_wide);
    let heads = match cpu.model.skips_pointers(cpu.registers.x87.has_pending()) {
        true => POINTERS,
        false => MXCSR,
    };
    cpu.write_area(bus, linear, &area[..heads], op.segment)?;
    let registers = linear.wrapping_add(REGISTERS as u64);
    cpu.write_area(bus, registers, &area[REGISTERS..XMM], op.segment)
}

fn write_mxcsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, linear: u64) -> Result<(), Stop> {
    let both = u64::from(cpu.registers.mxcsr) | u64::from(cpu.model.mxcsr_mask()) << 32;
    let at = linear.wrapping_add(MXCSR as u64);
    cpu.write_area(bus, at, &both.to_le_bytes(), op.segment)
}

fn write_xmm(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, linear: u64) -> Result<(), Stop> {
    let mut bytes = [0; 256];
    let count = xmm_count(op);
    for (slot, value) in bytes.chunks_exact_mut(16).zip(&cpu.registers.xmm[..count]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    let at = linear.wrapping_add(XMM as u64);
    cpu.write_area(bus, at, &bytes[..16 * count], op.segment)
}

fn write_high_halves(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, at: u64) -> Result<(), Stop> {
    let mut bytes = [0; HIGH_HALVES];
    let count = xmm_count(op);
    for (slot, value) in bytes.chunks_exact_mut(16).zip(&cpu.registers.ymm_high[..count]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    cpu.write_area(bus, at, &bytes[..16 * count], op.segment)
}

/// Loads the x87 state from a legacy region.
fn load_x87(cpu: &mut Cpu, area: &[u8; HEADER], is_wide: bool) {
    let mut unit = X87 {
        status: u16::from_le_bytes(field(area, 2)),
        opcode: u16::from_le_bytes(field(area, 6)) & 0x7FF,
        instruction_pointer: u64::from_le_bytes(field(area, 8)),
        data_pointer: u64::from_le_bytes(field(area, 16)),
        ..X87::default()
    };
    if !is_wide {
        unit.instruction_segment = u16::from_le_bytes(field(area, 12));
        unit.data_segment = u16::from_le_bytes(field(area, 20));
        unit.instruction_pointer &= 0xFFFF_FFFF;
        unit.data_pointer &= 0xFFFF_FFFF;
    }
    for index in 0..8 {
        let value = Extended::from_bytes(field(area, REGISTERS + 16 * index));
        unit.set_st(index as u8, value);
    }
    unit.set_control(u16::from_le_bytes(field(area, 0)));
    unit.valid = area[4];
    if cpu.model.skips_pointers(unit.has_pending()) {
        let held = cpu.registers.x87;
        (unit.opcode, unit.instruction_pointer) = (held.opcode, held.instruction_pointer);
        unit.instruction_segment = held.instruction_segment;
        (unit.data_pointer, unit.data_segment) = (held.data_pointer, held.data_segment);
    }
    cpu.registers.x87 = unit;
}

/// The linear address of an area, which must lie on a boundary of `alignment` bytes.
fn aligned_area(
    cpu: &Cpu,
    op: &Op,
    size: usize,
    alignment: u64,
    access: Access,
) -> Result<u64, Stop> {
    let linear = cpu.operand(op, size, access)?;
    if linear & (alignment - 1) != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(linear)
}

/// Fast FXSAVE leaves the XMM registers out. [APM2 "Fast FXSAVE/FXRSTOR"]
fn skips_xmm(cpu: &Cpu, op: &Op) -> bool {
    cpu.control.efer().contains(Efer::FAST_FXSAVE) && cpu.registers.cpl() == 0 && op.has(Op::LONG)
}

fn fxsave<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let linear = aligned_area(cpu, op, HEADER, 16, Access::Write)?;
    cpu.probe_area(bus, linear, HEADER, Access::Write, op.segment)?;
    write_x87_state(cpu, bus, op, linear, WIDE)?;
    write_mxcsr(cpu, bus, op, linear)?;
    if !skips_xmm(cpu, op) {
        write_xmm(cpu, bus, op, linear)?;
    }
    cpu.pending.after_store()
}

fn fxrstor<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let linear = aligned_area(cpu, op, HEADER, 16, Access::Read)?;
    let mut area = [0; HEADER];
    cpu.read_area(bus, linear, &mut area, op.segment)?;
    let mxcsr = cpu.model.checked_mxcsr(&area)?;
    cpu.registers.mxcsr = mxcsr;
    load_x87(cpu, &area, WIDE);
    if !skips_xmm(cpu, op) {
        cpu.registers.load_xmm(&area, xmm_count(op));
    }
    Ok(())
}

/// Which members of the XSAVE family differ in what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Save {
    /// XSAVE: every requested component.
    All,
    /// XSAVEOPT: those in use.
    Used,
    /// XSAVEC and XSAVES: those in use, compacted.
    Compacted,
}

fn check_xsave(cpu: &Cpu, feature: Feature) -> Result<(), Stop> {
    cpu.model.check_feature(feature)?;
    if !cpu.control.cr4().contains(Cr4::OSXSAVE) {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.control.cr0().contains(Cr0::TASK_SWITCHED) {
        return Err(Stop::DEVICE_NOT_AVAILABLE);
    }
    Ok(())
}

/// XINUSE: the components that are not in their initial state.
fn in_use(cpu: &Cpu, counts_mxcsr: bool) -> u64 {
    let x87 = if cpu.registers.x87 == X87::default() { 0 } else { component::X87 };
    let has_mxcsr = counts_mxcsr && cpu.registers.mxcsr != DEFAULT_MXCSR;
    let is_clear = cpu.registers.xmm.iter().all(|&register| register == 0) && !has_mxcsr;
    let sse = if is_clear { 0 } else { component::SSE };
    let has_high = cpu.registers.ymm_high.iter().any(|&register| register != 0);
    let avx = if has_high { component::AVX } else { 0 };
    let pkru = if cpu.control.pkru == 0 { 0 } else { component::PKRU };
    let is_initial = cpu.control.uintr == UserInterrupts::default();
    let uintr = if is_initial { 0 } else { component::UINTR };
    x87 | sse | avx | pkru | uintr
}

fn save<const WIDE: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    kind: Save,
    enabled: u64,
) -> Result<(), Stop> {
    let components = enabled & cpu.registers.requested();
    let compacted = (kind == Save::Compacted).then_some(components);
    let length = component::area_size(components, compacted.is_some());
    let linear = aligned_area(cpu, op, length, 64, Access::Write)?;
    cpu.probe_area(bus, linear, length, Access::Write, op.segment)?;
    let header = linear.wrapping_add(HEADER as u64);
    let used = components & in_use(cpu, kind == Save::Compacted);
    let saved = if kind == Save::All { components } else { used };
    if saved & component::X87 != 0 {
        write_x87_state(cpu, bus, op, linear, WIDE)?;
    }
    let with_mxcsr = match kind {
        Save::Compacted => saved & component::SSE,
        _ => components & (component::SSE | component::AVX),
    };
    if with_mxcsr != 0 {
        write_mxcsr(cpu, bus, op, linear)?;
    }
    if saved & component::SSE != 0 {
        write_xmm(cpu, bus, op, linear)?;
    }
    let place = |component| linear.wrapping_add(component::offset(component, compacted) as u64);
    if saved & component::AVX != 0 {
        write_high_halves(cpu, bus, op, place(component::AVX))?;
    }
    if saved & component::PKRU != 0 {
        let at = place(component::PKRU);
        let pkru = u64::from(cpu.control.pkru).to_le_bytes();
        cpu.write_area(bus, at, &pkru, op.segment)?;
    }
    if saved & component::UINTR != 0 {
        cpu.write_area(bus, place(component::UINTR), &cpu.control.uintr.lay_out(), op.segment)?;
        // No notification is taken for a context whose requests are in memory.
        cpu.control.uintr.set_notification_vector(0);
    }
    if kind == Save::Compacted {
        let words = u128::from(used) | u128::from(components | COMPACTED) << 64;
        cpu.write_area(bus, header, &words.to_le_bytes(), op.segment)?;
    } else {
        let mut held = [0; 8];
        cpu.read_area(bus, header, &mut held, op.segment)?;
        let vector = u64::from_le_bytes(held) & !components | used;
        cpu.write_area(bus, header, &vector.to_le_bytes(), op.segment)?;
    }
    cpu.pending.after_store()
}

/// XRSTOR and XRSTORS (`needs_compacted`) of the components of `enabled`.
fn load_state<const WIDE: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    enabled: u64,
    needs_compacted: bool,
) -> Result<(), Stop> {
    let linear = aligned_area(cpu, op, EXTENDED_REGION, 64, Access::Read)?;
    let mut header = [0; EXTENDED_REGION - HEADER];
    let at = linear.wrapping_add(HEADER as u64);
    cpu.read_area(bus, at, &mut header, op.segment)?;
    let held = u64::from_le_bytes(field(&header, 0));
    let layout = u64::from_le_bytes(field(&header, 8));
    let is_compacted = layout & COMPACTED != 0;
    let is_bad = match is_compacted {
        true => {
            !cpu.model.has(Feature::Xsavec)
                || (layout & !COMPACTED) & !enabled != 0
                || held & !layout != 0
                || header[16..].iter().any(|&byte| byte != 0)
        }
        false => {
            needs_compacted || held & !enabled != 0 || header[8..24].iter().any(|&byte| byte != 0)
        }
    };
    if is_bad {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let components = enabled & cpu.registers.requested();
    let uintr = restored_uintr(cpu, bus, op, linear, (components, held, layout))?;
    restore::<WIDE>(cpu, bus, op, linear, (components, held), is_compacted.then_some(layout))?;
    if let Some(state) = uintr {
        cpu.control.uintr = state;
        cpu.look_for_user_interrupt();
    }
    Ok(())
}

/// What becomes of the registers of user interrupts, if they are restored: #GP while notifications
/// are taken, and for what WRMSR would refuse. [SDM1 "User-Interrupt State"]
fn restored_uintr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    linear: u64,
    (components, held, layout): (u64, u64, u64),
) -> Result<Option<UserInterrupts>, Stop> {
    if components & component::UINTR == 0 {
        return Ok(None);
    }
    if cpu.control.uintr.notification_vector() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    if held & component::UINTR == 0 {
        return Ok(Some(UserInterrupts::default()));
    }
    let mut bytes = [0; arch::uintr::component::SIZE];
    let at = linear.wrapping_add(component::offset(component::UINTR, Some(layout)) as u64);
    cpu.read_area(bus, at, &mut bytes, op.segment)?;
    let state = UserInterrupts::from_layout(&bytes).ok_or(Stop::GENERAL_PROTECTION)?;
    Ok(Some(state))
}

/// Reads everything that is wanted, then changes registers.
fn restore<const WIDE: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    linear: u64,
    (components, held): (u64, u64),
    compacted: Option<u64>,
) -> Result<(), Stop> {
    let loads = |component: u64| components & held & component != 0;
    let mut area = [0; HEADER];
    cpu.read_area(bus, linear, &mut area, op.segment)?;
    let place = |component| linear.wrapping_add(component::offset(component, compacted) as u64);
    let mut high = [0; HIGH_HALVES];
    if loads(component::AVX) {
        cpu.read_area(bus, place(component::AVX), &mut high[..16 * xmm_count(op)], op.segment)?;
    }
    let mut pkru = [0; 8];
    if loads(component::PKRU) {
        cpu.read_area(bus, place(component::PKRU), &mut pkru, op.segment)?;
    }
    let mxcsr = match compacted.is_some() {
        true if loads(component::SSE) => Some(cpu.model.checked_mxcsr(&area)?),
        true if components & component::SSE != 0 => Some(DEFAULT_MXCSR),
        false if components & (component::SSE | component::AVX) != 0 => {
            Some(cpu.model.checked_mxcsr(&area)?)
        }
        _ => None,
    };
    cpu.registers.mxcsr = mxcsr.unwrap_or(cpu.registers.mxcsr);
    if loads(component::X87) {
        load_x87(cpu, &area, WIDE);
    } else if components & component::X87 != 0 {
        cpu.registers.x87 = X87::default();
    }
    if loads(component::SSE) {
        cpu.registers.load_xmm(&area, xmm_count(op));
    } else if components & component::SSE != 0 {
        cpu.registers.xmm[..xmm_count(op)].fill(0);
    }
    if components & component::AVX != 0 {
        // All zeros where the area has none.
        cpu.registers.load_high_halves(&high, xmm_count(op));
    }
    if components & component::PKRU != 0 {
        cpu.control.pkru = u64::from_le_bytes(pkru) as u32;
        cpu.translation.tlb.flush_asid(cpu.translation.tlb.asid());
    }
    Ok(())
}

fn xsave<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsave)?;
    save::<WIDE>(cpu, bus, op, Save::All, cpu.control.xcr0)
}

fn xsaveopt<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsaveopt)?;
    save::<WIDE>(cpu, bus, op, Save::Used, cpu.control.xcr0)
}

fn xsavec<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsavec)?;
    save::<WIDE>(cpu, bus, op, Save::Compacted, cpu.control.xcr0)
}

fn xsaves<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsaves)?;
    check_supervisor_state(cpu, bus, op, false)?;
    save::<WIDE>(cpu, bus, op, Save::Compacted, cpu.control.xcr0 | cpu.control.msr.xss)
}

fn xrstor<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsave)?;
    load_state::<WIDE>(cpu, bus, op, cpu.control.xcr0, false)
}

fn xrstors<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_xsave(cpu, Feature::Xsaves)?;
    check_supervisor_state(cpu, bus, op, true)?;
    load_state::<WIDE>(cpu, bus, op, cpu.control.xcr0 | cpu.control.msr.xss, true)
}

/// A hypervisor may leave XSAVES and XRSTORS undefined, which goes before privilege.
fn check_supervisor_state(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    restores: bool,
) -> Result<(), Stop> {
    let components = cpu.registers.requested() & cpu.control.msr.xss;
    cpu.before(bus, op, Sensitive::SupervisorState { restores, components })?;
    check_privilege(cpu)
}

fn check_privilege(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.registers.cpl() == 0 { Ok(()) } else { Err(Stop::GENERAL_PROTECTION) }
}

/// XGETBV: XCR0, or with ECX = 1 its components that are in use.
fn xgetbv(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Xsave)?;
    if !cpu.control.cr4().contains(Cr4::OSXSAVE) {
        return Err(Stop::INVALID_OPCODE);
    }
    let value = match cpu.registers.gpr[RCX] as u32 {
        0 => cpu.control.xcr0,
        1 if cpu.model.has(Feature::Xgetbv1) => cpu.control.xcr0 & in_use(cpu, true),
        _ => return Err(Stop::GENERAL_PROTECTION),
    };
    cpu.registers.gpr[RAX] = value & 0xFFFF_FFFF;
    cpu.registers.gpr[RDX] = value >> 32;
    Ok(())
}

/// XSETBV: x87 stays enabled, AVX needs SSE, and only what the model has may be enabled.
fn xsetbv(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Xsave)?;
    if !cpu.control.cr4().contains(Cr4::OSXSAVE) {
        return Err(Stop::INVALID_OPCODE);
    }
    if check_privilege(cpu).is_err() {
        cpu.before_privilege(bus, op, Sensitive::Xsetbv)?;
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.before(bus, op, Sensitive::Xsetbv)?;
    let value = cpu.registers.requested();
    let is_legal = cpu.registers.gpr[RCX] as u32 == 0
        && value & component::X87 != 0
        && (value & component::AVX == 0 || value & component::SSE != 0)
        && value & !cpu.model.xcr0_permitted() == 0;
    if !is_legal {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.xcr0 = value;
    Ok(())
}

fn ldmxcsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.read::<u32>(bus, op)?;
    if value & !cpu.model.mxcsr_mask() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.mxcsr = value;
    Ok(())
}

fn stmxcsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.registers.mxcsr;
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Xsetbv => return Binding::alone(xsetbv),
        Mnemonic::Xgetbv => xgetbv,
        Mnemonic::Fxsave => fxsave::<false>,
        Mnemonic::Fxsave64 => fxsave::<true>,
        Mnemonic::Fxrstor => fxrstor::<false>,
        Mnemonic::Fxrstor64 => fxrstor::<true>,
        Mnemonic::Xsave => xsave::<false>,
        Mnemonic::Xsave64 => xsave::<true>,
        Mnemonic::Xsaveopt => xsaveopt::<false>,
        Mnemonic::Xsaveopt64 => xsaveopt::<true>,
        Mnemonic::Xsavec => xsavec::<false>,
        Mnemonic::Xsavec64 => xsavec::<true>,
        Mnemonic::Xsaves => xsaves::<false>,
        Mnemonic::Xsaves64 => xsaves::<true>,
        Mnemonic::Xrstor => xrstor::<false>,
        Mnemonic::Xrstor64 => xrstor::<true>,
        Mnemonic::Xrstors => xrstors::<false>,
        Mnemonic::Xrstors64 => xrstors::<true>,
        Mnemonic::Ldmxcsr => ldmxcsr,
        Mnemonic::Stmxcsr => stmxcsr,
        _ => return None,
    };
    Binding::costing(handler, Cost::System)
}

impl Registers {
    fn load_xmm(&mut self, area: &[u8; HEADER], count: usize) {
        for (index, register) in self.xmm[..count].iter_mut().enumerate() {
            *register = u128::from_le_bytes(field(area, XMM + 16 * index));
        }
    }

    fn load_high_halves(&mut self, bytes: &[u8; HIGH_HALVES], count: usize) {
        for (index, register) in self.ymm_high[..count].iter_mut().enumerate() {
            *register = u128::from_le_bytes(field(bytes, 16 * index));
        }
    }
}

impl Registers {
    /// EDX:EAX.
    fn requested(&self) -> u64 {
        self.gpr[RDX] << 32 | self.gpr[RAX] & 0xFFFF_FFFF
    }
}

impl CpuModel {
    /// Whether the pointer fields of an area are left alone: AMD without XSAVEERPTR, when no
    /// exception is pending.
    fn skips_pointers(&self, is_pending: bool) -> bool {
        self.differences().saves_pointers_of_exceptions_alone
            && !self.has(Feature::Xsaveerptr)
            && !is_pending
    }
}

impl CpuModel {
    /// The MXCSR of an area; #GP(0) for reserved bits.
    fn checked_mxcsr(&self, area: &[u8; HEADER]) -> Result<u32, Stop> {
        let mxcsr = u32::from_le_bytes(field(area, MXCSR));
        if mxcsr & !self.mxcsr_mask() != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        Ok(mxcsr)
    }
}
