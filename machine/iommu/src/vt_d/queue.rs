//! The invalidation queue. [VTD "Queued Invalidation Interface"]

use super::VtD;
use crate::SystemMemory;
use arch::vt_d::descriptor::{Granularity, SIZE};
use arch::vt_d::register::FaultStatus;
use arch::vt_d::{Descriptor, GlobalCommand};

impl VtD {
    pub(super) fn process_queue(&mut self, memory: &mut impl SystemMemory) {
        let bytes = self.queue.bytes();
        // Bounded: once round the queue.
        for _ in 0..bytes / SIZE {
            let is_running = self.status.contains(GlobalCommand::QUEUE_ENABLE)
                && !self.faults.contains(FaultStatus::QUEUE_ERROR);
            let head = self.queue_head % bytes;
            if !is_running || head == self.queue_tail % bytes {
                return;
            }
            let at = self.queue.base().offset(head);
            let is_done = memory.holds(at, SIZE) && {
                let raw = [memory.read_u64(at), memory.read_u64(at.offset(8))];
                self.carry_out(memory, Descriptor::from_quadwords(raw))
            };
            if !is_done {
                // The head stays at the descriptor that was not carried out.
                self.faults.insert(FaultStatus::QUEUE_ERROR);
                return self.tell_fault();
            }
            self.queue_head = (head + SIZE) % bytes;
        }
    }

    /// False for a descriptor that is none. Nothing is cached, so invalidations have nothing to do.
    fn carry_out(&mut self, memory: &mut impl SystemMemory, descriptor: Descriptor) -> bool {
        match descriptor {
            Descriptor::Context { granularity, .. }
            | Descriptor::Translations { granularity, .. } => granularity != Granularity::Reserved,
            Descriptor::Interrupts { .. } => true,
            Descriptor::Wait { store, data, interrupts } => {
                if let Some(at) = store {
                    memory.write_u32(at, data);
                }
                if interrupts && !self.is_wait_complete {
                    self.is_wait_complete = true;
                    self.tell_completion();
                }
                true
            }
            Descriptor::Unknown(_) => false,
        }
    }
}
