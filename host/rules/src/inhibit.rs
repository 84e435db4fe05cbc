//! KVM's reasons to switch AVIC and APICv off for a virtual machine, and which of them a
//! configuration causes.
//!
//! The reasons and their numbers are those of `trace::inhibit`; which vendor honours which is
//! `kvm_amd`'s and `kvm_intel`'s set of required inhibits. Module parameters and CPU features are
//! the host's, not the configuration's, and are left to `check`.

mod predict;
#[cfg(test)]
mod tests;

pub use predict::{Certainty, Duration, PredictedInhibit, predict, since};
pub use trace::inhibit::Reason;

use crate::feature::Feature;
use serde::Serialize;

/// Whose silicon, and so whose KVM module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// `kvm_amd` and AVIC.
    Amd,
    /// `kvm_intel` and APICv.
    Intel,
}

impl Vendor {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd => "AMD",
            Self::Intel => "Intel",
        }
    }

    /// The feature an inhibit takes away.
    pub fn feature(self) -> &'static str {
        Feature::of_vendor(self).name()
    }

    /// Whether this vendor's module honours a reason at all.
    pub fn honours(self, reason: Reason) -> bool {
        match self {
            Self::Amd => true,
            Self::Intel => reason.inhibits_apicv(),
        }
    }
}
