//! Control registers and EFER: what may be written, and what follows from a write.
//! [APM2 "System-Control Registers"]

use crate::CpuModel;
use crate::guest::{Form, Sensitive, Written};
use crate::operation::Op;
use crate::system::descriptor;
use crate::system::local_apic;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4, Efer};
use arch::cpuid::Feature;
use arch::segment::SegmentRegister;

/// CR0 bits that are not reserved.
const CR0_KNOWN: u64 = 0xE005_003F;
/// MOV CR3 with this bit set keeps the translations of the PCID.
const CR3_KEEP: u64 = 1 << 63;

pub(crate) fn read_control(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
) -> Result<u64, Stop> {
    if !matches!(number, 0 | 2 | 3 | 4 | 8) {
        return Err(Stop::INVALID_OPCODE);
    }
    cpu.before(bus, op, Sensitive::ReadControl { number, form: Form::Move })?;
    Ok(match number {
        0 => cpu.shown_cr0(),
        2 => cpu.control.cr2,
        3 => cpu.control.cr3,
        4 => cpu.shown_cr4(),
        _ => cpu.read_virtual_cr8(bus).unwrap_or_else(|| local_apic::read_cr8(cpu)),
    })
}

pub(crate) fn write_control(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
    value: u64,
) -> Result<(), Stop> {
    if !matches!(number, 0 | 2 | 3 | 4 | 8) {
        return Err(Stop::INVALID_OPCODE);
    }
    let what = Sensitive::WriteControl { number, value, form: Form::Move };
    cpu.before_checked(bus, op, what, |cpu| match number {
        0 => check_cr0(cpu, cpu.resulting_cr0(value)).map(drop),
        3 => check_cr3(cpu, value),
        4 => check_cr4(cpu, cpu.resulting_cr4(value)),
        8 => local_apic::check_cr8(value),
        _ => Ok(()),
    })?;
    match number {
        0 => write_cr0(cpu, bus, cpu.resulting_cr0(value))?,
        2 => cpu.control.cr2 = value,
        3 => write_cr3(cpu, bus, value)?,
        4 => write_cr4(cpu, bus, cpu.resulting_cr4(value))?,
        _ => local_apic::write_cr8(cpu, bus, value)?,
    }
    cpu.after_write(Written::Control { number, value });
    Err(Stop::END_BLOCK)
}

/// LMSW.
pub(crate) fn write_machine_status(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    value: u64,
) -> Result<(), Stop> {
    let form = Form::MachineStatus;
    cpu.before(bus, op, Sensitive::WriteControl { number: 0, value, form })?;
    write_cr0(cpu, bus, cpu.resulting_cr0(value))?;
    cpu.after_write(Written::Control { number: 0, value });
    Err(Stop::END_BLOCK)
}

/// What a write of `value` makes of CR0, or #GP. What memory holds is not looked at.
fn check_cr0(cpu: &Cpu, value: u64) -> Result<Cr0, Stop> {
    if value >> 32 != 0 || !cpu.permits_cr0(value) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let new = Cr0::from_bits_retain(value & CR0_KNOWN | Cr0::EXTENSION_TYPE.bits());
    let bad = new.contains(Cr0::PAGING) && !new.contains(Cr0::PROTECTION_ENABLE)
        || new.contains(Cr0::NOT_WRITETHROUGH) && !new.contains(Cr0::CACHE_DISABLE);
    if bad {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let turns = (cpu.control.cr0() ^ new).contains(Cr0::PAGING);
    let is_refused = match (turns, new.contains(Cr0::PAGING)) {
        (true, true) if cpu.control.efer().contains(Efer::LONG_MODE_ENABLE) => {
            !cpu.control.cr4().contains(Cr4::PAE)
                || cpu.registers.segment(SegmentRegister::Cs).attributes.is_long()
        }
        (true, false) => cpu.control.cr4().contains(Cr4::PCIDE) || cpu.is_64_bit(),
        _ => false,
    };
    if is_refused { Err(Stop::GENERAL_PROTECTION) } else { Ok(new) }
}

pub(crate) fn write_cr0(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    let new = check_cr0(cpu, value)?;
    let changed = cpu.control.cr0() ^ new;
    // PAE paging loads its four root entries.
    if (changed & new).contains(Cr0::PAGING)
        && !cpu.control.efer().contains(Efer::LONG_MODE_ENABLE)
        && cpu.control.cr4().contains(Cr4::PAE)
    {
        cpu.load_pdptes(bus, cpu.control.cr3)?;
    }
    cpu.control.set_cr0(new);
    if changed.intersects(Cr0::PAGING | Cr0::WRITE_PROTECT | Cr0::PROTECTION_ENABLE) {
        cpu.translation.tlb.flush_asid(cpu.translation.tlb.asid());
    }
    if changed.contains(Cr0::PROTECTION_ENABLE) && !new.contains(Cr0::PROTECTION_ENABLE) {
        descriptor::set_cpl(cpu, 0);
    }
    cpu.update_access_mode();
    Ok(())
}

/// #GP for bits beyond the physical addresses.
fn check_cr3(cpu: &Cpu, value: u64) -> Result<(), Stop> {
    let has_pcid = cpu.control.cr4().contains(Cr4::PCIDE);
    let value = if has_pcid { value & !CR3_KEEP } else { value };
    let beyond = !((1u64 << cpu.model.physical_bits()) - 1);
    if cpu.control.is_long_mode() && value & beyond != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(())
}

pub(crate) fn write_cr3(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    let has_pcid = cpu.control.cr4().contains(Cr4::PCIDE);
    let keeps = has_pcid && value & CR3_KEEP != 0;
    check_cr3(cpu, value)?;
    let value = if has_pcid { value & !CR3_KEEP } else { value };
    if cpu.control.has_pae_paging() {
        cpu.load_pdptes(bus, value)?;
    }
    cpu.control.cr3 = value;
    let asid = cpu.translation.tlb.asid();
    cpu.translation.tlb.select(asid, cpu.control.context_identifier());
    if !keeps {
        cpu.translation.tlb.flush_current();
    }
    Ok(())
}

/// CR3 of a task switch, which always flushes.
pub(super) fn load_cr3(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    write_cr3(cpu, bus, value & !CR3_KEEP)
}

/// #GP for bits that are reserved or that the mode forbids. What memory holds is not looked at.
fn check_cr4(cpu: &Cpu, value: u64) -> Result<(), Stop> {
    let new = Cr4::from_bits_retain(value);
    if !cpu.model.cr4_permitted().contains(new) || !cpu.permits_cr4(new) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let long = cpu.control.is_long_mode();
    let changed = cpu.control.cr4() ^ new;
    let sets_pcid = changed.contains(Cr4::PCIDE) && new.contains(Cr4::PCIDE);
    if long && !new.contains(Cr4::PAE) || sets_pcid && (!long || cpu.control.cr3 & 0xFFF != 0) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(())
}

pub(crate) fn write_cr4(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    check_cr4(cpu, value)?;
    let new = Cr4::from_bits_retain(value);
    let changed = cpu.control.cr4() ^ new;
    let long = cpu.control.is_long_mode();
    let paging_bits = Cr4::PAE | Cr4::PSE | Cr4::PGE | Cr4::SMEP;
    let pae_on = new.contains(Cr4::PAE) && cpu.control.cr0().contains(Cr0::PAGING) && !long;
    if pae_on && changed.intersects(paging_bits) {
        cpu.load_pdptes(bus, cpu.control.cr3)?;
    }
    cpu.control.set_cr4(new);
    cpu.look_for_user_interrupt();
    if changed.intersects(paging_bits | Cr4::SMAP | Cr4::PKE | Cr4::PCIDE) {
        let asid = cpu.translation.tlb.asid();
        cpu.translation.tlb.flush_asid(asid);
        if changed.contains(Cr4::PCIDE) {
            cpu.translation.tlb.select(asid, cpu.control.context_identifier());
        }
    }
    cpu.update_access_mode();
    Ok(())
}

pub(crate) fn write_efer(cpu: &mut Cpu, value: u64) -> Result<(), Stop> {
    let new = Efer::from_bits_retain(value);
    if !cpu.model.efer_permitted().contains(new) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let changed = cpu.control.efer() ^ new;
    let paging = cpu.control.cr0().contains(Cr0::PAGING);
    if changed.contains(Efer::LONG_MODE_ENABLE) && paging {
        return Err(Stop::GENERAL_PROTECTION);
    }
    if !cpu.permits_efer(new) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.set_efer(new);
    if changed.contains(Efer::NO_EXECUTE) {
        cpu.translation.tlb.flush_asid(cpu.translation.tlb.asid());
    }
    cpu.pending.raise(Attention::INTERRUPT);
    Ok(())
}

impl CpuModel {
    /// CR4 bits that the model's features permit.
    pub(crate) fn cr4_permitted(&self) -> Cr4 {
        let mut known = Cr4::PCE;
        for (feature, bits) in [
            (Feature::Vme, Cr4::VME | Cr4::PVI),
            (Feature::Tsc, Cr4::TSD),
            (Feature::De, Cr4::DE),
            (Feature::Pse, Cr4::PSE),
            (Feature::Pae, Cr4::PAE),
            (Feature::Mce, Cr4::MCE),
            (Feature::Pge, Cr4::PGE),
            (Feature::Fxsr, Cr4::OSFXSR),
            (Feature::Sse, Cr4::OSXMMEXCPT),
            (Feature::Umip, Cr4::UMIP),
            (Feature::Vmx, Cr4::VMXE),
            (Feature::Fsgsbase, Cr4::FSGSBASE),
            (Feature::Pcid, Cr4::PCIDE),
            (Feature::Xsave, Cr4::OSXSAVE),
            (Feature::Smep, Cr4::SMEP),
            (Feature::Smap, Cr4::SMAP),
            (Feature::Pku, Cr4::PKE),
            (Feature::Uintr, Cr4::UINTR),
        ] {
            if self.has(feature) {
                known |= bits;
            }
        }
        known
    }

    /// EFER bits that the model's features permit to be written.
    pub(crate) fn efer_permitted(&self) -> Efer {
        let mut known = Efer::empty();
        for (feature, bits) in [
            (Feature::Syscall, Efer::SYSCALL),
            (Feature::LongMode, Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE),
            (Feature::Nx, Efer::NO_EXECUTE),
            (Feature::Svm, Efer::SVM),
            (Feature::FxsrOpt, Efer::FAST_FXSAVE),
            (Feature::AutomaticIbrs, Efer::AUTOMATIC_IBRS),
        ] {
            if self.has(feature) {
                known |= bits;
            }
        }
        known
    }
}
