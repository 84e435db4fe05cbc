//! The event log, and the interrupts that say that something is in a log. [IOMMU "Event Logging"]

use super::{AmdVi, Signal};
use crate::SystemMemory;
use arch::amd_vi::{Event, Status, event};

impl AmdVi {
    /// Puts an event into the log, if that runs and has room.
    pub(super) fn log_event(&mut self, memory: &mut impl SystemMemory, event: Event) {
        self.signals.push(Signal::Refused(event));
        if !self.status.contains(Status::EVENT_LOG_RUN) {
            return;
        }
        if self.events.is_full(event::SIZE) {
            self.status.remove(Status::EVENT_LOG_RUN);
            return self.raise(Status::EVENT_OVERFLOW);
        }
        let tail = self.events.tail % self.events.base.bytes();
        let at = self.events.base.base().offset(tail);
        let [low, high] = event.into_quadwords();
        // What tells software that the entry is complete is in the lower half.
        memory.write_u64(at.offset(8), high);
        memory.write_u64(at, low);
        self.events.tail = self.events.behind(tail, event::SIZE);
        self.raise(Status::EVENT_INTERRUPT);
    }

    /// Sets a bit of the status register; the interrupt is sent when it was not set before.
    pub(super) fn raise(&mut self, bit: Status) {
        if self.status.contains(bit) {
            return;
        }
        self.status.insert(bit);
        let control = self.control;
        let (is_wanted, destination) = match bit {
            Status::COMPLETION_INTERRUPT => {
                (control.interrupts_for_completion(), self.event_interrupt)
            }
            Status::GUEST_LOG_INTERRUPT | Status::GUEST_LOG_OVERFLOW => {
                (control.interrupts_for_guest_log(), self.guest_log_interrupt)
            }
            _ => (control.interrupts_for_events(), self.event_interrupt),
        };
        if is_wanted {
            self.interrupt(destination);
        }
    }
}
