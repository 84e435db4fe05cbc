//! What makes a VMCS field exist. [SDM3 "Field Encoding in VMCS"]

use super::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
};

/// What must hold for a VMCS field to exist: the processor allows a control to be 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Every processor with VMX has it.
    Always,
    /// A pin-based control.
    Pin(PinControls),
    /// A primary processor-based control.
    Primary(PrimaryControls),
    /// A secondary processor-based control.
    Secondary(SecondaryControls),
    /// A tertiary processor-based control.
    Tertiary(TertiaryControls),
    /// A primary VM-exit control.
    Exit(ExitControls),
    /// A VM-entry control.
    Entry(EntryControls),
    /// Either of two.
    EntryOrExit(EntryControls, ExitControls),
    /// A secondary VM-exit control, as its bit.
    SecondaryExit(u64),
    /// The VM function of that name.
    EptpSwitching,
    /// So many CR3-target values at least.
    Cr3Targets(u16),
}
