//! Starting states: long mode, supervisor or user, pages of all kinds.

use crate::code::{CODE, POINTERS};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::segment::{Attributes, Segment, SegmentRegister};
use bus::{GuestMemory, Random};
use cpu::Cpu;

pub const RAM: u64 = 0x4_0000;
pub const TABLES: u64 = 0x1000;
pub const LEAVES: u64 = 0x4000;
pub const GDT: u64 = 0x5000;
const IDT: u64 = 0x6000;
/// Pages that registers point to.
pub const DATA: u64 = 0x2_0000;
const DATA_PAGES: u64 = 12;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ALL: u64 = PRESENT | WRITABLE | USER;

fn write(memory: &mut GuestMemory, at: u64, value: u64) {
    memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
}

fn write_tables(memory: &mut GuestMemory, random: &mut Random) {
    for table in 0..3 {
        write(memory, TABLES + 0x1000 * table, TABLES + 0x1000 * (table + 1) | ALL);
    }
    for page in 0..512 {
        let address = page << 12;
        let is_data = (DATA >> 12..(DATA >> 12) + DATA_PAGES).contains(&page);
        let entry = match random.below(24) {
            0 if is_data => 0,
            1 if is_data => address | PRESENT | USER,
            // Another page, or code, by a second name.
            2 if is_data => DATA | ALL,
            3 if is_data => CODE | ALL,
            // A hole behind RAM.
            _ if address >= RAM => address | ALL,
            _ => address | ALL,
        };
        write(memory, LEAVES + 8 * page, entry);
    }
}

pub fn set_up(cpu: &mut Cpu, memory: &mut GuestMemory, random: &mut Random) {
    memory.ram.chunks_exact_mut(8).for_each(|chunk| {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    });
    write_tables(memory, random);
    let is_user = random.one_in(2);
    cpu.control.set_cr0(Cr0::PROTECTION_ENABLE | Cr0::PAGING | Cr0::WRITE_PROTECT);
    cpu.control.set_cr4(Cr4::PAE);
    if !random.one_in(8) {
        cpu.control.switch_cr4(Cr4::OSFXSR, true);
    }
    cpu.control.switch_cr0(Cr0::TASK_SWITCHED, random.one_in(8));
    cpu.control.cr3 = TABLES;
    cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE);
    cpu.control.gdtr.base = GDT;
    cpu.control.gdtr.limit = 0x7F;
    // The first fault that is delivered ends the round.
    cpu.control.idtr.base = IDT;
    cpu.control.idtr.limit = 0;
    let dpl = if is_user { 3 << 5 } else { 0 };
    for register in SegmentRegister::ALL {
        let attributes = if register == SegmentRegister::Cs { 0xA9B } else { 0xC93 } | dpl;
        let base = match register {
            SegmentRegister::Fs | SegmentRegister::Gs => random.below(0x2000),
            _ => 0,
        };
        let attributes = Attributes(attributes);
        let segment = Segment { selector: 8, attributes, limit: !0, base };
        cpu.registers.set_segment(register, segment);
    }
    cpu.registers.set_cpl(if is_user { 3 } else { 0 });
    for register in 0..16 {
        cpu.registers.gpr[register] = match random.below(8) {
            _ if POINTERS.contains(&(register as u8)) => pointer(random),
            0 => random.pick(&[0, 1, 0x7F, 0x80, 0xFFFF, 1 << 31, 1 << 63, u64::MAX]),
            1 => pointer(random),
            2..=4 => random.below(256),
            _ => random.next(),
        };
    }
    // Mostly AVX may be executed.
    cpu.control.switch_cr4(Cr4::OSXSAVE, true);
    cpu.control.xcr0 = if cpu.registers.gpr[0] & 7 == 0 { 3 } else { 7 };
    let vectors = &mut cpu.registers;
    for (register, high) in vectors.xmm.iter_mut().zip(&mut vectors.ymm_high) {
        *register = u128::from(random.next()) << 64 | u128::from(random.next());
        *high = register.rotate_left(64) ^ 0xFF;
    }
    let status = random.next() & rflags::STATUS;
    cpu.registers.flags.set_bits(rflags::FIXED | status);
    cpu.registers.ip = CODE;
    cpu.pending.clear(cpu::Attention::all());
    cpu.translation.tlb.flush_all();
    cpu.update_access_mode();
}

/// An address in the data pages, often near a page's end.
fn pointer(random: &mut Random) -> u64 {
    let page = DATA + (1 + random.below(DATA_PAGES - 2) << 12);
    page + if random.one_in(4) { 0xFE0 + random.below(0x40) } else { 0x100 + random.below(0xD00) }
}

/// Changes the mode, a bit of `mode` for each thing that handlers and code may see differently.
pub fn vary(cpu: &mut Cpu, mode: u8) {
    let is_on = |bit: u8| mode & 1 << bit != 0;
    cpu.control.switch_cr0(Cr0::ALIGNMENT_MASK, is_on(0));
    cpu.control.switch_cr0(Cr0::EMULATION, is_on(1));
    cpu.control.switch_cr4(Cr4::PCE, is_on(2));
    cpu.control.switch_cr4(Cr4::TSD, is_on(3));
    let bits = [(4, rflags::AC), (5, rflags::DF), (6, rflags::NT), (7, rflags::ID)];
    let set = bits.iter().filter(|(bit, _)| is_on(*bit)).fold(0, |all, (_, flag)| all | flag);
    cpu.registers.flags.system |= set;
    cpu.update_access_mode();
}
