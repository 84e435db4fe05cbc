//! What an arm between the first and the last of an experiment found: part of the features on.
//!
//! The first and the last stand side by side in [`crate::comparison`]; each arm between them says
//! what the features that it has do alone, and so which of them the difference comes from.

use super::agreement::Agreement;
use super::per_ipi::ExitsPerIpi;
use crate::drive::counters::Count;
use crate::workload::figure::Figure;
use serde::Serialize;

/// An arm between the first and the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Between {
    /// Its label.
    pub arm: String,
    /// By reason, the most frequent first; the same scope as that of the comparison.
    pub exits: Vec<ArmExits>,
    /// What the guest measured.
    pub measures: Vec<Figure>,
    /// Where software counted as well.
    pub agreement: Option<Agreement>,
    /// Where the guest says how many IPIs it sent.
    pub exits_per_ipi: Option<ExitsPerIpi>,
}

/// Exits of one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArmExits {
    /// The exit code, or the exit-reason field.
    pub code: u64,
    /// As KVM's tracepoints spell it.
    pub name: String,
    /// How many there were, and what they took.
    pub count: Count,
}

impl Between {
    /// Exits of all reasons.
    pub fn total(&self) -> u64 {
        self.exits.iter().map(|row| row.count.exits).sum()
    }

    /// Change of the number of exits from the first arm's, in percent; None if that had none.
    pub fn change(&self, first: u64) -> Option<f64> {
        (first > 0).then(|| (self.total() as f64 - first as f64) / first as f64 * 100.0)
    }
}
