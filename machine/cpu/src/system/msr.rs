//! RDMSR and WRMSR. [APM2 "Model-Specific Registers"]
//!
//! Unknown registers raise #GP, which kernels expect and handle; those that only firmware or
//! errata work-arounds use read zero and ignore writes, and are listed as such.

use crate::CpuModel;
use crate::guest::Written;
use crate::state::Control;
use crate::state::msr::{BANKS, misc_enable};
use crate::system::branch_record;
use crate::system::control;
use crate::system::local_apic;
use crate::{Attention, Bus, Cpu, Stop};
use arch::cpuid::Feature;
use arch::msr::{self, ArchCapabilities, PlatformInfo};
use arch::segment::SegmentRegister;

/// The lowest ratio of Intel's models: 1 GHz, as the bus clock is 100 MHz.
const EFFICIENT_RATIO: u8 = 10;

/// Registers of AMD parts that read zero and ignore writes here: chipset configuration, power
/// management, errata.
fn is_inert(number: u32) -> bool {
    matches!(
        number,
        0xC001_0016..=0xC001_0019 // IORR
            | 0xC001_001F // NB_CFG
            | 0xC001_0055 // interrupt pending
            | 0xC001_0061..=0xC001_0064 // P-states
            | 0xC001_0131 // SEV status
            | 0xC001_1000..=0xC001_103F
            | 0xC001_02B0..=0xC001_02B4
            | 0xC000_2000..=0xC000_23FF // scalable machine check
            | 0xC000_0108 // prefetch control
            | msr::TOP_MEM
            | msr::TOP_MEM2
    )
}

/// Registers of Intel's server parts that read zero and ignore writes here: power management.
fn is_inert_intel(number: u32) -> bool {
    const PACKAGE_C_STATES: u32 = 0xE2;
    const POWER_CONTROL: u32 = 0x1FC;
    matches!(number, PACKAGE_C_STATES | POWER_CONTROL)
}

/// The place of a performance register: the first four pairs have two numbers.
fn performance(number: u32) -> Option<usize> {
    match number {
        0xC001_0000..=0xC001_0003 => Some((number & 3) as usize * 2),
        0xC001_0004..=0xC001_0007 => Some((number & 3) as usize * 2 + 1),
        0xC001_0200..=0xC001_020B => Some((number - 0xC001_0200) as usize),
        _ => None,
    }
}

/// Bits of a performance counter.
const COUNTER: u64 = (1 << 48) - 1;

fn is_canonical(value: u64) -> bool {
    (value as i64) << 16 >> 16 == value as i64
}

/// Memory types that a PAT or MTRR field may have.
fn is_memory_type(value: u8, pat: bool) -> bool {
    matches!(value, 0 | 1 | 4 | 5 | 6) || pat && value == 7
}

fn fixed_mtrr(number: u32) -> Option<usize> {
    match number {
        0x250 => Some(0),
        0x258 | 0x259 => Some((number - 0x258 + 1) as usize),
        0x268..=0x26F => Some((number - 0x268 + 3) as usize),
        _ => None,
    }
}

pub(crate) fn read_msr(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Result<u64, Stop> {
    if let Some(value) = cpu.read_virtualization_msr(bus, number) {
        return value;
    }
    if (msr::X2APIC_FIRST..=msr::X2APIC_LAST).contains(&number) {
        return local_apic::apic_read_msr(cpu, number);
    }
    let has = |feature| cpu.model.has(feature);
    Ok(match number {
        msr::TSC => cpu.guest_tsc(),
        msr::APIC_BASE => cpu.apic.base(),
        msr::TSC_ADJUST if has(Feature::TscAdjust) => cpu.control.msr.tsc_adjust,
        msr::BIOS_SIGN_ID => cpu.control.msr.microcode | u64::from(cpu.model.microcode()) << 32,
        // No firmware handles any management interrupts here.
        msr::PLATFORM_ID | msr::SMI_COUNT if !cpu.model.is_amd() => 0,
        msr::MISC_ENABLE if !cpu.model.is_amd() => cpu.control.msr.misc_enable,
        msr::PLATFORM_INFO if !cpu.model.is_amd() => cpu.model.platform_info().into_bits(),
        msr::ARCH_CAPABILITIES if has(Feature::ArchCapabilities) => {
            ArchCapabilities::NOT_SPECULATING.bits()
        }
        msr::MTRR_CAP => 0x508,
        msr::SYSENTER_CS => cpu.control.syscall.sysenter_cs,
        msr::SYSENTER_ESP => cpu.control.syscall.sysenter_esp,
        msr::SYSENTER_EIP => cpu.control.syscall.sysenter_eip,
        msr::MCG_CAP => 0x100 | BANKS as u64,
        msr::MCG_STATUS => cpu.control.msr.mcg_status,
        msr::MCG_CTL => cpu.control.msr.mcg_ctl,
        msr::DEBUG_CTL => cpu.control.msr.debug_ctl,
        msr::LAST_BRANCH_FROM => cpu.control.msr.branch_records.branch_from,
        msr::LAST_BRANCH_TO => cpu.control.msr.branch_records.branch_to,
        msr::LAST_INT_FROM => cpu.control.msr.branch_records.exception_from,
        msr::LAST_INT_TO => cpu.control.msr.branch_records.exception_to,
        msr::PAT => cpu.control.msr.pat,
        msr::MTRR_DEF_TYPE => cpu.control.msr.mtrr_default,
        0x200..=0x20F => cpu.control.msr.mtrr_variable[(number - 0x200) as usize],
        0x400..=0x41B => {
            let at = (number - 0x400) as usize;
            cpu.control.msr.machine_check[at / 4][at % 4]
        }
        msr::TSC_DEADLINE if has(Feature::TscDeadline) => cpu.apic.tsc_deadline(),
        msr::XSS if has(Feature::Xsaves) => cpu.control.msr.xss,
        msr::EFER => cpu.control.efer.bits(),
        msr::STAR => cpu.control.syscall.star,
        msr::LSTAR => cpu.control.syscall.lstar,
        msr::CSTAR => cpu.control.syscall.cstar,
        msr::SFMASK => cpu.control.syscall.sfmask,
        msr::FS_BASE => cpu.registers.segments[SegmentRegister::Fs].base,
        msr::GS_BASE => cpu.registers.segments[SegmentRegister::Gs].base,
        msr::KERNEL_GS_BASE => cpu.control.syscall.kernel_gs_base,
        msr::TSC_AUX if has(Feature::Rdtscp) => cpu.control.msr.tsc_aux,
        msr::SYSCFG if cpu.model.is_amd() => cpu.control.msr.syscfg,
        msr::HWCR if cpu.model.is_amd() => cpu.control.msr.hwcr,
        0xC001_1020 if cpu.model.is_amd() => cpu.control.msr.ls_cfg,
        0xC001_1029 if cpu.model.is_amd() => cpu.control.msr.de_cfg,
        _ if fixed_mtrr(number).is_some() => {
            cpu.control.msr.mtrr_fixed[fixed_mtrr(number).unwrap_or(0)]
        }
        _ if cpu.model.is_amd() => match performance(number) {
            Some(at) => cpu.control.msr.performance[at],
            None if is_inert(number) => 0,
            None => return Err(Stop::GENERAL_PROTECTION),
        },
        _ if is_inert_intel(number) => 0,
        _ => return Err(Stop::GENERAL_PROTECTION),
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
    let canonical = if is_canonical(value) { Ok(value) } else { Err(Stop::GENERAL_PROTECTION) };
    match number {
        msr::TSC => {
            let change = value.wrapping_sub(cpu.clock.tsc());
            cpu.clock.adjust_tsc(change);
            cpu.control.msr.tsc_adjust = cpu.control.msr.tsc_adjust.wrapping_add(change);
        }
        msr::TSC_ADJUST if cpu.model.has(Feature::TscAdjust) => {
            let change = value.wrapping_sub(cpu.control.msr.tsc_adjust);
            cpu.clock.adjust_tsc(change);
            cpu.control.msr.tsc_adjust = value;
        }
        msr::APIC_BASE => {
            let bits = cpu.model.physical_bits();
            cpu.apic
                .write_base(value, cpu.clock.now(), bits)
                .map_err(|_| Stop::GENERAL_PROTECTION)?;
            cpu.translation.tlb.flush_all();
            cpu.pending.attention |= Attention::INTERRUPT | Attention::TIMER;
        }
        msr::MISC_ENABLE if !cpu.model.is_amd() => {
            let kept = cpu.control.msr.misc_enable & !misc_enable::WRITABLE;
            cpu.control.msr.misc_enable = value & misc_enable::WRITABLE | kept;
        }
        msr::BIOS_SIGN_ID => {}
        msr::SYSENTER_CS => cpu.control.syscall.sysenter_cs = value & 0xFFFF_FFFF,
        msr::SYSENTER_ESP => cpu.control.syscall.sysenter_esp = canonical?,
        msr::SYSENTER_EIP => cpu.control.syscall.sysenter_eip = canonical?,
        msr::MCG_STATUS => cpu.control.msr.mcg_status = value,
        msr::MCG_CTL => cpu.control.msr.mcg_ctl = value,
        msr::DEBUG_CTL => branch_record::write_debug_control(cpu, value),
        msr::TSC_DEADLINE if cpu.model.has(Feature::TscDeadline) => {
            local_apic::write_tsc_deadline(cpu, value);
        }
        msr::XSS if cpu.model.has(Feature::Xsaves) && value == 0 => cpu.control.msr.xss = value,
        msr::EFER => {
            control::write_efer(cpu, value)?;
            cpu.after_write(Written::Efer);
        }
        msr::STAR => cpu.control.syscall.star = value,
        msr::LSTAR => cpu.control.syscall.lstar = canonical?,
        msr::CSTAR => cpu.control.syscall.cstar = canonical?,
        msr::SFMASK => cpu.control.syscall.sfmask = value & 0xFFFF_FFFF,
        msr::FS_BASE | msr::GS_BASE => {
            let is_fs = number == msr::FS_BASE;
            let register = if is_fs { SegmentRegister::Fs } else { SegmentRegister::Gs };
            cpu.registers.set_segment_base(register, canonical?);
        }
        msr::KERNEL_GS_BASE => cpu.control.syscall.kernel_gs_base = canonical?,
        msr::TSC_AUX if cpu.model.has(Feature::Rdtscp) => {
            cpu.control.msr.tsc_aux = value & 0xFFFF_FFFF;
        }
        msr::SYSCFG if cpu.model.is_amd() => cpu.control.msr.syscfg = value & 0x007C_0000,
        msr::HWCR if cpu.model.is_amd() => cpu.control.msr.hwcr = value & 0x0100_0000 | 1 << 24,
        0xC001_1020 if cpu.model.is_amd() => cpu.control.msr.ls_cfg = value,
        0xC001_1029 if cpu.model.is_amd() => cpu.control.msr.de_cfg = value,
        _ if cpu.control.write_memory_type(number, value)? => {}
        _ if write_machine_check(cpu, number, value)? => {}
        _ if cpu.model.is_amd() => match performance(number) {
            Some(at) => {
                cpu.control.msr.performance[at] = if at % 2 == 1 { value & COUNTER } else { value };
            }
            None if is_inert(number) => {}
            None => return Err(Stop::GENERAL_PROTECTION),
        },
        _ if is_inert_intel(number) => {}
        _ => return Err(Stop::GENERAL_PROTECTION),
    }
    Ok(())
}

/// A status register takes only zero, unless HWCR lets software simulate errors.
fn write_machine_check(cpu: &mut Cpu, number: u32, value: u64) -> Result<bool, Stop> {
    if !(0x400..0x400 + 4 * BANKS as u32).contains(&number) {
        return Ok(false);
    }
    let at = (number - 0x400) as usize;
    let simulates = cpu.control.msr.hwcr & 1 << 18 != 0;
    if at % 4 == 1 && value != 0 && !simulates {
        return Err(Stop::GENERAL_PROTECTION);
    }
    // What lies between all and none is undefined on Intel parts, whose successors refuse it.
    // [SDM3 "IA32_MCi_CTL MSRs"]
    if at.is_multiple_of(4) && !matches!(value, 0 | u64::MAX) && !cpu.model.is_amd() {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.msr.machine_check[at / 4][at % 4] = value;
    Ok(true)
}

impl Control {
    /// PAT and MTRRs. Memory types have no effect here, but are checked and kept.
    fn write_memory_type(&mut self, number: u32, value: u64) -> Result<bool, Stop> {
        let bytes_are = |pat| value.to_le_bytes().iter().all(|byte| is_memory_type(*byte, pat));
        match number {
            msr::PAT if bytes_are(true) => self.msr.pat = value,
            msr::MTRR_DEF_TYPE if value & !0xCFF == 0 && is_memory_type(value as u8, false) => {
                self.msr.mtrr_default = value;
            }
            0x200..=0x20F => self.msr.mtrr_variable[(number - 0x200) as usize] = value,
            _ => match fixed_mtrr(number) {
                Some(at) if bytes_are(false) => self.msr.mtrr_fixed[at] = value,
                Some(_) => return Err(Stop::GENERAL_PROTECTION),
                None if matches!(number, msr::PAT | msr::MTRR_DEF_TYPE) => {
                    return Err(Stop::GENERAL_PROTECTION);
                }
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}

impl CpuModel {
    /// The bus clock of these parts is 100 MHz. Neither power nor ratios can be set.
    fn platform_info(&self) -> PlatformInfo {
        const BUS_HERTZ: u64 = 100_000_000;
        let ratio = (self.tsc_hertz() + BUS_HERTZ / 2) / BUS_HERTZ;
        PlatformInfo::new().with_base_ratio(ratio as u8).with_efficient_ratio(EFFICIENT_RATIO)
    }
}
