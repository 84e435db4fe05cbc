//! Which messages reach this APIC, and what they do here.

use super::{Acceptance, LocalApic};
use crate::page::{ApicPage, Bank};
use arch::apic::{
    DeliveryMode, DestinationMode, Dfr, Esr, FIRST_LEGAL_VECTOR, InterruptMessage, Ldr, Mode,
    Register, X2Ldr,
};
use arch::identity::Vector;

impl LocalApic {
    /// Whether the message's destination includes this APIC, and this APIC listens to it.
    /// [SDM3 "Determining IPI Destination"] [APM2 "Interrupt Destination"]
    pub fn matches(&self, message: &InterruptMessage) -> bool {
        self.listens_to(message.delivery_mode) && self.is_addressed(message)
    }

    /// An APIC disabled in IA32_APIC_BASE hears nothing; one disabled by software only hears what
    /// needs no IRR. [SDM3 "Local APIC State After It Has Been Software Disabled"]
    pub fn listens_to(&self, mode: DeliveryMode) -> bool {
        let needs_software_enable = matches!(
            mode,
            DeliveryMode::Fixed
                | DeliveryMode::LowestPriority
                | DeliveryMode::ExtInt
                | DeliveryMode::RemoteRead
        );
        self.is_enabled() && (!needs_software_enable || self.is_software_enabled())
    }

    fn is_addressed(&self, message: &InterruptMessage) -> bool {
        let destination = message.destination;
        let broadcast = if message.is_x2apic { u32::MAX } else { 0xFF };
        if destination == broadcast {
            return true;
        }
        match (message.destination_mode, self.mode()) {
            (DestinationMode::Physical, _) => self.id().0 == destination,
            (DestinationMode::Logical, Mode::X2Apic) => {
                X2Ldr::from_bits(self.read_raw(Register::LogicalDestination)).matches(destination)
            }
            (DestinationMode::Logical, _) => u8::try_from(destination).is_ok_and(|destination| {
                let logical_id =
                    Ldr::from_bits(self.read_raw(Register::LogicalDestination)).logical_id();
                Dfr::from_bits(self.read_raw(Register::DestinationFormat))
                    .format()
                    .matches(logical_id, destination)
            }),
        }
    }

    /// The priority that arbitrates lowest-priority messages, which register 90h shows.
    /// [SDM3 "Arbitration Priority"] [APM2 "Arbitration Priority Register"]
    #[doc(alias = "APR")]
    pub fn priority(&self) -> u8 {
        let task = self.task_priority();
        let class = |vector: Option<Vector>| vector.map_or(0, |vector| vector.0 >> 4);
        let request = class(self.page.highest(Bank::Request));
        let service = class(self.page.highest(Bank::InService));
        if task >> 4 >= request && task >> 4 > service {
            task
        } else {
            (task >> 4).max(request).max(service) << 4
        }
    }

    /// Takes a message that was routed here.
    pub fn accept(&mut self, message: &InterruptMessage) -> Acceptance {
        if !self.listens_to(message.delivery_mode) || !message.is_asserted {
            return Acceptance::Ignored;
        }
        self.deliver(message.delivery_mode, message.vector, message.is_level)
    }

    /// Does what a delivery mode says, for messages and local sources alike.
    pub(super) fn deliver(
        &mut self,
        mode: DeliveryMode,
        vector: Vector,
        is_level: bool,
    ) -> Acceptance {
        match mode {
            DeliveryMode::Fixed | DeliveryMode::LowestPriority => {
                if vector.0 < FIRST_LEGAL_VECTOR {
                    self.raise_error(Esr::RECEIVE_ILLEGAL_VECTOR);
                    return Acceptance::Ignored;
                }
                self.page.request(vector, is_level);
                self.update();
                Acceptance::Queued
            }
            DeliveryMode::Smi => Acceptance::Smi,
            DeliveryMode::Nmi => Acceptance::Nmi,
            DeliveryMode::Init => Acceptance::Init,
            DeliveryMode::Startup => Acceptance::Startup(vector.0),
            DeliveryMode::ExtInt => Acceptance::ExtInt,
            DeliveryMode::RemoteRead => Acceptance::Ignored,
        }
    }
}
