//! Random code: bytes, or instructions that decode.

use crate::Random;
use crate::start::{CODE, CODE_BYTES};
use arch::address::SystemPhysical;
use bus::GuestMemory;
use iced_x86::{Decoder, DecoderOptions};

const PREFIXES: &[u8] = &[0x66, 0x67, 0xF2, 0xF3, 0xF0, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65];

/// One instruction that decodes in `bits`, from all opcode maps evenly.
fn instruction(bits: u32, random: &mut Random) -> Vec<u8> {
    loop {
        let mut bytes = Vec::new();
        while random.one_in(4) {
            bytes.push(random.pick(PREFIXES));
        }
        if bits == 64 && random.one_in(2) {
            bytes.push(0x40 | random.below(16) as u8);
        }
        let opcode = random.next() as u8;
        match random.below(10) {
            0..=3 => bytes.push(opcode),
            4..=6 => bytes.extend([0x0F, opcode]),
            // System instructions live here.
            7 => bytes.extend([0x0F, random.pick(&[0x00, 0x01, 0xAE, 0xC7, 0x20, 0x22, 0x30])]),
            8 => bytes.extend([0x0F, random.pick(&[0x38, 0x3A]), opcode]),
            _ => bytes.extend([0xC4, random.next() as u8 & 0xE3, random.next() as u8, opcode]),
        }
        let modrm = random.next() as u8;
        bytes.push(if random.one_in(3) { modrm | 0xC0 } else { modrm });
        let small = random.one_in(2);
        for _ in 0..10 {
            bytes.push(if small { random.pick(&[0, 0xFF, 4, 0x10]) } else { random.next() as u8 });
        }
        let decoded = Decoder::new(bits, &bytes, DecoderOptions::AMD).decode();
        if !decoded.is_invalid() {
            bytes.truncate(decoded.len());
            return bytes;
        }
    }
}

/// Fills the code area.
pub fn write(memory: &mut GuestMemory, bits: u32, random: &mut Random) {
    let mut code = Vec::with_capacity(CODE_BYTES + 16);
    if random.one_in(4) {
        code.extend((0..CODE_BYTES).map(|_| random.next() as u8));
    } else {
        while code.len() < CODE_BYTES {
            code.extend(instruction(bits, random));
        }
        code.truncate(CODE_BYTES);
    }
    memory.write(SystemPhysical(CODE), &code).expect("RAM");
}
