//! Where processors with SVM may differ and software must not care, or where it went wrong.

use super::avic::AvicBehaviour;
use serde::{Deserialize, Serialize};

/// AMD 1235: a sender of an AVIC IPI may read IsRunning before its write of IRR is visible.
pub const AVIC_IPI_ERRATUM: u32 = 1235;

/// Which clean bit covers the bits 31:30 of the dword at 060h, which enable AVIC and x2AVIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum EnableCleanBit {
    /// That of the dword they lie in.
    #[default]
    InterruptControl,
    /// That of AVIC's pointers.
    Avic,
}

/// Which virtual interrupts keep HLT from the idle HLT intercept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum IdleHltPending {
    /// Those whose priority the guest's task and interrupts in service let through.
    #[default]
    Deliverable,
    /// V_IRQ and every bit of IRR.
    Requested,
}

/// Where processors may differ and software must not care, or where it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SvmBehaviour {
    /// Fields whose clean bit is set are not read again. Off by default.
    pub honours_clean_bits: bool,
    /// Matters only where clean bits are honoured.
    pub avic_enable_clean_bit: EnableCleanBit,
    /// Matters only where the model has idle HLT.
    pub idle_hlt_pending: IdleHltPending,
    /// VMRUN takes a reserved encoding of TLB_CONTROL for 0. Off by default: it is refused.
    pub ignores_reserved_tlb_control: bool,
    /// Each step of an accelerated IPI ends the processor's turn, so that others run in between.
    /// Off by default: all steps are taken together.
    pub sends_ipis_in_steps: bool,
    /// AVIC's own choices.
    pub avic: AvicBehaviour,
}

impl SvmBehaviour {
    /// That of a part with these errata.
    pub fn with_errata(numbers: &[u32]) -> Self {
        let mut behaviour = Self::default();
        behaviour.avic.erratum_1235 = numbers.contains(&AVIC_IPI_ERRATUM);
        behaviour
    }
}
