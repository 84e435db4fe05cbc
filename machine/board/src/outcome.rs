//! The ends of a run.

use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use arch::vmx::AbortCode;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What kept a VM exit from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// As the VMX-abort indicator has it.
    pub code: AbortCode,
    /// Address of the VMCS.
    pub vmcs: SystemPhysical,
    /// The entry of the MSR list that stopped it, counted from 1; 0 where it was none.
    pub entry: u32,
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VMX abort {}: {}", self.code.into_bits(), self.code.text())?;
        if self.entry != 0 {
            write!(f, ", entry {} of the list", self.entry)?;
        }
        write!(f, " (VMCS at {})", self.vmcs)
    }
}

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
    /// A processor shut down since a VM exit could not be completed. [SDM3 "VMX Aborts"]
    VmxAbort(CpuIndex, Abort),
    /// Every processor waits, and nothing that could wake one is on its way.
    Deadlock,
}
