//! What can be wrong, and how a vector came to where it waits.

use serde::{Deserialize, Serialize};

/// Which rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A vCPU that halted has an interrupt that it would take, and nobody wakes it: its processor
    /// is idle.
    Asleep,
    /// A guest runs on and does not take an interrupt that its virtual APIC has for it.
    NotTaken,
    /// A vCPU that is asleep is said to run: who interrupts it rings a doorbell that nobody hears.
    SaidToRun,
    /// The host's kernel complains.
    Console,
    /// A vCPU halts outside of any handler, and an interrupt of its is still in service: its end is
    /// lost, and none of its class comes again.
    InService,
    /// The guest ends, which it never does by itself.
    Ended,
    /// An interrupt that was sent is not taken, and the guest itself says so.
    Lost,
    /// An interrupt is taken that nobody sent, or more than once, and the guest itself says so.
    Unasked,
    /// A vCPU that is in its guest is said to run on another processor: who interrupts it rings a
    /// doorbell there.
    Elsewhere,
}

impl Rule {
    /// In the order of their values.
    pub const ALL: [Self; 9] = [
        Self::Asleep,
        Self::NotTaken,
        Self::SaidToRun,
        Self::Console,
        Self::InService,
        Self::Ended,
        Self::Lost,
        Self::Unasked,
        Self::Elsewhere,
    ];

    /// For names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::NotTaken => "not-taken",
            Self::SaidToRun => "said-to-run",
            Self::Console => "console",
            Self::InService => "in-service",
            Self::Ended => "ended",
            Self::Lost => "lost",
            Self::Unasked => "unasked",
            Self::Elsewhere => "elsewhere",
        }
    }

    /// For readers.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Asleep => "a vCPU sleeps although an interrupt waits for it",
            Self::NotTaken => "a vCPU runs and does not take an interrupt that waits for it",
            Self::SaidToRun => "a vCPU that sleeps is said to run",
            Self::Console => "the kernel complains",
            Self::InService => "a vCPU sleeps and has not ended an interrupt",
            Self::Ended => "the guest ends",
            Self::Lost => "an interrupt that was sent never comes",
            Self::Unasked => "a vCPU takes an interrupt that nobody sent to it",
            Self::Elsewhere => "a vCPU that runs is said to run on another processor",
        }
    }
}

/// How a vector came to where a vCPU finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By software: nobody posted it.
    Software,
    /// By an IPI of a guest to an APIC ID, which the processor delivers.
    Physical,
    /// The same to a logical destination.
    Logical,
    /// The same with a shorthand.
    Shorthand,
    /// By an IOMMU.
    Device,
}

impl Way {
    /// For names.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Physical => "physical",
            Self::Logical => "logical",
            Self::Shorthand => "shorthand",
            Self::Device => "device",
        }
    }

    /// For readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "set by software",
            Self::Physical => "sent by an IPI to an APIC ID",
            Self::Logical => "sent by an IPI to a logical destination",
            Self::Shorthand => "sent by an IPI with a shorthand",
            Self::Device => "posted by the IOMMU",
        }
    }
}
