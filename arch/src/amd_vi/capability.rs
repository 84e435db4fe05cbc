//! The capability in the configuration space of the IOMMU's PCI function.
//! [IOMMU "PCI Resources" "IOMMU Capability Block Registers"]

use bitfield_struct::bitfield;

/// Bytes of the capability block.
pub const SIZE: u8 = 0x18;
/// Offset of the lower half of the base address.
pub const BASE_LOW: u16 = 0x04;
/// Offset of the upper half of the base address.
pub const BASE_HIGH: u16 = 0x08;
/// Offset of the range of functions, which current parts leave zero.
pub const RANGE: u16 = 0x0C;
/// Offset of [`Miscellaneous`].
pub const MISCELLANEOUS: u16 = 0x10;
/// [`Header::kind`] of an IOMMU.
pub const KIND: u8 = 3;

/// The first four bytes, the identifier and the link included.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Header {
    /// `[7:0]` [`crate::pci::capability::SECURE_DEVICE`]
    pub id: u8,
    /// `[15:8]` offset of the next capability
    pub next: u8,
    /// `[18:16]` [`KIND`]
    #[bits(3)]
    pub kind: u8,
    /// `[23:19]` 1
    #[bits(5)]
    pub revision: u8,
    /// `[24]` IotlbSup: devices may cache translations (ATS)
    pub supports_remote_tlb: bool,
    /// `[25]` HtTunnel
    pub is_tunnel: bool,
    /// `[26]` NpCache: entries that are not present are cached too; software then flushes after
    /// mapping
    pub caches_absent_entries: bool,
    /// `[27]` EFRSup: [`super::register::EXTENDED_FEATURE`] is there
    pub has_extended_features: bool,
    /// `[28]` CapExt: a second word of [`Miscellaneous`] follows
    pub has_extension: bool,
    #[bits(3)]
    __: u8,
}

/// Lower half of the base address.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct BaseLow {
    /// `[0]` the registers are decoded, and the capability's registers are read-only from then on
    pub is_enabled: bool,
    #[bits(13)]
    __: u16,
    /// `[31:14]` bits 31:14 of the address; those below 19 are zero where there are counters
    #[bits(18)]
    pub address: u32,
}

/// Miscellaneous information 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Miscellaneous {
    /// `[4:0]` the MSI vector of events and completions
    #[bits(5)]
    pub message_number: u8,
    /// `[7:5]` bits of a guest's virtual addresses: 010b is 48
    #[bits(3)]
    pub guest_virtual_size: u8,
    /// `[14:8]` bits of physical addresses
    #[bits(7)]
    pub physical_size: u8,
    /// `[21:15]` bits of devices' addresses
    #[bits(7)]
    pub virtual_size: u8,
    /// `[22]` the address-translation range of HyperTransport is reserved
    pub reserves_ats_range: bool,
    #[bits(4)]
    __: u8,
    /// `[31:27]` the MSI vector of page requests
    #[bits(5)]
    pub page_request_number: u8,
}
