//! Starting states: every mode, with descriptor tables, page tables and a VMCB that are sound for
//! the most part.

use crate::Random;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::segment::{Attributes, Segment};
use bus::GuestMemory;
use cpu::Cpu;

pub const RAM: u64 = 0x10_0000;
pub const CODE: u64 = 0x1_0000;
pub const CODE_BYTES: usize = 0x200;
const LONG_TABLES: u64 = 0x1000;
const PAE_TABLES: u64 = 0x5000;
const SHORT_TABLES: u64 = 0x6000;
const LEAVES: u64 = 0x7000;
const SHORT_LEAVES: u64 = 0x8000;
const GDT: u64 = 0x9000;
const IDT: u64 = 0xA000;
const TSS: u64 = 0xB000;
const LDT: u64 = 0xC000;
const STACK: u64 = 0x2_0000;
const VMCB: u64 = 0x3_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Real,
    Virtual8086,
    Protected16,
    Protected32,
    Compatibility,
    Long,
}

impl Mode {
    pub const ALL: &[Mode] = &[
        Mode::Real,
        Mode::Virtual8086,
        Mode::Protected16,
        Mode::Protected32,
        Mode::Compatibility,
        Mode::Long,
        Mode::Long,
    ];

    pub fn code_bits(self) -> u32 {
        match self {
            Mode::Real | Mode::Virtual8086 | Mode::Protected16 => 16,
            Mode::Protected32 | Mode::Compatibility => 32,
            Mode::Long => 64,
        }
    }

    fn is_long(self) -> bool {
        matches!(self, Mode::Compatibility | Mode::Long)
    }
}

pub fn set_up(cpu: &mut Cpu, memory: &mut GuestMemory, mode: Mode, random: &mut Random) {
    write_tables(memory, mode, random);
    let privilege = match mode {
        Mode::Real => 0,
        Mode::Virtual8086 => 3,
        _ => random.pick(&[0, 0, 3, 3, 1]),
    };
    set_controls(cpu, mode, random);
    set_segments(cpu, mode, privilege, random);
    set_registers(cpu, mode, random);
    cpu.update_breakpoints();
}

fn set_controls(cpu: &mut Cpu, mode: Mode, random: &mut Random) {
    cpu.control.set_cr0(Cr0::from_bits_retain(random.next()) & Cr0::all());
    cpu.control.switch_cr0(Cr0::PROTECTION_ENABLE, mode != Mode::Real);
    let pages = mode.is_long() || mode != Mode::Real && random.one_in(2);
    cpu.control.switch_cr0(Cr0::PAGING, pages);
    if random.one_in(2) {
        cpu.control.switch_cr0(Cr0::TASK_SWITCHED | Cr0::EMULATION, false);
    }
    cpu.control.set_cr4(Cr4::from_bits_retain(random.next()) & Cr4::all());
    cpu.control.switch_cr4(Cr4::LA57 | Cr4::VMXE | Cr4::CET, false);
    cpu.control.set_efer(Efer::SYSCALL | Efer::NO_EXECUTE);
    cpu.control.switch_efer(Efer::SVM, random.one_in(2));
    if mode.is_long() {
        cpu.control.switch_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE, true);
        cpu.control.switch_cr4(Cr4::PAE, true);
    } else {
        cpu.control.switch_cr4(Cr4::PCIDE, false);
    }
    cpu.control.cr3 = match (mode.is_long(), cpu.control.cr4().contains(Cr4::PAE)) {
        (true, _) => LONG_TABLES,
        (false, true) => PAE_TABLES,
        (false, false) => SHORT_TABLES,
    };
    cpu.control.pdpte = [LEAVES - 0x4000 + 0x1000, 1, 0, random.next()].map(|entry| entry | 1);
    cpu.control.pdpte[0] = LONG_TABLES + 0x2000 | 1;
    cpu.control.xcr0 = random.pick(&[1, 3, 7]);
    if random.one_in(8) {
        let addresses = [CODE + random.below(64), STACK, random.next(), random.next()];
        for (i, address) in addresses.into_iter().enumerate() {
            cpu.debug.set_address(i, address);
        }
        cpu.debug.load_dr7(random.next() & 0xFFFF_03FF | 0x400);
    }
}

fn set_segments(cpu: &mut Cpu, mode: Mode, privilege: u8, random: &mut Random) {
    let dpl = (privilege as u16) << 5;
    let (code, data) = match mode {
        Mode::Real | Mode::Virtual8086 => (0xF3, 0xF3),
        Mode::Protected16 => (0x09B | dpl, 0x093 | dpl),
        Mode::Protected32 | Mode::Compatibility => (0xC9B | dpl, 0xC93 | dpl),
        Mode::Long => (0xA9B | dpl, 0xC93 | dpl),
    };
    let mut segments = [Segment::default(); 6];
    for (register, segment) in segments.iter_mut().enumerate() {
        let attributes = if register == 1 { code } else { data };
        let selector = 8 * (1 + random.below(12) as u16) | privilege as u16;
        *segment = match mode {
            Mode::Real | Mode::Virtual8086 => {
                let selector = if register == 1 { (CODE >> 4) as u16 } else { 0x2000 };
                Segment { base: (selector as u64) << 4, limit: 0xFFFF, ..Segment::real(selector) }
            }
            _ => Segment { selector, attributes: Attributes(attributes), limit: !0, base: 0 },
        };
        if mode == Mode::Virtual8086 {
            segment.attributes = Attributes(0xF3);
        }
        if mode == Mode::Protected16 {
            segment.limit = 0xFFFF;
            segment.base = if register == 1 { CODE } else { STACK };
        }
        if register != 1 && random.one_in(8) {
            segment.limit = random.pick(&[0, 0xFF, 0xFFFF, 0xF_FFFF]);
            segment.base = if mode == Mode::Long { random.next() } else { random.next() >> 32 };
        }
        if register != 1 && random.one_in(16) && cpu.control.cr0().contains(Cr0::PROTECTION_ENABLE)
        {
            segment.attributes = Attributes(random.next() as u16 & 0xFFF);
        }
    }
    cpu.registers.set_segments(segments);
    cpu.registers.set_cpl(privilege);
    cpu.control.gdtr.base = GDT;
    cpu.control.gdtr.limit = random.pick(&[0x7F, 0x7F, 0xFFFF, 0x17]);
    cpu.control.idtr.base = IDT;
    cpu.control.idtr.limit = random.pick(&[0xFFF, 0xFFF, 0x7FF, 0x7]);
    if mode == Mode::Real {
        cpu.control.idtr.limit = 0x3FF;
    }
    let kind = if mode.is_long() || random.one_in(2) { 0x8B } else { 0x83 };
    cpu.control.tr =
        Segment { selector: 0x40, attributes: Attributes(kind), limit: 0x2067, base: TSS };
    cpu.control.ldtr =
        Segment { selector: 0x50, attributes: Attributes(0x82), limit: 0xFF, base: LDT };
}

fn address(random: &mut Random) -> u64 {
    match random.below(8) {
        0..=3 => random.below(RAM),
        4 => random.next(),
        5 => random.pick(&[0, 1, 0xFFF, 0xFFFF, 0xFFFF_FFFF, u64::MAX, 1 << 47, (1 << 47) - 1]),
        6 => 0xFEE0_0000 + (random.below(0x400) & !15),
        _ => random.pick(&[VMCB, TSS, GDT, CODE, STACK]),
    }
}

const MSRS: &[u64] = &[
    0x10,
    0x1B,
    0x3A,
    0x174,
    0x175,
    0x176,
    0x277,
    0x1D9,
    0x2FF,
    0x6E0,
    0x802,
    0x808,
    0x80B,
    0x80F,
    0x830,
    0x832,
    0x838,
    0x83E,
    0x83F,
    0xC000_0080,
    0xC000_0081,
    0xC000_0082,
    0xC000_0084,
    0xC000_0100,
    0xC000_0101,
    0xC000_0102,
    0xC000_0103,
    0xC000_0104,
    0xC001_0114,
    0xC001_0117,
    0xC001_011B,
];

fn set_registers(cpu: &mut Cpu, mode: Mode, random: &mut Random) {
    for number in 0..16 {
        let value = address(random);
        cpu.registers.gpr[number] = if mode == Mode::Long { value } else { value & 0xFFFF_FFFF };
    }
    if random.one_in(2) {
        cpu.registers.gpr[0] = VMCB;
    }
    if random.one_in(2) {
        cpu.registers.gpr[1] = random.pick(MSRS);
    }
    if !random.one_in(8) {
        cpu.registers.gpr[4] = if mode.code_bits() == 16 { 0x800 } else { STACK + 0x800 };
    }
    let status = random.next() & (rflags::ALL & !rflags::VM & !rflags::TF);
    let trap = if random.one_in(8) { rflags::TF } else { 0 };
    let virtual_8086 = if mode == Mode::Virtual8086 { rflags::VM } else { 0 };
    cpu.registers.flags.set_bits(status | trap | virtual_8086);
    if trap != 0 {
        cpu.pending.raise(cpu::Attention::SINGLE_STEP);
    }
    let vectors = &mut cpu.registers;
    for (register, high) in vectors.xmm.iter_mut().zip(&mut vectors.ymm_high) {
        *register = u128::from(random.next()) << 64 | u128::from(random.next());
        *high = register.rotate_left(64) ^ 0xFF;
    }
    let start = random.below(16);
    cpu.registers.ip = match mode {
        Mode::Real | Mode::Virtual8086 | Mode::Protected16 => start,
        _ => CODE + start,
    };
}

fn write_tables(memory: &mut GuestMemory, mode: Mode, random: &mut Random) {
    let mut put = |at: u64, value: u64| {
        memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
    };
    const PRESENT: u64 = 7;
    put(LONG_TABLES, LONG_TABLES + 0x1000 | PRESENT);
    put(LONG_TABLES + 0x1000, LONG_TABLES + 0x2000 | PRESENT);
    put(LONG_TABLES + 0x2000, LEAVES | PRESENT);
    put(PAE_TABLES, LONG_TABLES + 0x2000 | 1);
    for page in 0..512 {
        let attributes = if random.one_in(16) { random.next() >> 1 & 0xFFF } else { PRESENT };
        let frame = if random.one_in(64) { random.next() & !0xFFF } else { page << 12 };
        put(LEAVES + 8 * page, frame | attributes);
    }
    put(SHORT_TABLES, SHORT_LEAVES | PRESENT);
    for page in (0..1024).step_by(2) {
        let pair = page << 12 | PRESENT | (page + 1 << 12 | PRESENT) << 32;
        put(SHORT_LEAVES + 4 * page, pair);
    }
    write_descriptors(&mut put, mode, random);
    for at in (0..0x1000).step_by(8) {
        // A VMCB of small numbers passes more of the checks.
        let value = match random.below(4) {
            0 => random.next(),
            1 => random.below(RAM),
            _ => 0,
        };
        put(VMCB + at, value);
    }
    put(VMCB + 0x10, random.next() & 0x7F | 1);
    put(VMCB + 0x58, random.below(4) | 1);
    put(VMCB + 0xB0, LONG_TABLES);
    if mode == Mode::Real {
        for vector in 0..256 {
            let handler = (CODE >> 4) << 16 | random.below(CODE_BYTES as u64);
            memory.write(SystemPhysical(4 * vector), &(handler as u32).to_le_bytes()).expect("RAM");
        }
    }
}

/// A descriptor of the given type over all memory, or nearly.
fn descriptor(kind: u64, base: u64, random: &mut Random) -> u64 {
    let limit = random.pick(&[0xF_FFFF, 0xFFFF, 0x67]);
    let size = random.pick(&[0xC, 0xC, 0xA, 0x4, 0x0]);
    limit & 0xFFFF
        | (base & 0xFF_FFFF) << 16
        | kind << 40
        | (limit >> 16) << 48
        | size << 52
        | (base >> 24 & 0xFF) << 56
}

fn write_descriptors(put: &mut impl FnMut(u64, u64), mode: Mode, random: &mut Random) {
    const KINDS: &[u64] = &[
        0x9B, 0x93, 0xFB, 0xF3, 0x9F, 0x97, 0xFF, 0x89, 0x8B, 0x82, 0x81, 0x83, 0x8C, 0x84, 0x85,
        0xEC, 0xE4, 0x13, 0x1B, 0xE5,
    ];
    for table in [GDT, LDT] {
        put(table, 0);
        for index in 1..32 {
            let kind = random.pick(KINDS);
            let base = if kind & 0x10 == 0 { TSS } else { 0 };
            put(table + 8 * index, descriptor(kind, base, random));
        }
    }
    // A flat code segment for the gates, of the mode's size.
    let code = if mode.is_long() { 0x00AF_9B00_0000_FFFF } else { 0x00CF_9B00_0000_FFFF };
    put(GDT + 8, code);
    put(GDT + 16, 0x00CF_9300_0000_FFFF);
    let size = if mode.is_long() { 16 } else { 8 };
    for vector in 0..256 {
        let selector = if random.one_in(8) { random.below(256) } else { 8 };
        let kind = random.pick(&[0x8E, 0x8E, 0xEE, 0x8F, 0x86, 0xE7, 0x85, 0x0E]);
        let target = CODE + random.below(CODE_BYTES as u64);
        let target = if random.one_in(16) { random.next() >> 32 } else { target };
        let stack = if random.one_in(8) { random.below(8) } else { 0 };
        let gate = target & 0xFFFF | selector << 16 | stack << 32 | kind << 40 | target >> 16 << 48;
        put(IDT + size * vector, gate);
        if size == 16 {
            put(IDT + size * vector + 8, if random.one_in(32) { random.next() } else { 0 });
        }
    }
    for at in (0..0x200).step_by(4) {
        let pointer = if random.one_in(4) { random.next() } else { STACK + 0x400 };
        put(TSS + at, pointer & 0xFFFF_FFFF);
    }
    put(TSS + 0x64, random.below(0x80) << 16);
}
