//! Virtual-machine extensions: the VMCS, controls and their capabilities, exits, EPT.
//! [SDM3 "Introduction to Virtual Machine Extensions"]
//!
//! TDX, SEAM, SGX and FRED have names for their controls, exits and fields here where software
//! prints or enumerates them; their behaviour is not modelled anywhere.

pub mod apicv;
pub mod capability;
pub mod consistency;
pub mod control;
pub mod ept;
pub mod error;
pub mod event;
pub mod exit;
pub mod field;
pub mod instruction;
pub mod msr;
pub mod qualification;
pub mod requirement;
pub mod segment;

#[cfg(test)]
mod tests;

pub use capability::VmxCapabilities;
pub use control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
    VmFunctions,
};
pub use error::{AbortCode, InstructionError};
pub use event::{InterruptionInfo, InterruptionType};
pub use exit::ExitReason;
pub use field::Field;
