//! User interrupts from inside: what the manual says of them, a check each, and what SENDUIPI takes
//! of its sender, on its way and of its receiver. [SDM3 "User Interrupts"]
//!
//! Two processors: the first sends, the second receives, both at privilege 3. Results are JSON, a
//! line each, on the serial port. Command line: `apic=xapic|x2apic|both samples=N`.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod check;
mod instruction;
mod measure;
mod receiver;
mod table;
mod user;

use arch::apic::Mode;
use runtime::{BootInformation, Status, apic, clock, job, print, processor};

runtime::entry!(uintr);

/// The first processor sends.
const SENDER: usize = 0;
/// The second receives.
const RECEIVER: usize = 1;

fn uintr(boot: &BootInformation) -> Status {
    let is_virtual = runtime::instruction::cpuid(1, 0).ecx >> 31 != 0;
    print!(
        "{{\"record\":\"start\",\"program\":\"uintr\",\"version\":1,\"cpus\":{},\"virtual\":{is_virtual},\"tsc_khz\":{}}}",
        processor::count(),
        clock::kilohertz().unwrap_or(0),
    );
    if !instruction::are_enumerated() {
        return unavailable("CPUID 7 EDX bit 5 is clear");
    }
    if processor::count() <= RECEIVER {
        return unavailable("there is one processor");
    }
    user::map();
    let samples = boot.number("samples", 1000) as usize;
    let wanted = boot.option("apic").unwrap_or("both");
    let mut passed = true;
    for (mode, name) in [(Mode::XApic, "xapic"), (Mode::X2Apic, "x2apic")] {
        if wanted != "both" && wanted != name || mode == Mode::X2Apic && !apic::has_x2apic() {
            continue;
        }
        job::run_on(0..RECEIVER + 1, enter, mode as usize);
        passed &= check::all(name);
        passed &= measure::all(name, samples);
    }
    print!("{{\"record\":\"end\",\"passed\":{passed}}}");
    if passed { Status::Passed } else { Status::Failed }
}

fn enter(mode: usize) {
    apic::enter(if mode == Mode::X2Apic as usize { Mode::X2Apic } else { Mode::XApic });
    user::prepare();
    receiver::prepare();
}

fn unavailable(reason: &str) -> Status {
    print!("{{\"record\":\"unavailable\",\"what\":\"uintr\",\"reason\":\"{reason}\"}}");
    Status::Failed
}
