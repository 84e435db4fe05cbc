//! AVIC and x2AVIC: their tables, their two exits, and what each register of the APIC page does.
//! [APM2 "Advanced Virtual Interrupt Controller"]

mod access;
mod exit;

mod table;

pub use access::{MsrAccess, ReadRule, RegisterRule, WriteRule, msr_access, register, rule};
pub use exit::{IncompleteIpi, IncompleteIpiReason, NoAcceleration};
pub use table::{LogicalEntry, PhysicalEntry, PhysicalTablePointer};

/// Bits 51:12: a page in a table entry or a VMCB pointer.
pub const PAGE_BITS: u64 = 0x000F_FFFF_FFFF_F000;

/// Bytes in a physical table entry.
pub const PHYSICAL_ENTRY_SIZE: u64 = 8;
/// Bytes in a logical table entry.
pub const LOGICAL_ENTRY_SIZE: u64 = 4;

/// The largest legal MAX_INDEX with xAVIC; entry 255 is the broadcast ID and never a destination.
pub const XAVIC_LAST_INDEX: u16 = 255;
/// The largest legal MAX_INDEX with x2AVIC.
pub const X2AVIC_LAST_INDEX: u16 = 511;
/// The largest legal MAX_INDEX with x2AVIC_EXT.
pub const X2AVIC_EXTENDED_LAST_INDEX: u16 = 4095;

/// Interrupt vectors below this one are illegal in an ICR.
pub const FIRST_LEGAL_VECTOR: u8 = 16;
