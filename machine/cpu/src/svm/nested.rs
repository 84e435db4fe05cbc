//! Nested paging: from guest physical to system physical addresses. [APM2 "Nested Paging"]
//!
//! DEVIATION(APM2 "Nested Paging"): nested tables have the four levels of a long-mode host; a host
//! in legacy paging finds them read the same way.

use super::state::NestedPaging;
use crate::memory::Access;
use crate::memory::Located;
use crate::memory::format::{Wide, beyond, forbidden_no_execute, right};
use crate::memory::paging::SystemTables;
use crate::svm::intercept;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::cpuid::Feature;
use arch::paging::entry;
use arch::svm::ExitCode;
use arch::svm::exit::NestedPageFaultInfo;
use bus::walk::{Failure, Format, walk};

/// Levels of the nested tables.
const LEVELS: u32 = 4;
/// Addresses that four levels cover.
const ADDRESS_BITS: u32 = 48;
/// Where the operand lies, or the APIC page of a guest under xAVIC. The walk comes first even
/// for that: it must be mapped, with the right access.
/// [APM2 "APIC Backing Page Address Translation"]
#[cold]
pub(crate) fn operand_to_system(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: SystemPhysical,
    access: Access,
) -> Result<Located, Stop> {
    let Some(guest) = cpu.guest.running.svm() else {
        return Ok(Located::Memory(address));
    };
    let is_apic =
        access != Access::Execute && guest.avic.as_ref().is_some_and(|avic| avic.covers(address.0));
    let translated = match guest.nested {
        Some(nested) => nested_walk(cpu, bus, nested, address.0, access, false)?,
        None => address,
    };
    if is_apic {
        return Ok(Located::VirtualApic(address.page_offset() as u16));
    }
    Ok(Located::Memory(translated))
}

/// Where an entry of the guest's own tables lies.
#[cold]
pub(crate) fn table_to_system(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: SystemPhysical,
) -> Result<SystemPhysical, Stop> {
    match cpu.guest.running.svm().and_then(|guest| guest.nested) {
        Some(nested) => nested_walk(cpu, bus, nested, address.0, Access::Write, true),
        None => Ok(address),
    }
}

pub(crate) fn nested_grants(cpu: &Cpu) -> (bool, bool) {
    let nested = cpu.guest.running.svm().and_then(|guest| guest.nested);
    nested.map_or((true, true), |nested| nested.grants)
}

/// Accesses of the guest's own walk count as writes. [APM2 "Nested Table Walk"]
fn nested_walk(
    cpu: &mut Cpu,
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
        return Err(nested_fault(cpu, address, info));
    }
    let format = Wide {
        reserved: beyond(cpu) | forbidden_no_execute(nested.no_execute),
        // AMD parts reserve bit 8 of the root's entries besides bit 7.
        reserved_in_root: entry::LARGE | entry::GLOBAL,
        has_huge: cpu.model.has(Feature::Pdpe1gb),
        no_execute: nested.no_execute,
    };
    let mut tables = SystemTables { cpu, bus };
    let leaf = match walk(&format, &mut tables, nested.root.0, LEVELS, address) {
        Ok(leaf) => leaf,
        Err(Failure::Absent { .. }) => return Err(nested_fault(cpu, address, info)),
        Err(Failure::Malformed) => {
            let info = info.with_is_present(true).with_is_reserved(true);
            return Err(nested_fault(cpu, address, info));
        }
        Err(Failure::Tables(never)) => match never {},
    };
    let executes = leaf.rights & right::EXECUTE != 0;
    let writes = leaf.rights & right::WRITE != 0;
    let denied = leaf.rights & right::USER == 0
        || info.is_write() && !writes
        || !is_table && access == Access::Execute && !executes;
    if denied {
        return Err(nested_fault(cpu, address, info.with_is_present(true)));
    }
    let dirty = if info.is_write() { entry::DIRTY } else { 0 };
    let used = leaf.entry | entry::ACCESSED | dirty;
    if used != leaf.entry {
        cpu.write_entry(bus, leaf.place, used, Wide::ENTRY_BYTES);
    }
    if let Some(guest) = cpu.guest.running.svm_mut()
        && let Some(nested) = guest.nested.as_mut()
    {
        nested.grants = (writes && used & entry::DIRTY != 0, executes);
    }
    let in_page = (1u64 << leaf.page_bits) - 1;
    Ok(SystemPhysical(leaf.entry & entry::ADDRESS & !in_page | address & in_page))
}

/// #VMEXIT(NPF)
fn nested_fault(cpu: &mut Cpu, address: u64, info: NestedPageFaultInfo) -> Stop {
    intercept::exit_fault(cpu, ExitCode::NestedPageFault, [info.into_bits(), address])
}
