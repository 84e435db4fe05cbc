//! The ends of a run.

use arch::identity::CpuIndex;
use serde::{Deserialize, Serialize};

/// Why the computer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The guest switched the machine off.
    PowerOff,
    /// The guest asked for a reset.
    Reset,
    /// The value that the guest wrote to the debug-exit port.
    DebugExit(u32),
    /// A processor shut down after a triple fault.
    TripleFault(CpuIndex),
    /// Every processor waits, and nothing that could wake one is on its way.
    Deadlock,
}
