//! Finding the device table entry of a function. [IOMMU "Device Table"]

use super::AmdVi;
use crate::SystemMemory;
use arch::amd_vi::device_table::{DeviceTableEntry, ENTRY_SIZE};
use arch::amd_vi::{Event, EventFlags, EventKind, InterruptControl, InterruptHalf};
use arch::identity::RequesterId;

/// There is no entry that counts; the event is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoEntry;

/// What is asked of the entry, for the event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub requester: RequesterId,
    pub flags: EventFlags,
    pub address: u64,
}

impl Asked {
    pub fn event(self, kind: EventKind, domain: u16, more: EventFlags) -> Event {
        let flags = self.flags | more;
        Event { kind, device: self.requester, domain, flags, address: self.address }
    }
}

impl AmdVi {
    /// DEVIATION(IOMMU "Device Table Size"): a function beyond the table's end is reported as an
    /// illegal entry.
    pub(super) fn entry(
        &mut self,
        memory: &mut impl SystemMemory,
        asked: Asked,
    ) -> Result<DeviceTableEntry, NoEntry> {
        let offset = u64::from(asked.requester.0) * ENTRY_SIZE;
        if offset >= self.device_table.bytes() {
            return self.no_entry(memory, asked, EventKind::IllegalDeviceTableEntry);
        }
        let at = self.device_table.base().offset(offset);
        if !memory.holds(at, ENTRY_SIZE) {
            return self.no_entry(memory, asked, EventKind::DeviceTableHardwareError);
        }
        let raw = [0, 8, 16, 24].map(|offset| memory.read_u64(at.offset(offset)));
        let entry = DeviceTableEntry::from_quadwords(raw);
        if self.is_illegal(&entry) {
            return self.no_entry(memory, asked, EventKind::IllegalDeviceTableEntry);
        }
        Ok(entry)
    }

    fn no_entry<T>(
        &mut self,
        memory: &mut impl SystemMemory,
        asked: Asked,
        kind: EventKind,
    ) -> Result<T, NoEntry> {
        let more = match kind {
            EventKind::IllegalDeviceTableEntry => EventFlags::RESERVED,
            _ => EventFlags::empty(),
        };
        self.log_event(memory, asked.event(kind, 0, more));
        Err(NoEntry)
    }

    /// Values that no field may have. Halves that are not valid mean nothing.
    fn is_illegal(&self, entry: &DeviceTableEntry) -> bool {
        let DeviceTableEntry { translation, interrupts } = entry;
        let levels = translation.levels();
        let is_too_deep = translation.has_translation() && levels > self.model.levels();
        let has_guest = translation.has_guest_translation();
        let is_bad_table = interrupts.table_length() > InterruptHalf::LONGEST
            || interrupts.control() == InterruptControl::Reserved;
        translation.is_valid() && (is_too_deep || has_guest)
            || interrupts.is_valid() && is_bad_table
    }
}
