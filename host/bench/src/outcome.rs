//! How a run ended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The guest switched the machine off.
    PowerOff,
    /// The guest asked for a reset.
    Reset,
    /// The value that the guest wrote to the debug-exit port.
    DebugExit(u32),
    /// A fault that no handler could be reached for.
    TripleFault,
    /// The time that the run may take is over.
    TimeLimit,
    /// The user asked for the end.
    Stopped,
    /// KVM or the guest did what cannot go on.
    Failed(String),
}

/// What a run was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Why it ended.
    pub outcome: Outcome,
    /// Returns from KVM to this process, by reason.
    pub process_exits: BTreeMap<String, u64>,
}
