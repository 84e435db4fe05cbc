//! Starting: the first Rust code of every processor, and how the first one wakes the others.
//! [APM2 "Multiple Processor Startup"]

use crate::multiboot::BootInformation;
use crate::{
    acpi, apic, boot, clock, descriptor, fw_cfg, instruction, interrupt, job, power, processor,
    serial,
};
use arch::apic::{DeliveryMode, Mode};
use core::sync::atomic::Ordering;

unsafe extern "Rust" {
    /// Defined by [`crate::entry!`].
    safe fn guest_main(boot: &BootInformation) -> power::Status;
}

/// How long the others have to report, where their number is known and where it is not.
const PATIENCE_MS: u64 = 5000;
const QUIET_MS: u64 = 50;

/// What a startup IPI carries as its vector: where processors begin in real mode.
const STARTUP_PAGE: u8 = (boot::TRAMPOLINE >> 12) as u8;

#[unsafe(no_mangle)]
extern "C" fn runtime_entry(index: u32) -> ! {
    let index = index as usize;
    processor::initialize(index);
    if index == 0 {
        serial::initialize();
        interrupt::initialize();
        descriptor::load(index);
        let boot = BootInformation::read();
        if boot.option("output") == Some("memory") {
            serial::print_by_memory();
        }
        clock::set_kilohertz(boot.number("tsc_khz", 0));
        first(&boot)
    }
    descriptor::load(index);
    let first_mode = processor::get(0).is_x2apic();
    apic::enter(if first_mode { Mode::X2Apic } else { Mode::XApic });
    processor::report_online();
    job::serve()
}

fn first(boot: &BootInformation) -> ! {
    // Firmware that needs x2APIC mode, for identifiers above 254, has entered it.
    let mode = apic::mode();
    let announced = fw_cfg::processor_count().or_else(acpi::processor_count);
    let wanted = boot.option("cpus").and_then(|value| value.parse().ok());
    let expected = wanted.or(announced).unwrap_or(0).min(processor::MAX_CPUS);
    processor::expect(expected.max(1));
    apic::enter(if mode == Mode::X2Apic { mode } else { Mode::XApic });
    processor::report_online();
    instruction::enable_interrupts();
    if expected != 1 {
        start_others(expected);
    }
    processor::expect(processor::count());
    power::off(guest_main(boot))
}

/// Starts another processor again, which is not asked and loses what it was at; it begins the job
/// that it was given once more. One at a time, and not the first.
pub fn again(target: &processor::Processor) {
    boot::next_cpu.store(target.index() as u32, Ordering::SeqCst);
    apic::send_start(target.apic_id(), DeliveryMode::Init, 0);
    clock::wait_us(10);
    apic::send_start(target.apic_id(), DeliveryMode::Startup, STARTUP_PAGE);
}

/// INIT and startup IPIs to everyone. Processors of the last two decades need no pause between
/// them, and those that are already on their way ignore the second startup IPI.
fn start_others(expected: usize) {
    boot::place_trampoline();
    apic::start_others(DeliveryMode::Init, 0);
    clock::wait_us(10);
    apic::start_others(DeliveryMode::Startup, STARTUP_PAGE);
    clock::wait_us(10);
    if processor::count() != expected {
        apic::start_others(DeliveryMode::Startup, STARTUP_PAGE);
    }
    if expected != 0 {
        clock::wait_while(PATIENCE_MS, || processor::count() < expected);
        return;
    }
    let mut seen = 0;
    while seen != processor::count() {
        seen = processor::count();
        clock::wait_while(QUIET_MS, || processor::count() == seen);
    }
}
