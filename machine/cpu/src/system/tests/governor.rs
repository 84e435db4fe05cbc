//! What software writes changes the core's clock, and the counters follow it.

use super::{Nothing, read_msr, write_msr};
use crate::{Attention, Bus, Cpu, CpuModel, Stop};
use arch::identity::{ApicId, CpuIndex};
use arch::msr::{self, HwpCapabilities, HwpRequest, PStateDefinition};
use arch::time::Picoseconds;
use bus::GuestMemory;
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;

const NANOSECOND: u64 = 1_000;

fn governed(name: &str) -> Cpu {
    let mut model = CpuModel::named(name).expect("a model that comes with the machine");
    model.let_software_clock().expect("its features are known");
    let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
    Cpu::new(CpuIndex(0), model, apic, 1)
}

fn write(cpu: &mut Cpu, number: u32, value: u64) -> Result<(), Stop> {
    let mut memory = GuestMemory::new(0x1000);
    write_msr(cpu, &mut Bus { memory: &mut memory, platform: &mut Nothing }, number, value)
}

fn read(cpu: &mut Cpu, number: u32) -> u64 {
    let mut memory = GuestMemory::new(0x1000);
    let mut bus = Bus { memory: &mut memory, platform: &mut Nothing };
    read_msr(cpu, &mut bus, number).expect("a register that can be read")
}

#[test]
fn p_states_and_the_switch_of_boosts_choose_the_clock_of_amd_s_parts() {
    const BOOST_OFF: u64 = 1 << 25;
    let mut cpu = governed("zen4");
    let rows = [
        (0, 0, 3_700_000_000),
        (0, BOOST_OFF, 2_400_000_000),
        (1, BOOST_OFF, 1_950_000_000),
        (1, 0, 1_950_000_000),
        (2, 0, 1_500_000_000),
        // There is no fourth.
        (3, 0, 1_500_000_000),
        (0, 0, 3_700_000_000),
    ];
    for (state, boost, hertz) in rows {
        write(&mut cpu, msr::HWCR, boost).expect("HWCR takes it");
        write(&mut cpu, msr::P_STATE_CONTROL, state).expect("the control takes it");
        assert_eq!(cpu.clock.core_hertz(), hertz, "state {state}, HWCR {boost:#x}");
        assert_eq!(read(&mut cpu, msr::P_STATE_STATUS), state.min(2));
    }
    assert_eq!(read(&mut cpu, msr::P_STATE_LIMIT), 0x20);
    for (number, hertz) in [(0, 2_400), (1, 1_950), (2, 1_500)] {
        let definition = read(&mut cpu, msr::P_STATE_DEFINITIONS + number);
        let definition = PStateDefinition::from_bits(definition);
        let megahertz = 200 * u32::from(definition.multiplier()) / u32::from(definition.divisor());
        assert!(definition.is_enabled() && megahertz == hertz, "{number}: {megahertz}");
    }
    assert_eq!(read(&mut cpu, msr::P_STATE_DEFINITIONS + 3), 0);
}

#[test]
fn hwp_runs_at_what_is_desired_or_else_at_the_highest_that_is_allowed() {
    let mut cpu = governed("skylake-sp");
    let limits = HwpCapabilities::from_bits(read(&mut cpu, msr::HWP_CAPABILITIES));
    let found = [limits.highest(), limits.guaranteed(), limits.lowest()];
    assert_eq!(found, [37, 21, 10]);
    let request = HwpRequest::new().with_minimum(10).with_maximum(37);
    let early = write(&mut cpu, msr::HWP_REQUEST, request.into_bits());
    assert!(early.is_err(), "HWP is not on");
    write(&mut cpu, msr::PM_ENABLE, 1).expect("HWP can be turned on");
    write(&mut cpu, msr::PM_ENABLE, 0).expect("which stays");
    assert_eq!(read(&mut cpu, msr::PM_ENABLE), 1);
    for (minimum, maximum, desired, ratio) in [
        (10, 37, 0, 37),
        (10, 15, 0, 15),
        (10, 37, 20, 20),
        (12, 37, 11, 12),
        (10, 15, 20, 15),
        (0, 0, 0, 10),
        (10, 0xFF, 0, 37),
    ] {
        let request = HwpRequest::new().with_minimum(minimum).with_maximum(maximum);
        let request = request.with_desired(desired).into_bits();
        write(&mut cpu, msr::HWP_REQUEST, request).expect("a request");
        let hertz = ratio * 100_000_000_u64;
        assert_eq!(cpu.clock.core_hertz(), hertz, "{minimum} {maximum} {desired}");
        assert_eq!(read(&mut cpu, msr::PERF_STATUS), ratio << 8);
        assert_eq!(read(&mut cpu, msr::HWP_REQUEST), request);
    }
    write(&mut cpu, msr::PERF_CTL, 12 << 8).expect("it has no effect");
    assert_eq!(cpu.clock.core_hertz(), 3_700_000_000);
}

#[test]
fn a_ratio_chooses_the_clock_of_parts_without_hwp() {
    let mut cpu = governed("haswell-ep");
    let boost = cpu.model.core_hertz();
    write(&mut cpu, msr::PERF_CTL, 14 << 8).expect("a ratio");
    assert_eq!(cpu.clock.core_hertz(), 1_400_000_000);
    write(&mut cpu, msr::PERF_CTL, 0xFF << 8).expect("the highest");
    assert_eq!(cpu.clock.core_hertz(), boost);
    write(&mut cpu, msr::PERF_CTL, 1 << 32 | 0xFF << 8).expect("without turbo");
    let base = (cpu.model.clocks().base.hertz + 50_000_000) / 100_000_000 * 100_000_000;
    assert_eq!(cpu.clock.core_hertz(), base);
    assert!(write(&mut cpu, msr::PM_ENABLE, 1).is_err(), "there is no HWP");
}

#[test]
fn counters_run_while_there_is_something_to_do_the_one_at_the_core_s_clock() {
    let mut cpu = governed("zen4");
    cpu.clock.spend(Picoseconds(100 * NANOSECOND));
    assert_eq!((read(&mut cpu, msr::MPERF), read(&mut cpu, msr::APERF)), (240, 370));
    let idle = cpu.clock.now() + Picoseconds(50 * NANOSECOND);
    cpu.clock.move_to(idle);
    assert_eq!((read(&mut cpu, msr::MPERF), read(&mut cpu, msr::APERF)), (240, 370));
    write(&mut cpu, msr::P_STATE_CONTROL, 2).expect("the slowest");
    assert!(cpu.clock.has_changed() && cpu.pending.has(Attention::YIELD), "the board hears of it");
    cpu.clock.spend(Picoseconds(100 * NANOSECOND));
    assert_eq!((read(&mut cpu, msr::MPERF), read(&mut cpu, msr::APERF)), (480, 520));
    write(&mut cpu, msr::APERF, 7).expect("it can be set");
    write(&mut cpu, msr::MPERF, 9).expect("it can be set");
    cpu.clock.spend(Picoseconds(10 * NANOSECOND));
    assert_eq!((read(&mut cpu, msr::MPERF), read(&mut cpu, msr::APERF)), (33, 22));
}

#[test]
fn without_the_control_nothing_changes_the_clock() {
    for (name, number, value) in [("zen4", msr::P_STATE_CONTROL, 2), ("zen4", msr::HWCR, 1 << 25)] {
        let mut cpu = super::cpu(name);
        let hertz = cpu.clock.core_hertz();
        write(&mut cpu, number, value).expect("writes are ignored");
        assert_eq!((cpu.clock.core_hertz(), read(&mut cpu, msr::P_STATE_STATUS)), (hertz, 0));
        assert!(!cpu.clock.has_changed());
    }
    for number in [msr::APERF, msr::PERF_CTL, msr::PM_ENABLE, msr::HWP_REQUEST] {
        assert!(write(&mut super::cpu("skylake-sp"), number, 0).is_err(), "{number:#x}");
    }
}
