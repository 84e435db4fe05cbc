//! Measures, by the time stamp counter and from inside, what interrupts cost: on real hardware, in
//! a virtual machine, on an emulated machine. Results are JSON, a line each, on the serial port.
//!
//! The Multiboot command line selects: see `selection`. What the records mean is in the book's
//! chapter on the guests.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod device;
mod exit;
mod gaps;
mod latency;
mod local;
mod mix;
mod path;
mod patience;
mod selection;
mod statistics;
mod throughput;

use arch::apic::Mode;
use path::Path;
use runtime::{BootInformation, Status, apic, clock, instruction, job, print, processor};
use selection::{Selection, Test};

runtime::entry!(benchmark);

fn benchmark(boot: &BootInformation) -> Status {
    let selection = Selection::read(boot);
    patience::set(selection.patience);
    gaps::begin(selection.seed);
    announce();
    let first_mode = apic::mode();
    let mut status = Status::Passed;
    for mode in [Mode::XApic, Mode::X2Apic] {
        if !selection.wants_mode(mode) || !is_possible(mode, first_mode) {
            continue;
        }
        job::run_on(0..processor::count(), enter, mode as usize);
        if !measure(&selection, mode) || !measure_again(&selection, mode) {
            status = Status::Failed;
        }
    }
    if selection.wants(Test::Exits) {
        exit::measure(&selection);
    }
    print!("{{\"record\":\"end\",\"passed\":{}}}", status == Status::Passed);
    status
}

/// xAPIC mode is left alone where identifiers do not fit, or firmware chose the other mode.
fn is_possible(mode: Mode, first_mode: Mode) -> bool {
    match mode {
        Mode::X2Apic => apic::has_x2apic(),
        _ => {
            first_mode == Mode::XApic
                && processor::all().all(|processor| processor.apic_id() <= apic::LAST_XAPIC_ID)
        }
    }
}

fn enter(mode: usize) {
    apic::enter(if mode == Mode::X2Apic as usize { Mode::X2Apic } else { Mode::XApic });
}

/// Latencies of one APIC mode from each seed; whether every interrupt arrived.
fn measure_again(selection: &Selection, mode: Mode) -> bool {
    let share = selection.share();
    (1..=selection.seeds).all(|seed| {
        print!("{{\"record\":\"seed\",\"seed\":{seed}}}");
        gaps::begin(seed);
        let mut arrived = true;
        for path in Path::all(mode).filter(|path| selection.wants_fence(path.fence)) {
            arrived &= !selection.wants(Test::Ipi) || latency::measure(&share, path);
        }
        arrived && measure_local(&share, mode)
    })
}

/// What a processor does to itself.
fn measure_local(selection: &Selection, mode: Mode) -> bool {
    let name = path::mode_name(mode);
    let mut arrived = true;
    if selection.wants(Test::SelfIpi) {
        arrived &= local::measure_self_ipi(selection, name);
    }
    if selection.wants(Test::Eoi) {
        arrived &= local::measure_end_of_interrupt(selection, name);
    }
    if selection.wants(Test::Timer) {
        arrived &= local::measure_timer(selection, name);
    }
    arrived
}

/// All tests of one APIC mode; whether every interrupt arrived.
fn measure(selection: &Selection, mode: Mode) -> bool {
    let mut arrived = true;
    for path in Path::all(mode).filter(|path| selection.wants_fence(path.fence)) {
        if selection.wants(Test::Ipi) {
            arrived &= latency::measure(selection, path);
        }
        arrived &= throughput::measure(selection, path);
    }
    let name = path::mode_name(mode);
    arrived &= measure_local(selection, mode);
    if selection.wants(Test::Exits) {
        exit::measure_apic(selection, name);
    }
    if selection.names(Test::Arm) {
        arrived &= local::measure_arming(selection, name);
    }
    if selection.names(Test::Mix) {
        mix::run(selection, mode);
    }
    if selection.names(Test::Device) {
        device::measure(selection, name);
    }
    arrived
}

/// The record that says where the numbers come from.
fn announce() {
    let vendor = instruction::cpuid(0, 0);
    let signature = instruction::cpuid(1, 0);
    let is_virtual = signature.ecx >> 31 != 0;
    let hypervisor = if is_virtual { instruction::cpuid(0x4000_0000, 0) } else { vendor };
    let text = |words: [u32; 3]| {
        let mut bytes = [b' '; 12];
        for (place, byte) in bytes.iter_mut().zip(words.into_iter().flat_map(u32::to_le_bytes)) {
            // What is not a letter of a name would not be one of a JSON string either.
            *place = if byte.is_ascii_alphanumeric() { byte } else { b' ' };
        }
        bytes
    };
    let vendor = text([vendor.ebx, vendor.edx, vendor.ecx]);
    let hypervisor = text([hypervisor.ebx, hypervisor.ecx, hypervisor.edx]);
    let name = |bytes| core::str::from_utf8(bytes).unwrap_or("").trim_end();
    print!(
        "{{\"record\":\"start\",\"program\":\"benchmark\",\"version\":1,\"cpus\":{},\
         \"vendor\":\"{}\",\"signature\":\"{:#x}\",\"hypervisor\":\"{}\",\"tsc_khz\":{}}}",
        processor::count(),
        name(&vendor),
        signature.eax,
        if is_virtual { name(&hypervisor) } else { "" },
        clock::kilohertz().unwrap_or(0),
    );
}
