//! AVX in translated code against the interpreter: random instructions of 128 and 256 bits.

use crate::bench::Bench;
use crate::{code, narrow, start};
use bus::Random;
use cpu::decode::Dialect;
use iced_x86::{Decoder, DecoderOptions};

const ROUNDS: u64 = 3_000;
/// Of a round's code, before that of other tests.
const INSTRUCTIONS: usize = 24;

/// Of map 1 with the prefix that the number stands for (0: none, 1: 66, 2: F3, 3: F2): moves, masks
/// and what is done to whole vectors. Handlers do some of them.
const MAP_1: &[(u8, u8)] = &[
    (0x10, 0),
    (0x11, 0),
    (0x10, 1),
    (0x11, 1),
    (0x10, 2),
    (0x11, 2),
    (0x28, 0),
    (0x29, 0),
    (0x28, 1),
    (0x29, 1),
    (0x2B, 0),
    (0xE7, 1),
    (0xF0, 3),
    (0x6F, 1),
    (0x7F, 1),
    (0x6F, 2),
    (0x7F, 2),
    (0x6E, 1),
    (0x7E, 1),
    (0x7E, 2),
    (0xD6, 1),
    (0xD7, 1),
    (0x77, 0),
    (0x70, 1),
    (0x54, 0),
    (0x55, 1),
    (0x56, 0),
    (0x57, 1),
    (0x58, 0),
    (0x14, 0),
    (0x15, 1),
    (0xC6, 0),
];

/// Of map 2 with the prefix 66: broadcasts, VPSHUFB, VPTEST.
const MAP_2: &[u8] = &[0x78, 0x79, 0x58, 0x59, 0x00, 0x17, 0x18];

/// Integers of map 1 with the prefix 66.
fn integer(random: &mut Random) -> u8 {
    match random.below(3) {
        0 => 0x60 + random.below(14) as u8,
        1 => 0x74 + random.below(3) as u8,
        _ => 0xD0 + random.below(48) as u8,
    }
}

/// Of 64-bit code, or of 32-bit code, which has eight registers.
fn instruction(random: &mut Random, is_long: bool) -> Vec<u8> {
    loop {
        let (map, opcode, prefix) = match random.below(5) {
            0..=1 => {
                let (opcode, prefix) = random.pick(MAP_1);
                (1, opcode, prefix)
            }
            2..=3 => (1, integer(random), 1),
            _ => (2, random.pick(MAP_2), 1),
        };
        let registers = if is_long { 16 } else { 8 };
        let (rex, mut rest) = match is_long {
            true => code::operands(random),
            false => (0, narrow::operands(random)),
        };
        let source = if random.one_in(3) { 0 } else { random.below(registers) as u8 };
        let width = u8::from(random.one_in(2)) << 2;
        let is_quad = u8::from(random.one_in(4)) << 7;
        let extensions = !(rex << 5) & 0xE0;
        let mut bytes = vec![0xC4, extensions | map];
        bytes.extend([is_quad | (!source & 15) << 3 | width | prefix, opcode]);
        if opcode != 0x77 {
            bytes.append(&mut rest);
        }
        bytes.push(random.next() as u8);
        let decoded =
            Decoder::new(if is_long { 64 } else { 32 }, &bytes, DecoderOptions::AMD).decode();
        if !decoded.is_invalid() && decoded.len() + 1 >= bytes.len() {
            bytes.truncate(decoded.len());
            return bytes;
        }
    }
}

#[test]
fn avx_does_in_translated_code_what_the_interpreter_does() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    let mut all = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed ^ 0xA5A5);
        let given: Vec<u8> =
            (0..INSTRUCTIONS).flat_map(|_| instruction(&mut random, true)).collect();
        all += bench.round_of(seed, 0, &given);
    }
    let translated = bench.translator.completed_translated();
    assert!(all > 8 * ROUNDS, "{all} instructions in {ROUNDS} rounds");
    assert!(2 * translated > all, "{translated} of {all} instructions in translated code");
}

#[test]
fn avx_in_32_bit_code_does_the_same_as_well() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    let mut all = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed ^ 0x5A5A);
        let given: Vec<u8> =
            (0..INSTRUCTIONS).flat_map(|_| instruction(&mut random, false)).collect();
        all += bench.round_from(seed, |cpu, memory, random| {
            start::set_up(cpu, memory, random);
            narrow::make_flat(cpu);
            narrow::write(memory, random, &given);
        });
    }
    let translated = bench.translator.completed_translated();
    assert!(all > 6 * ROUNDS, "{all} instructions in {ROUNDS} rounds");
    assert!(2 * translated > all, "{translated} of {all} instructions in translated code");
}
