//! Operand widths: one generic body serves 8-, 16-, 32- and 64-bit forms of an instruction.

/// The general registers as the operations see them: 0–15 are RAX–R15, 16 always reads zero (an
/// absent base or index), 17 holds the instruction pointer at the start of the running block. There
/// are no others; the array has a place for every number so that none needs a check.
pub type GeneralRegisters = [u64; 256];

/// All registers zero.
pub const CLEAR: GeneralRegisters = [0; 256];

/// GeneralRegisters in a snapshot: those that there are.
pub mod stored {
    use super::{BLOCK_IP, CLEAR, GeneralRegisters};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const COUNT: usize = BLOCK_IP as usize + 1;

    pub fn serialize<S: Serializer>(
        registers: &GeneralRegisters,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        registers.first_chunk::<COUNT>().unwrap_or(&[0; COUNT]).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<GeneralRegisters, D::Error> {
        let held = <[u64; COUNT]>::deserialize(from)?;
        let mut registers = CLEAR;
        registers.iter_mut().zip(held).for_each(|(register, value)| *register = value);
        Ok(registers)
    }
}

/// Reads zero: an address without base or index names it.
pub const ZERO: u8 = 16;
/// The instruction pointer at the start of the running block: RIP-relative addresses name it.
pub const BLOCK_IP: u8 = 17;
/// Added to the numbers of AX, CX, DX, BX this names AH, CH, DH, BH.
pub const HIGH_BYTE: u8 = 20;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;
pub const R11: usize = 11;

/// An operand of 8, 16, 32 or 64 bits.
pub trait Width: Copy + Eq + Ord {
    const BITS: u32;
    const BYTES: usize;
    /// The width's sign bit.
    const SIGN: u64;
    /// All bits of the width.
    const MASK: u64;

    fn truncate(value: u64) -> Self;
    fn zero_extend(self) -> u64;
    fn sign_extend(self) -> u64;
    /// The value of register `number`.
    fn from_register(registers: &GeneralRegisters, number: u8) -> Self;
    /// Writes register `number`: 32-bit writes clear the upper half, narrower ones keep the rest.
    fn to_register(self, registers: &mut GeneralRegisters, number: u8);
    /// Reads from the front of `bytes`, which must hold at least `BYTES`.
    fn from_bytes(bytes: &[u8]) -> Self;
    fn to_bytes(self, bytes: &mut [u8]);
}

macro_rules! width {
    ($type:ty, $signed:ty, $from:expr, $to:expr) => {
        impl Width for $type {
            const BITS: u32 = <$type>::BITS;
            const BYTES: usize = <$type>::BITS as usize / 8;
            const SIGN: u64 = 1 << (<$type>::BITS - 1);
            const MASK: u64 = <$type>::MAX as u64;

            #[inline(always)]
            fn truncate(value: u64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn zero_extend(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn sign_extend(self) -> u64 {
                self as $signed as i64 as u64
            }
            #[inline(always)]
            fn from_register(registers: &GeneralRegisters, number: u8) -> Self {
                let read: fn(&GeneralRegisters, u8) -> Self = $from;
                read(registers, number)
            }
            #[inline(always)]
            fn to_register(self, registers: &mut GeneralRegisters, number: u8) {
                let write: fn(&mut GeneralRegisters, u8, Self) = $to;
                write(registers, number, self)
            }
            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut raw = [0; <$type>::BITS as usize / 8];
                raw.copy_from_slice(&bytes[..<$type>::BITS as usize / 8]);
                <$type>::from_le_bytes(raw)
            }
            #[inline(always)]
            fn to_bytes(self, bytes: &mut [u8]) {
                bytes[..<$type>::BITS as usize / 8].copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

width!(u64, i64, |r, n| r[n as usize], |r, n, v| r[n as usize] = v);
width!(u32, i32, |r, n| r[n as usize] as u32, |r, n, v| r[n as usize] = v as u64);
width!(u16, i16, |r, n| r[n as usize] as u16, |r, n, v| {
    let register = &mut r[n as usize];
    *register = *register & !0xFFFF | v as u64;
});
width!(
    u8,
    i8,
    |r, n| { if n < HIGH_BYTE { r[n as usize] as u8 } else { (r[(n & 3) as usize] >> 8) as u8 } },
    |r, n, v| {
        if n < HIGH_BYTE {
            let register = &mut r[n as usize];
            *register = *register & !0xFF | v as u64;
        } else {
            let register = &mut r[(n & 3) as usize];
            *register = *register & !0xFF00 | (v as u64) << 8;
        }
    }
);
