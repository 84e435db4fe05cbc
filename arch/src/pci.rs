//! PCI facts: addresses of functions, the configuration header, capabilities, MSI and MSI-X.
//! [PCI "Configuration Space"] [PCIE "Configuration Space"]

use crate::address::SystemPhysical;
use crate::identity::RequesterId;
use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// Where a function sits: bus, device (0–31), function (0–7).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[doc(alias = "BDF")]
pub struct FunctionAddress {
    /// 0–255.
    pub bus: u8,
    /// 0–31.
    pub device: u8,
    /// 0–7.
    pub function: u8,
}

impl FunctionAddress {
    /// Bits of `device` and `function` beyond their widths are dropped.
    pub const fn new(bus: u8, device: u8, function: u8) -> Self {
        Self { bus, device: device & 31, function: function & 7 }
    }

    /// The identifier that the function's own accesses carry.
    pub const fn requester(self) -> RequesterId {
        RequesterId(
            (self.bus as u16) << 8 | (self.device as u16 & 31) << 3 | self.function as u16 & 7,
        )
    }

    /// Bits 15:8 are the bus, 7:3 the device, 2:0 the function.
    pub const fn from_requester(requester: RequesterId) -> Self {
        Self::new((requester.0 >> 8) as u8, (requester.0 >> 3) as u8, requester.0 as u8)
    }

    /// Splits an offset into the memory-mapped configuration window: function and register.
    pub const fn from_window_offset(offset: u64) -> (Self, u16) {
        (
            Self::new((offset >> 20) as u8, (offset >> 15) as u8, (offset >> 12) as u8),
            (offset & 0xFFF) as u16,
        )
    }

    /// Where the function's 4 KiB lie in a configuration window that starts at `base`.
    pub const fn in_window(self, base: SystemPhysical) -> SystemPhysical {
        SystemPhysical(base.0 + ((self.requester().0 as u64) << 12))
    }
}

impl core::fmt::Display for FunctionAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus, self.device, self.function)
    }
}

/// CONFIG_ADDRESS, port CF8h. [PCI "Configuration Mechanism #1"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationAddress {
    #[bits(2)]
    _reserved: u8,
    /// [7:2] Register, in double words.
    #[bits(6)]
    pub register: u8,
    /// [10:8]
    #[bits(3)]
    pub function: u8,
    /// [15:11]
    #[bits(5)]
    pub device: u8,
    /// [23:16]
    pub bus: u8,
    #[bits(7)]
    _reserved: u8,
    /// [31] Accesses to CFCh reach configuration space.
    pub is_enabled: bool,
}

/// Offsets of the type 0 header.
pub mod header {
    /// Who made the function; FFFFh where there is none.
    pub const VENDOR: u16 = 0x00;
    /// What it is, by its vendor's numbers.
    pub const DEVICE: u16 = 0x02;
    /// See [`super::Command`].
    pub const COMMAND: u16 = 0x04;
    /// See [`super::Status`].
    pub const STATUS: u16 = 0x06;
    /// By its vendor's numbers.
    pub const REVISION: u16 = 0x08;
    /// The register-level interface, within the subclass.
    pub const PROGRAMMING_INTERFACE: u16 = 0x09;
    /// Low byte of the codes in [`super::class`].
    pub const SUBCLASS: u16 = 0x0A;
    /// High byte of the codes in [`super::class`].
    pub const CLASS: u16 = 0x0B;
    /// In dwords.
    pub const CACHE_LINE_SIZE: u16 = 0x0C;
    /// In bus clocks; no meaning in PCI Express.
    pub const LATENCY_TIMER: u16 = 0x0D;
    /// Bits 6:0: 0 is the layout described here; bit 7 is [`MULTI_FUNCTION`].
    pub const HEADER_TYPE: u16 = 0x0E;
    /// The first of six base address registers.
    pub const BASE_ADDRESS: u16 = 0x10;
    /// Who made the board that carries the function.
    pub const SUBSYSTEM_VENDOR: u16 = 0x2C;
    /// By the numbers of the subsystem's vendor.
    pub const SUBSYSTEM: u16 = 0x2E;
    /// Base address of an image, enabled by bit 0.
    pub const EXPANSION_ROM: u16 = 0x30;
    /// Offset of the first capability; each one names the next, 0 ends the list.
    pub const CAPABILITIES: u16 = 0x34;
    /// For software to note the line in; the function does not look at it.
    pub const INTERRUPT_LINE: u16 = 0x3C;
    /// 1–4 are INTA–INTD, 0 is none.
    pub const INTERRUPT_PIN: u16 = 0x3D;
    /// The first byte that capabilities may use.
    pub const FIRST_CAPABILITY: u16 = 0x40;
    /// Header type: the device has more functions than this one.
    pub const MULTI_FUNCTION: u8 = 0x80;
}

bitflags! {
    /// Command register, offset 04h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Command: u16 {
        /// Accesses to the function's I/O ranges are answered.
        const IO_SPACE = 1 << 0;
        /// Accesses to the function's memory ranges are answered.
        const MEMORY_SPACE = 1 << 1;
        /// The function may access memory, and so send messages.
        const BUS_MASTER = 1 << 2;
        /// Parity errors are reported and not ignored.
        const PARITY_ERROR_RESPONSE = 1 << 6;
        /// SERR# may be driven.
        const SERR = 1 << 8;
        /// No INTx; messages are not concerned.
        const INTERRUPT_DISABLE = 1 << 10;
    }
}

bitflags! {
    /// Status register, offset 06h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Status: u16 {
        /// INTx is wanted, whether or not [`Command::INTERRUPT_DISABLE`] holds it back.
        const INTERRUPT = 1 << 3;
        /// There is a list at [`header::CAPABILITIES`].
        const CAPABILITIES = 1 << 4;
        /// Write-1-clear: nobody answered an access of the function.
        const RECEIVED_MASTER_ABORT = 1 << 13;
    }
}

/// Capability identifiers. [PCI "Capability IDs"]
pub mod capability {
    /// [`super::MsiControl`] and what follows.
    pub const MSI: u8 = 0x05;
    /// Of the vendor's own layout; virtio's structures.
    pub const VENDOR: u8 = 0x09;
    /// AMD's IOMMU.
    pub const SECURE_DEVICE: u8 = 0x0F;
    /// PCI Express.
    pub const EXPRESS: u8 = 0x10;
    /// [`super::MsixControl`] and what follows.
    pub const MSI_X: u8 = 0x11;
}

/// MSI message control. [PCI "Message Control for MSI"]
#[bitfield(u16)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct MsiControl {
    /// [0]
    pub is_enabled: bool,
    /// [3:1] log2 of the vectors the function asks for.
    #[bits(3)]
    pub capable: u8,
    /// [6:4] log2 of the vectors it was given.
    #[bits(3)]
    pub granted: u8,
    /// [7] A 64-bit message address.
    pub is_64_bit: bool,
    /// [8] Mask and pending bits per vector.
    pub is_maskable: bool,
    #[bits(7)]
    _reserved: u8,
}

/// MSI-X message control. [PCI "Message Control for MSI-X"]
#[bitfield(u16)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct MsixControl {
    /// [10:0] Entries in the table, less one.
    #[bits(11)]
    pub last_entry: u16,
    #[bits(3)]
    _reserved: u8,
    /// [14] All vectors are masked, whatever their own mask bits say.
    pub is_function_masked: bool,
    /// [15]
    pub is_enabled: bool,
}

/// Where an MSI-X table or its pending bits are: the double words behind [`MsixControl`], the
/// table's first. [PCI "Table Offset/Table BIR for MSI-X"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct MsixPlace {
    /// [2:0] Number of the base address register whose region holds it (BIR).
    #[bits(3)]
    pub region: u8,
    /// [31:3] Offset in that region, in units of eight bytes.
    #[bits(29)]
    pub eights: u32,
}

impl MsixPlace {
    /// Offset in the region, in bytes.
    pub const fn offset(self) -> u32 {
        self.eights() << 3
    }
}

/// Offsets in the MSI-X capability. [PCI "MSI-X Capability and Table Structure"]
pub mod msix {
    /// [`super::MsixControl`].
    pub const CONTROL: u16 = 2;
    /// [`super::MsixPlace`] of the table.
    pub const TABLE: u16 = 4;
    /// [`super::MsixPlace`] of the pending bits.
    pub const PENDING: u16 = 8;
    /// Bytes of a table entry.
    pub const ENTRY: u64 = 16;
}

/// Low bits of a base address register. [PCI "Base Address Registers"]
pub mod base_address {
    /// The region is among the ports.
    pub const IO: u32 = 1 << 0;
    /// Which addresses a memory region can have.
    pub const WIDTH: u32 = 0b11 << 1;
    /// [`WIDTH`] of a region that can be anywhere, and whose register is the next one, too.
    pub const WIDTH_64: u32 = 0b10 << 1;
}

/// The PCI Express capability. [PCIE "PCI Express Capability Structure"]
pub mod express {
    /// Bytes of the structure, version 2, with its identifier and link.
    pub const SIZE: usize = 0x3C;
    /// PCI Express Capabilities: version 2, an endpoint that is part of the root complex.
    pub const INTEGRATED_ENDPOINT: u16 = 0x0092;
    /// Offset of Device Capabilities.
    pub const DEVICE_CAPABILITIES: u16 = 0x04;
    /// Device Capabilities, bit 28: the function can be reset by itself. Bit 15, role-based error
    /// reporting, is always set.
    pub const FUNCTION_LEVEL_RESET: u32 = 1 << 28 | 1 << 15;
    /// Offset of Device Control.
    pub const DEVICE_CONTROL: u16 = 0x08;
    /// Device Control, bit 15: a one resets the function; reads 0.
    pub const INITIATE_RESET: u16 = 1 << 15;
}

/// Class and subclass codes of what a board carries.
pub mod class {
    /// Of a bus hierarchy's root.
    pub const HOST_BRIDGE: u16 = 0x0600;
    /// The LPC bridge, with the legacy devices behind it.
    pub const ISA_BRIDGE: u16 = 0x0601;
    /// System management bus.
    pub const SMBUS: u16 = 0x0C05;
    /// AMD's I/O memory management unit.
    pub const IOMMU: u16 = 0x0806;
    /// Of no standard interface.
    pub const MASS_STORAGE: u16 = 0x0180;
    /// A controller of non-volatile memory; NVM Express is one of its interfaces.
    pub const NON_VOLATILE_MEMORY: u16 = 0x0108;
    /// A network adapter.
    pub const ETHERNET: u16 = 0x0200;
    /// Of no standard interface.
    pub const COMMUNICATION: u16 = 0x0780;
    /// No class of the list fits.
    pub const UNDEFINED: u16 = 0x00FF;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_address_survives_each_of_its_encodings() {
        for (address, requester) in [
            (FunctionAddress::new(0, 0, 0), 0),
            (FunctionAddress::new(0, 0x14, 0), 0x00A0),
            (FunctionAddress::new(0, 0x1F, 7), 0x00FF),
            (FunctionAddress::new(0xFF, 1, 2), 0xFF0A),
        ] {
            assert_eq!(address.requester(), RequesterId(requester));
            assert_eq!(FunctionAddress::from_requester(RequesterId(requester)), address);
            let at = address.in_window(SystemPhysical(0xE000_0000)).0 - 0xE000_0000;
            assert_eq!(FunctionAddress::from_window_offset(at + 0x123), (address, 0x123));
        }
    }

    #[test]
    fn an_msix_place_is_a_region_and_an_offset_of_eight_bytes_or_a_multiple() {
        let place = MsixPlace::from_bits(0x0000_2003);
        assert_eq!((place.region(), place.offset()), (3, 0x2000));
        assert_eq!(MsixPlace::new().with_region(3).with_eights(0x400), place);
    }

    #[test]
    fn configuration_address_decodes_as_mechanism_1_lays_it_out() {
        let address = ConfigurationAddress::from_bits(0x8001_A364);
        assert!(address.is_enabled());
        assert_eq!((address.bus(), address.device(), address.function()), (1, 0x14, 3));
        assert_eq!(address.register(), 0x64 / 4);
    }
}
