//! Named switches of a CPU model: errata, and the points that the manuals leave open.
//!
//! Each row says what the switch means, who asks for it, and which values there are; the first
//! value is what unmodified kernels need, and the default unless the model has the erratum.

use crate::svm::avic::{
    ExitIndex, InvalidTargets, IrregularAccess, PriorityThreshold, ReadOnlyMsrWrite, SelfKey,
};
use crate::svm::{AVIC_IPI_ERRATUM, EnableCleanBit, IdleHltPending, SvmBehaviour};
use crate::vmx::VmxBehaviour;
use crate::vmx::apicv::{CommandHalves, HoleRead, PostedRequest};
use serde::{Deserialize, Serialize};

/// How one model resolves what the manuals leave open, and where it departs from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Behaviour {
    /// Where SVM leaves something open.
    pub svm: SvmBehaviour,
    /// Where VMX leaves something open.
    pub vmx: VmxBehaviour,
}

/// Numbers of vendors' errata that a model can have.
pub const MODELLED_ERRATA: &[u32] = &[AVIC_IPI_ERRATUM];

/// A switch.
pub struct Variant {
    /// As in `NAME=VALUE`.
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// Who raises the question.
    pub source: &'static str,
    /// The default first.
    pub values: &'static [&'static str],
    get: fn(&Behaviour) -> usize,
    set: fn(&mut Behaviour, usize),
}

/// Why a choice is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VariantError {
    /// What was asked for, and the names that there are.
    #[error("no variant is named {0:?}; there are {1}")]
    Unknown(String, String),
    /// The variant has no such value.
    #[error("variant {name} is {value:?}, must be one of {values}")]
    Value {
        /// The variant.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// What it can be.
        values: String,
    },
}

/// A switch with two or more positions, each a value of one field.
macro_rules! choice {
    ($name:literal, $meaning:literal, $source:literal,
     $($field:ident).+ : $($text:literal = $value:expr),+ $(,)?) => {
        Variant {
            name: $name,
            meaning: $meaning,
            source: $source,
            values: &[$($text),+],
            get: |behaviour| {
                [$($value),+].iter().position(|value| *value == behaviour.$($field).+).unwrap_or(0)
            },
            set: |behaviour, index| {
                if let Some(value) = [$($value),+].get(index) {
                    behaviour.$($field).+ = *value;
                }
            },
        }
    };
}

/// All switches.
pub const VARIANTS: &[Variant] = &[
    choice!("erratum-1235",
        "a sender reads IsRunning before its write of the target's IRR is visible",
        "AMD erratum 1235, families 17h and 18h",
        svm.avic.erratum_1235: "off" = false, "on" = true),
    choice!("clean-bits",
        "fields of the VMCB whose clean bit is set come from what the processor saw last",
        "APM2 \"VMCB State Caching\" allows both",
        svm.honours_clean_bits: "ignored" = false, "honoured" = true),
    choice!("avic-enable-clean-bit",
        "the clean bit that covers AVIC's two enable bits, where clean bits are honoured",
        "APM2 \"VMCB State Caching\" names their dword for one bit and AVIC for the other",
        svm.avic_enable_clean_bit: "interrupt-control" = EnableCleanBit::InterruptControl,
        "avic" = EnableCleanBit::Avic),
    choice!("idle-hlt-pending",
        "which virtual interrupts keep HLT from the idle HLT intercept",
        "APM2 \"Idle HLT Intercept\" says pending; AVIC's part in it is not told",
        svm.idle_hlt_pending: "deliverable" = IdleHltPending::Deliverable,
        "requested" = IdleHltPending::Requested),
    choice!("ipi-steps",
        "whether other processors run between the steps of an accelerated IPI",
        "of this machine: shows races",
        svm.sends_ipis_in_steps: "together" = false, "apart" = true),
    choice!("x2avic-icr",
        "ICR under x2AVIC: destination at 310h, or 64 bits at 300h",
        "AMD parts split it, which the manual does not say; Linux did not expect it before 6.12",
        svm.avic.x2avic_icr_is_whole: "split" = false, "whole" = true),
    choice!("invalid-targets",
        "what an invalid target means for the valid ones of the same IPI",
        "APM2 \"AVIC IPI Virtualization\" is silent",
        svm.avic.invalid_targets: "refuse-all" = InvalidTargets::RefuseAll,
        "deliver-to-others" = InvalidTargets::DeliverToOthers),
    choice!("logical-exit-index",
        "which table the index of exit 401h points into for a logical xAPIC destination",
        "silent; Linux 6.1 warns unless it is the logical table",
        svm.avic.logical_exit_index: "logical-table" = ExitIndex::LogicalTable,
        "physical-table" = ExitIndex::PhysicalTable),
    choice!("logical-broadcast",
        "whether xAPIC destination FFh is a broadcast in logical mode too",
        "APM2 \"AVIC IPI Virtualization\" does not restrict it",
        svm.avic.logical_all_ones_is_broadcast: "on" = true, "off" = false),
    choice!("empty-destination",
        "an IPI whose logical destination names nobody",
        "APM2 \"AVIC IPI Virtualization\" is silent; KVM takes either",
        svm.avic.empty_destination_exits: "no-exit" = false, "not-running" = true),
    choice!("self-key",
        "what makes an entry of the physical table the sender's own",
        "APM2 \"AVIC IPI Virtualization\" is silent",
        svm.avic.self_key: "apic-id" = SelfKey::ApicId, "backing-page" = SelfKey::BackingPage),
    choice!("deassert",
        "a fixed, edge-triggered IPI whose level bit is clear",
        "APM2 \"AVIC IPI Virtualization\" is silent",
        svm.avic.deassert_is_invalid_type: "sent" = false, "invalid-type" = true),
    choice!("ipi-trigger-mode",
        "the vector's TMR bit in the page of the target of an accelerated IPI",
        "APM2 is silent; KVM clears it when it delivers by software",
        svm.avic.ipi_clears_trigger_mode: "cleared" = true, "kept" = false),
    choice!("icr-busy",
        "the delivery status that exit 401h reports and the page keeps",
        "KVM's selftests call a set bit an erratum of xAVIC",
        svm.avic.leaves_busy_set: "clear" = false, "set" = true),
    choice!("level-eoi-service",
        "the ISR bit of a level-triggered vector at the exit for its EOI",
        "APM2 \"EOI Register\" is silent; KVM ends the highest one that is set",
        svm.avic.level_eoi_clears_in_service: "kept" = false, "cleared" = true),
    choice!("level-eoi-exit",
        "where RIP is at the exit for a level-triggered EOI",
        "APM2's table says trap, its text says fault",
        svm.avic.level_eoi_is_fault: "trap" = false, "fault" = true),
    choice!("task-priority",
        "which task priority gates delivery while V_TPR and the page disagree",
        "hardware was seen to use V_TPR; APM2 \"TPR Register\" reads as the page",
        svm.avic.priority_threshold: "virtual" = PriorityThreshold::VirtualTaskPriority,
        "page" = PriorityThreshold::Page, "higher" = PriorityThreshold::Higher),
    choice!("irregular-write",
        "a write to the APIC page that is not an aligned dword",
        "APM2 \"AVIC Backing Page\" is silent",
        svm.avic.irregular_write: "fault" = IrregularAccess::Fault, "memory" = IrregularAccess::Memory),
    choice!("irregular-read",
        "a read from the APIC page that is not an aligned dword",
        "APM2 \"AVIC Backing Page\" is silent",
        svm.avic.irregular_read: "memory" = IrregularAccess::Memory, "fault" = IrregularAccess::Fault),
    choice!("read-only-msr-write",
        "WRMSR to a read-only x2APIC register that no intercept catches",
        "APM2 orders the checks in two ways",
        svm.avic.read_only_msr_write: "gp" = ReadOnlyMsrWrite::GeneralProtection,
        "exit" = ReadOnlyMsrWrite::NoAcceleration),
    choice!("eoi-read",
        "RDMSR of the EOI register under x2AVIC",
        "write-only by the x2APIC table, readable by AVIC's",
        svm.avic.eoi_read_is_refused: "gp" = true, "zero" = false),
    choice!("doorbell-bits",
        "bits of the doorbell MSR that form the APIC ID; the others must be zero",
        "APM2 names 8, Linux writes up to 12",
        svm.avic.doorbell_id_bits: "12" = 12, "8" = 8, "32" = 32),
    choice!("avic-undelivered",
        "an interrupt of AVIC's whose delivery ends in an exit",
        "APM2 \"AVIC Interrupt Delivery\" is silent; EXITINTINFO holds every other event",
        svm.avic.takes_undelivered_back: "exit-interrupt-info" = false, "requested-again" = true),
    choice!("avic-without-nested-paging",
        "VMRUN of a guest that has AVIC but no nested paging",
        "no rule of APM2 \"Canonicalization and Consistency Checks\" names it",
        svm.avic.needs_nested_paging: "runs" = false, "invalid" = true),
    choice!("ipi-virtualization-alone",
        "which halves of the ICR are virtual by memory where IPI virtualization alone makes them so",
        "SDM3 \"IPI Virtualization\" names both; KVM never has it alone",
        vmx.apicv.ipi_virtualization_alone: "both" = CommandHalves::Both,
        "low" = CommandHalves::Low, "neither" = CommandHalves::Neither),
    choice!("ipi-reserved-bits",
        "an IPI by memory whose ICR has reserved bits set, under IPI virtualization",
        "SDM3 \"APIC-Write Emulation\" lists them for an IPI to the processor itself",
        vmx.apicv.ignores_reserved_command_bits: "exit" = false, "sent" = true),
    choice!("apic-write-busy",
        "the delivery status that the page keeps at an APIC-write exit for the ICR",
        "Linux found it set on some parts, and clears it since 6.6",
        vmx.apicv.leaves_busy_set: "clear" = false, "set" = true),
    choice!("x2apic-hole-read",
        "RDMSR of 800h to 8FFh that is no register, with APIC-register virtualization",
        "SDM3 \"Virtualizing MSR-Based APIC Accesses\" reads as the page for any index",
        vmx.apicv.hole_read: "page" = HoleRead::Page, "gp" = HoleRead::GeneralProtection),
    choice!("posted-request",
        "the new RVI of posted-interrupt processing, where RVI was below a vector in VIRR",
        "SDM3 \"Posted-Interrupt Processing\" takes the maximum; emulators search the page",
        vmx.apicv.posted_request: "maximum" = PostedRequest::Maximum,
        "highest-in-page" = PostedRequest::HighestInPage),
];

impl Variant {
    /// The value that a model's behaviour has.
    pub fn of(&self, behaviour: &Behaviour) -> &'static str {
        self.values[(self.get)(behaviour)]
    }

    fn find(name: &str) -> Result<&'static Self, VariantError> {
        VARIANTS.iter().find(|variant| variant.name == name).ok_or_else(|| {
            let names: Vec<_> = VARIANTS.iter().map(|variant| variant.name).collect();
            VariantError::Unknown(name.to_owned(), names.join(", "))
        })
    }
}

impl Behaviour {
    /// That of a part with these errata.
    pub fn with_errata(numbers: &[u32]) -> Self {
        Self { svm: SvmBehaviour::with_errata(numbers), ..Self::default() }
    }

    /// Takes a choice `NAME=VALUE`, or `NAME` of a switch that is on or off.
    pub fn choose(&mut self, choice: &str) -> Result<(), VariantError> {
        let (name, value) = choice.split_once('=').unwrap_or((choice, "on"));
        let variant = Variant::find(name)?;
        let index = variant.values.iter().position(|known| *known == value);
        let index = index.ok_or_else(|| VariantError::Value {
            name: variant.name,
            value: value.to_owned(),
            values: variant.values.join(", "),
        })?;
        (variant.set)(self, index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_each_switch_is_the_default_and_every_value_can_be_chosen() {
        let default = Behaviour::default();
        for variant in VARIANTS {
            assert_eq!((variant.get)(&default), 0, "{}", variant.name);
            for (index, value) in variant.values.iter().enumerate() {
                let mut behaviour = default;
                behaviour.choose(&format!("{}={value}", variant.name)).expect(value);
                assert_eq!((variant.get)(&behaviour), index, "{}={value}", variant.name);
                assert_eq!(behaviour == default, index == 0, "{}={value}", variant.name);
            }
        }
    }

    #[test]
    fn a_bare_name_turns_a_switch_on() {
        let mut behaviour = Behaviour::default();
        behaviour.choose("erratum-1235").expect("a switch that is on or off");
        assert!(behaviour.svm.avic.erratum_1235);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_and_an_unknown_value_with_the_values() {
        let mut behaviour = Behaviour::default();
        let error = behaviour.choose("erratum-1").expect_err("unknown").to_string();
        assert!(error.contains("erratum-1235") && error.contains("doorbell-bits"), "{error}");
        for choice in ["doorbell-bits=9", "task-priority", "task-priority="] {
            let error = behaviour.choose(choice).expect_err(choice).to_string();
            assert!(error.contains("must be one of"), "{error}");
        }
        assert_eq!(behaviour, Behaviour::default());
    }
}
