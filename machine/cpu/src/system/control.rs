//! Control registers and EFER: what may be written, and what follows from a write.
//! [APM2 "System-Control Registers"]

use crate::guest::{Form, Sensitive, Written};
use crate::operation::Op;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4, Efer};
use arch::cpuid::Feature;
use arch::segment::SegmentRegister;

/// CR0 bits that are not reserved.
const CR0_KNOWN: u64 = 0xE005_003F;
/// MOV CR3 with this bit set keeps the translations of the PCID.
const CR3_KEEP: u64 = 1 << 63;

impl Cpu {
    pub(crate) fn read_control(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        number: u8,
    ) -> Result<u64, Stop> {
        if !matches!(number, 0 | 2 | 3 | 4 | 8) {
            return Err(Stop::INVALID_OPCODE);
        }
        self.before(bus, op, Sensitive::ReadControl { number, form: Form::Move })?;
        Ok(match number {
            0 => self.shown_cr0(),
            2 => self.control.cr2,
            3 => self.control.cr3,
            4 => self.shown_cr4(),
            _ => self.read_virtual_cr8(bus).unwrap_or_else(|| self.read_cr8()),
        })
    }

    pub(crate) fn write_control(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        number: u8,
        value: u64,
    ) -> Result<(), Stop> {
        if !matches!(number, 0 | 2 | 3 | 4 | 8) {
            return Err(Stop::INVALID_OPCODE);
        }
        self.before(bus, op, Sensitive::WriteControl { number, value, form: Form::Move })?;
        match number {
            0 => self.write_cr0(bus, self.resulting_cr0(value))?,
            2 => self.control.cr2 = value,
            3 => self.write_cr3(bus, value)?,
            4 => self.write_cr4(bus, self.resulting_cr4(value))?,
            _ => self.write_cr8(bus, value)?,
        }
        self.after_write(Written::Control { number, value });
        Err(Stop::END_BLOCK)
    }

    /// LMSW.
    pub(crate) fn write_machine_status(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        value: u64,
    ) -> Result<(), Stop> {
        let form = Form::MachineStatus;
        self.before(bus, op, Sensitive::WriteControl { number: 0, value, form })?;
        self.write_cr0(bus, self.resulting_cr0(value))?;
        self.after_write(Written::Control { number: 0, value });
        Err(Stop::END_BLOCK)
    }

    pub(crate) fn write_cr0(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        if value >> 32 != 0 || !self.permits_cr0(value) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let new = Cr0::from_bits_retain(value & CR0_KNOWN | Cr0::EXTENSION_TYPE.bits());
        let bad = new.contains(Cr0::PAGING) && !new.contains(Cr0::PROTECTION_ENABLE)
            || new.contains(Cr0::NOT_WRITETHROUGH) && !new.contains(Cr0::CACHE_DISABLE);
        if bad {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let changed = self.control.cr0 ^ new;
        let turns_paging_on = changed.contains(Cr0::PAGING) && new.contains(Cr0::PAGING);
        if turns_paging_on {
            self.check_paging_on(bus)?;
        }
        if changed.contains(Cr0::PAGING) && !turns_paging_on {
            if self.control.cr4.contains(Cr4::PCIDE) || self.is_64_bit() {
                return Err(Stop::GENERAL_PROTECTION);
            }
            self.control.efer.remove(Efer::LONG_MODE_ACTIVE);
        }
        self.control.cr0 = new;
        if turns_paging_on && self.control.efer.contains(Efer::LONG_MODE_ENABLE) {
            self.control.efer.insert(Efer::LONG_MODE_ACTIVE);
        }
        if changed.intersects(Cr0::PAGING | Cr0::WRITE_PROTECT | Cr0::PROTECTION_ENABLE) {
            self.tlb.flush_asid(self.tlb.asid());
        }
        if changed.contains(Cr0::PROTECTION_ENABLE) && !new.contains(Cr0::PROTECTION_ENABLE) {
            self.set_cpl(0);
        }
        self.update_access_mode();
        Ok(())
    }

    /// Long mode needs PAE and a 32-bit code segment; PAE paging loads its four root entries.
    fn check_paging_on(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        if self.control.efer.contains(Efer::LONG_MODE_ENABLE) {
            if !self.control.cr4.contains(Cr4::PAE)
                || self.registers.segments[SegmentRegister::Cs].attributes.is_long()
            {
                return Err(Stop::GENERAL_PROTECTION);
            }
        } else if self.control.cr4.contains(Cr4::PAE) {
            self.load_pdptes(bus, self.control.cr3)?;
        }
        Ok(())
    }

    pub(crate) fn write_cr3(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        let has_pcid = self.control.cr4.contains(Cr4::PCIDE);
        let keeps = has_pcid && value & CR3_KEEP != 0;
        let value = if has_pcid { value & !CR3_KEEP } else { value };
        let beyond = !((1u64 << self.model.physical_bits()) - 1);
        if self.control.is_long_mode() && value & beyond != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let is_pae = self.control.cr0.contains(Cr0::PAGING)
            && self.control.cr4.contains(Cr4::PAE)
            && !self.control.is_long_mode();
        if is_pae {
            self.load_pdptes(bus, value)?;
        }
        self.control.cr3 = value;
        let asid = self.tlb.asid();
        let pcid = if has_pcid { value as u16 & 0xFFF } else { 0 };
        self.tlb.select(asid, pcid);
        if !keeps {
            self.tlb.flush_current();
        }
        Ok(())
    }

    /// CR3 of a task switch, which always flushes.
    pub(super) fn load_cr3(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        self.write_cr3(bus, value & !CR3_KEEP)
    }

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
        ] {
            if self.model.has(feature) {
                known |= bits;
            }
        }
        known
    }

    pub(crate) fn write_cr4(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        let new = Cr4::from_bits_retain(value);
        if !self.cr4_permitted().contains(new) || !self.permits_cr4(new) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let changed = self.control.cr4 ^ new;
        let long = self.control.is_long_mode();
        let sets_pcid = changed.contains(Cr4::PCIDE) && new.contains(Cr4::PCIDE);
        if long && !new.contains(Cr4::PAE) || sets_pcid && (!long || self.control.cr3 & 0xFFF != 0)
        {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let paging_bits = Cr4::PAE | Cr4::PSE | Cr4::PGE | Cr4::SMEP;
        let pae_on = new.contains(Cr4::PAE) && self.control.cr0.contains(Cr0::PAGING) && !long;
        if pae_on && changed.intersects(paging_bits) {
            self.load_pdptes(bus, self.control.cr3)?;
        }
        self.control.cr4 = new;
        if changed.intersects(paging_bits | Cr4::SMAP | Cr4::PKE | Cr4::PCIDE) {
            let asid = self.tlb.asid();
            self.tlb.flush_asid(asid);
            if changed.contains(Cr4::PCIDE) {
                let pcid =
                    if new.contains(Cr4::PCIDE) { self.control.cr3 as u16 & 0xFFF } else { 0 };
                self.tlb.select(asid, pcid);
            }
        }
        self.update_access_mode();
        Ok(())
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
        ] {
            if self.model.has(feature) {
                known |= bits;
            }
        }
        known
    }

    pub(crate) fn write_efer(&mut self, value: u64) -> Result<(), Stop> {
        let new = Efer::from_bits_retain(value);
        if !self.efer_permitted().contains(new) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let changed = self.control.efer ^ new;
        let paging = self.control.cr0.contains(Cr0::PAGING);
        if changed.contains(Efer::LONG_MODE_ENABLE) && paging {
            return Err(Stop::GENERAL_PROTECTION);
        }
        if !self.permits_efer(new) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let active = self.control.efer & Efer::LONG_MODE_ACTIVE;
        self.control.efer = new.difference(Efer::LONG_MODE_ACTIVE) | active;
        if changed.contains(Efer::NO_EXECUTE) {
            self.tlb.flush_asid(self.tlb.asid());
        }
        self.pending.attention |= Attention::INTERRUPT;
        Ok(())
    }
}
