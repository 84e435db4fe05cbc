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
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl FunctionAddress {
    pub const fn new(bus: u8, device: u8, function: u8) -> Self {
        Self { bus, device: device & 31, function: function & 7 }
    }

    /// The identifier that the function's own accesses carry.
    pub const fn requester(self) -> RequesterId {
        RequesterId(
            (self.bus as u16) << 8 | (self.device as u16 & 31) << 3 | self.function as u16 & 7,
        )
    }

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
    pub const VENDOR: u16 = 0x00;
    pub const DEVICE: u16 = 0x02;
    pub const COMMAND: u16 = 0x04;
    pub const STATUS: u16 = 0x06;
    pub const REVISION: u16 = 0x08;
    pub const PROGRAMMING_INTERFACE: u16 = 0x09;
    pub const SUBCLASS: u16 = 0x0A;
    pub const CLASS: u16 = 0x0B;
    pub const CACHE_LINE_SIZE: u16 = 0x0C;
    pub const LATENCY_TIMER: u16 = 0x0D;
    pub const HEADER_TYPE: u16 = 0x0E;
    /// The first of six base address registers.
    pub const BASE_ADDRESS: u16 = 0x10;
    pub const SUBSYSTEM_VENDOR: u16 = 0x2C;
    pub const SUBSYSTEM: u16 = 0x2E;
    pub const EXPANSION_ROM: u16 = 0x30;
    pub const CAPABILITIES: u16 = 0x34;
    pub const INTERRUPT_LINE: u16 = 0x3C;
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
        const IO_SPACE = 1 << 0;
        const MEMORY_SPACE = 1 << 1;
        const BUS_MASTER = 1 << 2;
        const PARITY_ERROR_RESPONSE = 1 << 6;
        const SERR = 1 << 8;
        const INTERRUPT_DISABLE = 1 << 10;
    }
}

bitflags! {
    /// Status register, offset 06h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Status: u16 {
        const INTERRUPT = 1 << 3;
        const CAPABILITIES = 1 << 4;
        const RECEIVED_MASTER_ABORT = 1 << 13;
    }
}

/// Capability identifiers. [PCI "Capability IDs"]
pub mod capability {
    pub const MSI: u8 = 0x05;
    pub const VENDOR: u8 = 0x09;
    pub const SECURE_DEVICE: u8 = 0x0F;
    pub const EXPRESS: u8 = 0x10;
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

/// Class and subclass codes of what a board carries.
pub mod class {
    pub const HOST_BRIDGE: u16 = 0x0600;
    pub const ISA_BRIDGE: u16 = 0x0601;
    pub const SMBUS: u16 = 0x0C05;
    pub const IOMMU: u16 = 0x0806;
    pub const MASS_STORAGE: u16 = 0x0180;
    pub const ETHERNET: u16 = 0x0200;
    pub const COMMUNICATION: u16 = 0x0780;
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
    fn configuration_address_decodes_as_mechanism_1_lays_it_out() {
        let address = ConfigurationAddress::from_bits(0x8001_A364);
        assert!(address.is_enabled());
        assert_eq!((address.bus(), address.device(), address.function()), (1, 0x14, 3));
        assert_eq!(address.register(), 0x64 / 4);
    }
}
