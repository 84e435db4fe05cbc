//! The command buffer. [IOMMU "Command Buffer"]
//!
//! Commands are carried out as soon as software has put them there, one after the other; since
//! nothing is cached, an invalidation has nothing to do, and the store of a COMPLETION_WAIT is made
//! when its turn comes.

use super::AmdVi;
use crate::SystemMemory;
use arch::amd_vi::event::EventFlags;
use arch::amd_vi::{Command, Event, EventKind, Status, command};
use arch::identity::RequesterId;

impl AmdVi {
    pub(super) fn process_commands(&mut self, memory: &mut impl SystemMemory) {
        let bytes = self.commands.base.bytes();
        // Bounded: once round the ring.
        for _ in 0..bytes / command::SIZE {
            let is_running = self.status.contains(Status::COMMAND_RUN);
            let head = self.commands.head % bytes;
            if !is_running || head == self.commands.tail % bytes {
                return;
            }
            let at = self.commands.base.base().offset(head);
            if !memory.holds(at, command::SIZE) {
                return self.stop_commands(memory, EventKind::CommandHardwareError, at.0);
            }
            let raw = [memory.read_u64(at), memory.read_u64(at.offset(8))];
            let command = Command::from_quadwords(raw);
            if !self.carry_out(memory, command) {
                return self.stop_commands(memory, EventKind::IllegalCommand, at.0);
            }
            self.commands.head = self.commands.behind(head, command::SIZE);
        }
    }

    /// False for a command that is none.
    fn carry_out(&mut self, memory: &mut impl SystemMemory, command: Command) -> bool {
        match command {
            Command::CompletionWait { store, data, interrupts } => {
                if let Some(at) = store {
                    memory.write_u64(at, data);
                }
                if interrupts {
                    self.raise(Status::COMPLETION_INTERRUPT);
                }
            }
            Command::InvalidateInterrupts(device) => self.forget(device),
            Command::InvalidateAll if self.model.features.has_invalidate_all() => {
                self.kept.clear();
            }
            Command::InvalidateDevice(_) | Command::InvalidatePages { .. } => {}
            // No function holds translations, requests pages, or is fetched for in advance.
            Command::InvalidateRemote(_)
            | Command::Prefetch
            | Command::CompletePageRequest
            | Command::InvalidateAll
            | Command::Unknown(_) => return false,
        }
        true
    }

    /// The head stays at the command that was not carried out.
    fn stop_commands(&mut self, memory: &mut impl SystemMemory, kind: EventKind, address: u64) {
        self.status.remove(Status::COMMAND_RUN);
        let device = RequesterId(0);
        self.log_event(
            memory,
            Event { kind, device, domain: 0, flags: EventFlags::empty(), address },
        );
    }

    fn forget(&mut self, device: RequesterId) {
        self.kept.retain(|(of, _), _| *of != device.0);
    }
}
