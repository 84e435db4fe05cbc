//! Extended page tables: from guest-physical to physical addresses.
//! [SDM3 "The Extended Page Table Mechanism (EPT)"]

use super::state::{Ept, Exit};
use crate::memory::Access;
use crate::memory::Located;
use crate::memory::OwnRights;
use crate::memory::paging::SystemTables;
use crate::vmx::apic;
use crate::vmx::exception;
use crate::vmx::intercept;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::vmx::ExitReason;
use arch::vmx::capability::EptVpid;
use arch::vmx::ept::EptEntry;
use arch::vmx::qualification::EptViolation;
use bus::walk::{Failure, Format, Leaf, walk};

/// Levels of the tables.
const LEVELS: u32 = 4;
/// Addresses that four levels cover; guest-physical bits above do not take part in the walk.
const ADDRESS_BITS: u32 = 48;
const FRAME: u64 = 0x000F_FFFF_FFFF_F000;
const PERMISSIONS: u64 = EptEntry::READABLE | EptEntry::WRITABLE | EptEntry::EXECUTABLE;
/// Permissions to fetch.
const FETCHES: u64 = EptEntry::EXECUTABLE | EptEntry::USER_EXECUTABLE;

/// EPT entries. What an entry grants is its bits 2:0, and bit 10 with mode-based execute control.
/// The accessed flag is combined with them: a walk tells whether all of its entries have it.
struct ExtendedTables {
    capabilities: EptVpid,
    /// Address bits above the physical ones.
    beyond: u64,
    /// Zero where accessed flags are not kept, or must not be set yet.
    accessed: u64,
    /// The bits that grant something.
    permissions: u64,
}

impl Format for ExtendedTables {
    const ENTRY_BYTES: u64 = 8;
    const INDEX_BITS: u32 = 9;

    fn accessed(&self) -> u64 {
        self.accessed
    }

    fn is_present(&self, entry: u64) -> bool {
        entry & self.permissions != 0
    }

    fn is_large(&self, entry: u64, level: u32) -> bool {
        let offered = match level {
            2 => EptVpid::PAGES_2M,
            3 => EptVpid::PAGES_1G,
            _ => return false,
        };
        entry & EptEntry::LARGE != 0 && self.capabilities.contains(offered)
    }

    fn is_malformed(&self, entry: u64, level: u32, is_leaf: bool) -> bool {
        let is_writable_alone =
            entry & (EptEntry::READABLE | EptEntry::WRITABLE) == EptEntry::WRITABLE;
        let is_executable_alone = entry & EptEntry::READABLE == 0
            && entry & self.permissions & FETCHES != 0
            && !self.capabilities.contains(EptVpid::EXECUTE_ONLY);
        let reserved = if is_leaf {
            EptEntry::reserved_in_leaf(level as u8)
        } else {
            // A large page that is not offered has bit 7 reserved.
            EptEntry::reserved_in_table(level as u8) | EptEntry::LARGE
        };
        is_writable_alone
            || is_executable_alone
            || entry & (reserved | self.beyond) != 0
            || is_leaf && EptEntry::from_bits(entry).has_reserved_memory_type()
    }

    fn rights(&self, entry: u64) -> u64 {
        entry & (self.permissions | EptEntry::ACCESSED)
    }

    fn table(&self, entry: u64) -> u64 {
        entry & FRAME
    }
}

/// What an access through EPT is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Operand(Access),
    /// An entry of the guest's own tables.
    Table,
    /// Accessed and dirty flags of such an entry.
    TableUpdate,
}

/// Where an operand lies.
#[cold]
pub(crate) fn operand_to_system(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: SystemPhysical,
    access: Access,
) -> Result<Located, Stop> {
    let Some(ept) = cpu.guest.running.vmx().and_then(|guest| guest.ept) else {
        return apic::apicv_locate(cpu, address, access);
    };
    let at = ept_walk(cpu, bus, ept, address.0, Purpose::Operand(access))?;
    apic::apicv_locate(cpu, at, access)
}

/// Where an entry of the guest's own tables lies.
#[cold]
pub(crate) fn table_to_system(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: SystemPhysical,
) -> Result<SystemPhysical, Stop> {
    match cpu.guest.running.vmx().and_then(|guest| guest.ept) {
        Some(ept) => ept_walk(cpu, bus, ept, address.0, Purpose::Table),
        None => Ok(address),
    }
}

/// While EPT keeps no accessed flags, the walk reads the guest's tables, and only setting a
/// flag there is a write. [SDM3 "EPT Violations"]
#[cold]
pub(crate) fn check_table_update(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: SystemPhysical,
) -> Result<(), Stop> {
    match cpu.guest.running.vmx().and_then(|guest| guest.ept) {
        Some(ept) if !ept.pointer.keeps_accessed_and_dirty() => {
            ept_walk(cpu, bus, ept, address.0, Purpose::TableUpdate).map(|_| ())
        }
        _ => Ok(()),
    }
}

pub(crate) fn nested_grants(cpu: &Cpu) -> (bool, bool) {
    let ept = cpu.guest.running.vmx().and_then(|guest| guest.ept);
    ept.map_or((true, true), |ept| ept.grants)
}

fn ept_walk(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    ept: Ept,
    address: u64,
    purpose: Purpose,
) -> Result<SystemPhysical, Stop> {
    let keeps = ept.pointer.keeps_accessed_and_dirty();
    // Accesses to the guest's tables count as writes while accessed flags are kept.
    let violation = violation_of(purpose, keeps);
    let log_is_full = ept.log.is_some() && ept.log_index >= arch::vmx::ept::LOG_ENTRIES;
    let capabilities = cpu.guest.vmx.capabilities.map_or(EptVpid::empty(), |c| c.ept_vpid);
    let user = if ept.separates_users { EptEntry::USER_EXECUTABLE } else { 0 };
    let format = ExtendedTables {
        capabilities,
        beyond: FRAME & !((1 << cpu.model.physical_bits()) - 1),
        accessed: if keeps && !log_is_full { EptEntry::ACCESSED } else { 0 },
        permissions: PERMISSIONS | user,
    };
    let walked = address & ((1 << ADDRESS_BITS) - 1);
    let mut tables = SystemTables { cpu, bus };
    let leaf = match walk(&format, &mut tables, ept.pointer.root(), LEVELS, walked) {
        Ok(leaf) => leaf,
        Err(Failure::Absent { entry, .. }) => {
            return Err(ept_violation(cpu, bus, address, violation, (entry, 0)));
        }
        Err(Failure::Malformed) => {
            let exit = Exit::new(ExitReason::EptMisconfiguration);
            return Err(intercept::exit_with(cpu, Exit { physical: address, ..exit }));
        }
        Err(Failure::Tables(never)) => match never {},
    };
    let needed = needed(cpu, ept, violation);
    if leaf.rights & needed != needed {
        return Err(ept_violation(cpu, bus, address, violation, (leaf.entry, leaf.rights)));
    }
    let dirty = if violation.is_write() { EptEntry::DIRTY } else { 0 };
    let used = if keeps { leaf.entry | EptEntry::ACCESSED | dirty } else { leaf.entry };
    if log_is_full && (used != leaf.entry || leaf.rights & EptEntry::ACCESSED == 0) {
        return Err(intercept::exit_with(cpu, Exit::new(ExitReason::PageModificationLogFull)));
    }
    if used != leaf.entry {
        cpu.write_entry(bus, leaf.place, used, 8);
    }
    if used & !leaf.entry & EptEntry::DIRTY != 0 {
        log_modification(cpu, bus, address);
    }
    remember_grants(cpu, &leaf, !keeps || used & EptEntry::DIRTY != 0);
    let in_page = (1u64 << leaf.page_bits) - 1;
    Ok(SystemPhysical(leaf.entry & FRAME & !in_page | address & in_page))
}

/// Whether later writes and fetches of the page need no further walk.
fn remember_grants(cpu: &mut Cpu, leaf: &Leaf<SystemPhysical>, is_dirty: bool) {
    if let Some(ept) = cpu.guest.running.vmx_mut().and_then(|guest| guest.ept.as_mut()) {
        let writes = leaf.rights & EptEntry::WRITABLE != 0 && is_dirty;
        let fetch = ept.fetch_permission(cpu.translation.own());
        ept.grants = (writes, leaf.rights & fetch != 0);
    }
}

/// The permissions that an access needs.
fn needed(cpu: &Cpu, ept: Ept, violation: EptViolation) -> u64 {
    let data = violation.into_bits() & (EptEntry::READABLE | EptEntry::WRITABLE);
    if violation.is_fetch() { data | ept.fetch_permission(cpu.translation.own()) } else { data }
}

/// [SDM3 "Page-Modification Logging"]
fn log_modification(cpu: &mut Cpu, bus: &mut Bus<'_>, address: u64) {
    let Some(ept) = cpu.guest.running.vmx_mut().and_then(|guest| guest.ept.as_mut()) else {
        return;
    };
    let Some(log) = ept.log else { return };
    let at = log.offset(8 * u64::from(ept.log_index));
    ept.log_index = ept.log_index.wrapping_sub(1);
    cpu.write_entry(bus, at, address & !0xFFF, 8);
}

/// `entry` is the one at which the walk ended, `granted` are the permissions of the whole walk:
/// none if the entry was not present.
fn ept_violation(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    address: u64,
    violation: EptViolation,
    (entry, granted): (u64, u64),
) -> Stop {
    let linear = cpu.translation.linear();
    let qualification = violation
        .with_is_readable(granted & EptEntry::READABLE != 0)
        .with_is_writable(granted & EptEntry::WRITABLE != 0)
        .with_is_executable(granted & EptEntry::EXECUTABLE != 0)
        .with_is_user_executable(granted & EptEntry::USER_EXECUTABLE != 0)
        .with_has_linear_address(linear.is_some());
    let is_final = qualification.is_final_translation() && linear.is_some();
    let mut qualification = qualification.with_is_final_translation(is_final);
    if is_final && exception::tells_own_rights(cpu) {
        let own = cpu.translation.own();
        qualification.set_guest_is_user(own.is_user);
        qualification.set_guest_is_writable(own.is_writable);
        qualification.set_guest_is_execute_disabled(!own.is_executable);
    }
    if let Some(stop) = exception::virtualization_exception(cpu, bus, entry, address, qualification)
    {
        return stop;
    }
    let exit = Exit::qualified(ExitReason::EptViolation, qualification.into_bits());
    intercept::exit_with(cpu, Exit { physical: address, linear: linear.unwrap_or(0), ..exit })
}

impl Ept {
    /// The permission that a fetch from a linear address needs, whatever the privilege level.
    /// [SDM3 "Mode-Based Execute Control for EPT"]
    fn fetch_permission(&self, own: OwnRights) -> u64 {
        if self.separates_users && own.is_user {
            EptEntry::USER_EXECUTABLE
        } else {
            EptEntry::EXECUTABLE
        }
    }
}

fn violation_of(purpose: Purpose, keeps_accessed: bool) -> EptViolation {
    let violation = EptViolation::new();
    match purpose {
        Purpose::Operand(access) => violation
            .with_is_read(access == Access::Read)
            .with_is_write(access == Access::Write)
            .with_is_fetch(access == Access::Execute)
            .with_is_final_translation(true),
        Purpose::Table => violation.with_is_read(true).with_is_write(keeps_accessed),
        Purpose::TableUpdate => violation.with_is_read(true).with_is_write(true),
    }
}

const _: () = assert!(PERMISSIONS == 7);
