//! Work of known amount, for comparing the speed of machines: computation that touches no device,
//! and interrupts and page tables that do little else. Every part prints a checksum that depends on
//! the work alone, not on time or on who executes it, and the cycles it took.
//!
//! Command line: `mix=compute|system|all scale=N`; the work grows with `scale`.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod compute;
mod sha256;
mod system;

use runtime::instruction::time_stamp;
use runtime::{BootInformation, Status, clock, print};

runtime::entry!(workload);

/// A part: its name, and what does work in proportion to a scale and returns a checksum.
type Part = (&'static str, fn(u64) -> u64);

fn workload(boot: &BootInformation) -> Status {
    let scale = boot.number("scale", 1).clamp(1, 1_000_000);
    let mix = boot.option("mix").unwrap_or("all");
    let khz = clock::kilohertz().unwrap_or(0);
    print!(
        "{{\"record\":\"start\",\"program\":\"workload\",\"version\":1,\"scale\":{scale},\"tsc_khz\":{khz}}}"
    );
    for (name, parts) in [("compute", &compute::PARTS[..]), ("system", &system::PARTS[..])] {
        if mix == "all" || mix == name {
            run(name, parts, scale);
        }
    }
    print!("{{\"record\":\"end\",\"passed\":true}}");
    Status::Passed
}

fn run(mix: &str, parts: &[Part], scale: u64) {
    for (name, part) in parts {
        let start = time_stamp();
        let checksum = part(scale);
        let cycles = time_stamp() - start;
        print!(
            "{{\"record\":\"part\",\"mix\":\"{mix}\",\"name\":\"{name}\",\
             \"checksum\":\"{checksum:016x}\",\"cycles\":{cycles}}}"
        );
    }
}
