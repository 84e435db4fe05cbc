//! Random 32-bit code, and its starting states: flat segments and others, in compatibility mode and
//! without long mode.

use crate::code::{self, BYTES, CODE, Tail};
use crate::start::{self, DATA, GDT, LEAVES, TABLES};
use arch::address::SystemPhysical;
use arch::control::{Cr4, Efer};
use arch::segment::{Attributes, Segment, SegmentRegister};
use bus::{GuestMemory, Random};
use cpu::Cpu;
use iced_x86::{Decoder, DecoderOptions};

/// Registers that point to data and are seldom written: EBX, ESP, EBP, ESI.
const POINTERS: &[u8] = &[3, 4, 5, 6];
/// Data segments by their place in the table, from the second on: flat, one that begins elsewhere,
/// one that ends early, one that may only be read, one that begins shortly before 4 GiB.
const DESCRIPTORS: [u64; 5] = [
    0x00CF_F300_0000_FFFF,
    0x00CF_F300_0100_FFFF,
    0x0040_F300_0000_FFFF,
    0x00CF_F100_0000_FFFF,
    0xFFCF_F3FF_F000_FFFF,
];

fn register(random: &mut Random) -> u8 {
    loop {
        let number = random.below(8) as u8;
        if !POINTERS.contains(&number) || random.one_in(12) {
            return number;
        }
    }
}

/// ModRM with SIB and displacement.
pub fn operands(random: &mut Random) -> Vec<u8> {
    let reg = register(random) << 3;
    let base = random.pick(POINTERS);
    let (rm, sib) = match base {
        4 => (4, vec![0x24]),
        _ => (base, vec![]),
    };
    match random.below(8) {
        0..=3 => vec![0xC0 | reg | register(random)],
        // An address alone.
        4 => {
            let at = random.pick(&[DATA, DATA + 0x1000, CODE]) as u32 + random.below(0x1000) as u32;
            [vec![reg | 5], at.to_le_bytes().to_vec()].concat()
        }
        5 if random.one_in(4) => {
            let sib = random.next() as u8 & 0xF8 | base;
            vec![0x40 | reg | 4, sib, random.next() as u8]
        }
        // Some wrap at 4 GiB.
        6 => {
            let by = random.pick(&[0x80, -0x80i32, -0x1000, 0x1000]).to_le_bytes();
            [vec![0x80 | reg | rm], sib, by.to_vec()].concat()
        }
        _ => [vec![0x40 | reg | rm], sib, vec![random.next() as u8]].concat(),
    }
}

/// What only 32-bit code has, or seldom other code.
fn special(random: &mut Random) -> Vec<u8> {
    let selector = 8 * (1 + random.below(DESCRIPTORS.len() as u64) as u8) | 3;
    // MOV of a selector to CX, then to a segment register: ES, SS, DS, FS, GS; mostly FS or GS.
    let of = random.pick(&[0xC1u8, 0xD1, 0xD9, 0xE1, 0xE1, 0xE1, 0xE9, 0xE9, 0xE9]);
    match random.below(11) {
        8.. => code::string(random, false),
        0 => vec![0x66, 0xB9, selector, 0, 0x8E, of],
        1 => vec![0x40 | random.below(16) as u8],
        // PUSHAD, POPAD.
        2 => vec![0x60 | random.below(2) as u8],
        3 => vec![random.pick(&[0x06, 0x16, 0x1E])],
        4 => vec![0x0F, random.pick(&[0xA0, 0xA8])],
        // RET that frees, ENDBR32.
        5 => vec![0xC2, 4 * random.below(4) as u8, 0],
        6 => vec![0xF3, 0x0F, 0x1E, random.pick(&[0xFA, 0xFB])],
        // MOV of the accumulator and an address alone, also in another segment.
        _ => {
            let at = DATA as u32 + random.below(0x2000) as u32;
            let segment = random.pick(&[0x3Eu8, 0x64, 0x65, 0x26]);
            let opcode = 0xA0 | random.below(4) as u8;
            [vec![segment, opcode], at.to_le_bytes().to_vec()].concat()
        }
    }
}

fn instruction(random: &mut Random) -> Vec<u8> {
    if random.one_in(12) {
        return special(random);
    }
    loop {
        let (opcode, tail) = code::opcode(random);
        let is_word = random.one_in(10);
        let mut bytes = Vec::new();
        if is_word {
            bytes.push(0x66);
        }
        if random.one_in(8) {
            bytes.push(random.pick(&[0x64, 0x64, 0x65, 0x65, 0x26, 0x2E, 0x36, 0x3E, 0x67, 0xF0]));
        } else if random.one_in(6) {
            bytes.push(random.pick(&[0x66, 0xF3, 0xF2]));
        }
        bytes.extend(&opcode);
        let narrow = |size| if size == 4 && is_word { 2 } else { size };
        match tail {
            Tail::ModRm(immediate) => {
                bytes.extend(operands(random));
                bytes.extend(code::value(random, narrow(immediate)));
            }
            Tail::None => {}
            Tail::Immediate(size) => bytes.extend(code::value(random, narrow(size))),
            Tail::Wide => bytes.extend(code::value(random, narrow(4))),
            Tail::Relative8 => bytes.push(random.next() as u8),
            Tail::Relative32 => {
                bytes.extend((random.below(0x1000) as i32 - 0x800).to_le_bytes());
            }
        }
        let decoded = Decoder::new(32, &bytes, DecoderOptions::AMD).decode();
        if !decoded.is_invalid() && decoded.len() == bytes.len() {
            return bytes;
        }
    }
}

pub fn write(memory: &mut GuestMemory, random: &mut Random, given: &[u8]) {
    let mut bytes = given.to_vec();
    while bytes.len() < BYTES {
        bytes.extend(instruction(random));
    }
    bytes.truncate(BYTES);
    memory.write(SystemPhysical(CODE), &bytes).expect("RAM");
}

/// A state of 64-bit code becomes one of 32-bit code.
pub fn set_up(cpu: &mut Cpu, memory: &mut GuestMemory, random: &mut Random) {
    start::set_up(cpu, memory, random);
    start::vary(cpu, if random.one_in(4) { random.next() as u8 } else { 0 });
    write_descriptors(memory);
    set_segments(cpu, random);
    if random.one_in(2) {
        without_long_mode(cpu, memory);
    }
    cpu.translation.tlb.flush_all();
    cpu.update_access_mode();
}

pub fn write_descriptors(memory: &mut GuestMemory) {
    for (descriptor, at) in DESCRIPTORS.iter().zip((GDT + 8..).step_by(8)) {
        memory.write(SystemPhysical(at), &descriptor.to_le_bytes()).expect("RAM");
    }
}

fn set_segments(cpu: &mut Cpu, random: &mut Random) {
    set_code(cpu, false);
    for register in SegmentRegister::ALL {
        let mut segment = cpu.registers.segment(register);
        let is_other = match register {
            SegmentRegister::Cs | SegmentRegister::Ss | SegmentRegister::Ds => random.one_in(24),
            _ => random.one_in(3),
        };
        if is_other {
            segment = other(segment, register, random);
        }
        cpu.registers.set_segment(register, segment);
    }
}

/// 64-bit code of flat segments becomes 32-bit code in compatibility mode, GS begins elsewhere.
pub fn make_flat(cpu: &mut Cpu) {
    set_code(cpu, false);
    for register in [SegmentRegister::Es, SegmentRegister::Fs, SegmentRegister::Gs] {
        let base = if register == SegmentRegister::Gs { 0x10 } else { 0 };
        let segment = Segment { base, ..cpu.registers.segment(register) };
        cpu.registers.set_segment(register, segment);
    }
}

/// Whether code is of 64 bits or of 32.
pub fn set_code(cpu: &mut Cpu, is_long: bool) {
    let segment = cpu.registers.segment(SegmentRegister::Cs);
    let size = if is_long { 0x200 } else { 0x400 };
    let attributes = Attributes(segment.attributes.0 & !0x600 | size);
    cpu.registers.set_segment(SegmentRegister::Cs, Segment { attributes, ..segment });
}

/// A segment that is not flat, but for FS and GS sometimes as good as that.
fn other(segment: Segment, register: SegmentRegister, random: &mut Random) -> Segment {
    match random.below(4) {
        0 => Segment { limit: 0x2_4000 + random.below(0x2000) as u32, ..segment },
        1 if register != SegmentRegister::Cs => Segment { base: 0x10, ..segment },
        2 if register != SegmentRegister::Cs => {
            // Expand-down, read-only or absent.
            let flip = random.pick(&[4, 2, 0x80]);
            Segment { attributes: Attributes(segment.attributes.0 ^ flip), ..segment }
        }
        _ if register == SegmentRegister::Ss => {
            Segment { attributes: Attributes(segment.attributes.0 & !0x400), ..segment }
        }
        _ if register == SegmentRegister::Cs => segment,
        _ => Segment { base: 0xFFFF_F000 + random.below(0x1000), ..segment },
    }
}

/// Two levels of tables with entries of 32 bits: the last level's are what they were.
fn without_long_mode(cpu: &mut Cpu, memory: &mut GuestMemory) {
    let page = LEAVES as usize;
    let leaves: Vec<u8> = memory.ram[page..page + 0x1000]
        .chunks_exact(8)
        .flat_map(|entry| entry[..4].to_vec())
        .collect();
    memory.ram[page..page + 0x1000].fill(0);
    memory.write(SystemPhysical(LEAVES), &leaves).expect("RAM");
    memory.ram[TABLES as usize..TABLES as usize + 0x1000].fill(0);
    let table = LEAVES as u32 | 7;
    memory.write(SystemPhysical(TABLES), &table.to_le_bytes()).expect("RAM");
    cpu.control.set_efer(Efer::empty());
    cpu.control.switch_cr4(Cr4::PAE, false);
}
