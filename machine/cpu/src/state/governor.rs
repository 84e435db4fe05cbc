//! What software asks of the core's clock, as it wrote it. Which clock follows is the vendors'.

use serde::{Deserialize, Serialize};

/// Registers that choose a clock; AMD's switch of boosts is in HWCR.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GovernorState {
    /// P-state control of AMD's parts, IA32_PERF_CTL of Intel's.
    pub control: u64,
    /// Intel: HWP chooses, and IA32_PERF_CTL has no effect.
    pub has_hwp: bool,
    /// Intel: what HWP is asked for; `None` is what it is at reset.
    pub hwp_request: Option<u64>,
}
