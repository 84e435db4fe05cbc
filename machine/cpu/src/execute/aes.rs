//! AES, PCLMULQDQ and SHA instructions.

use super::sse::{binary_of, handler};
use crate::execute::binding::{Binding, Handler};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost};
use crate::vector::{aes, carryless, sha};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// SHA256RNDS2 takes its words from XMM0.
fn sha256rnds2(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let words = cpu.registers.xmm(0);
    binary_of(cpu, bus, op, Feature::ShaNi, |a, b, _| sha::sha256rnds2(a, b, words))
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    macro_rules! of {
        ($feature:ident, $function:expr) => {
            handler!(binary_of, Feature::$feature, $function)
        };
    }
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Aesenc => of!(Aes, |a, b, _| aes::aesenc(a, b)),
        Mnemonic::Aesenclast => of!(Aes, |a, b, _| aes::aesenclast(a, b)),
        Mnemonic::Aesdec => of!(Aes, |a, b, _| aes::aesdec(a, b)),
        Mnemonic::Aesdeclast => of!(Aes, |a, b, _| aes::aesdeclast(a, b)),
        Mnemonic::Aesimc => of!(Aes, |a, b, _| aes::aesimc(a, b)),
        Mnemonic::Aeskeygenassist => of!(Aes, |_, b, round| aes::aeskeygenassist(b, round)),
        Mnemonic::Pclmulqdq => of!(Pclmulqdq, carryless::pclmulqdq),
        Mnemonic::Sha1rnds4 => of!(ShaNi, sha::sha1rnds4),
        Mnemonic::Sha1nexte => of!(ShaNi, |a, b, _| sha::sha1nexte(a, b)),
        Mnemonic::Sha1msg1 => of!(ShaNi, |a, b, _| sha::sha1msg1(a, b)),
        Mnemonic::Sha1msg2 => of!(ShaNi, |a, b, _| sha::sha1msg2(a, b)),
        Mnemonic::Sha256rnds2 => sha256rnds2,
        Mnemonic::Sha256msg1 => of!(ShaNi, |a, b, _| sha::sha256msg1(a, b)),
        Mnemonic::Sha256msg2 => of!(ShaNi, |a, b, _| sha::sha256msg2(a, b)),
        _ => return None,
    };
    Binding::costing(handler, Cost::Vector)
}
