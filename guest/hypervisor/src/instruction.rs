//! The one kind of instruction that has to be emulated: a 32-bit MOV between a device's register
//! and a general register or an immediate. [APM3 "MOV"] [APM2 "Decode Assists"]
//!
//! DEVIATION(APM3 "MOV"): other instructions that access a device end the guest.

use crate::memory::Memory;
use crate::registers::Registers;
use crate::vendor::{Fetch, LONGEST_INSTRUCTION};
use arch::address::{GuestPhysical, Linear};
use arch::control::{Cr0, Efer};
use arch::paging::entry::{ADDRESS, LARGE, PRESENT};

const OPERAND_SIZE: u8 = 0x66;
const MOV_TO_MEMORY: u8 = 0x89;
const MOV_FROM_MEMORY: u8 = 0x8B;
const MOV_IMMEDIATE: u8 = 0xC7;
const REX_WIDE: u8 = 1 << 3;
const REX_REGISTER: u8 = 1 << 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Memory to the general register of this number.
    Load(u8),
    Store(Source),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The general register of this number.
    Register(u8),
    Immediate(u32),
}

impl Source {
    pub fn value(self, registers: &Registers) -> u32 {
        match self {
            Self::Register(number) => registers.general[usize::from(number)] as u32,
            Self::Immediate(value) => value,
        }
    }
}

pub struct Move {
    pub operand: Operand,
    pub length: u8,
}

/// Decodes the instruction at the guest's RIP; None for any but the MOV above.
pub fn decode(fetch: &Fetch, memory: Memory) -> Option<Move> {
    let bytes = bytes(fetch, memory)?;
    let mut at = 0;
    let mut rex = 0;
    if fetch.is_64_bit && bytes[0] & 0xF0 == 0x40 {
        (rex, at) = (bytes[0], 1);
    }
    if bytes[at] == OPERAND_SIZE || rex & REX_WIDE != 0 {
        return None;
    }
    let (opcode, modes) = (bytes[at], bytes[at + 1]);
    let register = modes >> 3 & 7 | (rex & REX_REGISTER) << 1;
    let end = at + 2 + address_length(modes, bytes[at + 2])?;
    let (operand, length) = match opcode {
        MOV_TO_MEMORY => (Operand::Store(Source::Register(register)), end),
        MOV_FROM_MEMORY => (Operand::Load(register), end),
        MOV_IMMEDIATE if register & 7 == 0 => {
            let value = u32::from_le_bytes(bytes.get(end..end + 4)?.try_into().ok()?);
            (Operand::Store(Source::Immediate(value)), end + 4)
        }
        _ => return None,
    };
    Some(Move { operand, length: length as u8 })
}

/// Bytes after ModRM: SIB and displacement. None where the operand is a register.
fn address_length(modes: u8, sib: u8) -> Option<usize> {
    let (mode, memory) = (modes >> 6, modes & 7);
    let has_sib = memory == 4;
    let displacement = match mode {
        0 if memory == 5 || has_sib && sib & 7 == 5 => 4,
        0 => 0,
        1 => 1,
        2 => 4,
        _ => return None,
    };
    Some(usize::from(has_sib) + displacement)
}

/// The bytes at RIP: from the processor, where it reports them, or through the guest's tables.
fn bytes(fetch: &Fetch, memory: Memory) -> Option<[u8; LONGEST_INSTRUCTION]> {
    if fetch.bytes.is_some() {
        return fetch.bytes;
    }
    let mut bytes = [0; LONGEST_INSTRUCTION];
    for (offset, byte) in bytes.iter_mut().enumerate() {
        let address = translate(fetch, memory, fetch.rip.offset(offset as u64))?;
        let mut one = [0];
        if !memory.read(address, &mut one) {
            break;
        }
        *byte = one[0];
    }
    Some(bytes)
}

/// Walks the guest's page tables. [APM2 "4-Kbyte Page Translation"]
///
/// DEVIATION(APM2 "Legacy-Mode Page Translation"): only long mode's tables are known.
fn translate(fetch: &Fetch, memory: Memory, address: Linear) -> Option<GuestPhysical> {
    if fetch.cr0 & Cr0::PAGING.bits() == 0 {
        return Some(GuestPhysical(address.0 & 0xFFFF_FFFF));
    }
    if fetch.efer & Efer::LONG_MODE_ACTIVE.bits() == 0 {
        return None;
    }
    let mut table = fetch.cr3 & ADDRESS;
    for level in (0..4).rev() {
        let shift = 12 + 9 * level;
        let index = address.0 >> shift & 0x1FF;
        let entry = memory.read_word(GuestPhysical(table + index * 8))?;
        if entry & PRESENT == 0 {
            return None;
        }
        let is_leaf = level == 0 || matches!(level, 1 | 2) && entry & LARGE != 0;
        if is_leaf {
            let inside = (1 << shift) - 1;
            return Some(GuestPhysical(entry & ADDRESS & !inside | address.0 & inside));
        }
        table = entry & ADDRESS;
    }
    None
}
