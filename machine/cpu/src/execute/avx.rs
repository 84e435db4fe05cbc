//! AVX, AVX2, FMA, F16C, VAES and VPCLMULQDQ: VEX-encoded instructions on XMM and YMM registers.
//! [SDM2 "VEX Exception Types"] [APM4 "128-Bit and 256-Bit Media Instruction Reference"]
//!
//! An instruction of 256 bits does what SSE's does in each half, but for those that say otherwise
//! (`permute`, `widen`); one of 128 bits clears the high half. Memory operands need no alignment
//! but for the moves that are named for it. AVX-512's encoding (EVEX) is not decoded, nor are
//! AVX-VNNI, AVX-IFMA and the others that came after AVX2.

mod compare;
mod convert;
mod element;
mod float;
mod fused;
mod integer;
mod masked;
mod moves;
mod operand;
mod permute;

use super::binding::Binding;
use crate::operation::Extension;
use crate::operation::decode::CodeSize;
use iced_x86::Instruction;

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    Extension::of(i)?;
    integer::bind(i)
        .or_else(|| element::bind(i))
        .or_else(|| moves::bind(i))
        .or_else(|| permute::bind(i))
        .or_else(|| float::bind(i))
        .or_else(|| compare::bind(i))
        .or_else(|| convert::bind(i))
        .or_else(|| fused::bind(i))
        .or_else(|| masked::bind(i))
}
