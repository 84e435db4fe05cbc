//! Which near returns the return predictor gets wrong: those to an address that the instruction
//! before put where CALL's was, as kernels' thunks do on purpose (retpolines, SRSO's safe return).
//!
//! It is seen from the bytes in front of the return, so that a return costs the same wherever
//! execution began or was cut, by a debugger or a limit.

use crate::operation::Kind;
use iced_x86::Code;

/// How far in front of a return its bytes matter.
pub(crate) const REACH: u64 = 5;

/// Whether `kind` is a near return of 64-bit code behind an instruction that replaces its address:
/// `before` ends with that one's bytes, as far as they are in the same page.
pub(crate) fn is_mispredicted(kind: Kind, before: &[u8]) -> bool {
    is_return(kind) && (drops_address(before) || replaces_address(before))
}

pub(crate) fn is_return(kind: Kind) -> bool {
    kind == Kind::new(Code::Retnq)
}

/// LEA RSP, [RSP+8].
fn drops_address(before: &[u8]) -> bool {
    before.ends_with(&[0x48, 0x8D, 0x64, 0x24, 0x08])
}

/// MOV [RSP], register.
fn replaces_address(before: &[u8]) -> bool {
    let Some([rex, opcode, modrm, sib]) = before.last_chunk() else { return false };
    matches!(rex, 0x48 | 0x4C) && *opcode == 0x89 && modrm & 0xC7 == 0x04 && *sib == 0x24
}
