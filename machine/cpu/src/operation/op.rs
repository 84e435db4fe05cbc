//! A decoded instruction: 24 bytes that say all that its execution has to know.

use crate::width::{BLOCK_IP, ZERO};

/// Indices into `Cpu::segment_base` beyond the six registers: no base is added.
pub const FLAT: u8 = 6;
/// As `FLAT`, but faults are #SS.
pub const FLAT_STACK: u8 = 7;

/// A decoded instruction.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Op {
    /// Immediate operand, sign-extended; a branch's displacement; a far pointer.
    pub immediate: u64,
    /// Of the address.
    pub displacement: i32,
    /// Offset of the next instruction from the start of the block.
    pub end: u16,
    /// Bytes of the instruction, 1 to 15.
    pub length: u8,
    pub flags: u8,
    /// First operand's register.
    pub a: u8,
    /// Second operand's register.
    pub b: u8,
    /// Third operand's register, or a small immediate.
    pub c: u8,
    pub base: u8,
    pub index: u8,
    pub scale: u8,
    pub segment: u8,
    /// 0, 32 or 48: an offset keeps its low 64, 32 or 16 bits.
    pub address_shift: u8,
}

const _: () = assert!(std::mem::size_of::<Op>() == 24);

impl Default for Op {
    fn default() -> Self {
        Self {
            immediate: 0,
            displacement: 0,
            end: 0,
            length: 0,
            flags: 0,
            a: 0,
            b: 0,
            c: 0,
            base: ZERO,
            index: ZERO,
            scale: 0,
            segment: FLAT,
            address_shift: 0,
        }
    }
}

impl Op {
    /// Segment limits and types apply to the memory operand (not in 64-bit mode).
    pub const SEGMENTED: u8 = 1 << 0;
    pub const LOCK: u8 = 1 << 1;
    pub const REP: u8 = 1 << 2;
    /// Of an AVX instruction, which has no such prefix: vectors have 256 bits.
    pub const WIDE: u8 = Self::REP;
    pub const REPNE: u8 = 1 << 3;
    /// The operand size is 16 bits.
    pub const SIZE_16: u8 = 1 << 4;
    /// The operand size is 64 bits.
    pub const SIZE_64: u8 = 1 << 5;
    /// The code segment is 64-bit.
    pub const LONG: u8 = 1 << 6;
    /// The instruction has a memory operand.
    pub const MEMORY: u8 = 1 << 7;

    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The mask of an address of this operation's address size.
    #[inline(always)]
    pub fn address_mask(&self) -> u64 {
        u64::MAX >> self.address_shift
    }

    pub fn is_ip_relative(&self) -> bool {
        self.base == BLOCK_IP
    }
}
