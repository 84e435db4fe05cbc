//! Remapping devices' interrupts. [VTD "Interrupt Remapping"]

use super::fault::Refused;
use super::translate::entry;
use super::{Posting, VtD};
use crate::SystemMemory;
use arch::apic::{DeliveryMode, InterruptMessage};
use arch::identity::{RequesterId, Vector};
use arch::msi::MessageSignalled;
use arch::vt_d::remapping::ENTRY_SIZE;
use arch::vt_d::{
    FaultReason, FaultRecord, GlobalCommand, PostedEntry, RemappableAddress, RemappedEntry,
};

/// What becomes of a function's interrupt.
pub type Remapped = crate::Remapped<Posting>;

impl VtD {
    /// Looks up the interrupt that a function's write into the interrupt window means.
    pub fn remap(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Remapped {
        if !self.status.contains(GlobalCommand::REMAPPING_ENABLE) {
            return Remapped::Unchanged;
        }
        self.look_up(memory, requester, message).unwrap_or_else(|refused| {
            self.refuse(requester, refused);
            Remapped::Aborted
        })
    }

    pub(super) fn refuse(&mut self, requester: RequesterId, refused: Refused) {
        let Refused { reason, index, is_suppressed } = refused;
        let record = FaultRecord::interrupt(requester, reason, index as u16);
        self.record(requester, reason, record, is_suppressed);
    }

    /// The order of checks is that of the specification. [VTD "Interrupt Remapping Fault
    /// Conditions"]
    fn look_up(
        &self,
        memory: &impl SystemMemory,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Result<Remapped, Refused> {
        let refused = |reason, index, is_suppressed| Refused { reason, index, is_suppressed };
        let address = RemappableAddress::from_bits(message.address.0 as u32);
        if !address.is_remappable() {
            let passes = self.status.contains(GlobalCommand::COMPATIBILITY_FORMAT)
                && !self.remapping.is_x2apic();
            let blocked = refused(FaultReason::CompatibilityBlocked, 0, false);
            return if passes { Ok(Remapped::Unchanged) } else { Err(blocked) };
        }
        let Some(index) = address.index(message.data) else {
            return Err(refused(FaultReason::RequestReserved, 0, false));
        };
        if index >= self.remapping.entries() {
            return Err(refused(FaultReason::IndexBeyond, index, false));
        }
        let at = self.remapping.table().offset(u64::from(index) * ENTRY_SIZE);
        let Some(raw) = entry(memory, at) else {
            return Err(refused(FaultReason::EntryUnreachable, index, false));
        };
        let (remapped, posted) = (RemappedEntry::from_bits(raw), PostedEntry::from_bits(raw));
        let refused = |reason| refused(reason, index, remapped.suppresses_faults());
        if !remapped.is_present() {
            return Err(refused(FaultReason::EntryAbsent));
        }
        let is_reserved = match remapped.is_posted() {
            true => posted.has_reserved_bits() || !self.model.capability.has_posting(),
            false => {
                remapped.has_reserved_bits(self.remapping.is_x2apic())
                    || matches!(
                        remapped.delivery_mode(),
                        DeliveryMode::RemoteRead | DeliveryMode::Startup
                    )
            }
        };
        if is_reserved {
            return Err(refused(FaultReason::EntryReserved));
        }
        if !remapped.check().accepts(requester) {
            return Err(refused(FaultReason::SourceRefused));
        }
        Ok(match remapped.is_posted() {
            true => Remapped::Posting(Posting::new(requester, index, posted)),
            false => Remapped::Interrupt(self.interrupt(remapped)),
        })
    }

    fn interrupt(&self, entry: RemappedEntry) -> InterruptMessage {
        let is_x2apic = self.remapping.is_x2apic();
        let destination = entry.destination();
        InterruptMessage {
            destination: if is_x2apic { destination } else { destination >> 8 & 0xFF },
            destination_mode: entry.destination_mode(),
            delivery_mode: entry.delivery_mode(),
            vector: Vector(entry.vector()),
            is_level: entry.is_level(),
            is_asserted: true,
            is_x2apic,
        }
    }

    /// Whether destinations have 32 bits.
    pub fn is_x2apic(&self) -> bool {
        self.remapping.is_x2apic()
    }
}
