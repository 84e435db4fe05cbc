//! What becomes of a function's message, by the IOMMU's tables in memory.

use arch::address::SystemPhysical;
use arch::amd_vi::device_table::ENTRY_SIZE as DEVICE_ENTRY;
use arch::amd_vi::register as amd_register;
use arch::amd_vi::register::DeviceTableBase;
use arch::amd_vi::remapping::{INDEX, WIDE_SIZE};
use arch::amd_vi::{Control, GuestEntry, InterruptControl, InterruptHalf};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register as intel_register;
use arch::vt_d::register::RemappingTableAddress;
use arch::vt_d::remapping::ENTRY_SIZE;
use arch::vt_d::{GlobalCommand, PostedEntry, RemappableAddress, RemappedEntry};
use board::{Iommu, Machine};

/// Where a message is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// Into the backing page that this entry names, which says whether its vCPU runs.
    Entry(GuestEntry),
    /// Into this descriptor, which does.
    Descriptor(SystemPhysical),
}

/// Where a function's message would be posted now. An IOMMU may hold another entry for a while, but
/// asks memory each time whether the vCPU runs. [IOMMU "Guest Virtual APIC Interrupt Controller"]
/// [VTD "Interrupt-Posting Hardware Operation"]
pub(crate) fn posting(
    machine: &Machine,
    requester: RequesterId,
    message: MessageSignalled,
) -> Option<Posting> {
    match machine.state.wiring.iommu.as_ref()? {
        iommu @ Iommu::AmdVi(_) => {
            guest_entry(machine, iommu, requester, message.data).map(Posting::Entry)
        }
        iommu @ Iommu::VtD(_) => descriptor(machine, iommu, message).map(Posting::Descriptor),
    }
}

fn wide(machine: &Machine, at: SystemPhysical) -> Option<u128> {
    let quadword = |at| machine.memory.read_u64(at).ok();
    Some(u128::from(quadword(at.offset(8))?) << 64 | u128::from(quadword(at)?))
}

fn guest_entry(
    machine: &Machine,
    iommu: &Iommu,
    requester: RequesterId,
    data: u32,
) -> Option<GuestEntry> {
    let control = Control::from_bits(iommu.read(amd_register::CONTROL, 8));
    let base = DeviceTableBase::from_bits(iommu.read(amd_register::DEVICE_TABLE_BASE, 8));
    let function = u64::from(requester.0) * DEVICE_ENTRY;
    if !control.is_enabled() || !control.has_wide_remapping_entries() || function >= base.bytes() {
        return None;
    }
    let half = InterruptHalf::from_bits(wide(machine, base.base().offset(function + 16))?);
    let index = u64::from(data & INDEX);
    let is_used = half.is_valid() && half.control() == InterruptControl::Remap;
    if !is_used || index >= 1 << half.table_length() {
        return None;
    }
    let entry = GuestEntry::from_bits(wide(machine, half.table().offset(index * WIDE_SIZE))?);
    (entry.is_enabled() && entry.is_guest()).then_some(entry)
}

fn descriptor(
    machine: &Machine,
    unit: &Iommu,
    message: MessageSignalled,
) -> Option<SystemPhysical> {
    let status =
        GlobalCommand::from_bits_retain(unit.read(intel_register::GLOBAL_STATUS, 4) as u32);
    let table =
        RemappingTableAddress::from_bits(unit.read(intel_register::REMAPPING_TABLE_ADDRESS, 8));
    let address = RemappableAddress::from_bits(message.address.0 as u32);
    let index = address.index(message.data).filter(|index| *index < table.entries())?;
    if !status.contains(GlobalCommand::REMAPPING_ENABLE) || !address.is_remappable() {
        return None;
    }
    let raw = wide(machine, table.table().offset(u64::from(index) * ENTRY_SIZE))?;
    let entry = RemappedEntry::from_bits(raw);
    let is_posted = entry.is_present() && entry.is_posted();
    is_posted.then(|| PostedEntry::from_bits(raw).descriptor())
}
