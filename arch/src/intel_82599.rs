//! A virtual function of Intel's 82599 10 GbE controller: registers, descriptors, and the mailbox
//! that it talks to the physical function through. [82599 "Virtual Function Registers"]

pub mod descriptor;
pub mod mailbox;
pub mod register;

/// Vendor and device identifier of a virtual function.
pub const IDENTITY: (u16, u16) = (0x8086, 0x10ED);
/// Of the 82599ES.
pub const REVISION: u8 = 1;
/// The region with the registers, which takes two base address registers.
pub const REGISTERS_BAR: usize = 0;
/// The region with the MSI-X table, which takes two base address registers.
pub const TABLE_BAR: usize = 3;
/// Bytes of either region.
pub const REGION_SIZE: u64 = 0x4000;
/// Entries of the MSI-X table.
pub const VECTORS: usize = 3;
/// Bytes of a descriptor, in either direction and in each of its forms.
pub const DESCRIPTOR_SIZE: u64 = 16;
