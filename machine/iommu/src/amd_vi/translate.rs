//! Translating devices' accesses. [IOMMU "I/O Page Tables for Host Translations"]

use super::AmdVi;
use super::device::Asked;
use crate::memory::{InMemory, OutOfReach};
use crate::{Access, SystemMemory, Translation};
use arch::address::{Device, SystemPhysical};
use arch::amd_vi::page::SIZED_LEAF;
use arch::amd_vi::{EventFlags, EventKind, PageEntry, TranslationHalf};
use arch::identity::RequesterId;
use arch::msi::{WINDOW_END, WINDOW_START};
use bus::DmaFault;
use bus::walk::{Failure, Format, Leaf, walk};

/// Rights of an entry, and of a device.
const READ: u64 = PageEntry::READABLE;
const WRITE: u64 = PageEntry::WRITABLE;

impl AmdVi {
    /// Finds where an access of a function leads. Refused ones are in the event log.
    pub fn translate(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        address: Device,
        access: Access,
    ) -> Result<Translation, DmaFault> {
        let untranslated = Translation {
            address: SystemPhysical(address.0),
            length: (u64::MAX - address.0).max(1),
        };
        if !self.control.is_enabled() || requester == self.model.requester {
            return Ok(untranslated);
        }
        let flags = match access {
            Access::Read => EventFlags::empty(),
            Access::Write => EventFlags::WRITE,
        };
        let asked = Asked { requester, flags, address: address.0 };
        let fault = DmaFault(address);
        let entry = self.entry(memory, asked).map_err(|_| fault)?.translation;
        if !entry.is_valid() {
            return Ok(untranslated);
        }
        if (WINDOW_START..=WINDOW_END).contains(&address.0) {
            let event = asked.event(EventKind::InvalidDeviceRequest, 0, EventFlags::empty());
            self.log_event(memory, event);
            return Err(fault);
        }
        if !entry.has_translation() {
            return Ok(untranslated);
        }
        self.find(memory, entry, address, access).map_err(|(kind, more)| {
            if !entry.suppresses_all_events() || kind != EventKind::PageFault {
                self.log_event(memory, asked.event(kind, entry.domain(), more));
            }
            fault
        })
    }

    /// The page, or what to log.
    fn find(
        &self,
        memory: &mut impl SystemMemory,
        entry: TranslationHalf,
        address: Device,
        access: Access,
    ) -> Result<Translation, (EventKind, EventFlags)> {
        let needed = match access {
            Access::Read => READ,
            Access::Write => WRITE,
        };
        let granted = if entry.is_readable() { READ } else { 0 }
            | if entry.is_writable() { WRITE } else { 0 };
        let refused = (EventKind::PageFault, EventFlags::PRESENT | EventFlags::PERMISSION);
        let levels = u32::from(entry.levels());
        if levels == 0 {
            let page =
                Translation { address: SystemPhysical(address.0), length: rest(address, 12) };
            return if granted & needed != 0 { Ok(page) } else { Err(refused) };
        }
        let reach = 12 + HostPages::INDEX_BITS * levels;
        if reach < 64 && address.0 >> reach != 0 {
            return Err((EventKind::PageFault, EventFlags::empty()));
        }
        let mut tables = InMemory(memory);
        let leaf =
            walk(&HostPages, &mut tables, entry.root().0, levels, address.0).map_err(event_of)?;
        if leaf.rights & granted & needed == 0 {
            return Err(refused);
        }
        Ok(page(leaf, address))
    }
}

fn event_of(failure: Failure<OutOfReach>) -> (EventKind, EventFlags) {
    match failure {
        Failure::Absent { .. } => (EventKind::PageFault, EventFlags::empty()),
        Failure::Malformed => (EventKind::PageFault, EventFlags::PRESENT | EventFlags::RESERVED),
        Failure::Tables(OutOfReach) => (EventKind::PageTableHardwareError, EventFlags::empty()),
    }
}

/// Where an address lies in its page.
fn page(leaf: Leaf<()>, address: Device) -> Translation {
    let entry = PageEntry::from_bits(leaf.entry);
    let bits = match entry.next_level() {
        SIZED_LEAF => entry.sized_page_bits(),
        _ => leaf.page_bits,
    };
    let frame = if bits >= 52 { 0 } else { entry.address() >> bits << bits };
    let within = address.0 & (1u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1));
    Translation { address: SystemPhysical(frame | within), length: rest(address, bits) }
}

/// Bytes to the end of the page of `1 << bits` bytes.
fn rest(address: Device, bits: u32) -> u64 {
    let size = 1u64 << bits.min(63);
    size - (address.0 & (size - 1))
}

/// Version 1 tables.
///
/// DEVIATION(IOMMU "I/O Page Tables for Host Translations"): an entry that skips levels is taken
/// for a malformed one.
struct HostPages;

impl Format for HostPages {
    const ENTRY_BYTES: u64 = 8;
    const INDEX_BITS: u32 = 9;

    /// Accessed and dirty bits are not among the features.
    fn accessed(&self) -> u64 {
        0
    }

    fn is_present(&self, entry: u64) -> bool {
        entry & PageEntry::PRESENT != 0
    }

    fn is_large(&self, entry: u64, _: u32) -> bool {
        matches!(PageEntry::from_bits(entry).next_level(), 0 | SIZED_LEAF)
    }

    fn is_malformed(&self, entry: u64, level: u32, is_leaf: bool) -> bool {
        let next = PageEntry::from_bits(entry).next_level();
        let leads_on = is_leaf && !matches!(next, 0 | SIZED_LEAF);
        let skips = !is_leaf && u32::from(next) != level - 1;
        let is_too_small = next == SIZED_LEAF
            && PageEntry::from_bits(entry).sized_page_bits() <= 12 + Self::INDEX_BITS * (level - 1);
        entry & PageEntry::RESERVED != 0 || leads_on || skips || is_too_small
    }

    fn rights(&self, entry: u64) -> u64 {
        entry & (READ | WRITE)
    }

    fn table(&self, entry: u64) -> u64 {
        PageEntry::from_bits(entry).address()
    }
}
