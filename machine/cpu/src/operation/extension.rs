//! Which extension of the architecture an AVX instruction belongs to.

use super::op::Op;
use arch::cpuid::Feature;
use iced_x86::{CpuidFeature, EncodingKind, Instruction};

/// What a processor has to have for a VEX-encoded vector instruction, AVX aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Extension {
    /// Nothing else.
    Avx,
    /// Integers of 256 bits, gathers, broadcasts from registers.
    Avx2,
    /// Fused multiplication and addition.
    Fma,
    /// Conversions of half-precision numbers.
    F16c,
    /// AES on 128 bits.
    Aes,
    /// AES on 256 bits.
    Vaes,
    /// Carry-less multiplication on 128 bits.
    Pclmulqdq,
    /// Carry-less multiplication on 256 bits.
    Vpclmulqdq,
}

/// Where the extension stands in an operation's immediate, above the byte of the instruction's.
const SHIFT: u32 = 8;

impl Extension {
    const ALL: [Self; 8] = [
        Self::Avx,
        Self::Avx2,
        Self::Fma,
        Self::F16c,
        Self::Aes,
        Self::Vaes,
        Self::Pclmulqdq,
        Self::Vpclmulqdq,
    ];

    /// `None` if the instruction is not VEX-encoded, works on general registers, or is of an
    /// extension that no model has.
    pub(crate) fn of(instruction: &Instruction) -> Option<Self> {
        if instruction.encoding() != EncodingKind::VEX {
            return None;
        }
        Some(match instruction.cpuid_features() {
            [CpuidFeature::AVX] => Self::Avx,
            [CpuidFeature::AVX2] => Self::Avx2,
            [CpuidFeature::FMA] => Self::Fma,
            [CpuidFeature::F16C] => Self::F16c,
            [CpuidFeature::AES, CpuidFeature::AVX] | [CpuidFeature::AVX, CpuidFeature::AES] => {
                Self::Aes
            }
            [CpuidFeature::VAES] => Self::Vaes,
            [CpuidFeature::PCLMULQDQ, CpuidFeature::AVX]
            | [CpuidFeature::AVX, CpuidFeature::PCLMULQDQ] => Self::Pclmulqdq,
            [CpuidFeature::VPCLMULQDQ] => Self::Vpclmulqdq,
            _ => return None,
        })
    }

    /// The extension of an operation that has one.
    #[inline(always)]
    pub(crate) fn of_op(op: &Op) -> Self {
        Self::ALL[(op.immediate >> SHIFT & 7) as usize]
    }

    /// Notes the extension in an operation whose immediate is at most a byte.
    pub(super) fn note(self, op: &mut Op) {
        op.immediate = op.immediate & 0xFF | (self as u64) << SHIFT;
    }

    /// What CPUID says of it.
    #[inline(always)]
    pub(crate) fn feature(self) -> Feature {
        match self {
            Self::Avx => Feature::Avx,
            Self::Avx2 => Feature::Avx2,
            Self::Fma => Feature::Fma,
            Self::F16c => Feature::F16c,
            Self::Aes => Feature::Aes,
            Self::Vaes => Feature::Vaes,
            Self::Pclmulqdq => Feature::Pclmulqdq,
            Self::Vpclmulqdq => Feature::Vpclmulqdq,
        }
    }
}
