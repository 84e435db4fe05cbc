//! Ratios of Intel's parts, in units of the bus clock: asked for in IA32_PERF_CTL, or by limits
//! within which HWP chooses. HWP chooses what is desired, or else the highest: it knows nothing of
//! load here. [SDM3 "Hardware-Controlled Performance States (HWP)"]

use crate::system::governor::follow;
use crate::{Bus, Cpu, Stop};
use arch::msr::{HwpCapabilities, HwpRequest};

/// The lowest ratio of the models: 1 GHz, as the bus clock is 100 MHz.
pub const EFFICIENT_RATIO: u8 = 10;
const BUS_HERTZ: u64 = 100_000_000;
/// Of IA32_PERF_CTL: no turbo.
const NO_TURBO: u64 = 1 << 32;
/// Halfway between performance and saving.
const BALANCED: u8 = 0x80;
const ENABLE: u64 = 1;

/// Of a clock, in whole units of the bus'.
pub fn ratio(hertz: u64) -> u64 {
    hertz / BUS_HERTZ
}

/// The highest is what the machine was told to run at, or the whole ratio below that.
pub fn capabilities(cpu: &Cpu) -> HwpCapabilities {
    let highest = ratio(cpu.model.core_hertz()).clamp(1, 0xFF) as u8;
    let base = (cpu.model.clocks().base.hertz + BUS_HERTZ / 2) / BUS_HERTZ;
    let lowest = EFFICIENT_RATIO.min(highest);
    HwpCapabilities::new()
        .with_highest(highest)
        .with_guaranteed(base.clamp(1, highest.into()) as u8)
        .with_most_efficient(lowest)
        .with_lowest(lowest)
}

/// What HWP was asked for.
pub fn request(cpu: &Cpu) -> HwpRequest {
    let limits = capabilities(cpu);
    let at_reset = HwpRequest::new()
        .with_minimum(limits.lowest())
        .with_maximum(limits.highest())
        .with_energy_preference(BALANCED);
    cpu.control.governor.hwp_request.map_or(at_reset, HwpRequest::from_bits)
}

/// At which clock the core is to run.
fn hertz(cpu: &Cpu) -> u64 {
    let limits = capabilities(cpu);
    let governor = &cpu.control.governor;
    let wanted = if governor.has_hwp {
        let request = request(cpu);
        match request.desired() {
            0 => request.maximum(),
            desired => desired.max(request.minimum()).min(request.maximum()),
        }
    } else {
        let highest =
            if governor.control & NO_TURBO == 0 { limits.highest() } else { limits.guaranteed() };
        match (governor.control >> 8) as u8 {
            0 => highest,
            ratio => ratio.min(highest),
        }
    };
    match wanted.max(limits.lowest()) {
        highest if highest >= limits.highest() => cpu.model.core_hertz(),
        ratio => u64::from(ratio) * BUS_HERTZ,
    }
}

/// Without HWP this asks for a ratio.
pub fn write_control(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    cpu.control.governor.control = value;
    follow(cpu, hertz(cpu));
    Ok(())
}

/// Once on, HWP stays on.
pub fn write_enable(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    if value & !ENABLE != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.governor.has_hwp |= value != 0;
    follow(cpu, hertz(cpu));
    Ok(())
}

/// The register is there once HWP is on; whose limits cross is not told, and the maximum holds.
pub fn write_request(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    if !cpu.control.governor.has_hwp {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.governor.hwp_request = Some(value);
    follow(cpu, hertz(cpu));
    Ok(())
}
