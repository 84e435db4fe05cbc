//! The firmware table that announces IOMMUs: IVRS, its blocks and their device entries.
//! [IOMMU "I/O Virtualization ACPI Table"]

use super::feature::{ExtendedFeatures, ExtendedFeatures2};
use crate::identity::RequesterId;
use bitfield_struct::bitfield;

/// Signature of the table.
pub const SIGNATURE: &[u8; 4] = b"IVRS";
/// Revision of a table that has blocks of types 11h and 40h.
pub const REVISION: u8 = 2;
/// Bytes between the common header of ACPI tables and the first block: [`Information`] and eight
/// reserved ones.
pub const HEADER_SIZE: usize = 12;

/// IVinfo, the first dword behind the common header.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
#[doc(alias = "IVinfo")]
pub struct Information {
    /// `[0]` EFRSup: feature fields of blocks count
    pub has_features: bool,
    /// `[1]` memory is protected before an operating system runs
    pub protects_before_boot: bool,
    #[bits(3)]
    __: u8,
    /// `[7:5]` bits of a guest's virtual addresses: 010b is 48
    #[bits(3)]
    pub guest_virtual_size: u8,
    /// `[14:8]`
    #[bits(7)]
    pub physical_size: u8,
    /// `[21:15]`
    #[bits(7)]
    pub virtual_size: u8,
    /// `[22]`
    pub reserves_ats_range: bool,
    #[bits(9)]
    __: u16,
}

/// The type of a block that describes an IOMMU; software takes the highest that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[doc(alias = "IVHD")]
pub enum BlockType {
    /// 24 bytes, features in part.
    Basic = 0x10,
    /// 40 bytes, with copies of both feature registers.
    Extended = 0x11,
    /// As 11h; devices may be named by their ACPI identifiers.
    Mixed = 0x40,
}

/// A block that describes an IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "IVHD")]
pub struct Block {
    /// Its form.
    pub kind: BlockType,
    /// See [`Block::COHERENT`] and what follows it.
    pub flags: u8,
    /// Of the IOMMU itself.
    pub device: RequesterId,
    /// Offset of the capability in its configuration space.
    pub capability: u16,
    /// Address of the registers.
    pub base: u64,
    /// Copied into blocks of types 11h and 40h, in part into those of 10h.
    pub features: ExtendedFeatures,
    /// Copied into blocks of types 11h and 40h.
    pub features2: ExtendedFeatures2,
}

impl Block {
    /// [`Self::flags`] bit 4: IotlbSup.
    pub const REMOTE_TLB: u8 = 1 << 4;
    /// [`Self::flags`] bit 5: tables are read coherently.
    pub const COHERENT: u8 = 1 << 5;

    /// Bytes of the block without its device entries.
    pub const fn header_size(self) -> usize {
        match self.kind {
            BlockType::Basic => 24,
            BlockType::Extended | BlockType::Mixed => 40,
        }
    }

    /// The block without its device entries, which have `entries` bytes; only the first
    /// [`Self::header_size`] of the result count.
    pub fn header(self, entries: usize) -> [u8; 40] {
        let mut bytes = [0; 40];
        let length = (self.header_size() + entries) as u16;
        bytes[0] = self.kind as u8;
        bytes[1] = self.flags;
        bytes[2..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.device.0.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.capability.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        let attributes = match self.kind {
            BlockType::Basic => self.basic_features(),
            BlockType::Extended | BlockType::Mixed => 0,
        };
        bytes[20..24].copy_from_slice(&attributes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.features.into_bits().to_le_bytes());
        bytes[32..40].copy_from_slice(&self.features2.into_bits().to_le_bytes());
        bytes
    }

    /// The feature word of a block of type 10h: XTSup 0, NXSup 1, GTSup 2, GLXSup 4:3, IASup 5,
    /// GASup 6, HESup 7, PASmax 12:8, HATS 31:30, GATS 29:28.
    const fn basic_features(self) -> u32 {
        let features = self.features;
        features.has_x2apic() as u32
            | (features.has_no_execute() as u32) << 1
            | (features.has_guest_translation() as u32) << 2
            | (features.guest_table_levels() as u32) << 3
            | (features.has_invalidate_all() as u32) << 5
            | (features.has_guest_apic() as u32) << 6
            | (features.has_error_registers() as u32) << 7
            | (features.process_bits() as u32) << 8
            | (features.guest_levels() as u32) << 28
            | (features.host_levels() as u32) << 30
    }
}

/// What a special entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Special {
    /// The handle is the I/O APIC's ID.
    IoApic = 1,
    /// The handle is the event timer block's number.
    Hpet = 2,
}

/// Types of device entries; their length is 4 << type\[7:6\].
mod entry {
    pub const RANGE_START: u8 = 3;
    pub const RANGE_END: u8 = 4;
    pub const SPECIAL: u8 = 0x48;
}

/// Entries for all functions from `first` to `last`, with these flags in the device table.
pub const fn range(first: RequesterId, last: RequesterId, flags: u8) -> [u8; 8] {
    let (a, b) = (first.0.to_le_bytes(), last.0.to_le_bytes());
    [entry::RANGE_START, a[0], a[1], flags, entry::RANGE_END, b[0], b[1], 0]
}

/// The entry for what is not a PCI function, and by which name its interrupts come.
pub const fn special(kind: Special, handle: u8, device: RequesterId, flags: u8) -> [u8; 8] {
    let device = device.0.to_le_bytes();
    [entry::SPECIAL, 0, 0, flags, handle, device[0], device[1], kind as u8]
}

/// Flags of device entries: what of the interrupt half firmware asks to be set.
pub mod device_flag {
    /// INITPass
    pub const INIT: u8 = 1 << 0;
    /// EIntPass
    pub const EXT_INT: u8 = 1 << 1;
    /// NMIPass
    pub const NMI: u8 = 1 << 2;
    /// LINT0Pass
    pub const LINT0: u8 = 1 << 6;
    /// LINT1Pass
    pub const LINT1: u8 = 1 << 7;
}
