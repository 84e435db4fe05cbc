//! KVM's reasons to switch AVIC and APICv off for a virtual machine, and which of them a configuration causes.
//!
//! The reasons and their numbers are `enum kvm_apicv_inhibit` of Linux (`arch/x86/include/asm/kvm_host.h`,
//! since 7.3 `arch/x86/kvm/x86.h`); which vendor honours which is `kvm_amd`'s and `kvm_intel`'s set of required
//! inhibits. Module parameters and CPU features are the host's, not the configuration's, and are left to `check`.

mod numbering;
mod predict;
#[cfg(test)]
mod tests;

pub use numbering::{NumberingRow, numbering, numbering_rows, reason_of_bit};
pub use predict::{Certainty, Duration, PredictedInhibit, predict, since};

use serde::Serialize;
use std::fmt;

/// Whose silicon, and so whose KVM module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    Amd,
    Intel,
}

impl Vendor {
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd => "AMD",
            Self::Intel => "Intel",
        }
    }

    /// The feature an inhibit takes away.
    pub fn feature(self) -> &'static str {
        match self {
            Self::Amd => "AVIC",
            Self::Intel => "APICv",
        }
    }
}

/// A reason by name; numbers differ between kernels ([`numbering`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InhibitReason {
    /// Module parameter, or the CPU lacks it. Called DISABLE before 6.11.
    Disabled,
    /// A synthetic interrupt of Hyper-V uses AutoEOI.
    Hyperv,
    /// No local APIC in the kernel (yet).
    Absent,
    /// A debugger blocks interrupts.
    Blockirq,
    PhysicalIdAliased,
    ApicIdModified,
    ApicBaseModified,
    /// A vCPU runs a nested guest (before 5.19: may run one).
    Nested,
    /// An interrupt of the 8259 waits for a window.
    Irqwin,
    /// The in-kernel PIT reinjects missed ticks.
    PitReinj,
    Sev,
    /// The guest may use x2APIC, and AVIC knows only xAPIC (5.7 to 5.19).
    X2apic,
    LogicalIdAliased,
    /// A vCPU's identifier does not fit the physical APIC ID table.
    PhysicalIdTooBig,
}

impl InhibitReason {
    /// The kernel's name without its prefix, as its tracepoint prints it from 6.11 on.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Hyperv => "HYPERV",
            Self::Absent => "ABSENT",
            Self::Blockirq => "BLOCKIRQ",
            Self::PhysicalIdAliased => "PHYSICAL_ID_ALIASED",
            Self::ApicIdModified => "APIC_ID_MODIFIED",
            Self::ApicBaseModified => "APIC_BASE_MODIFIED",
            Self::Nested => "NESTED",
            Self::Irqwin => "IRQWIN",
            Self::PitReinj => "PIT_REINJ",
            Self::Sev => "SEV",
            Self::X2apic => "X2APIC",
            Self::LogicalIdAliased => "LOGICAL_ID_ALIASED",
            Self::PhysicalIdTooBig => "PHYSICAL_ID_TOO_BIG",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim();
        let name = name.strip_prefix("APICV_INHIBIT_REASON_").unwrap_or(name);
        let name = if name == "DISABLE" { "DISABLED" } else { name };
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Whether this vendor's module honours the reason at all.
    pub fn applies_to(self, vendor: Vendor) -> bool {
        match self {
            Self::Nested
            | Self::Irqwin
            | Self::PitReinj
            | Self::Sev
            | Self::X2apic
            | Self::LogicalIdAliased
            | Self::PhysicalIdTooBig => vendor == Vendor::Amd,
            _ => true,
        }
    }

    pub const ALL: [Self; 14] = [
        Self::Disabled,
        Self::Hyperv,
        Self::Absent,
        Self::Blockirq,
        Self::PhysicalIdAliased,
        Self::ApicIdModified,
        Self::ApicBaseModified,
        Self::Nested,
        Self::Irqwin,
        Self::PitReinj,
        Self::Sev,
        Self::X2apic,
        Self::LogicalIdAliased,
        Self::PhysicalIdTooBig,
    ];
}

impl fmt::Display for InhibitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
