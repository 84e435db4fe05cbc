//! Which exits hardware interrupt virtualization takes away, which it does not, and which a
//! recording cannot tell.
//!
//! The rules are those by which the hardware accelerates accesses to the APIC: [APM2 "AVIC Access
//! to Local APIC Registers"], [SDM3 "Virtualizing Memory-Mapped APIC Accesses"], [SDM3
//! "Virtualizing MSR-Based APIC Accesses"], [SDM3 "IPI Virtualization"]. They give a ceiling: an
//! IPI to a vCPU that does not run still exits, and so does the end of a level interrupt.

use crate::key::{Detail, InterruptCommand, Shorthand};
use arch::apic::{DeliveryMode, DestinationMode};
use arch::identity::Vector;
use arch::svm::avic::register::SELF_IPI;
use serde::{Deserialize, Serialize};
use trace::exit_reason::{Isa, svm, vmx};

/// What would take an exit away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A feature of the processor or the IOMMU would do without it.
    Avoidable,
    /// It would happen all the same.
    NotAvoidable,
    /// The recording does not hold what would tell.
    Unknown,
}

impl Verdict {
    /// As text and pages print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avoidable => "avoidable",
            Self::NotAvoidable => "not avoidable",
            Self::Unknown => "unknown",
        }
    }
}

/// A verdict, the feature it speaks of and the rule behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// `AVIC`, `x2AVIC`, `APICv`, `IPIv` or `posted interrupts`; empty where none applies.
    pub feature: &'static str,
    /// Why, in a few words.
    pub rule: &'static str,
}

const fn avoidable(feature: &'static str, rule: &'static str) -> Judgement {
    Judgement { verdict: Verdict::Avoidable, feature, rule }
}

const fn not_avoidable(rule: &'static str) -> Judgement {
    Judgement { verdict: Verdict::NotAvoidable, feature: "", rule }
}

const fn unknown(rule: &'static str) -> Judgement {
    Judgement { verdict: Verdict::Unknown, feature: "", rule }
}

/// Whether a recording holds the events that tell what an exit was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Evidence {
    /// `kvm_msr` was recorded: which MSR, and what was written.
    pub has_msr: bool,
    /// `kvm_mmio` was recorded: the address of accesses that were emulated.
    pub has_mmio: bool,
    /// The exits themselves were seen, which on AMD have the address of a fault.
    pub has_exits: bool,
    /// Faults on the APIC page were seen, which the event of a fault does not name.
    pub has_apic_faults: bool,
}

/// Whether the vCPU waits in this exit rather than working.
pub const fn is_idle(isa: Isa, reason: u32) -> bool {
    match isa {
        Isa::Svm => {
            matches!(reason, svm::HLT | svm::MWAIT | svm::MONITOR | svm::IDLE_HALT)
        }
        Isa::Vmx => matches!(reason & 0xffff, vmx::HLT | vmx::MWAIT),
    }
}

/// Whether KVM has an exit with the feature, too, that hardware would do without: that of Linux 6.1
/// and 6.12 intercepts writes of the self-IPI register, which x2AVIC would do by itself.
pub const fn is_left_to_kvm(isa: Isa, detail: Detail) -> bool {
    matches!(isa, Isa::Svm)
        && matches!(detail, Detail::Register { offset: SELF_IPI, is_write: true })
}

/// Judges an exit.
pub const fn judge(isa: Isa, reason: u32, detail: Detail, evidence: Evidence) -> Judgement {
    if is_idle(isa, reason) {
        return not_avoidable("the guest is idle: this is waiting, not work");
    }
    match isa {
        Isa::Svm => judge_svm(reason, detail, evidence),
        Isa::Vmx => judge_vmx(reason, detail, evidence),
    }
}

const NO_ADDRESS: &str = "whether it was the APIC page is known from the exits themselves only";
const HYPERCALL: &str = "which call is not known: IPIs made by hypercall can go away, others stay";
const NEEDS_MSR: &str = "which MSR is not recorded: add the kvm_msr event";
const NEEDS_MMIO: &str = "whether it was the APIC page is not recorded: add the kvm_mmio event";

/// A guest that is told so sends IPIs by a call; told otherwise, it writes the interrupt command
/// register, which hardware completes if the target runs.
const fn hypercall(feature: &'static str, detail: Detail) -> Judgement {
    match detail {
        Detail::Hypercall { number: 10, is_hyperv: false }
        | Detail::Hypercall { number: 0x0b | 0x15, is_hyperv: true } => avoidable(
            feature,
            "an IPI by hypercall: without the paravirtual one the guest writes the ICR instead",
        ),
        Detail::Hypercall { .. } => not_avoidable("this hypercall is about no interrupt"),
        _ => unknown(HYPERCALL),
    }
}

const fn judge_svm(reason: u32, detail: Detail, evidence: Evidence) -> Judgement {
    match reason {
        svm::MSR => match detail {
            Detail::Icr(command) => avic_ipi("x2AVIC", command),
            Detail::Register { offset, is_write } => avic_register("x2AVIC", offset, is_write),
            Detail::Msr { .. } => not_avoidable("this MSR is not part of the APIC"),
            _ if evidence.has_msr => not_avoidable("no APIC register was accessed"),
            _ => unknown(NEEDS_MSR),
        },
        svm::NESTED_PAGE_FAULT => match detail {
            Detail::Icr(command) => avic_ipi("AVIC", command),
            Detail::Register { offset, is_write } => avic_register("AVIC", offset, is_write),
            Detail::Unknown if !evidence.has_exits && !evidence.has_mmio => unknown(NO_ADDRESS),
            _ => not_avoidable("memory, not the APIC page"),
        },
        svm::VINTR => avoidable("AVIC", "no interrupt window is needed to deliver"),
        svm::WRITE_CR8 | 8 => avoidable("AVIC", "CR8 is read and written in the APIC page"),
        svm::INTERRUPT => unknown(
            "host interrupts: those that kick a vCPU to inject go away, timers and devices stay",
        ),
        svm::AVIC_INCOMPLETE_IPI => {
            not_avoidable("AVIC is on: it could not complete this IPI by itself")
        }
        svm::AVIC_UNACCELERATED_ACCESS => {
            not_avoidable("AVIC is on: it leaves this register to software")
        }
        0x81 => hypercall("AVIC", detail),
        _ => not_avoidable("not caused by interrupt delivery or the APIC"),
    }
}

/// [APM2 "Virtual Interrupt Delivery (AVIC) Guest Accesses to Local APIC Registers"]
const fn avic_register(feature: &'static str, offset: u16, is_write: bool) -> Judgement {
    match (offset, is_write) {
        (0xb0, true) => avoidable(
            feature,
            "EOI of an edge interrupt completes in hardware; of a level one it still exits",
        ),
        (0x80, _) => avoidable(feature, "TPR is kept in the APIC page"),
        (0x300 | 0x310, true) => avoidable(feature, "IPIs are sent by hardware"),
        (0x3f0, true) => avoidable(
            feature,
            "self-IPIs are sent by hardware; Linux up to 6.12 at least intercepts this register still",
        ),
        (0x390, false) => not_avoidable("the timer's current count is computed by software"),
        (_, false) => avoidable(feature, "reads are served from the APIC page"),
        (0x320..=0x380 | 0x3e0, true) => {
            not_avoidable("the APIC timer and LVT are emulated: writes still exit")
        }
        (_, true) => not_avoidable("hardware leaves writes of this register to software"),
    }
}

/// [APM2 "AVIC IPI Virtualization"]
const fn avic_ipi(feature: &'static str, command: InterruptCommand) -> Judgement {
    if !matches!(command.delivery_mode, DeliveryMode::Fixed) {
        return not_avoidable("only fixed interrupts are sent by hardware (not NMI, INIT, SIPI)");
    }
    if command.is_level {
        return not_avoidable("level-triggered IPIs are left to software");
    }
    avoidable(feature, "hardware sends fixed IPIs to running vCPUs; others still exit")
}

const fn judge_vmx(reason: u32, detail: Detail, evidence: Evidence) -> Judgement {
    match reason & 0xffff {
        vmx::MSR_READ | vmx::MSR_WRITE | vmx::MSR_READ_IMM | vmx::MSR_WRITE_IMM => match detail {
            Detail::Icr(command) => vmx_ipi(command),
            Detail::Register { offset, is_write } => vmx_register(offset, is_write, true),
            Detail::Msr { .. } => not_avoidable("this MSR is not part of the APIC"),
            _ if evidence.has_msr => not_avoidable("no APIC register was accessed"),
            _ => unknown(NEEDS_MSR),
        },
        vmx::APIC_ACCESS | vmx::EPT_VIOLATION | vmx::EPT_MISCONFIG => match detail {
            Detail::Icr(command) => vmx_ipi(command),
            Detail::Register { offset, is_write } => vmx_register(offset, is_write, false),
            // KVM may let the guest try once more before it emulates the access.
            Detail::Unknown if evidence.has_mmio && evidence.has_apic_faults => {
                unknown("memory, or the APIC page tried once more: the event has no address")
            }
            _ if evidence.has_mmio => not_avoidable("memory, not the APIC page"),
            _ => unknown(NEEDS_MMIO),
        },
        vmx::APIC_WRITE => match detail {
            Detail::Icr(command) => vmx_ipi(command),
            Detail::Register { offset: 0x300, .. } => {
                unknown("IPIv would send it if it names one physical target")
            }
            _ => not_avoidable("APICv is on: it leaves this register to software"),
        },
        vmx::INTERRUPT_WINDOW => avoidable("APICv", "no interrupt window is needed to deliver"),
        vmx::TPR_BELOW_THRESHOLD => avoidable("APICv", "priorities are evaluated by hardware"),
        vmx::EOI_INDUCED => not_avoidable("APICv is on: software must see this EOI"),
        vmx::EXTERNAL_INTERRUPT => match detail {
            Detail::Vector { vector } => host_interrupt(vector),
            _ => unknown(
                "host interrupts: those that kick a vCPU to inject go away, timers and devices \
                 stay",
            ),
        },
        18 => hypercall("IPIv", detail),
        _ => not_avoidable("not caused by interrupt delivery or the APIC"),
    }
}

/// Linux's system vectors on x86-64 (`arch/x86/include/asm/irq_vectors.h`).
const fn host_interrupt(vector: Vector) -> Judgement {
    match vector.0 {
        0xfd => avoidable(
            "posted interrupts",
            "the reschedule vector, with which KVM kicks a running vCPU to inject",
        ),
        0xf0..=0xf2 => not_avoidable("posting is on: this is its notification"),
        0xec..=0xff => not_avoidable("the host's own timers and cross-calls"),
        _ => unknown("a device: if it is assigned to the guest, posting delivers it without exit"),
    }
}

/// [SDM3 "Virtualizing Memory-Mapped APIC Accesses"]
const fn vmx_register(offset: u16, is_write: bool, is_x2apic: bool) -> Judgement {
    match (offset, is_write) {
        (0xb0, true) => avoidable(
            "APICv",
            "EOI completes in hardware; KVM asks to see those of level interrupts",
        ),
        (0x80, _) => avoidable("APICv", "TPR is kept in the APIC page"),
        (0x3f0, true) => avoidable("APICv", "self-IPIs are sent by hardware"),
        (0x300, true) => unknown("which kind of IPI is not recorded: IPIv sends some of them"),
        (0x310, true) => avoidable("APICv", "stored in the APIC page"),
        (0x390, false) => not_avoidable("the timer's current count is computed by software"),
        (0x90 | 0xc0 | 0x2f0, false) => not_avoidable("this register is left to software"),
        (0xa0, false) if !is_x2apic => not_avoidable("this register is left to software"),
        (_, false) => avoidable("APICv", "reads are served from the APIC page"),
        (0x320..=0x380 | 0x3e0, true) => {
            not_avoidable("the APIC timer and LVT are emulated: writes still exit")
        }
        (_, true) => not_avoidable("hardware leaves writes of this register to software"),
    }
}

/// [SDM3 "IPI Virtualization"]
const fn vmx_ipi(command: InterruptCommand) -> Judgement {
    let is_plain = matches!(command.delivery_mode, DeliveryMode::Fixed) && !command.is_level;
    match (command.shorthand, command.destination_mode) {
        _ if !is_plain => not_avoidable("only fixed, edge-triggered IPIs are sent by hardware"),
        (Shorthand::OnlySelf, _) if !command.is_x2apic => {
            avoidable("APICv", "self-IPIs are sent by hardware")
        }
        (Shorthand::None, DestinationMode::Physical) => avoidable(
            "IPIv",
            "hardware posts IPIs with one physical target (Sapphire Rapids and newer)",
        ),
        _ => not_avoidable("IPIv sends to one physical target only, not to groups"),
    }
}

#[cfg(test)]
mod tests;
