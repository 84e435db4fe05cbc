//! The firmware table that announces units: DMAR, its structures and their scopes.
//! [VTD "BIOS Considerations"]

use crate::pci::FunctionAddress;

/// Signature of the table.
pub const SIGNATURE: &[u8; 4] = b"DMAR";
/// Bytes between the common header of ACPI tables and the first structure: address width less one,
/// [`flag`]s and ten reserved ones.
pub const HEADER_SIZE: usize = 12;
/// Bytes of a [`unit`] without its scopes.
pub const UNIT_SIZE: usize = 16;

/// Flags of the table.
pub mod flag {
    /// Interrupts may be remapped.
    pub const INTERRUPT_REMAPPING: u8 = 1 << 0;
    /// Software should not use x2APIC mode.
    pub const X2APIC_OPT_OUT: u8 = 1 << 1;
    /// Memory is to be protected before an operating system runs.
    pub const DMA_OPT_IN: u8 = 1 << 2;
}

/// What a scope names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScopeKind {
    /// A function.
    Endpoint = 1,
    /// All behind a bridge.
    Bridge = 2,
    /// An I/O APIC, by the identifier that the table of processors has.
    IoApic = 3,
    /// An event timer block that sends messages.
    Hpet = 4,
}

/// A structure of type 0: a unit, for all functions that no other unit has.
/// [VTD "DMA Remapping Hardware Unit Definition Structure"]
pub const fn unit(base: u64, scopes: usize) -> [u8; UNIT_SIZE] {
    let length = ((UNIT_SIZE + scopes) as u16).to_le_bytes();
    let b = base.to_le_bytes();
    [0, 0, length[0], length[1], 1, 0, 0, 0, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]
}

/// A scope with a path of one hop. [VTD "Device Scope Structure"]
pub const fn scope(kind: ScopeKind, enumeration: u8, function: FunctionAddress) -> [u8; 8] {
    [kind as u8, 8, 0, 0, enumeration, function.bus, function.device, function.function]
}
