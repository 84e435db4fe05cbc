//! Operands of instructions, as far as they are general registers, memory or values.

use crate::address::Address;
use crate::encode::Size;
use crate::register::{Guest, general};
use iced_x86::{Instruction, OpKind, Register};

/// An operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Register(Guest),
    Memory(Address),
    /// Sign-extended from the operand's size.
    Value(i64),
}

/// The register of which operand `n` is bits 15:8: RAX for AH.
pub(crate) fn high_byte(i: &Instruction, n: u32) -> Option<Guest> {
    let is_register = i.op_kind(n) == OpKind::Register;
    match i.op_register(n) {
        Register::AH if is_register => Some(Guest::RAX),
        Register::CH if is_register => Some(Guest::RCX),
        Register::DH if is_register => Some(Guest::RDX),
        Register::BH if is_register => Some(Guest::RBX),
        _ => None,
    }
}

/// The size of operand `n`, if general registers have it.
pub(crate) fn size(i: &Instruction, n: u32) -> Option<Size> {
    match i.op_kind(n) {
        OpKind::Register => Size::of(i.op_register(n).size()),
        OpKind::Memory => Size::of(i.memory_size().size()),
        _ => None,
    }
}

/// Operand `n` as an operand of a size.
pub(crate) fn operand(i: &Instruction, n: u32, size: Size) -> Option<Operand> {
    Some(match i.op_kind(n) {
        OpKind::Register => Operand::Register(general(i.op_register(n), size)?),
        OpKind::Memory => Operand::Memory(Address::of(i)?),
        _ => {
            let value = i.try_immediate(n).ok()?;
            Operand::Value(match size {
                Size::Byte => i64::from(value as i8),
                Size::Word => i64::from(value as i16),
                Size::Double => i64::from(value as i32),
                Size::Quad => value as i64,
            })
        }
    })
}
