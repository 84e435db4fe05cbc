//! Random 64-bit code, mostly of what is translated, with memory operands that mostly exist.

use arch::address::SystemPhysical;
use bus::{GuestMemory, Random};
use iced_x86::{Decoder, DecoderOptions};

/// Code fills two pages, so that some branches leave theirs.
pub const CODE: u64 = 0x1_0000;
pub const BYTES: usize = 0x2000;
/// Registers that point to data and are seldom written: RBX, RSP, RBP, RSI, R9, R12, R13.
pub const POINTERS: &[u8] = &[3, 4, 5, 6, 9, 12, 13];

/// Behind 0F: SSE with the prefixes that make them so, MMX without.
const VECTORS: &[u8] = &[
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x28, 0x29, 0x2B, 0x54, 0x55, 0x56, 0x57, 0x58,
    0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x6B, 0x6C, 0x6D, 0x6E, 0x6F,
    0x6F, 0x74, 0x75, 0x76, 0x7E, 0x7F, 0x7F, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xDB, 0xDC,
    0xDD, 0xDE, 0xDF, 0xE4, 0xE5, 0xE7, 0xEA, 0xEB, 0xEE, 0xEF, 0xF0, 0xF4, 0xF5, 0xF6, 0xF8, 0xF9,
    0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF,
];

/// What follows an opcode.
#[derive(Clone, Copy)]
pub enum Tail {
    None,
    /// ModRM and so many bytes of immediate; 4 are 2 with the prefix 66h.
    ModRm(u8),
    Immediate(u8),
    /// MOV of a whole register.
    Wide,
    Relative8,
    Relative32,
}

/// Opcodes of all modes, and what follows each.
pub fn opcode(random: &mut Random) -> (Vec<u8>, Tail) {
    use Tail::*;
    let low = random.below(16) as u8;
    let group = 8 * random.below(8) as u8;
    match random.below(37) {
        0..=7 => (vec![group | random.below(4) as u8], ModRm(0)),
        8 => (vec![group | 4], Immediate(1)),
        9 => (vec![group | 5], Immediate(4)),
        10 => (vec![0x80], ModRm(1)),
        11 => (vec![0x81], ModRm(4)),
        12 => (vec![0x83], ModRm(1)),
        13 => (vec![0x84 | low & 3], ModRm(0)),
        14..=16 => (vec![0x88 | low & 3], ModRm(0)),
        17 => random
            .pick(&[(0x63, ModRm(0)), (0x69, ModRm(4)), (0x6B, ModRm(1)), (0x8D, ModRm(0))])
            .into_opcode(),
        18 => (vec![0xC0 | low & 1], ModRm(1)),
        19 => (vec![0xD0 | low & 3], ModRm(0)),
        20 => (vec![0xF6 | low & 1], ModRm(0)),
        21 => (vec![0xFE | low & 1], ModRm(0)),
        22 => (vec![0x50 | low], None),
        23 => (vec![0x90 | low & 7], None),
        24 => {
            (vec![random.pick(&[0x98, 0x99, 0x9C, 0x9D, 0xF5, 0xF8, 0xF9, 0xC9, 0x9E, 0x9F])], None)
        }
        25 => random
            .pick(&[
                (0xA8, Immediate(1)),
                (0xA9, Immediate(4)),
                (0x6A, Immediate(1)),
                (0x68, Immediate(4)),
            ])
            .into_opcode(),
        26 if low < 8 => (vec![0xB0 | low], Immediate(1)),
        26 => (vec![0xB0 | low], Wide),
        27 => random.pick(&[(0xC6, ModRm(1)), (0xC7, ModRm(4))]).into_opcode(),
        28 => (vec![0x0F, 0x40 | low], ModRm(0)),
        29 => (vec![0x0F, 0x90 | low], ModRm(0)),
        30 => (
            vec![0x0F, random.pick(&[0xAF, 0xB6, 0xB7, 0xBE, 0xBF, 0xA3, 0xBC, 0xC1, 0x1F])],
            ModRm(0),
        ),
        31 => (vec![0x0F, 0xC8 | low & 7], None),
        32 => match low {
            0..=9 => (vec![0x70 | random.below(16) as u8], Relative8),
            10 => (vec![0xEB], Relative8),
            _ => (vec![0x0F, 0x80 | low], Relative32),
        },
        33..=34 => (vec![0x0F, random.pick(VECTORS)], ModRm(0)),
        35 => (vec![0x0F, random.pick(&[0x70, 0x71, 0x72, 0x73, 0xC6])], ModRm(1)),
        _ => match low {
            0..=3 => (vec![0xE8], Relative32),
            4..=5 => (vec![0xE9], Relative32),
            6..=8 => (vec![0xC3], None),
            9 => (vec![random.pick(&[0xE0, 0xE1, 0xE2, 0xE3])], Relative8),
            10 => (random.pick(&[[0x0F, 0xA2], [0x0F, 0x31], [0xF3, 0x90]]).to_vec(), None),
            11 => (vec![0x0F, 0xBA], ModRm(1)),
            12 => (vec![random.pick(&[0xA4, 0xA5, 0xAA, 0xAB])], None),
            13 => (vec![random.pick(&[0xF3, 0xF2]), random.pick(&[0xA4, 0xA5, 0xAA, 0xAB])], None),
            _ => (vec![0x0F, random.pick(&[0x6F, 0x7F, 0x10, 0x11, 0xEF, 0x28])], ModRm(0)),
        },
    }
}

trait IntoOpcode {
    fn into_opcode(self) -> (Vec<u8>, Tail);
}

impl IntoOpcode for (u8, Tail) {
    fn into_opcode(self) -> (Vec<u8>, Tail) {
        (vec![self.0], self.1)
    }
}

/// REX and ModRM (with SIB and displacement) of random operands.
pub fn operands(random: &mut Random) -> (u8, Vec<u8>) {
    let w = if random.one_in(2) { 8 } else { 0 };
    let mut reg = random.below(16) as u8;
    while POINTERS.contains(&reg) && !random.one_in(12) {
        reg = random.below(16) as u8;
    }
    let rex = w | (reg >> 3) << 2;
    let reg = (reg & 7) << 3;
    match random.below(8) {
        0..=3 => {
            let mut rm = random.below(16) as u8;
            while POINTERS.contains(&rm) && !random.one_in(12) {
                rm = random.below(16) as u8;
            }
            (rex | rm >> 3, vec![0xC0 | reg | rm & 7])
        }
        // Relative to the instruction pointer: into the code or the data.
        4 => {
            let mut bytes = vec![reg | 5];
            let to = random.pick(&[0x1_0000i32, 0x1_2000, 0x1_4000, 0x100]);
            bytes.extend((to + random.below(0x1000) as i32).to_le_bytes());
            (rex, bytes)
        }
        // With an index, which is seldom small.
        5 if random.one_in(4) => {
            let (base, index) = (random.pick(POINTERS), random.below(16) as u8);
            let sib = (random.next() as u8 & 0xC0) | (index & 7) << 3 | base & 7;
            (rex | index >> 3 << 1 | base >> 3, vec![0x40 | reg | 4, sib, random.next() as u8])
        }
        _ => {
            let base = random.pick(POINTERS);
            let mut bytes = vec![0x40 | reg | base & 7];
            if base & 7 == 4 {
                bytes.push(0x24);
            }
            bytes.push(random.next() as u8);
            (rex | base >> 3, bytes)
        }
    }
}

/// An immediate value.
pub fn value(random: &mut Random, bytes: u8) -> Vec<u8> {
    let value = match random.below(4) {
        0 => random.pick(&[0, 1, 0x7F, 0x80, 0xFF, 1 << 31, u64::MAX]),
        1 => random.below(64),
        _ => random.next(),
    };
    value.to_le_bytes()[..usize::from(bytes)].to_vec()
}

fn instruction(random: &mut Random) -> Vec<u8> {
    loop {
        let (opcode, tail) = opcode(random);
        let is_word = random.one_in(10);
        let mut prefixes = Vec::new();
        if is_word {
            prefixes.push(0x66);
        }
        let is_vector = opcode.len() == 2
            && (VECTORS.contains(&opcode[1]) || matches!(opcode[1], 0x70..=0x73 | 0xC6));
        if is_vector && random.one_in(2) {
            prefixes.push(random.pick(&[0x66, 0x66, 0xF3, 0xF2]));
        }
        if random.one_in(32) {
            prefixes.push(random.pick(&[0x64, 0x65, 0x67, 0xF3, 0xF0]));
        }
        let narrow = |bytes| if bytes == 4 && is_word { 2 } else { bytes };
        let (mut rex, rest) = match tail {
            Tail::ModRm(immediate) => {
                let (rex, mut bytes) = operands(random);
                bytes.extend(value(random, narrow(immediate)));
                (rex, bytes)
            }
            Tail::None => (random.below(16) as u8 & 9, vec![]),
            Tail::Immediate(bytes) => (random.below(16) as u8 & 9, value(random, narrow(bytes))),
            Tail::Wide if random.one_in(2) && !is_word => (8, value(random, 8)),
            Tail::Wide => (random.below(2) as u8, value(random, narrow(4))),
            Tail::Relative8 => (0, vec![random.next() as u8]),
            Tail::Relative32 => {
                let far = random.below(0x1000) as i32 - 0x800;
                (0, far.to_le_bytes().to_vec())
            }
        };
        if rex != 0 || random.one_in(2) {
            rex |= 0x40;
            prefixes.push(rex);
        }
        let mut bytes = prefixes;
        bytes.extend(&opcode);
        bytes.extend(rest);
        let decoded = Decoder::new(64, &bytes, DecoderOptions::AMD).decode();
        if !decoded.is_invalid() && decoded.len() == bytes.len() {
            return bytes;
        }
    }
}

/// A string instruction whose destination is where other pointers are; seldom downwards.
pub fn string(random: &mut Random, is_long: bool) -> Vec<u8> {
    // LEA of RBP and something to RDI.
    let mut bytes = if is_long { vec![0x48] } else { vec![] };
    bytes.extend([0x8D, 0x7D, random.next() as u8]);
    if random.one_in(6) {
        bytes.push(random.pick(&[0xFC, 0xFC, 0xFD]));
    }
    match random.below(4) {
        0 => bytes.push(0x66),
        1 if is_long => bytes.push(0x48),
        2 => bytes.push(random.pick(&[0x26, 0x36, 0x64, 0x65])),
        _ => {}
    }
    bytes.push(0xA4 + random.pick(&[0, 1, 2, 3, 6, 7, 8, 9, 10, 11]));
    bytes
}

/// Fills the code area, from its start with the bytes that are given.
pub fn write(memory: &mut GuestMemory, random: &mut Random, given: &[u8]) {
    let mut code = Vec::with_capacity(BYTES + 16);
    code.extend(given);
    while code.len() < BYTES {
        match random.one_in(24) {
            true => code.extend(string(random, true)),
            false => code.extend(instruction(random)),
        }
    }
    code.truncate(BYTES);
    memory.write(SystemPhysical(CODE), &code).expect("RAM");
}
