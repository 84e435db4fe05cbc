//! What makes KVM inhibit AVIC or APICv while a virtual machine runs.

use crate::workload::inhibited::TIMER;

/// A request of the VMM's that KVM inhibits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A debugger that blocks interrupts.
    BlockIrq,
    /// Hyper-V's synthetic interrupts with AutoEOI.
    AutoEoi,
    /// An APIC with another ID than it was made with.
    ApicId,
    /// An APIC that is not where it was made.
    ApicBase,
    /// KVM's timer chip, which injects ticks late that the guest missed.
    Pit,
}

impl Cause {
    /// What the step is called in which it happens.
    pub(super) const fn step(self) -> &'static str {
        match self {
            Self::BlockIrq => "block-irq",
            Self::AutoEoi => "auto-eoi",
            Self::ApicId => "apic-id",
            Self::ApicBase => "apic-base",
            Self::Pit => TIMER,
        }
    }

    /// Requests that are watched: where KVM does not end the inhibit, only the first.
    pub(super) const fn requests(self) -> usize {
        match self {
            Self::BlockIrq | Self::AutoEoi | Self::Pit => 2,
            Self::ApicId | Self::ApicBase => 1,
        }
    }

    /// What the VMM asks for, the first time and the second, and the section about it.
    pub(super) const fn request(self, turn: usize) -> (&'static str, &'static str) {
        let is_first = turn == 0;
        match self {
            Self::BlockIrq if is_first => (
                "a debugger attaches: KVM_SET_GUEST_DEBUG with KVM_GUESTDBG_BLOCKIRQ",
                "KVM-API \"KVM_SET_GUEST_DEBUG\"",
            ),
            Self::BlockIrq => (
                "the debugger detaches: KVM_SET_GUEST_DEBUG without flags",
                "KVM-API \"KVM_SET_GUEST_DEBUG\"",
            ),
            Self::AutoEoi if is_first => (
                "a vCPU's SINT0 gets AutoEOI: KVM_SET_MSRS of 40000090h",
                "TLFS \"SynIC Virtual Interrupt Vectors\"",
            ),
            Self::AutoEoi => (
                "SINT0 is masked again: KVM_SET_MSRS of 40000090h",
                "TLFS \"SynIC Virtual Interrupt Vectors\"",
            ),
            Self::ApicId => {
                ("a vCPU's xAPIC gets another ID: KVM_SET_LAPIC", "KVM-API \"KVM_SET_LAPIC\"")
            }
            Self::ApicBase => (
                "a vCPU's APIC is moved: KVM_SET_MSRS of IA32_APIC_BASE",
                "SDM3 \"Local APIC Status and Location\"",
            ),
            Self::Pit if is_first => (
                "the timer is to make up for lost ticks: KVM_REINJECT_CONTROL of 1",
                "KVM-API \"KVM_REINJECT_CONTROL\"",
            ),
            Self::Pit => (
                "lost ticks stay lost: KVM_REINJECT_CONTROL of 0",
                "KVM-API \"KVM_REINJECT_CONTROL\"",
            ),
        }
    }
}
