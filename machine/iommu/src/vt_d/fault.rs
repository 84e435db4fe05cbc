//! Recording faults, and the messages that say so. [VTD "Fault Logging"]

use super::{EventMessage, Signal, VtD};
use arch::address::Device;
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register::{EventControl, FaultStatus};
use arch::vt_d::{FaultReason, FaultRecord};

/// Why an interrupt is dropped.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub reason: FaultReason,
    pub index: u32,
    pub is_suppressed: bool,
}

impl VtD {
    /// Records a fault, if the record is free.
    pub(super) fn record(
        &mut self,
        requester: RequesterId,
        reason: FaultReason,
        record: FaultRecord,
        is_suppressed: bool,
    ) {
        let address = Device(record.information() << 12);
        self.signals.push(Signal::Refused { requester, reason, address });
        if is_suppressed && reason.is_qualified() || self.faults.contains(FaultStatus::OVERFLOW) {
            return;
        }
        if self.record.is_valid() {
            self.faults.insert(FaultStatus::OVERFLOW);
            return;
        }
        self.record = record;
        self.tell_fault();
    }

    pub(super) fn tell_fault(&mut self) {
        let is_sent = self.fault_event.raise();
        self.send(is_sent, self.fault_event);
    }

    pub(super) fn tell_completion(&mut self) {
        let is_sent = self.completion_event.raise();
        self.send(is_sent, self.completion_event);
    }

    pub(super) fn send(&mut self, is_sent: bool, event: EventMessage) {
        if is_sent {
            let address = u64::from(event.upper_address) << 32 | u64::from(event.address);
            let message = MessageSignalled { address: Device(address), data: event.data };
            self.signals.push(Signal::Message(message));
        }
    }
}

impl EventMessage {
    /// A message is due: true if it is sent now, else it waits for the mask.
    fn raise(&mut self) -> bool {
        let is_masked = self.control.contains(EventControl::MASKED);
        self.control.set(EventControl::PENDING, is_masked);
        !is_masked
    }
}
