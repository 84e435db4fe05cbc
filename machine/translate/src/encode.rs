//! Machine code: prefixes, opcode, ModRM, SIB, displacement, immediate. [SDM2 "Instruction Format"]
//!
//! Only the forms that blocks are made of; the tests hold each against a decoder that others wrote.

mod form;
mod vector;

pub use form::{Arithmetic, BitTest, Extend, Shift, Unary};
pub use vector::{Vector, VectorOperation};

/// A general register of the host, by the number that encodings have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

impl Register {
    pub const RAX: Self = Self(0);
    pub const RCX: Self = Self(1);
    pub const RDX: Self = Self(2);
    pub const RBX: Self = Self(3);
    pub const RSP: Self = Self(4);
    pub const RBP: Self = Self(5);
    pub const RSI: Self = Self(6);
    pub const RDI: Self = Self(7);
    pub const R8: Self = Self(8);
    pub const R9: Self = Self(9);
    pub const R10: Self = Self(10);
    pub const R11: Self = Self(11);
    pub const R12: Self = Self(12);
    pub const R13: Self = Self(13);
    pub const R14: Self = Self(14);
    pub const R15: Self = Self(15);
}

/// The size of an operand in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    Byte = 1,
    Word = 2,
    Double = 4,
    Quad = 8,
}

impl Size {
    pub fn of(bytes: usize) -> Option<Self> {
        Some(match bytes {
            1 => Self::Byte,
            2 => Self::Word,
            4 => Self::Double,
            8 => Self::Quad,
            _ => return None,
        })
    }

    pub fn bytes(self) -> u8 {
        self as u8
    }

    pub fn bits(self) -> u8 {
        8 * self as u8
    }
}

/// An operand in memory: `[base + index * scale + displacement]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub base: Option<Register>,
    /// Any register but RSP.
    pub index: Option<Register>,
    /// The logarithm of the scale: 0 to 3.
    pub scale: u8,
    pub displacement: i32,
}

impl Memory {
    pub fn at(base: Register, displacement: i32) -> Self {
        Self { base: Some(base), index: None, scale: 0, displacement }
    }
}

/// An operand that a ModRM byte names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Register(Register),
    Memory(Memory),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<Memory> for Operand {
    fn from(memory: Memory) -> Self {
        Self::Memory(memory)
    }
}

/// A condition code, as the low nibble of opcodes has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(pub u8);

impl Condition {
    pub const CARRY: Self = Self(2);
    pub const NO_CARRY: Self = Self(3);
    pub const ZERO: Self = Self(4);
    pub const NOT_ZERO: Self = Self(5);
    pub const BELOW_OR_EQUAL: Self = Self(6);
    pub const ABOVE: Self = Self(7);
    pub const LESS: Self = Self(12);
}

/// A place in the code that is being emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Code, as far as it has been emitted.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// Where each label is, once it is known.
    labels: Vec<Option<usize>>,
    /// 32-bit distances from their own ends to labels.
    distances: Vec<(usize, Label)>,
    /// How often RAX, RCX and RDX may have changed.
    changes: [u32; 3],
}

impl Encoder {
    /// Bytes emitted so far.
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// How often a register may have changed by now, if that is counted.
    pub fn changes(&self, register: Register) -> Option<u32> {
        self.changes.get(usize::from(register.0)).copied()
    }

    fn may_change(&mut self, register: u8) {
        if let Some(count) = self.changes.get_mut(usize::from(register)) {
            *count += 1;
        }
    }

    fn may_change_all(&mut self) {
        self.changes.iter_mut().for_each(|count| *count += 1);
    }

    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        // Who comes here from elsewhere has something else in registers.
        self.may_change_all();
        self.labels[label.0] = Some(self.bytes.len());
    }

    /// The code, its labels resolved. A label without a place is our error.
    pub fn finish(mut self) -> Vec<u8> {
        for (at, label) in std::mem::take(&mut self.distances) {
            let target = self.labels[label.0].expect("a label that is used has a place");
            let distance = target as i64 - (at as i64 + 4);
            self.bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        self.bytes
    }

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn immediate(&mut self, value: i32, size: Size) {
        let bytes = value.to_le_bytes();
        self.bytes.extend_from_slice(&bytes[..usize::from(size.bytes()).min(4)]);
    }

    /// A 32-bit distance that is filled in where the code is placed; answers where it stands.
    fn open(&mut self) -> usize {
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.len() - 4
    }

    fn distance_to(&mut self, label: Label) {
        let at = self.open();
        self.distances.push((at, label));
    }

    /// Prefixes and opcode of an instruction whose ModRM byte has `reg` and `rm`. `is_byte` says
    /// which of the two are 8-bit registers: numbers 4 to 7 of these want a REX prefix.
    fn opcode(&mut self, size: Size, opcode: &[u8], reg: u8, rm: Operand, is_byte: (bool, bool)) {
        // Whether it is read or written, or no register at all.
        self.may_change(reg);
        if let Operand::Register(register) = rm {
            self.may_change(register.0);
        }
        if size == Size::Word {
            self.byte(0x66);
        }
        let (x, b, rm_number) = match rm {
            Operand::Register(register) => (0, register.0 >> 3, register.0),
            Operand::Memory(memory) => (
                memory.index.map_or(0, |index| index.0 >> 3),
                memory.base.map_or(0, |base| base.0 >> 3),
                0,
            ),
        };
        let w = u8::from(size == Size::Quad);
        let rex = 0x40 | w << 3 | (reg >> 3) << 2 | x << 1 | b;
        let wants = |is_byte: bool, number: u8| is_byte && (4..8).contains(&number);
        if rex != 0x40 || wants(is_byte.0, reg) || wants(is_byte.1, rm_number) {
            self.byte(rex);
        }
        self.bytes.extend_from_slice(opcode);
    }

    /// ModRM, SIB and displacement.
    fn operands(&mut self, reg: u8, rm: Operand) {
        let reg = (reg & 7) << 3;
        let memory = match rm {
            Operand::Register(register) => return self.byte(0xC0 | reg | register.0 & 7),
            Operand::Memory(memory) => memory,
        };
        let index = memory.index.map_or(4, |index| index.0 & 7);
        let sib = (memory.scale & 3) << 6 | index << 3;
        let Some(base) = memory.base else {
            // No base: a SIB byte and 32 bits of displacement.
            self.byte(reg | 4);
            self.byte(sib | 5);
            return self.immediate(memory.displacement, Size::Double);
        };
        // RBP and R13 as a base always have a displacement.
        let mode = match memory.displacement {
            0 if base.0 & 7 != 5 => 0x00,
            -128..=127 => 0x40,
            _ => 0x80,
        };
        if memory.index.is_some() || base.0 & 7 == 4 {
            self.byte(mode | reg | 4);
            self.byte(sib | base.0 & 7);
        } else {
            self.byte(mode | reg | base.0 & 7);
        }
        match mode {
            0x40 => self.immediate(memory.displacement, Size::Byte),
            0x80 => self.immediate(memory.displacement, Size::Double),
            _ => {}
        }
    }

    /// An instruction with a ModRM byte; bit 0 of the last opcode byte says whether the operand is
    /// wider than a byte.
    fn sized(&mut self, size: Size, opcode: u8, reg: u8, rm: Operand, reg_is_operand: bool) {
        let is_byte = size == Size::Byte;
        let opcode = opcode | u8::from(!is_byte);
        self.opcode(size, &[opcode], reg, rm, (is_byte && reg_is_operand, is_byte));
        self.operands(reg, rm);
    }

    fn plain(&mut self, size: Size, opcode: &[u8], reg: u8, rm: Operand) {
        self.opcode(size, opcode, reg, rm, (false, false));
        self.operands(reg, rm);
    }
}

#[cfg(test)]
mod tests;
