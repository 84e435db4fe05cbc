//! The vector registers that blocks use for themselves, and what they do with them.

use super::{Encoder, Memory, Operand, Register, Size};

/// A vector register of the host. The guest's are in memory; these are free for each instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Vector {
    Xmm0 = 0,
    Xmm1 = 1,
}

impl From<Vector> for Operand {
    fn from(vector: Vector) -> Self {
        Self::Register(Register(vector as u8))
    }
}

/// An instruction on two vectors by its opcode behind 0F, of SSE2 at most, which every host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorOperation {
    pub opcode: u8,
    /// With the prefix 66.
    pub is_prefixed: bool,
}

impl VectorOperation {
    fn size(self) -> Size {
        if self.is_prefixed { Size::Word } else { Size::Double }
    }
}

impl Encoder {
    /// MOVUPS
    pub fn vector_load(&mut self, to: Vector, from: Memory) {
        self.plain(Size::Double, &[0x0F, 0x10], to as u8, from.into());
    }

    /// MOVUPS
    pub fn vector_store(&mut self, to: Memory, from: Vector) {
        self.plain(Size::Double, &[0x0F, 0x11], from as u8, to.into());
    }

    /// `to = to op from`
    pub fn vector(&mut self, operation: VectorOperation, to: Vector, from: Vector) {
        let opcode = [0x0F, operation.opcode];
        self.plain(operation.size(), &opcode, to as u8, from.into());
    }

    /// `to = to op from`, with a value that says how.
    pub fn vector_value(&mut self, op: VectorOperation, to: Vector, from: Vector, value: u8) {
        self.vector(op, to, from);
        self.byte(value);
    }

    /// A shift of group 12, 13 or 14 by a value: `reg` is its number in the group.
    pub fn vector_shift(&mut self, opcode: u8, reg: u8, of: Vector, count: u8) {
        self.plain(Size::Word, &[0x0F, opcode], reg, of.into());
        self.byte(count);
    }

    /// PMOVMSKB
    pub fn vector_mask(&mut self, to: Register, from: Vector) {
        self.plain(Size::Word, &[0x0F, 0xD7], to.0, from.into());
    }
}
