//! AMD's I/O memory management unit: its registers, the tables that it walks in memory, its
//! command and log entries, and the firmware table that announces it. [IOMMU "Architecture"]
//!
//! DEVIATION(IOMMU "I/O Page Tables for Guest Translations"): the fields of guest translation and
//! of peripheral page requests have names in the device table entry and the features, and no types
//! of their own.

pub mod capability;
pub mod command;
pub mod device_table;
pub mod event;
pub mod feature;
pub mod firmware;
pub mod guest_log;
pub mod page;
pub mod register;
pub mod remapping;
#[cfg(test)]
mod tests;

pub use command::Command;
pub use device_table::{DeviceTableEntry, InterruptControl, InterruptHalf, TranslationHalf};
pub use event::{Event, EventFlags, EventKind};
pub use feature::{ExtendedFeatures, ExtendedFeatures2};
pub use guest_log::GuestLogEntry;
pub use page::PageEntry;
pub use register::{Control, Status};
pub use remapping::{GuestEntry, InterruptType, LegacyEntry, RemappedEntry};

/// Bits 51:12 of an address, which tables and pages have.
pub const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;
