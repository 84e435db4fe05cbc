//! Translating devices' accesses. [VTD "Legacy Mode Address Translation"]

use super::VtD;
use crate::memory::{InMemory, OutOfReach};
use crate::{Access, SystemMemory, Translation};
use arch::address::{Device, SystemPhysical};
use arch::identity::RequesterId;
use arch::msi::{WINDOW_END, WINDOW_START};
use arch::vt_d::translation::ENTRY_SIZE;
use arch::vt_d::{
    Capability, ContextEntry, FaultReason, FaultRecord, GlobalCommand, RootEntry, SecondLevelEntry,
    TranslationType,
};
use bus::DmaFault;
use bus::walk::{Failure, Format, walk};

impl VtD {
    /// Finds where an access of a function leads. Refused ones are recorded.
    pub fn translate(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        address: Device,
        access: Access,
    ) -> Result<Translation, DmaFault> {
        if !self.status.contains(GlobalCommand::TRANSLATION_ENABLE) {
            return Ok(unchanged(address));
        }
        let mut suppresses = false;
        self.find(memory, requester, address, access, &mut suppresses).map_err(|reason| {
            let is_read = access == Access::Read;
            let record = FaultRecord::access(requester, reason, address.0, is_read);
            self.record(requester, reason, record, suppresses);
            DmaFault(address)
        })
    }

    fn find(
        &self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        address: Device,
        access: Access,
        suppresses: &mut bool,
    ) -> Result<Translation, FaultReason> {
        let context = self.context(memory, requester)?;
        *suppresses = context.suppresses_faults();
        if context.has_reserved_bits() {
            return Err(FaultReason::ContextReserved);
        }
        if (WINDOW_START..=WINDOW_END).contains(&address.0) {
            return Err(FaultReason::WindowAccessed);
        }
        let capability = self.model.capability;
        match context.kind() {
            TranslationType::PassThrough if self.model.extended.has_pass_through() => {
                return Ok(unchanged(address));
            }
            TranslationType::Untranslated if capability.levels() >> context.width() & 1 != 0 => {}
            _ => return Err(FaultReason::ContextInvalid),
        }
        let levels = u32::from(context.width()) + 2;
        let reach = (12 + 9 * levels).min(u32::from(capability.address_bits()) + 1);
        if reach < 64 && address.0 >> reach != 0 {
            return Err(FaultReason::AddressBeyond);
        }
        let (needed, refused) = match access {
            Access::Read => (SecondLevelEntry::READABLE, FaultReason::ReadRefused),
            Access::Write => (SecondLevelEntry::WRITABLE, FaultReason::WriteRefused),
        };
        let format = SecondLevel { capability, snoops: self.model.extended.has_snoop_control() };
        let mut tables = InMemory(memory);
        let leaf = walk(&format, &mut tables, context.table().0, levels, address.0);
        let leaf = leaf.map_err(|failure| match failure {
            Failure::Absent { .. } => refused,
            Failure::Malformed => FaultReason::TableReserved,
            Failure::Tables(OutOfReach) => FaultReason::TableUnreachable,
        })?;
        if leaf.rights & needed == 0 {
            return Err(refused);
        }
        let size = 1u64 << leaf.page_bits;
        let within = address.0 & (size - 1);
        let frame = leaf.entry & SecondLevelEntry::ADDRESS & !(size - 1);
        Ok(Translation { address: SystemPhysical(frame | within), length: size - within })
    }

    fn context(
        &self,
        memory: &impl SystemMemory,
        requester: RequesterId,
    ) -> Result<ContextEntry, FaultReason> {
        if self.root.mode() != 0 {
            return Err(FaultReason::RootReserved);
        }
        let bus = u64::from(requester.0 >> 8);
        let at = self.root.table().offset(bus * ENTRY_SIZE);
        let root = entry(memory, at).ok_or(FaultReason::RootUnreachable)?;
        let root = RootEntry::from_bits(root);
        if !root.is_present() {
            return Err(FaultReason::RootAbsent);
        }
        if root.reserved() != 0 || root.reserved_high() != 0 {
            return Err(FaultReason::RootReserved);
        }
        let at = root.table().offset(u64::from(requester.0 & 0xFF) * ENTRY_SIZE);
        let context = entry(memory, at).ok_or(FaultReason::ContextUnreachable)?;
        let context = ContextEntry::from_bits(context);
        if context.is_present() { Ok(context) } else { Err(FaultReason::ContextAbsent) }
    }
}

/// One access of 16 bytes.
pub(super) fn entry(memory: &impl SystemMemory, at: SystemPhysical) -> Option<u128> {
    let read = |offset| u128::from(memory.read_u64(at.offset(offset)));
    memory.holds(at, ENTRY_SIZE).then(|| read(8) << 64 | read(0))
}

fn unchanged(address: Device) -> Translation {
    Translation { address: SystemPhysical(address.0), length: (u64::MAX - address.0).max(1) }
}

/// Second-level tables. What processors' tables have besides is ignored.
struct SecondLevel {
    capability: Capability,
    snoops: bool,
}

impl Format for SecondLevel {
    const ENTRY_BYTES: u64 = 8;
    const INDEX_BITS: u32 = 9;

    fn accessed(&self) -> u64 {
        0
    }

    fn is_present(&self, entry: u64) -> bool {
        entry & (SecondLevelEntry::READABLE | SecondLevelEntry::WRITABLE) != 0
    }

    fn is_large(&self, entry: u64, _: u32) -> bool {
        entry & SecondLevelEntry::LARGE != 0
    }

    fn is_malformed(&self, entry: u64, level: u32, is_leaf: bool) -> bool {
        let sizes = self.capability.large_pages();
        let is_large = is_leaf && level > 1;
        let is_wrong_size = is_large && (level > 3 || sizes >> (level - 2) & 1 == 0);
        let is_unaligned = is_large
            && SecondLevelEntry::from_bits(entry).frame() & ((1 << (9 * (level - 1))) - 1) != 0;
        let snooped = SecondLevelEntry::from_bits(entry).is_snooped();
        is_wrong_size || is_unaligned || is_leaf && snooped && !self.snoops
    }

    fn rights(&self, entry: u64) -> u64 {
        entry & (SecondLevelEntry::READABLE | SecondLevelEntry::WRITABLE)
    }

    fn table(&self, entry: u64) -> u64 {
        entry & SecondLevelEntry::ADDRESS
    }
}
