//! Exits by reason, side by side.

use crate::drive::counters::{Count, Reason};
use serde::Serialize;

/// Exits of one reason, off and on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExitRow {
    /// The exit code, or the exit-reason field.
    pub code: u64,
    /// As KVM's tracepoints spell it.
    pub name: String,
    /// Waiting, which is not work.
    #[serde(skip)]
    pub is_wait: bool,
    /// None where that side was not run.
    pub off: Option<Count>,
    /// None where that side was not run.
    pub on: Option<Count>,
}

impl ExitRow {
    pub(crate) fn new(reason: Reason, off: Option<Count>, on: Option<Count>) -> Self {
        Self { code: reason.code, name: reason.name(), is_wait: reason.is_wait(), off, on }
    }
}
