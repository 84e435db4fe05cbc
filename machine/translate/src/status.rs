//! Where the guest's status flags are while a block is translated, and who looks at them.

use crate::address::Address;
use crate::encode::Size;
use crate::operation::shift;
use crate::recipe::Recipe;
use crate::register::general;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Where the status flags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// In the frame.
    Saved,
    /// In the host's flags. AF there counts as clear if `clears_auxiliary`.
    Host { clears_auxiliary: bool, recipe: Option<Recipe> },
    /// In both.
    Both,
    /// Nowhere, but they can be made again.
    Again(Recipe),
    /// Nowhere: they are overwritten before anybody looks.
    Dead,
}

/// Per instruction: whether the status flags may be read after it.
pub(crate) fn needs_status(instructions: &[Instruction]) -> Vec<bool> {
    let mut needs = vec![true; instructions.len()];
    let mut after = true;
    for (need, i) in needs.iter_mut().zip(instructions).rev() {
        *need = after;
        after = looks(i) || (after && !overwrites(i));
    }
    needs
}

/// Per instruction: whether flags from before it may be read after it.
pub(crate) fn keeps_status(needs: &[bool], instructions: &[Instruction]) -> Vec<bool> {
    needs.iter().zip(instructions).map(|(need, i)| *need && !overwrites(i)).collect()
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
        Rol | Ror => in_memory || !shift::rotates_by_value(i),
        Movsxd => in_memory,
        Bswap => Size::of(i.op_register(0).size()) == Some(Size::Word),
        Cwde | Cdqe | Cdq | Cqo | Nop | Endbr32 | Endbr64 => false,
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
