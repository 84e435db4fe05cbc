//! Which host register holds which guest register. RAX, RCX and RDX are free for each instruction,
//! RSP is the host's stack, RBP the frame; of the guest's registers, the five that compilers use
//! last stay in the frame.

use crate::encode::{Register, Size};
use iced_x86::Register as Name;

/// By the guest register's number.
const HELD: [Option<Register>; 16] = [
    Some(Register::R9),
    Some(Register::R10),
    Some(Register::R11),
    Some(Register::RBX),
    Some(Register::R14),
    Some(Register::R15),
    Some(Register::RSI),
    Some(Register::RDI),
    Some(Register::R8),
    None,
    None,
    None,
    Some(Register::R12),
    Some(Register::R13),
    None,
    None,
];

/// A general register of the guest: RAX is 0, R15 is 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guest(pub u8);

impl Guest {
    pub const RAX: Self = Self(0);
    pub const RCX: Self = Self(1);
    pub const RDX: Self = Self(2);
    pub const RBX: Self = Self(3);
    pub const RSP: Self = Self(4);
    pub const RBP: Self = Self(5);
    pub const RSI: Self = Self(6);
    pub const RDI: Self = Self(7);

    /// The host register that holds it, if one does.
    pub fn host(self) -> Option<Register> {
        HELD[usize::from(self.0 & 15)]
    }

    /// All that host registers hold.
    pub fn held() -> impl Iterator<Item = (Self, Register)> {
        (0..16).map(Self).filter_map(|guest| guest.host().map(|host| (guest, host)))
    }
}

/// The general register of a name, if it is of that size; not AH, CH, DH, BH.
pub(crate) fn general(name: Name, size: Size) -> Option<Guest> {
    let first = match size {
        Size::Byte => {
            let number = name as u32;
            return match name {
                _ if !name.is_gpr8() => None,
                Name::AH | Name::CH | Name::DH | Name::BH => None,
                // SPL and the rest follow BH.
                _ if number >= Name::SPL as u32 => {
                    Some(Guest((number - Name::SPL as u32 + 4) as u8))
                }
                _ => Some(Guest((number - Name::AL as u32) as u8)),
            };
        }
        Size::Word if name.is_gpr16() => Name::AX,
        Size::Double if name.is_gpr32() => Name::EAX,
        Size::Quad if name.is_gpr64() => Name::RAX,
        _ => return None,
    };
    Some(Guest((name as u32 - first as u32) as u8))
}
