//! The debug registers. [APM2 "Software-Debug Resources"]

use arch::control::debug;
use serde::{Deserialize, Serialize};

/// Breakpoints, and traps that wait for the end of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debug {
    /// Linear addresses of the breakpoints.
    pub dr: [u64; 4],
    /// What the last debug exception was for.
    pub dr6: u64,
    /// Which breakpoints are on, their kinds and lengths.
    pub dr7: u64,
    /// What DR6 is going to say at the instruction boundary.
    pub pending: u64,
    /// The causes that DR6 was given last, and what it held before: a VM exit in the place of the
    /// exception takes them back.
    pub causes: u64,
    /// What DR6 held before `causes` went in.
    pub before: u64,
}

impl Default for Debug {
    fn default() -> Self {
        Self {
            dr: [0; 4],
            dr6: debug::DR6_RESET,
            dr7: debug::DR7_RESET,
            pending: 0,
            causes: 0,
            before: debug::DR6_RESET,
        }
    }
}

impl Debug {
    /// A debug exception is going to be delivered for `causes`: those of breakpoints replace what
    /// DR6 held, others add to it.
    pub(crate) fn note_causes(&mut self, causes: u64) {
        self.before = self.dr6;
        self.causes = causes;
        let kept = if causes & debug::DR6_GENERAL_DETECT != 0 { self.dr6 } else { self.dr6 & !15 };
        self.dr6 = kept | causes;
    }
}
