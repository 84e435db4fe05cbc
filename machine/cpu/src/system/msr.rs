//! RDMSR and WRMSR: a row for each register. [APM2 "Model-Specific Registers"]
//! [SDM4 "Model-Specific Registers"]
//!
//! Unknown registers raise #GP, which kernels expect and handle; those that only firmware or
//! errata work-arounds use read zero and ignore writes, and are listed as such. Registers of
//! virtualization and of the local APIC stand with what they belong to.

use super::table::{Entry, Tables};
use super::{branch_record, control, local_apic};
use crate::costs::Step;
use crate::guest::Written;
use crate::state::msr::BANKS;
use crate::{Attention, Bus, Cpu, Stop};
use arch::cpuid::Feature;
use arch::memory_type;
use arch::msr;
use arch::segment::SegmentRegister;

const LOW_HALF: u64 = 0xFFFF_FFFF;
/// McStatusWrEn, which lets software write what machine checks would. [APM2 "HWCR"]
const HWCR_WRITES_STATUS: u64 = 1 << 18;
/// Eight variable ranges, fixed ranges, write-combining. [SDM4 "IA32_MTRRCAP"]
const MTRR_CAPABILITIES: u64 = 0x508;
/// Type, fixed and all enable.
const MTRR_DEFAULT_WRITABLE: u64 = 0xCFF;
/// MCG_CTL is there. [SDM4 "IA32_MCG_CAP"]
const MCG_HAS_CONTROL: u64 = 1 << 8;
pub(super) const LAST_BANK_REGISTER: u32 = msr::MC0_CTL + 4 * BANKS as u32 - 1;

/// Where a register's value is kept; the number counts from the row's first.
pub(super) type Place = fn(&mut Cpu, usize) -> &mut u64;

/// What RDMSR gives.
pub(super) enum Read {
    /// #GP.
    Nothing,
    Value(u64),
    Kept(Place),
    Of(fn(&Cpu) -> u64),
    /// The number counts from the row's first.
    At(fn(&Cpu, usize) -> u64),
}

/// What WRMSR takes.
pub(super) enum Write {
    /// #GP.
    Nothing,
    /// Anything, and it has no effect.
    Ignored,
    /// What is legal is kept.
    Kept(Place, Legal),
    Done(fn(&mut Cpu, &mut Bus<'_>, usize, u64) -> Result<(), Stop>),
}

/// Which values are taken, and what is left of them; others raise #GP.
#[derive(Clone, Copy)]
pub(super) enum Legal {
    Any,
    /// Others are dropped.
    Bits(u64),
    /// The others stay as they are.
    Changes(u64),
    Canonical,
    /// Canonical; other bits than these are dropped.
    CanonicalBits(u64),
    /// Canonical, and without these bits.
    CanonicalWithout(u64),
    /// Without these bits.
    Without(u64),
    /// Eight memory types of fixed ranges. Like the PAT's, they have no effect here, but are
    /// checked and kept.
    RangeTypes,
    Pat,
    /// MTRRdefType.
    DefaultType,
}

impl Legal {
    fn kept(self, value: u64, before: u64) -> Option<u64> {
        let are_of_ranges = || value.to_le_bytes().into_iter().all(memory_type::is_of_range);
        match self {
            Self::Any => Some(value),
            Self::Bits(mask) => Some(value & mask),
            Self::Changes(mask) => Some(value & mask | before & !mask),
            Self::Canonical => is_canonical(value).then_some(value),
            Self::CanonicalBits(mask) => is_canonical(value).then_some(value & mask),
            Self::CanonicalWithout(mask) => {
                (is_canonical(value) && value & mask == 0).then_some(value)
            }
            Self::Without(mask) => (value & mask == 0).then_some(value),
            Self::RangeTypes => are_of_ranges().then_some(value),
            Self::Pat => memory_type::is_legal_pat(value).then_some(value),
            Self::DefaultType => {
                let is_writable = value & !MTRR_DEFAULT_WRITABLE == 0;
                let is_legal = is_writable && memory_type::is_of_range(value as u8);
                is_legal.then_some(value)
            }
        }
    }
}

/// What a row says.
pub(super) struct Access {
    read: Read,
    write: Write,
}

pub(super) type Row = Entry<Access>;

pub(super) const fn row((first, last): (u32, u32), read: Read, write: Write) -> Row {
    Entry { first, last, needs: None, what: Access { read, write } }
}

/// A register that parts with a feature have.
pub(super) const fn only(feature: Feature, row: Row) -> Row {
    Entry { needs: Some(feature), ..row }
}

/// Where SYSENTER finds its stack, and its code: on Intel's parts addresses of 64 bits.
pub(super) const fn sysenter_targets(legal: Legal) -> [Row; 2] {
    [
        kept(msr::SYSENTER_ESP, |cpu, _| &mut cpu.control.syscall.sysenter_esp, legal),
        kept(msr::SYSENTER_EIP, |cpu, _| &mut cpu.control.syscall.sysenter_eip, legal),
    ]
}

/// A register that is kept.
pub(super) const fn kept(number: u32, place: Place, legal: Legal) -> Row {
    row((number, number), Read::Kept(place), Write::Kept(place, legal))
}

/// A register that is read-only.
pub(super) const fn read_only(number: u32, read: Read) -> Row {
    row((number, number), read, Write::Nothing)
}

/// Registers that read zero and ignore writes.
pub(super) const fn inert(first: u32, last: u32) -> Row {
    row((first, last), Read::Value(0), Write::Ignored)
}

static TABLES: Tables<Access> =
    Tables { all: ALL, own: [super::amd::msr::TABLE, super::intel::msr::TABLE] };

/// What both vendors' parts have, in the order of numbers.
const ALL: &[Row] = {
    use Legal::{Any, Bits, Canonical, DefaultType, Pat, RangeTypes};
    &[
        row((msr::TSC, msr::TSC), Read::Of(|cpu| cpu.guest_tsc()), Write::Done(write_tsc)),
        row(
            (msr::APIC_BASE, msr::APIC_BASE),
            Read::Of(|cpu| cpu.apic.base()),
            Write::Done(write_apic_base),
        ),
        only(
            Feature::TscAdjust,
            row(
                (msr::TSC_ADJUST, msr::TSC_ADJUST),
                Read::Of(|cpu| cpu.control.msr.tsc_adjust),
                Write::Done(write_tsc_adjust),
            ),
        ),
        row(
            (msr::BIOS_SIGN_ID, msr::BIOS_SIGN_ID),
            Read::Of(|cpu| cpu.control.msr.microcode | u64::from(cpu.model.microcode()) << 32),
            Write::Ignored,
        ),
        only(
            Feature::Aperfmperf,
            row(
                (msr::MPERF, msr::MPERF),
                Read::Of(|cpu| cpu.clock.reference_count()),
                Write::Done(write_reference_count),
            ),
        ),
        only(
            Feature::Aperfmperf,
            row(
                (msr::APERF, msr::APERF),
                Read::Of(|cpu| cpu.clock.core_count()),
                Write::Done(write_core_count),
            ),
        ),
        read_only(msr::MTRR_CAP, Read::Value(MTRR_CAPABILITIES)),
        only(
            Feature::ArchCapabilities,
            read_only(msr::ARCH_CAPABILITIES, Read::Of(|cpu| cpu.model.arch_capabilities().bits())),
        ),
        kept(msr::SYSENTER_CS, |cpu, _| &mut cpu.control.syscall.sysenter_cs, Bits(LOW_HALF)),
        read_only(msr::MCG_CAP, Read::Value(MCG_HAS_CONTROL | BANKS as u64)),
        kept(msr::MCG_STATUS, |cpu, _| &mut cpu.control.msr.mcg_status, Any),
        kept(msr::MCG_CTL, |cpu, _| &mut cpu.control.msr.mcg_ctl, Any),
        row(
            (msr::DEBUG_CTL, msr::DEBUG_CTL),
            Read::Of(|cpu| cpu.control.msr.debug_ctl),
            Write::Done(|cpu, _, _, value| {
                branch_record::write_debug_control(cpu, value);
                Ok(())
            }),
        ),
        read_only(
            msr::LAST_BRANCH_FROM,
            Read::Of(|cpu| cpu.control.msr.branch_records.branch_from),
        ),
        read_only(msr::LAST_BRANCH_TO, Read::Of(|cpu| cpu.control.msr.branch_records.branch_to)),
        read_only(
            msr::LAST_INT_FROM,
            Read::Of(|cpu| cpu.control.msr.branch_records.exception_from),
        ),
        read_only(msr::LAST_INT_TO, Read::Of(|cpu| cpu.control.msr.branch_records.exception_to)),
        row(
            (msr::MTRR_PHYS_BASE0, msr::MTRR_PHYS_BASE0 + 15),
            Read::Kept(variable_range),
            Write::Kept(variable_range, Any),
        ),
        kept(msr::MTRR_FIX_64K, |cpu, _| &mut cpu.control.msr.mtrr_fixed[0], RangeTypes),
        row(
            (msr::MTRR_FIX_16K, msr::MTRR_FIX_16K + 1),
            Read::Kept(range_of_16k),
            Write::Kept(range_of_16k, RangeTypes),
        ),
        row(
            (msr::MTRR_FIX_4K, msr::MTRR_FIX_4K + 7),
            Read::Kept(range_of_4k),
            Write::Kept(range_of_4k, RangeTypes),
        ),
        kept(msr::PAT, |cpu, _| &mut cpu.control.msr.pat, Pat),
        kept(msr::MTRR_DEF_TYPE, |cpu, _| &mut cpu.control.msr.mtrr_default, DefaultType),
        only(
            Feature::TscDeadline,
            row(
                (msr::TSC_DEADLINE, msr::TSC_DEADLINE),
                Read::Of(|cpu| cpu.apic.tsc_deadline()),
                Write::Done(|cpu, _, _, value| {
                    local_apic::write_tsc_deadline(cpu, value);
                    Ok(())
                }),
            ),
        ),
        only(
            Feature::Xsaves,
            row((msr::XSS, msr::XSS), Read::Of(|cpu| cpu.control.msr.xss), Write::Done(write_xss)),
        ),
        row(
            (msr::EFER, msr::EFER),
            Read::Of(|cpu| cpu.control.efer().bits()),
            Write::Done(write_efer),
        ),
        kept(msr::STAR, |cpu, _| &mut cpu.control.syscall.star, Any),
        kept(msr::LSTAR, |cpu, _| &mut cpu.control.syscall.lstar, Canonical),
        kept(msr::CSTAR, |cpu, _| &mut cpu.control.syscall.cstar, Canonical),
        kept(msr::SFMASK, |cpu, _| &mut cpu.control.syscall.sfmask, Bits(LOW_HALF)),
        row(
            (msr::FS_BASE, msr::FS_BASE),
            Read::Of(|cpu| cpu.registers.segment(SegmentRegister::Fs).base),
            Write::Done(|cpu, _, _, value| write_segment_base(cpu, SegmentRegister::Fs, value)),
        ),
        row(
            (msr::GS_BASE, msr::GS_BASE),
            Read::Of(|cpu| cpu.registers.segment(SegmentRegister::Gs).base),
            Write::Done(|cpu, _, _, value| write_segment_base(cpu, SegmentRegister::Gs, value)),
        ),
        kept(msr::KERNEL_GS_BASE, |cpu, _| &mut cpu.control.syscall.kernel_gs_base, Canonical),
        only(
            Feature::Rdtscp,
            kept(msr::TSC_AUX, |cpu, _| &mut cpu.control.msr.tsc_aux, Bits(LOW_HALF)),
        ),
    ]
};

/// A register that does one thing, which takes its time, when any of some bits is written.
pub(super) fn command(cpu: &mut Cpu, value: u64, known: u64, step: Step) -> Result<(), Stop> {
    if value & !known != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    if value != 0 {
        cpu.clock.take(step);
    }
    Ok(())
}

pub(crate) fn read_msr(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Result<u64, Stop> {
    if let Some(value) = cpu.read_virtualization_msr(bus, number) {
        return value;
    }
    if (msr::X2APIC_FIRST..=msr::X2APIC_LAST).contains(&number) {
        return local_apic::apic_read_msr(cpu, number);
    }
    let row = TABLES.find(&cpu.model, number).ok_or(Stop::GENERAL_PROTECTION)?;
    Ok(match row.what.read {
        Read::Nothing => return Err(Stop::GENERAL_PROTECTION),
        Read::Value(value) => value,
        Read::Kept(place) => *place(cpu, (number - row.first) as usize),
        Read::Of(value) => value(cpu),
        Read::At(value) => value(cpu, (number - row.first) as usize),
    })
}

pub(crate) fn write_msr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
    value: u64,
) -> Result<(), Stop> {
    if let Some(result) = cpu.write_virtualization_msr(bus, number, value) {
        return result;
    }
    if (msr::X2APIC_FIRST..=msr::X2APIC_LAST).contains(&number) {
        return local_apic::apic_write_msr(cpu, bus, number, value);
    }
    let row = TABLES.find(&cpu.model, number).ok_or(Stop::GENERAL_PROTECTION)?;
    let index = (number - row.first) as usize;
    match row.what.write {
        Write::Nothing => Err(Stop::GENERAL_PROTECTION),
        Write::Ignored => Ok(()),
        Write::Kept(place, legal) => {
            let place = place(cpu, index);
            *place = legal.kept(value, *place).ok_or(Stop::GENERAL_PROTECTION)?;
            Ok(())
        }
        Write::Done(act) => act(cpu, bus, index, value),
    }
}

fn is_canonical(value: u64) -> bool {
    (value as i64) << 16 >> 16 == value as i64
}

fn variable_range(cpu: &mut Cpu, index: usize) -> &mut u64 {
    &mut cpu.control.msr.mtrr_variable[index]
}

fn range_of_16k(cpu: &mut Cpu, index: usize) -> &mut u64 {
    &mut cpu.control.msr.mtrr_fixed[1 + index]
}

fn range_of_4k(cpu: &mut Cpu, index: usize) -> &mut u64 {
    &mut cpu.control.msr.mtrr_fixed[3 + index]
}

pub(super) fn bank_register(cpu: &mut Cpu, index: usize) -> &mut u64 {
    &mut cpu.control.msr.machine_check[index / 4][index % 4]
}

fn write_tsc(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    let change = value.wrapping_sub(cpu.clock.tsc());
    cpu.clock.adjust_tsc(change);
    cpu.control.msr.tsc_adjust = cpu.control.msr.tsc_adjust.wrapping_add(change);
    Ok(())
}

fn write_tsc_adjust(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    let change = value.wrapping_sub(cpu.control.msr.tsc_adjust);
    cpu.clock.adjust_tsc(change);
    cpu.control.msr.tsc_adjust = value;
    Ok(())
}

fn write_reference_count(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    cpu.clock.set_reference_count(value);
    Ok(())
}

fn write_core_count(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    cpu.clock.set_core_count(value);
    Ok(())
}

fn write_apic_base(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    let bits = cpu.model.physical_bits();
    cpu.apic.write_base(value, cpu.clock.now(), bits).map_err(|_| Stop::GENERAL_PROTECTION)?;
    cpu.translation.tlb.flush_all();
    cpu.pending.raise(Attention::INTERRUPT | Attention::TIMER);
    Ok(())
}

fn write_xss(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    if value & !cpu.model.xss_permitted() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.msr.xss = value;
    Ok(())
}

fn write_efer(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    control::write_efer(cpu, value)?;
    cpu.after_write(Written::Efer);
    Ok(())
}

fn write_segment_base(cpu: &mut Cpu, segment: SegmentRegister, value: u64) -> Result<(), Stop> {
    if !is_canonical(value) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.set_segment_base(segment, value);
    Ok(())
}

/// A status register takes only zero, unless HWCR lets software simulate errors.
pub(super) fn write_bank(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    index: usize,
    value: u64,
) -> Result<(), Stop> {
    let simulates = cpu.control.msr.hwcr & HWCR_WRITES_STATUS != 0;
    if index % 4 == 1 && value != 0 && !simulates {
        return Err(Stop::GENERAL_PROTECTION);
    }
    *bank_register(cpu, index) = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_their_numbers_and_none_has_two() {
        TABLES.check();
    }
}
