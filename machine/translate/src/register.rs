//! Which host register holds which guest register. RAX, RCX and RDX are free for each instruction,
//! RSP is the host's stack, RBP the frame; of the guest's registers, the five that compilers use
//! last stay in the frame.

use crate::encode::Register;

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

    /// The host register that holds it, if one does.
    pub fn host(self) -> Option<Register> {
        HELD[usize::from(self.0 & 15)]
    }

    /// All that host registers hold.
    pub fn held() -> impl Iterator<Item = (Self, Register)> {
        (0..16).map(Self).filter_map(|guest| guest.host().map(|host| (guest, host)))
    }
}
