//! Entries of the log of interrupts for vCPUs that do not run.
//! [IOMMU "Guest Virtual APIC Log"]

use crate::identity::RequesterId;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of an entry.
pub const ENTRY_SIZE: u64 = 8;

/// One interrupt. [IOMMU "GUEST_NR Entry"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "GA log")]
pub struct GuestLogEntry {
    /// `[31:0]` of the remapping entry
    #[doc(alias = "GATag")]
    pub tag: u32,
    /// `[47:32]` whose interrupt it was
    #[bits(16)]
    pub device: u16,
    #[bits(12)]
    __: u16,
    /// `[63:60]` [`Self::INTERRUPT`]
    #[bits(4)]
    pub kind: u8,
}

impl GuestLogEntry {
    /// GUEST_NR: an interrupt waits for the tagged vCPU.
    pub const INTERRUPT: u8 = 1;

    /// The entry for an interrupt of `device`.
    pub const fn interrupt(device: RequesterId, tag: u32) -> Self {
        Self::new().with_tag(tag).with_device(device.0).with_kind(Self::INTERRUPT)
    }
}
