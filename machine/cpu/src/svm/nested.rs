//! Nested paging: from guest physical to system physical addresses. [APM2 "Nested Paging"]
//!
//! DEVIATION(APM2 "Nested Paging"): nested tables have the four levels of a long-mode host; a host
//! in legacy paging finds them read the same way.

use super::state::NestedPaging;
use crate::memory::Access;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::cpuid::Feature;
use arch::paging::entry;
use arch::svm::ExitCode;
use arch::svm::exit::NestedPageFaultInfo;

/// Levels of the nested tables.
const LEVELS: u32 = 4;
/// Addresses that four levels cover.
const ADDRESS_BITS: u32 = 48;
/// No system physical address has this bit: the APIC page of a guest under xAVIC, whose accesses
/// must not take the path of memory.
pub(crate) const APIC_PAGE: u64 = 1 << 63;

impl Cpu {
    /// Translates what the guest takes for a physical address; outside a guest the address itself.
    /// `is_table` for accesses of the guest's own page walk.
    #[inline(always)]
    pub(crate) fn guest_to_system(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
        is_table: bool,
    ) -> Result<SystemPhysical, Stop> {
        if self.svm.guest.is_none() {
            return Ok(address);
        }
        self.guest_to_system_slow(bus, address, access, is_table)
    }

    #[cold]
    fn guest_to_system_slow(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
        is_table: bool,
    ) -> Result<SystemPhysical, Stop> {
        let Some(guest) = self.svm.guest.as_ref() else { return Ok(address) };
        // The walk comes first even for the APIC page: it must be mapped, with the right access.
        // [APM2 "APIC Backing Page Address Translation"]
        let is_apic = !is_table
            && access != Access::Execute
            && guest.avic.as_ref().is_some_and(|avic| avic.covers(address.0));
        let translated = match guest.nested {
            Some(nested) => self.nested_walk(bus, nested, address.0, access, is_table)?,
            None => address,
        };
        if is_apic {
            return Ok(SystemPhysical(APIC_PAGE | address.page_offset()));
        }
        Ok(translated)
    }

    /// Whether writes and fetches through the nested translation made last need no further walk.
    pub(crate) fn nested_grants(&self) -> (bool, bool) {
        let nested = self.svm.guest.as_ref().and_then(|guest| guest.nested);
        nested.map_or((true, true), |nested| nested.grants)
    }

    /// Accesses of the guest's own walk count as writes. [APM2 "Nested Table Walk"]
    fn nested_walk(
        &mut self,
        bus: &mut Bus<'_>,
        nested: NestedPaging,
        address: u64,
        access: Access,
        is_table: bool,
    ) -> Result<SystemPhysical, Stop> {
        let info = NestedPageFaultInfo::new()
            .with_is_user(true)
            .with_is_write(is_table || access == Access::Write)
            .with_is_fetch(!is_table && access == Access::Execute && nested.reports_fetches)
            .with_is_final_translation(!is_table)
            .with_is_table_walk(is_table);
        if address >> ADDRESS_BITS != 0 {
            return Err(self.nested_fault(address, info));
        }
        let (mut writable, mut user, mut executable) = (true, true, true);
        let mut table = nested.root;
        for level in (1..=LEVELS).rev() {
            let shift = 12 + 9 * (level - 1);
            let at = table.offset((address >> shift & 0x1FF) * 8);
            let raw = self.read_entry(bus, at, 8);
            if raw & entry::PRESENT == 0 {
                return Err(self.nested_fault(address, info));
            }
            let is_leaf = level == 1 || raw & entry::LARGE != 0 && level <= 3;
            if raw & self.nested_reserved(level, is_leaf, nested) != 0 {
                let info = info.with_is_present(true).with_is_reserved(true);
                return Err(self.nested_fault(address, info));
            }
            writable &= raw & entry::WRITABLE != 0;
            user &= raw & entry::USER != 0;
            executable &= raw & entry::NO_EXECUTE == 0;
            if !is_leaf {
                self.set_nested_entry(bus, at, raw, entry::ACCESSED);
                table = SystemPhysical(raw & entry::ADDRESS);
                continue;
            }
            let denied = !user
                || info.is_write() && !writable
                || !is_table && access == Access::Execute && !executable;
            if denied {
                return Err(self.nested_fault(address, info.with_is_present(true)));
            }
            let dirty = if info.is_write() { entry::DIRTY } else { 0 };
            self.set_nested_entry(bus, at, raw, entry::ACCESSED | dirty);
            let is_dirty = (raw | dirty) & entry::DIRTY != 0;
            if let Some(guest) = self.svm.guest.as_mut()
                && let Some(nested) = guest.nested.as_mut()
            {
                nested.grants = (writable && is_dirty, executable);
            }
            let in_page = (1u64 << shift) - 1;
            return Ok(SystemPhysical(raw & entry::ADDRESS & !in_page | address & in_page));
        }
        Ok(SystemPhysical(address))
    }

    fn set_nested_entry(&mut self, bus: &mut Bus<'_>, at: SystemPhysical, raw: u64, bits: u64) {
        if raw & bits != bits {
            self.write_entry(bus, at, raw | bits, 8);
        }
    }

    fn nested_reserved(&self, level: u32, is_leaf: bool, nested: NestedPaging) -> u64 {
        let above = entry::ADDRESS & !((1 << self.model.physical_bits()) - 1);
        let no_execute = if nested.no_execute { 0 } else { entry::NO_EXECUTE };
        let has_huge = self.model.has(Feature::Pdpe1gb);
        above
            | no_execute
            | match (level, is_leaf) {
                // AMD parts reserve bit 8 of the root's entries besides bit 7.
                (4, _) => entry::LARGE | entry::GLOBAL,
                (3, true) if has_huge => 0x3FFF_E000,
                (3, true) => entry::LARGE,
                (2, true) => 0x1F_E000,
                _ => 0,
            }
    }

    /// #VMEXIT(NPF)
    fn nested_fault(&mut self, address: u64, info: NestedPageFaultInfo) -> Stop {
        self.exit_fault(ExitCode::NestedPageFault, [info.into_bits(), address])
    }
}
