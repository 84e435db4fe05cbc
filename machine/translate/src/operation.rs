//! The instructions that are translated, by family. Each function decides whether it knows the form
//! before it emits anything; `None` leaves the instruction to its handler.

mod arithmetic;
mod bit;
mod branch;
mod multiply;
mod shift;
mod stack;
mod transfer;
mod vector;

use crate::access::Address;
use crate::block::Translator;
use crate::encode::Size;
use crate::register::Guest;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// An operand.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Register(Guest),
    Memory(Address),
    /// Sign-extended from the operand's size.
    Value(i64),
}

/// Emits an instruction; answers whether the next one can be reached from it.
pub(crate) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<bool> {
    if let Some(goes_on) = branch::translate(t, i) {
        return Some(goes_on);
    }
    arithmetic::translate(t, i)
        .or_else(|| transfer::translate(t, i))
        .or_else(|| shift::translate(t, i))
        .or_else(|| bit::translate(t, i))
        .or_else(|| multiply::translate(t, i))
        .or_else(|| stack::translate(t, i))
        .or_else(|| vector::translate(t, i))
        .map(|()| true)
}

/// The general register of a name, if it is of that size; not AH, CH, DH, BH.
pub(crate) fn general(name: Register, size: Size) -> Option<Guest> {
    let first = match size {
        Size::Byte => {
            let number = name as u32;
            return match name {
                _ if !name.is_gpr8() => None,
                Register::AH | Register::CH | Register::DH | Register::BH => None,
                // SPL and the rest follow BH.
                _ if number >= Register::SPL as u32 => {
                    Some(Guest((number - Register::SPL as u32 + 4) as u8))
                }
                _ => Some(Guest((number - Register::AL as u32) as u8)),
            };
        }
        Size::Word if name.is_gpr16() => Register::AX,
        Size::Double if name.is_gpr32() => Register::EAX,
        Size::Quad if name.is_gpr64() => Register::RAX,
        _ => return None,
    };
    Some(Guest((name as u32 - first as u32) as u8))
}

/// The register of which operand `n` is bits 15:8: RAX for AH.
fn high_byte(i: &Instruction, n: u32) -> Option<Guest> {
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
fn size(i: &Instruction, n: u32) -> Option<Size> {
    match i.op_kind(n) {
        OpKind::Register => Size::of(i.op_register(n).size()),
        OpKind::Memory => Size::of(i.memory_size().size()),
        _ => None,
    }
}

/// Operand `n` as an operand of a size.
fn operand(i: &Instruction, n: u32, size: Size) -> Option<Operand> {
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

/// Per instruction: whether somebody may look at the status flags after it.
pub(crate) fn needs_status(instructions: &[Instruction]) -> Vec<bool> {
    let mut needs = vec![true; instructions.len()];
    let mut after = true;
    for (need, i) in needs.iter_mut().zip(instructions).rev() {
        *need = after;
        after = looks(i) || (after && !overwrites(i));
    }
    needs
}

/// CF, PF, AF, ZF, SF, OF.
const STATUS: u32 = iced_x86::RflagsBits::CF
    | iced_x86::RflagsBits::PF
    | iced_x86::RflagsBits::AF
    | iced_x86::RflagsBits::ZF
    | iced_x86::RflagsBits::SF
    | iced_x86::RflagsBits::OF;

/// Whether an instruction may leave the block, be done by its handler, or read status flags.
fn looks(i: &Instruction) -> bool {
    use Mnemonic::*;
    if i.rflags_read() & STATUS != 0 {
        return true;
    }
    let is_high = |n| {
        let name = i.op_register(n);
        i.op_kind(n) == OpKind::Register && !is_any_general(name)
    };
    if (0..i.op_count()).any(is_high) {
        return true;
    }
    let in_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    match i.mnemonic() {
        Lea => Address::of(i).is_none(),
        Add | Sub | And | Or | Xor | Cmp | Test | Inc | Dec | Neg | Not | Mov | Movzx | Movsx => {
            in_memory
        }
        Imul => in_memory || i.op_count() == 1,
        // A count in CL may be zero, which leaves the flags as they are.
        Shl | Sal | Shr | Sar => in_memory || i.op_kind(1) == OpKind::Register,
        _ => true,
    }
}

fn is_any_general(name: Register) -> bool {
    [Size::Byte, Size::Word, Size::Double, Size::Quad]
        .iter()
        .any(|size| general(name, *size).is_some())
}

fn overwrites(i: &Instruction) -> bool {
    i.rflags_modified() & STATUS == STATUS
}
