//! The reference hypervisor: SVM, nested paging and AVIC, as little of it as runs a multiprocessor
//! guest, in the order of the manual. [APM2 "Secure Virtual Machine"]
//!
//! It runs the same guest once with interrupts injected by software and once by AVIC, and prints
//! where the VM exits went. The guest is a Multiboot image: a module, or the benchmark, which is
//! built in. The command line is described in the book's chapter on the guests.
//!
//! Where to read what: `svm::control` sets up a VMCB, `svm::entry` is the world switch, `svm::exit`
//! answers exits, `svm::avic` has the tables and the two exits of AVIC; `vapic` is the guest's APIC
//! page, with or without AVIC; `schedule` decides what runs where, and keeps IsRunning.
//!
//! Left out: devices other than a serial port, migration of virtual processors between physical
//! ones, level-triggered interrupts, nested guests, host memory above 4 GiB.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod machine;
mod memory;
mod payload;
mod port;
mod schedule;
mod selection;
mod statistics;
mod svm;
mod vapic;
mod vcpu;

use runtime::{BootInformation, Status, apic, clock, print, processor};
use selection::{Acceleration, Selection};
use svm::feature::Features;

runtime::entry!(hypervisor);

fn hypervisor(boot: &BootInformation) -> Status {
    let features = match Features::read() {
        Ok(features) => features,
        Err(reason) => {
            print!("{{\"record\":\"unavailable\",\"what\":\"svm\",\"reason\":\"{reason}\"}}");
            return Status::Failed;
        }
    };
    let selection = Selection::read(boot);
    print!(
        "{{\"record\":\"start\",\"program\":\"hypervisor\",\"version\":1,\"cpus\":{},\
         \"vcpus\":{},\"avic\":{},\"x2avic\":{},\"tsc_khz\":{}}}",
        processor::count(),
        selection.vcpus,
        features.avic,
        features.x2avic,
        clock::kilohertz().unwrap_or(0),
    );
    let image = boot.module(0).unwrap_or(payload::BUILT_IN);
    if let Err(reason) = memory::reserve(boot, selection.memory) {
        print!("{{\"record\":\"unavailable\",\"what\":\"memory\",\"reason\":\"{reason}\"}}");
        return Status::Failed;
    }
    apic::measure_timer_rate();
    let mut status = Status::Passed;
    for acceleration in [Acceleration::Off, Acceleration::On] {
        if !selection.wants(acceleration) {
            continue;
        }
        if acceleration == Acceleration::On && !features.avic {
            print!(
                "{{\"record\":\"unavailable\",\"what\":\"avic\",\
                 \"reason\":\"CPUID Fn8000_000A EDX bit 13 is clear\"}}"
            );
            continue;
        }
        let passed = machine::run(&features, &selection, acceleration, image);
        if !passed {
            status = Status::Failed;
        }
    }
    print!("{{\"record\":\"end\",\"passed\":{}}}", status == Status::Passed);
    status
}
