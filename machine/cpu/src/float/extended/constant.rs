//! FLD1, FLDL2T, FLDL2E, FLDPI, FLDLG2, FLDLN2 and FLDZ.

use super::Extended;
use crate::float::Rounding;

/// The constants in the order of their opcodes, D9 E8 to D9 EE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// FLD1.
    One,
    /// FLDL2T.
    Log2Of10,
    /// FLDL2E.
    Log2OfE,
    /// FLDPI.
    Pi,
    /// FLDLG2.
    Log10Of2,
    /// FLDLN2.
    LnOf2,
    /// FLDZ.
    Zero,
}

impl Constant {
    /// Every constant, by the low bits of its opcode.
    pub const ALL: [Constant; 7] = [
        Constant::One,
        Constant::Log2Of10,
        Constant::Log2OfE,
        Constant::Pi,
        Constant::Log10Of2,
        Constant::LnOf2,
        Constant::Zero,
    ];

    /// The truncated significand, the exponent field, and whether the rest exceeds one half.
    fn parts(self) -> (u64, u16, bool) {
        match self {
            Constant::One => (1 << 63, 0x3FFF, false),
            Constant::Log2Of10 => (0xD49A_784B_CD1B_8AFE, 0x4000, false),
            Constant::Log2OfE => (0xB8AA_3B29_5C17_F0BB, 0x3FFF, true),
            Constant::Pi => (0xC90F_DAA2_2168_C234, 0x4000, true),
            Constant::Log10Of2 => (0x9A20_9A84_FBCF_F798, 0x3FFD, true),
            Constant::LnOf2 => (0xB172_17F7_D1CF_79AB, 0x3FFE, true),
            Constant::Zero => (0, 0, false),
        }
    }

    /// The constant under a rounding control. No exception is raised, although all except two are
    /// inexact [SDM1 "Load Constant Instructions"].
    pub fn rounded(self, rounding: Rounding) -> Extended {
        let (truncated, sign_exponent, is_above_half) = self.parts();
        let is_exact = matches!(self, Constant::One | Constant::Zero);
        let is_up = match rounding {
            Rounding::Nearest => is_above_half,
            Rounding::Up => !is_exact,
            Rounding::Down | Rounding::Zero => false,
        };
        Extended { significand: truncated + u64::from(is_up), sign_exponent }
    }
}
