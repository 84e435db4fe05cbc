//! Loops that wait: what is skipped of them shows nowhere but in the host's time.

use crate::code::CODE;
use crate::{Bench, narrow, run, start, summary};
use arch::address::SystemPhysical;
use arch::time::Picoseconds;
use bus::Random;
use cpu::Cpu;
use cpu::decode::Dialect;

/// What the loops wait for: a word in a page that nothing else uses.
const AWAITED: u64 = 0x8000;
/// Picoseconds of a round.
const TIME: u64 = 20_000_000;
/// JMP to itself: where a loop leads that has ended.
const END: [u8; 2] = [0xEB, 0xFE];

fn write(bench: &mut Bench, at: u64, bytes: &[u8]) {
    for memory in [&mut bench.memory, &mut bench.other] {
        memory.write(SystemPhysical(at), bytes).expect("RAM");
    }
}

/// Runs a loop from random states, its turns cut at random, while another agent writes the awaited
/// word between two of them. Answers how many instructions were skipped.
fn wait(code: &[u8]) -> u64 {
    wait_in(code, |_| {})
}

/// As `wait`, in a mode that `enter` leads to from 64-bit mode.
fn wait_in(code: &[u8], enter: impl Fn(&mut Cpu)) -> u64 {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return u64::MAX };
    for seed in 0..24 {
        let mut random = Random(seed);
        let mut cpu = bench.fresh.clone();
        start::set_up(&mut cpu, &mut bench.memory, &mut random);
        bench.other.ram.copy_from_slice(&bench.memory.ram);
        write(&mut bench, CODE, code);
        write(&mut bench, CODE + code.len() as u64, &END);
        write(&mut bench, AWAITED, &[0; 16]);
        cpu.registers.gpr[3] = AWAITED;
        enter(&mut cpu);
        let mut interpreted = cpu.clone();
        bench.interpreter.clear();
        bench.translator.clear();
        let (end, written) = (cpu.clock.now().0 + TIME, cpu.clock.now().0 + random.below(TIME));
        while cpu.clock.now().0 < end {
            let cut = random.pick(&[20_000, 300_000, TIME / 4]);
            let until = Picoseconds(cpu.clock.now().0 + random.below(cut)).min(Picoseconds(end));
            run(&mut interpreted, &mut bench.interpreter, &mut bench.other, until);
            run(&mut cpu, &mut bench.translator, &mut bench.memory, until);
            assert_eq!(summary(&interpreted), summary(&cpu), "seed {seed}");
            if cpu.clock.now().0 >= written {
                write(&mut bench, AWAITED, &[1]);
            }
        }
        assert!(bench.other.ram == bench.memory.ram, "memory, seed {seed}");
    }
    bench.translator.skipped()
}

#[test]
fn a_loop_that_reads_memory_and_pauses_is_skipped_as_if_it_had_run() {
    // pause; mov rax, [rbx]; test rax, rax; je -10
    assert!(wait(&[0xF3, 0x90, 0x48, 0x8B, 0x03, 0x48, 0x85, 0xC0, 0x74, 0xF6]) > 100_000);
    // cmp qword [rbx], 0; pause; je -8
    assert!(wait(&[0x48, 0x83, 0x3B, 0x00, 0xF3, 0x90, 0x74, 0xF8]) > 100_000);
}

#[test]
fn a_loop_of_32_bit_code_is_skipped_as_well() {
    // pause; mov eax, [ebx]; test eax, eax; je -8
    let waits = [0xF3, 0x90, 0x8B, 0x03, 0x85, 0xC0, 0x74, 0xF8];
    assert!(wait_in(&waits, narrow::make_flat) > 100_000);
    // pause; mov eax, gs:[ebx]; test eax, eax; je -9: of that segment nothing is known.
    let other = [0xF3, 0x90, 0x65, 0x8B, 0x03, 0x85, 0xC0, 0x74, 0xF7];
    assert!(Bench::new("zen4", Dialect::Amd).is_none() || wait_in(&other, narrow::make_flat) == 0);
}

#[test]
fn a_loop_that_writes_or_counts_is_not_skipped() {
    if Bench::new("zen4", Dialect::Amd).is_none() {
        return;
    }
    // pause; inc qword [rbx + 8]; cmp qword [rbx], 0; je -12
    let writes = [0xF3, 0x90, 0x48, 0xFF, 0x43, 0x08, 0x48, 0x83, 0x3B, 0x00, 0x74, 0xF4];
    assert_eq!(wait(&writes), 0);
    // pause; add rcx, 1; cmp qword [rbx], 0; je -12
    let counts = [0xF3, 0x90, 0x48, 0x83, 0xC1, 0x01, 0x48, 0x83, 0x3B, 0x00, 0x74, 0xF4];
    assert_eq!(wait(&counts), 0);
    // pause; rdtsc; cmp qword [rbx], 0; je -10
    assert_eq!(wait(&[0xF3, 0x90, 0x0F, 0x31, 0x48, 0x83, 0x3B, 0x00, 0x74, 0xF6]), 0);
}
