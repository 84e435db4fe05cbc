//! 32-bit code in translated code against the interpreter.

use crate::bench::{Bench, run, summary};
use crate::code::CODE;
use crate::narrow::{make_flat, set_code, set_up, write, write_descriptors};
use crate::start::{self, DATA, LEAVES, TABLES};
use arch::address::SystemPhysical;
use arch::segment::{Segment, SegmentRegister};
use arch::time::Picoseconds;
use bus::Random;
use cpu::Cpu;
use cpu::decode::Dialect;

const ROUNDS: u64 = 2_000;

/// Rounds with code that begins with the bytes `given`: all instructions, and those of them in
/// translated code.
fn rounds(bench: &mut Bench, seeds: std::ops::Range<u64>, given: &[u8]) -> (u64, u64) {
    let before = bench.translator.completed_translated();
    let all = seeds
        .map(|seed| {
            bench.round_from(seed, |cpu, memory, random| {
                set_up(cpu, memory, random);
                write(memory, random, given);
            })
        })
        .sum();
    (all, bench.translator.completed_translated() - before)
}

#[test]
fn translated_32_bit_code_does_what_the_interpreter_does() {
    let first = crate::number("AVICENNA_FUZZ_SEED", 0);
    let last = first + crate::number("AVICENNA_FUZZ_ROUNDS", ROUNDS);
    for (model, dialect) in [("zen4", Dialect::Amd), ("generic-intel", Dialect::Intel)] {
        let Some(mut bench) = Bench::new(model, dialect) else { return };
        let (all, translated) = rounds(&mut bench, first..last, &[]);
        eprintln!("{model}: {translated} of {all} instructions in translated code");
        assert!(all > 10 * (last - first), "{all} instructions");
        assert!(2 * translated > all, "{translated} of {all} instructions in translated code");
    }
}

/// Runs code twice from one state, interpreted and translated, in turns before each of which
/// `change` may change the processor.
fn turns(bench: &mut Bench, code: &[u8], change: impl Fn(&mut Cpu, u64)) {
    const TURN: u64 = 40_000;
    let mut cpu = bench.fresh.clone();
    // User code, as the descriptors are.
    for seed in 0.. {
        cpu = bench.fresh.clone();
        start::set_up(&mut cpu, &mut bench.memory, &mut Random(seed));
        if cpu.registers.cpl() == 3 {
            break;
        }
    }
    cpu.registers.gpr[..8].copy_from_slice(&[1, 11, 19, DATA, DATA + 0x800, 7, 5, 3]);
    write_descriptors(&mut bench.memory);
    // Both pages are there for everybody.
    for page in [DATA, CODE] {
        let entry = (page | 7).to_le_bytes();
        bench.memory.write(SystemPhysical(LEAVES + 8 * (page >> 12)), &entry).expect("RAM");
    }
    bench.memory.write(SystemPhysical(CODE), code).expect("RAM");
    bench.other.ram.copy_from_slice(&bench.memory.ram);
    bench.interpreter.clear();
    bench.translator.clear();
    let mut interpreted = cpu.clone();
    for turn in 0..40 {
        for cpu in [&mut cpu, &mut interpreted] {
            change(cpu, turn);
        }
        let until = Picoseconds(cpu.clock.now().0 + TURN);
        let goes_on = run(&mut interpreted, &mut bench.interpreter, &mut bench.other, until);
        assert!(run(&mut cpu, &mut bench.translator, &mut bench.memory, until) && goes_on);
        assert_eq!(summary(&interpreted), summary(&cpu), "turn {turn}");
    }
    assert!(bench.other.ram == bench.memory.ram, "memory");
    let (all, translated) = (cpu.clock.instructions(), bench.translator.completed_translated());
    assert!(4 * translated > all, "{translated} of {all} instructions in translated code");
}

#[test]
fn bytes_that_are_code_of_both_modes_are_two_blocks() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    // inc ecx; call +5; (dec eax; add eax, ecx, or add rax, rcx); jmp -12; ret
    let code = [0xFF, 0xC1, 0xE8, 5, 0, 0, 0, 0x48, 0x01, 0xC8, 0xEB, 0xF4, 0xC3];
    turns(&mut bench, &code, |cpu, turn| {
        cpu.registers.ip = CODE;
        cpu.registers.gpr[4] = DATA + 0x800;
        set_code(cpu, turn % 2 == 0);
    });
}

#[test]
fn code_is_left_where_a_segment_is_no_longer_flat() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    // mov eax, [ebx]; inc eax; mov [ebx], eax; push edx; pop edx; mov REGISTER, ecx;
    // xchg ecx, edx; jmp -14
    for register in [0xD9, 0xD1] {
        let code =
            [0x8B, 0x03, 0x40, 0x89, 0x03, 0x52, 0x5A, 0x8E, register, 0x87, 0xCA, 0xEB, 0xF3];
        turns(&mut bench, &code, |cpu, turn| {
            if turn == 0 {
                make_flat(cpu);
                // Flat, and with another beginning.
                cpu.registers.gpr[1..3].copy_from_slice(&[8 | 3, 16 | 3]);
            }
        });
    }
}

#[test]
fn an_access_that_wraps_in_its_segment_is_refused_and_eight_registers_lose_their_upper_halves() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    for (seed, given) in [
        // mov eax, gs:[-1], of one byte and of four, vzeroupper
        &[0x65, 0xA0, 0xFF, 0xFF, 0xFF, 0xFF][..],
        &[0x65, 0xA1, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0xC5, 0xF8, 0x77],
    ]
    .into_iter()
    .enumerate()
    {
        let before = bench.translator.completed_translated();
        let all = bench.round_from(seed as u64, |cpu, memory, random| {
            start::set_up(cpu, memory, random);
            make_flat(cpu);
            let segment = cpu.registers.segment(SegmentRegister::Gs);
            let segment = Segment { base: DATA + 0x104, ..segment };
            cpu.registers.set_segment(SegmentRegister::Gs, segment);
            // Then a jump to itself.
            write(memory, random, &[given, &[0xEB, 0xFE]].concat());
        });
        let translated = bench.translator.completed_translated() - before;
        let is_refused = seed == 1;
        assert_eq!(all == 0, is_refused, "{given:02x?}: {all} instructions");
        assert!(2 * translated >= all, "{given:02x?}: {translated} of {all} in translated code");
    }
}

/// Where a device answers for a table of pages by the time, an instruction that wants a device's
/// place is not told twice where that is.
#[test]
fn a_table_in_a_device_is_read_as_often_as_by_the_interpreter() {
    /// An entry of the third level, present and of a table far outside RAM.
    const ENTRY: u64 = 0x6D8C_0DFA_0067;
    const LEVEL: u64 = TABLES + 0x2000;
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    // mov eax, [6280C00h] again and again, behind instructions that cost this and that
    let read = [0x8B, 0x04, 0x25, 0x00, 0x0C, 0x28, 0x06];
    let others: [&[u8]; 3] = [&[0x90], &[0x0F, 0xAF, 0xC0], &[0x0F, 0xC8]];
    let mut have_read = 0;
    for seed in 0..256 {
        let mut random = Random(seed);
        let before: Vec<&[u8]> = (0..random.below(12)).map(|_| random.pick(&others)).collect();
        let code = [&before.concat()[..], &read.repeat(8), &[0xEB, 0xFE]].concat();
        let completed = bench.round_from(seed, |cpu, memory, random| {
            start::set_up(cpu, memory, random);
            let at = SystemPhysical(LEVEL + 8 * (0x0628_0C00 >> 21));
            memory.write(at, &ENTRY.to_le_bytes()).expect("RAM");
            write(memory, random, &code);
        });
        have_read += usize::from(completed > before.len() as u64);
    }
    assert!(have_read > 0, "nothing was read in any round");
}
