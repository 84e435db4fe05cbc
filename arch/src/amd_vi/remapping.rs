//! Interrupt remapping table entries. [IOMMU "Interrupt Remapping Tables"]

use crate::address::SystemPhysical;
use crate::apic::DestinationMode;
use crate::identity::ApicId;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of a [`LegacyEntry`].
pub const LEGACY_SIZE: u64 = 4;
/// Bytes of a [`RemappedEntry`] and of a [`GuestEntry`].
pub const WIDE_SIZE: u64 = 16;
/// Bits of a message's data that select the entry: 2,048.
pub const INDEX: u32 = 0x7FF;

/// What a remapped interrupt becomes. [IOMMU "Interrupt Remapping Table Fields"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "IntType")]
pub enum InterruptType {
    /// 0
    Fixed,
    /// 1: lowest priority
    Arbitrated,
    /// 2–7
    Reserved(u8),
}

impl InterruptType {
    /// Decodes the three-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Fixed,
            1 => Self::Arbitrated,
            other => Self::Reserved(other),
        }
    }

    /// The three bits 4:2.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::Fixed => 0,
            Self::Arbitrated => 1,
            Self::Reserved(bits) => bits,
        }
    }
}

/// An entry of 32 bits. [IOMMU "Interrupt Remapping Table Entry — Basic Format"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IRTE")]
pub struct LegacyEntry {
    /// `[0]` RemapEn: without it the interrupt is aborted
    pub is_enabled: bool,
    /// `[1]` SupIOPF: a fault of this entry is not logged
    pub suppresses_fault: bool,
    /// `[4:2]`
    #[bits(3)]
    pub kind: InterruptType,
    /// `[5]` RqEoi
    pub requests_eoi: bool,
    /// `[6]` DM
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[7]` must be zero
    pub is_guest: bool,
    /// `[15:8]`
    pub destination: u8,
    /// `[23:16]`
    pub vector: u8,
    __: u8,
}

/// An entry of 128 bits that makes another interrupt of the processors'.
/// [IOMMU "Interrupt Remapping Table Entry — Guest Virtual APIC Disabled"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IRTE")]
pub struct RemappedEntry {
    /// `[0]` RemapEn: without it the interrupt is aborted
    pub is_enabled: bool,
    /// `[1]` SupIOPF: a fault of this entry is not logged
    pub suppresses_fault: bool,
    /// `[4:2]`
    #[bits(3)]
    pub kind: InterruptType,
    /// `[5]` RqEoi
    pub requests_eoi: bool,
    /// `[6]` DM
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[7]` the entry is a [`GuestEntry`]
    pub is_guest: bool,
    /// `[31:8]` bits 23:0; only the lowest eight count without XTEn
    #[bits(24)]
    pub destination_low: u32,
    /// `[63:32]`
    __: u32,
    /// `[71:64]`
    pub vector: u8,
    #[bits(48)]
    __: u64,
    /// `[127:120]` bits 31:24; must be zero without XTEn
    pub destination_high: u8,
}

impl RemappedEntry {
    /// All 32 bits.
    pub const fn destination(self) -> u32 {
        (self.destination_high() as u32) << 24 | self.destination_low()
    }

    /// Both parts of it.
    pub const fn with_destination(self, destination: u32) -> Self {
        self.with_destination_low(destination & 0xFF_FFFF)
            .with_destination_high((destination >> 24) as u8)
    }
}

/// An entry of 128 bits that posts to a guest's virtual APIC. The IOMMU may keep it, but for
/// [`Self::is_running`], destination, tag, [`Self::logs`] and bit 5, which it reads for each
/// interrupt. [IOMMU "Interrupt Remapping Table Entry — Guest Virtual APIC Enabled"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IRTE")]
pub struct GuestEntry {
    /// `[0]` RemapEn: without it the interrupt is aborted
    pub is_enabled: bool,
    /// `[1]` SupIOPF: a fault of this entry is not logged
    pub suppresses_fault: bool,
    /// `[2]` GALogIntr: a vCPU that does not run is logged
    #[doc(alias = "GALogIntr")]
    pub logs: bool,
    #[bits(2)]
    __: u8,
    /// `[5]` GAPPIDis
    pub posts_no_physical_interrupt: bool,
    /// `[6]` IsRun: the destination is told by a doorbell
    #[doc(alias = "IsRun")]
    pub is_running: bool,
    /// `[7]` GuestMode
    #[doc(alias = "GuestMode")]
    pub is_guest: bool,
    /// `[31:8]` bits 23:0 of the core that the vCPU runs on
    #[bits(24)]
    pub destination_low: u32,
    /// `[63:32]` what the log says of whom to wake
    #[doc(alias = "GATag")]
    pub tag: u32,
    /// `[71:64]` as the guest has it
    pub vector: u8,
    #[bits(4)]
    __: u8,
    /// `[115:76]` of the vCPU's backing page
    #[bits(40)]
    #[doc(alias = "virtual APIC root pointer")]
    pub backing_frame: u64,
    #[bits(4)]
    __: u8,
    /// `[127:120]` bits 31:24 of the core
    pub destination_high: u8,
}

impl GuestEntry {
    /// What the IOMMU must read for each interrupt: GALogIntr, GAPPIDis, IsRun, destination, tag.
    pub const NEVER_CACHED: u128 =
        0xFF00_0000_0000_0000_0000_0000_0000_0000 | 0xFFFF_FFFF_FFFF_FF64;

    /// The core that the vCPU runs on.
    pub const fn destination(self) -> ApicId {
        ApicId((self.destination_high() as u32) << 24 | self.destination_low())
    }

    /// Both parts of it.
    pub const fn with_destination(self, core: ApicId) -> Self {
        self.with_destination_low(core.0 & 0xFF_FFFF).with_destination_high((core.0 >> 24) as u8)
    }

    /// The vCPU's page of APIC registers.
    pub const fn backing_page(self) -> SystemPhysical {
        SystemPhysical(self.backing_frame() << 12)
    }

    /// Bits 51:12 of `page`; the others are dropped.
    pub const fn with_backing_page(self, page: SystemPhysical) -> Self {
        self.with_backing_frame((page.0 & super::ADDRESS) >> 12)
    }
}
