//! Message-signalled interrupts: the address and data of a device's write.
//! [SDM3 "Message Signalled Interrupts"] [APM2 "Interrupt Messages and Vector Allocation"]

use crate::address::Device;
use crate::apic::{DeliveryMode, DestinationMode, InterruptMessage};
use crate::identity::Vector;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// First address of the interrupt window.
pub const WINDOW_START: u64 = 0xFEE0_0000;
/// Last address of the interrupt window.
pub const WINDOW_END: u64 = 0xFEEF_FFFF;

/// A device's write into the interrupt window, before remapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageSignalled {
    /// Where the device wrote: [`MessageAddress`] in compatibility format.
    pub address: Device,
    /// What it wrote: [`MessageData`] in compatibility format.
    pub data: u32,
}

/// The low 32 bits of a message's address in compatibility format.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct MessageAddress {
    #[bits(2)]
    __: u8,
    /// `[2]`
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[3]` redirection hint: one of the addressed processors is enough (RH)
    pub is_redirectable: bool,
    /// `[4]` the address holds a remapping handle, not a destination (interrupt format)
    pub is_remappable: bool,
    /// `[11:5]` bits 14:8 of the destination where the platform announces that (hypervisors'
    /// extended destination ID); reserved elsewhere
    #[bits(7)]
    pub destination_high: u8,
    /// `[19:12]`
    pub destination_low: u8,
    /// `[31:20]` FEEh
    #[bits(12)]
    pub window: u16,
}

/// A message's data in compatibility format.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct MessageData {
    /// `[7:0]`
    pub vector: u8,
    /// `[10:8]`
    #[bits(3)]
    pub delivery_mode: DeliveryMode,
    #[bits(3)]
    __: u8,
    /// `[14]` level: 0 is de-assert; counts only when level-triggered
    pub is_asserted: bool,
    /// `[15]` trigger mode: 0 edge, 1 level
    pub is_level: bool,
    __: u16,
}

/// How the platform reads a message's destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DestinationWidth {
    /// Eight bits; FFh is broadcast.
    #[default]
    Eight,
    /// Fifteen bits, announced to guests through a hypervisor's CPUID leaf; FFh is APIC 255.
    Fifteen,
}

impl MessageSignalled {
    /// Whether the write is inside the interrupt window.
    pub const fn is_in_window(self) -> bool {
        self.address.0 >= WINDOW_START && self.address.0 <= WINDOW_END
    }

    /// The interrupt that the write means without remapping. `None` for a write outside the
    /// window, for a remappable-format message (which nothing here can resolve) and for the
    /// delivery modes that no device may use.
    pub const fn interrupt(self, width: DestinationWidth) -> Option<InterruptMessage> {
        let address = MessageAddress::from_bits(self.address.0 as u32);
        let data = MessageData::from_bits(self.data);
        if !self.is_in_window() || address.is_remappable() {
            return None;
        }
        let delivery_mode = match data.delivery_mode() {
            DeliveryMode::RemoteRead | DeliveryMode::Startup => return None,
            DeliveryMode::Fixed if address.is_redirectable() => DeliveryMode::LowestPriority,
            mode => mode,
        };
        let low = address.destination_low() as u32;
        let (destination, is_x2apic) = match width {
            DestinationWidth::Eight => (low, false),
            DestinationWidth::Fifteen => ((address.destination_high() as u32) << 8 | low, true),
        };
        Some(InterruptMessage {
            destination,
            destination_mode: address.destination_mode(),
            delivery_mode,
            vector: Vector(data.vector()),
            is_level: data.is_level(),
            is_asserted: !data.is_level() || data.is_asserted(),
            is_x2apic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(address: u64, data: u32, width: DestinationWidth) -> Option<InterruptMessage> {
        MessageSignalled { address: Device(address), data }.interrupt(width)
    }

    #[test]
    fn destination_is_eight_or_fifteen_bits() {
        use DestinationWidth::*;
        for (address, width, destination, is_x2apic) in [
            (0xFEE0_5000, Eight, 5, false),
            (0xFEEF_F000, Eight, 0xFF, false),
            (0xFEEF_F000, Fifteen, 0xFF, true),
            (0xFEE0_5FE0, Eight, 5, false),
            (0xFEE0_5FE0, Fifteen, 0x7F05, true),
        ] {
            let message = interrupt(address, 0x31, width).unwrap();
            assert_eq!((message.destination, message.is_x2apic), (destination, is_x2apic));
        }
    }

    #[test]
    fn writes_that_are_not_interrupts() {
        let rows = [
            ("below the window", 0xFEDF_F000, 0x31),
            ("above the window", 0xFEF0_0000, 0x31),
            ("above 4 GiB", 0x1_FEE0_0000, 0x31),
            ("remappable format", 0xFEE0_0010, 0),
            ("remote read", 0xFEE0_0000, 0x331),
            ("startup", 0xFEE0_0000, 0x631),
        ];
        for (why, address, data) in rows {
            assert_eq!(interrupt(address, data, DestinationWidth::Eight), None, "{why}");
        }
    }

    #[test]
    fn redirection_hint_arbitrates_a_fixed_interrupt_only() {
        for (data, mode) in [
            (0x031, DeliveryMode::LowestPriority),
            (0x131, DeliveryMode::LowestPriority),
            (0x431, DeliveryMode::Nmi),
        ] {
            let message = interrupt(0xFEE0_3008, data, DestinationWidth::Eight).unwrap();
            assert_eq!(message.delivery_mode, mode);
        }
    }

    #[test]
    fn level_deassert_is_kept_and_edge_is_always_asserted() {
        for (data, level, asserted) in [
            (0x31, false, true),
            (0x4031, false, true),
            (0xC031, true, true),
            (0x8031, true, false),
        ] {
            let message = interrupt(0xFEE0_0000, data, DestinationWidth::Eight).unwrap();
            assert_eq!((message.is_level, message.is_asserted), (level, asserted), "{data:#x}");
        }
    }
}
