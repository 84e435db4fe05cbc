//! The interrupt command register, in its three shapes.

use super::message::{DeliveryMode, DestinationMode, InterruptMessage, Scope};
use crate::identity::Vector;
use bitfield_struct::bitfield;

/// The interrupt command register: 64 bits in MSR 830h, or two dwords at 300h and 310h.
/// [APM2 "Interrupt Command Register"] [SDM3 "Interrupt Command Register (ICR)"]
#[doc(alias = "ICR")]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Icr {
    /// `[7:0]`
    pub vector: u8,
    /// `[10:8]` (message type)
    #[bits(3)]
    pub delivery_mode: DeliveryMode,
    /// `[11]`
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[12]` delivery status; read-only in xAPIC mode, gone in x2APIC mode
    pub is_send_pending: bool,
    #[bits(1)]
    __: u8,
    /// `[14]` level: 0 is de-assert
    pub is_asserted: bool,
    /// `[15]` trigger mode: 0 edge, 1 level
    pub is_level: bool,
    /// `[17:16]` remote read status of old parts; read-only
    #[bits(2)]
    pub remote_read_status: u8,
    /// `[19:18]` destination shorthand
    #[bits(2)]
    pub shorthand: Scope,
    #[bits(12)]
    __: u16,
    /// `[63:32]` destination; in xAPIC mode only 63:56 count
    pub destination: u32,
}

impl Icr {
    /// Reserved bits of MSR 830h on processors that ignore bit 12, the old delivery status.
    /// [SDM3 "ICR Operation in x2APIC Mode"]
    pub const X2_RESERVED: u64 = 0xFFF3_2000;
    /// Bit 12 is reserved too where the manual says so. [APM2 "x2APIC Mode"]
    pub const X2_RESERVED_WITH_STATUS: u64 = Self::X2_RESERVED | 1 << 12;
    /// Bits that software can write in the low dword in xAPIC mode.
    pub const X_LOW_WRITABLE: u32 = 0x000C_CFFF;
    /// Bits that software can write in the high dword in xAPIC mode.
    pub const X_HIGH_WRITABLE: u32 = 0xFF00_0000;

    /// The command that two dwords of xAPIC mode spell.
    pub const fn from_dwords(low: u32, high: u32) -> Self {
        Self::from_bits((high as u64) << 32 | low as u64)
    }

    /// What the register at 300h holds; a write to it sends.
    pub const fn low(self) -> u32 {
        self.into_bits() as u32
    }

    /// What the register at 310h holds.
    pub const fn high(self) -> u32 {
        (self.into_bits() >> 32) as u32
    }

    /// The message that this command sends; the shorthand, which the message does not carry,
    /// stays in [`Icr::shorthand`]. Level and trigger mean something for INIT alone unless the
    /// sender `has_level_triggered_ipis`. [SDM3 "Interrupt Command Register (ICR)"]
    pub const fn message(
        self,
        is_x2apic: bool,
        has_level_triggered_ipis: bool,
    ) -> InterruptMessage {
        let is_init = matches!(self.delivery_mode(), DeliveryMode::Init);
        let is_level = self.is_level() && (is_init || has_level_triggered_ipis);
        InterruptMessage {
            destination: if is_x2apic { self.destination() } else { self.destination() >> 24 },
            destination_mode: self.destination_mode(),
            delivery_mode: self.delivery_mode(),
            vector: Vector(self.vector()),
            is_level,
            is_asserted: !is_level || self.is_asserted(),
            is_x2apic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_sit_where_the_manual_puts_them() {
        let rows: [(Icr, u64); 9] = [
            (Icr::new().with_vector(0xAB), 0xAB),
            (Icr::new().with_delivery_mode(DeliveryMode::Startup), 6 << 8),
            (Icr::new().with_destination_mode(DestinationMode::Logical), 1 << 11),
            (Icr::new().with_is_send_pending(true), 1 << 12),
            (Icr::new().with_is_asserted(true), 1 << 14),
            (Icr::new().with_is_level(true), 1 << 15),
            (Icr::new().with_remote_read_status(3), 3 << 16),
            (Icr::new().with_shorthand(Scope::AllButSelf), 3 << 18),
            (Icr::new().with_destination(0xFFFF_FFFF), 0xFFFF_FFFF_0000_0000),
        ];
        for (icr, bits) in rows {
            assert_eq!(icr.into_bits(), bits, "{icr:?}");
        }
    }

    #[test]
    fn xapic_destination_is_the_top_byte_and_x2apic_destination_the_top_half() {
        let icr = Icr::from_dwords(0x4031, 0x0512_3456);
        assert_eq!(icr.message(false, false).destination, 5);
        assert_eq!(icr.message(true, false).destination, 0x0512_3456);
    }

    #[test]
    fn only_init_can_be_deasserted_where_ipis_have_no_level() {
        for (delivery, level_ipis, is_level, is_asserted) in [
            (DeliveryMode::Init, false, true, false),
            (DeliveryMode::Fixed, false, false, true),
            (DeliveryMode::Nmi, false, false, true),
            (DeliveryMode::Fixed, true, true, false),
        ] {
            let icr = Icr::new().with_delivery_mode(delivery).with_is_level(true);
            let message = icr.message(false, level_ipis);
            assert_eq!((message.is_level, message.is_asserted), (is_level, is_asserted));
        }
    }
}
