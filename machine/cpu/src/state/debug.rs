//! The debug registers. [APM2 "Software-Debug Resources"]

use arch::control::debug;
use serde::{Deserialize, Serialize};

/// Breakpoints, and traps that wait for the end of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debug {
    /// Linear addresses of the breakpoints.
    pub dr: [u64; 4],
    pub dr6: u64,
    pub dr7: u64,
    /// What DR6 is going to say at the instruction boundary.
    pub pending: u64,
}

impl Default for Debug {
    fn default() -> Self {
        Self { dr: [0; 4], dr6: debug::DR6_RESET, dr7: debug::DR7_RESET, pending: 0 }
    }
}
