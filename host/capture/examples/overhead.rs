//! What the kernel program costs: the time of a system call with and without it.
//!
//! `overhead [ROUNDS]` attaches the program to the entry and exit of system calls, which open and
//! close as VM exits do, and takes the least of several rounds, since whatever disturbs only adds.

use capture::live::bpf::{Bpf, Offsets};
use std::time::Instant;

const CALLS: u32 = 1_000_000;

fn nanoseconds_per_call(rounds: u32) -> f64 {
    let round = |_| {
        let begun = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..rounds).map(round).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), capture::Error> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let offsets = Offsets {
        exit_reason: 8,
        exit_isa: 8,
        exit_info1: 16,
        exit_info2: 24,
        entry_vcpu: 8,
        msr_write: 8,
        msr_index: 8,
        msr_data: 8,
    };
    let points =
        [("on_exit", "raw_syscalls", "sys_enter"), ("on_entry", "raw_syscalls", "sys_exit")];
    let without = nanoseconds_per_call(rounds);
    let bpf = Bpf::load(&offsets, Some(std::process::id()), &points)?;
    let with = nanoseconds_per_call(rounds);
    drop(bpf);
    println!("{without:.0} ns without, {with:.0} ns with, {:.0} ns for the pair", with - without);
    Ok(())
}
