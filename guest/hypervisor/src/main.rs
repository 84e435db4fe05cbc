//! The reference hypervisor: hardware virtualization, nested paging and interrupt virtualization,
//! as little of it as runs a multiprocessor guest, in the order of the manual.
//! [APM2 "Secure Virtual Machine"] [SDM3 "Introduction to Virtual Machine Extensions"]
//!
//! It runs the same guest once with interrupts injected by software and once by the processor, and
//! prints where the VM exits went. The guest is a Multiboot image: a module, or the benchmark,
//! which is built in. The command line is described in the book's chapter on the guests.
//!
//! Where to read what: `machine` is what a virtual machine consists of, handed to everything above
//! it; `run` is its life, `schedule` decides what runs where, `exit` answers exits. `vendor` says
//! what each vendor does in its own way; `svm` and `vmx` do it, with the same names: `control` has
//! the VMCB or VMCS, `entry` is the world switch, `svm::avic` and `vmx::apicv` have the tables of
//! interrupt virtualization. `vapic` is the guest's APIC, with or without them.
//!
//! Left out: devices other than a serial port, migration of vCPUs between physical
//! ones, level-triggered interrupts, nested guests, host memory above 4 GiB.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod cpuid;
mod exit;
mod host;
mod inject;
mod instruction;
mod machine;
mod memory;
mod msr;
mod payload;
mod port;
mod registers;
mod run;
mod schedule;
mod selection;
mod statistics;
mod svm;
mod vapic;
mod vcpu;
mod vendor;
mod vmx;

use machine::Storage;
use memory::Memory;
use runtime::{BootInformation, Status, apic, clock, print, processor};
use selection::{Acceleration, Selection};
use svm::Svm;
use vapic::target::MOST_VCPUS;
use vcpu::Vcpu;
use vendor::Vendor;
use vmx::Vmx;
use vmx::apicv::PostedDescriptor;

runtime::entry!(hypervisor);

static SVM: Storage<Svm> = Storage::new(
    [const { Vcpu::new(svm::control::Block::new(), ()) }; MOST_VCPUS],
    svm::tables::Tables::new(),
);
static VMX: Storage<Vmx> = Storage::new(
    [const { Vcpu::new(vmx::control::Block::new(), PostedDescriptor::new()) }; MOST_VCPUS],
    vmx::tables::Tables::new(),
);

fn hypervisor(boot: &BootInformation) -> Status {
    match (Svm::features(), Vmx::features()) {
        (Ok(features), _) => compare(boot, features, &SVM),
        (_, Ok(features)) => compare(boot, features, &VMX),
        (_, Err(reason)) if vmx::feature::is_enumerated() => unavailable("vmx", reason),
        (Err(reason), _) => unavailable("svm", reason),
    }
}

/// Runs the guest without and with acceleration.
fn compare<V: Vendor>(
    boot: &BootInformation,
    features: V::Features,
    storage: &'static Storage<V>,
) -> Status {
    let selection = Selection::read(boot);
    print!(
        "{{\"record\":\"start\",\"program\":\"hypervisor\",\"version\":1,\"cpus\":{},\
         \"vcpus\":{},{features},\"tsc_khz\":{}}}",
        processor::count(),
        selection.vcpus,
        clock::kilohertz().unwrap_or(0),
    );
    let image = boot.module(0).unwrap_or(payload::BUILT_IN);
    let memory = match Memory::reserve(boot, selection.memory) {
        Ok(memory) => memory,
        Err(reason) => return unavailable("memory", reason),
    };
    apic::measure_timer_rate();
    let mut status = Status::Passed;
    for acceleration in [Acceleration::Off, Acceleration::On] {
        if !selection.wants(V::ACCELERATION, acceleration) {
            continue;
        }
        if acceleration == Acceleration::On && !V::can_accelerate(&features) {
            unavailable(V::ACCELERATION, V::WITHOUT_ACCELERATION);
            continue;
        }
        if !run::run(features, &selection, acceleration, memory, image, storage) {
            status = Status::Failed;
        }
    }
    print!("{{\"record\":\"end\",\"passed\":{}}}", status == Status::Passed);
    status
}

/// Says what is missing, and why.
fn unavailable(what: &str, reason: &str) -> Status {
    print!("{{\"record\":\"unavailable\",\"what\":\"{what}\",\"reason\":\"{reason}\"}}");
    Status::Failed
}
