//! What a processor may do before others are looked at.

use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// A processor's leave to run, up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub cpu: CpuIndex,
    pub until: Picoseconds,
}
