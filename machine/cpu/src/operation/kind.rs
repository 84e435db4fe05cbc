//! The identity of an operation.

use iced_x86::{Code, Mnemonic};

/// Which instruction an operation stands for, with the width and form of its operands: a row of the
/// manual's opcode tables, such as ADD r/m32, imm8. Handlers cannot tell: several rows share one,
/// and the compiler may make one function of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(Code);

impl Kind {
    /// What no instruction has: bytes that are none.
    pub const INVALID: Self = Self(Code::INVALID);

    /// The instruction that the decoder calls so.
    pub const fn new(code: Code) -> Self {
        Self(code)
    }

    /// The decoder's name of the row.
    pub const fn code(self) -> Code {
        self.0
    }

    /// What the instruction is called, whatever its operands.
    pub fn mnemonic(self) -> Mnemonic {
        self.0.mnemonic()
    }
}

const _: () = assert!(std::mem::size_of::<Kind>() == 2);
