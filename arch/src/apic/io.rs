//! The I/O APIC: its window, its registers and the redirection entry.
//! [IOAPIC "Memory Mapped Registers for Accessing IOAPIC Registers"]

use super::message::{DeliveryMode, DestinationMode};
use bitfield_struct::bitfield;

/// The memory window, relative to the I/O APIC's base address.
pub mod io_mmio {
    /// Where the first I/O APIC of a board is.
    pub const RESET_ADDRESS: u64 = 0xFEC0_0000;
    /// Selects the register behind [`WINDOW`].
    #[doc(alias = "IOREGSEL")]
    pub const SELECT: u16 = 0x00;
    /// Reads and writes the register that [`SELECT`] names.
    #[doc(alias = "IOWIN")]
    pub const WINDOW: u16 = 0x10;
    /// Takes the vector of a finished level-triggered interrupt; version 20h and later.
    pub const END_OF_INTERRUPT: u16 = 0x40;
}

/// A register behind the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoRegister {
    /// Index 0: the identity, which only an APIC bus used.
    Id,
    /// Index 1: see [`IoVersion`].
    Version,
    /// Index 2: the priority on an APIC bus; read-only.
    Arbitration,
    /// Index 10h + 2n: bits 31:0 of the [`RedirectionEntry`] of pin n.
    RedirectionLow(u8),
    /// Index 11h + 2n: bits 63:32 of the [`RedirectionEntry`] of pin n.
    RedirectionHigh(u8),
}

impl IoRegister {
    /// The register with this index, or `None` where there is none on any I/O APIC. Eight bits of
    /// index reach 120 pins; the 240 that the version register allows need nine.
    pub const fn at(index: u16) -> Option<Self> {
        Some(match index {
            0 => Self::Id,
            1 => Self::Version,
            2 => Self::Arbitration,
            0x10..0x1F0 if index & 1 == 0 => Self::RedirectionLow(((index - 0x10) / 2) as u8),
            0x10..0x1F0 => Self::RedirectionHigh(((index - 0x10) / 2) as u8),
            _ => return None,
        })
    }
}

/// The version register, index 1.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IoVersion {
    /// `[7:0]` 11h for the 82093AA, 20h from the first with an EOI register
    pub version: u8,
    __: u8,
    /// `[23:16]` pins, less one
    pub last_pin: u8,
    __: u8,
}

/// A redirection table entry.
#[doc(alias = "RTE")]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct RedirectionEntry {
    /// `[7:0]`
    pub vector: u8,
    /// `[10:8]`
    #[bits(3)]
    pub delivery_mode: DeliveryMode,
    /// `[11]`
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[12]` delivery status; read-only
    pub is_send_pending: bool,
    /// `[13]` polarity
    pub is_active_low: bool,
    /// `[14]` a level-triggered interrupt was sent and awaits EOI; read-only
    pub remote_irr: bool,
    /// `[15]` trigger mode: 0 edge, 1 level
    pub is_level: bool,
    /// `[16]`
    pub is_masked: bool,
    #[bits(31)]
    __: u32,
    /// `[63:48]` what becomes bits 19:4 of the message's address: destination in 63:56, and below
    /// it the extended destination or, with bit 48, an interrupt-remapping handle
    pub address: u16,
}

impl RedirectionEntry {
    /// Masked, all else zero.
    pub const RESET: u64 = 1 << 16;
    /// All except delivery status, remote IRR and the reserved bits 47:17.
    pub const WRITABLE: u64 = 0xFFFF_0000_0001_AFFF;

    /// `[63:56]`
    pub const fn destination(self) -> u8 {
        (self.address() >> 8) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_sit_where_the_manual_puts_them() {
        let rows = [
            (RedirectionEntry::new().with_delivery_mode(DeliveryMode::Nmi), 4 << 8),
            (RedirectionEntry::new().with_destination_mode(DestinationMode::Logical), 1 << 11),
            (RedirectionEntry::new().with_is_send_pending(true), 1 << 12),
            (RedirectionEntry::new().with_is_active_low(true), 1 << 13),
            (RedirectionEntry::new().with_remote_irr(true), 1 << 14),
            (RedirectionEntry::new().with_is_level(true), 1 << 15),
            (RedirectionEntry::new().with_is_masked(true), 1 << 16),
            (RedirectionEntry::new().with_address(0xAB00), 0xAB << 56),
        ];
        for (entry, bits) in rows {
            assert_eq!(entry.into_bits(), bits, "{entry:?}");
        }
    }

    #[test]
    fn redirection_entries_are_pairs_from_index_10h() {
        assert_eq!(IoRegister::at(0x10), Some(IoRegister::RedirectionLow(0)));
        assert_eq!(IoRegister::at(0x11), Some(IoRegister::RedirectionHigh(0)));
        assert_eq!(IoRegister::at(0x3F), Some(IoRegister::RedirectionHigh(23)));
        assert_eq!(IoRegister::at(0xFF), Some(IoRegister::RedirectionHigh(119)));
        assert_eq!(IoRegister::at(0x1EF), Some(IoRegister::RedirectionHigh(239)));
        for index in [3, 0xF, 0x1F0, 0xFFFF] {
            assert_eq!(IoRegister::at(index), None, "{index:#x}");
        }
    }
}
