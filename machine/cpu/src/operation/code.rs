//! What decides how the bytes of code are read: the size of the code segment, and the vendor.

use iced_x86::DecoderOptions;

/// The default operand and address size of the code segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CodeSize {
    /// A 16-bit code segment, real mode among them.
    Bits16 = 0,
    /// A 32-bit code segment, compatibility mode among them.
    Bits32 = 1,
    /// 64-bit mode.
    Bits64 = 2,
}

impl CodeSize {
    /// The default address size.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits16 => 16,
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

/// Whose manual says what an encoding means where the two differ: operand sizes of near branches
/// with the prefix 66h and of far pointers with REX.W in 64-bit mode, LOCK MOV CR0 as CR8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// AMD's manuals.
    Amd,
    /// Intel's manuals.
    Intel,
}

impl Dialect {
    /// Whose manuals a part with this vendor string follows.
    pub(crate) fn of_vendor(vendor: &str) -> Self {
        if vendor == "AuthenticAMD" { Self::Amd } else { Self::Intel }
    }

    /// For iced's decoder.
    pub(crate) fn options(self) -> u32 {
        if self == Self::Amd { DecoderOptions::AMD } else { DecoderOptions::NONE }
    }
}
