//! What follows a virtualized write.

use super::{ApicvExit, IpiSend};

/// What follows a virtualized write, once the operation that it was part of is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Nothing that leaves the guest; whether an interrupt is recognized may have changed.
    Done,
    /// An IPI to another vCPU: see [`IpiSend`].
    Send(IpiSend),
    /// A VM exit of APIC virtualization, behind the instruction.
    Exit(ApicvExit),
}

impl From<Option<ApicvExit>> for Completion {
    fn from(exit: Option<ApicvExit>) -> Self {
        exit.map_or(Self::Done, Self::Exit)
    }
}
