//! Registers of Intel's parts. [SDM4 "Model-Specific Registers"]

use super::governor;
use super::speculation;
use crate::state::msr::misc_enable;
use crate::system::msr::{
    LAST_BANK_REGISTER, Legal, Read, Row, Write, bank_register, inert, kept, only, read_only, row,
    sysenter_targets, write_bank,
};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature::{self, FlushL1d, SpecCtrl, Uintr};
use arch::msr::{self, CoreThreadCount, PlatformInfo};
use arch::uintr::{DESCRIPTOR_RESERVED, UintrMisc, UintrTargets};

/// Status, control and turbo ratios, then HWP's, in two ranges of numbers.
const RATIOS: [Row; 2] = [
    only(
        Feature::Est,
        read_only(msr::PERF_STATUS, Read::Of(|cpu| governor::ratio(cpu.clock.core_hertz()) << 8)),
    ),
    only(
        Feature::Est,
        row(
            (msr::PERF_CTL, msr::PERF_CTL),
            Read::Of(|cpu| cpu.control.governor.control),
            Write::Done(governor::write_control),
        ),
    ),
];

const TURBO: [Row; 2] = [
    only(Feature::Est, inert(msr::MISC_POWER_MANAGEMENT, msr::MISC_POWER_MANAGEMENT)),
    only(
        Feature::Ida,
        read_only(
            msr::TURBO_RATIO_LIMIT,
            Read::Of(|cpu| u64::from_le_bytes([governor::capabilities(cpu).highest(); 8])),
        ),
    ),
];

const HWP: [Row; 4] = [
    only(
        Feature::Hwp,
        row(
            (msr::PM_ENABLE, msr::PM_ENABLE),
            Read::Of(|cpu| cpu.control.governor.has_hwp.into()),
            Write::Done(governor::write_enable),
        ),
    ),
    only(
        Feature::Hwp,
        read_only(msr::HWP_CAPABILITIES, Read::Of(|cpu| governor::capabilities(cpu).into_bits())),
    ),
    only(
        Feature::Hwp,
        row(
            (msr::HWP_REQUEST, msr::HWP_REQUEST),
            Read::Of(|cpu| governor::request(cpu).into_bits()),
            Write::Done(governor::write_request),
        ),
    ),
    only(Feature::Hwp, inert(msr::HWP_STATUS, msr::HWP_STATUS)),
];

/// In the order of numbers.
pub const TABLE: &[Row] = {
    use Legal::{Canonical, CanonicalWithout, Changes, Without};
    let [stack, target] = sysenter_targets(Canonical);
    let [status, control] = RATIOS;
    let [power, turbo] = TURBO;
    let [enable, capabilities, request, hwp_status] = HWP;
    &[
        read_only(msr::PLATFORM_ID, Read::Value(0)),
        // No firmware handles any here.
        read_only(msr::SMI_COUNT, Read::Value(0)),
        read_only(msr::CORE_THREAD_COUNT, Read::Of(core_thread_count)),
        only(
            SpecCtrl,
            row(
                (msr::SPEC_CTRL, msr::SPEC_CTRL),
                Read::Of(|cpu| cpu.control.msr.spec_ctrl),
                Write::Done(speculation::write_control),
            ),
        ),
        only(
            SpecCtrl,
            row(
                (msr::PRED_CMD, msr::PRED_CMD),
                Read::Nothing,
                Write::Done(speculation::write_prediction_command),
            ),
        ),
        read_only(msr::PLATFORM_INFO, Read::Of(platform_info)),
        inert(msr::PACKAGE_C_STATES, msr::PACKAGE_C_STATES),
        only(
            FlushL1d,
            row(
                (msr::FLUSH_CMD, msr::FLUSH_CMD),
                Read::Nothing,
                Write::Done(speculation::write_flush_command),
            ),
        ),
        stack,
        target,
        status,
        control,
        kept(
            msr::MISC_ENABLE,
            |cpu, _| &mut cpu.control.msr.misc_enable,
            Changes(misc_enable::WRITABLE),
        ),
        power,
        turbo,
        inert(msr::POWER_CONTROL, msr::POWER_CONTROL),
        row(
            (msr::MC0_CTL, LAST_BANK_REGISTER),
            Read::Kept(bank_register),
            Write::Done(write_control_or_bank),
        ),
        enable,
        capabilities,
        request,
        hwp_status,
        only(
            Uintr,
            row(
                (msr::UINTR_REQUESTS, msr::UINTR_REQUESTS),
                Read::Of(|cpu| cpu.control.uintr.requests),
                Write::Done(write_user_requests),
            ),
        ),
        only(Uintr, kept(msr::UINTR_HANDLER, |cpu, _| &mut cpu.control.uintr.handler, Canonical)),
        only(
            Uintr,
            kept(
                msr::UINTR_STACK_ADJUSTMENT,
                |cpu, _| &mut cpu.control.uintr.stack_adjustment,
                Canonical,
            ),
        ),
        only(
            Uintr,
            kept(
                msr::UINTR_MISC,
                |cpu, _| &mut cpu.control.uintr.misc,
                Without(UintrMisc::RESERVED),
            ),
        ),
        only(
            Uintr,
            kept(
                msr::UINTR_DESCRIPTOR,
                |cpu, _| &mut cpu.control.uintr.descriptor,
                CanonicalWithout(DESCRIPTOR_RESERVED),
            ),
        ),
        only(
            Uintr,
            kept(
                msr::UINTR_TARGETS,
                |cpu, _| &mut cpu.control.uintr.targets,
                CanonicalWithout(UintrTargets::RESERVED),
            ),
        ),
    ]
};

/// Requests that software writes are recognized as those of a notification are.
fn write_user_requests(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    cpu.control.uintr.requests = value;
    cpu.look_for_user_interrupt();
    Ok(())
}

/// All that the package has is enabled.
fn core_thread_count(cpu: &Cpu) -> u64 {
    let place = cpu.model.placement;
    let threads = place.package_cpus.max(1);
    let cores = (threads >> place.thread_bits).max(1);
    CoreThreadCount::new().with_threads(threads as u16).with_cores(cores as u16).into_bits()
}

/// The bus clock of these parts is 100 MHz. Neither power nor ratios can be set.
fn platform_info(cpu: &Cpu) -> u64 {
    const BUS_HERTZ: u64 = 100_000_000;
    let ratio = (cpu.model.clocks().base.hertz + BUS_HERTZ / 2) / BUS_HERTZ;
    let info = PlatformInfo::new().with_base_ratio(ratio as u8);
    info.with_efficient_ratio(governor::EFFICIENT_RATIO).into_bits()
}

/// What lies between all and none is undefined in a control register on Intel parts, whose
/// successors refuse it. [SDM3 "IA32_MCi_CTL MSRs"]
fn write_control_or_bank(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    index: usize,
    value: u64,
) -> Result<(), Stop> {
    if index.is_multiple_of(4) && !matches!(value, 0 | u64::MAX) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    write_bank(cpu, bus, index, value)
}
