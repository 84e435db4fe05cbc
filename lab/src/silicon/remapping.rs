//! The entry of an interrupt remapping table that a device's message selects, where an IOMMU has
//! one.

use arch::address::SystemPhysical;
use arch::amd_vi::device_table::{self, DeviceTableEntry};
use arch::amd_vi::register::{CONTROL, DEVICE_TABLE_BASE, DeviceTableBase};
use arch::amd_vi::remapping::{INDEX, LEGACY_SIZE, WIDE_SIZE};
use arch::amd_vi::{Control, GuestEntry, InterruptControl};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register::{GLOBAL_STATUS, REMAPPING_TABLE_ADDRESS, RemappingTableAddress};
use arch::vt_d::remapping::ENTRY_SIZE;
use arch::vt_d::{GlobalCommand, PostedEntry, RemappableAddress, RemappedEntry};
use board::{Iommu, Machine};

/// Which entry, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub format: Format,
    /// In its table.
    pub index: u32,
    at: SystemPhysical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// AMD's of 32 bits.
    Legacy,
    /// AMD's of 128 bits.
    Wide,
    /// Intel's.
    VtD,
}

/// Where a message is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// Into the backing page that this entry names, which says whether its vCPU runs.
    Entry(GuestEntry),
    /// Into this descriptor, which does.
    Descriptor(SystemPhysical),
}

impl Route {
    /// None where nothing remaps.
    pub fn of(
        machine: &Machine,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Option<Self> {
        match machine.state.wiring.iommu.as_ref()? {
            unit @ Iommu::AmdVi(_) => Self::of_amd_vi(machine, unit, requester, message),
            unit @ Iommu::VtD(_) => Self::of_vt_d(unit, message),
        }
    }

    /// [IOMMU "Interrupt Remapping Tables"]
    fn of_amd_vi(
        machine: &Machine,
        unit: &Iommu,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Option<Self> {
        let control = Control::from_bits(unit.read(CONTROL, 8));
        let base = DeviceTableBase::from_bits(unit.read(DEVICE_TABLE_BASE, 8));
        let function = u64::from(requester.0) * device_table::ENTRY_SIZE;
        (control.is_enabled() && function < base.bytes()).then_some(())?;
        let word = |part| quadword(machine, base.base().offset(function + part));
        let raw = [word(0)?, word(8)?, word(16)?, word(24)?];
        let half = DeviceTableEntry::from_quadwords(raw).interrupts;
        let index = message.data & INDEX;
        let is_used = half.is_valid() && half.control() == InterruptControl::Remap;
        (is_used && index < 1 << half.table_length()).then_some(())?;
        let (format, size) = match control.has_wide_remapping_entries() {
            true => (Format::Wide, WIDE_SIZE),
            false => (Format::Legacy, LEGACY_SIZE),
        };
        Some(Self { format, index, at: half.table().offset(u64::from(index) * size) })
    }

    /// [VTD "Interrupt Remapping"]
    fn of_vt_d(unit: &Iommu, message: MessageSignalled) -> Option<Self> {
        let status = GlobalCommand::from_bits_retain(unit.read(GLOBAL_STATUS, 4) as u32);
        let address = RemappableAddress::from_bits(message.address.0 as u32);
        let remaps = status.contains(GlobalCommand::REMAPPING_ENABLE);
        (remaps && address.is_remappable()).then_some(())?;
        let table = RemappingTableAddress::from_bits(unit.read(REMAPPING_TABLE_ADDRESS, 8));
        let index = address.index(message.data).filter(|index| *index < table.entries())?;
        let at = table.table().offset(u64::from(index) * ENTRY_SIZE);
        Some(Self { format: Format::VtD, index, at })
    }

    /// The entry as it is in memory now, where there is memory. An IOMMU may hold another one for a
    /// while, but asks memory each time whether a vCPU runs.
    /// [IOMMU "Guest Virtual APIC Interrupt Controller"]
    pub fn raw(&self, machine: &Machine) -> Option<u128> {
        if self.format == Format::Legacy {
            return machine.memory.read_u32(self.at).ok().map(u128::from);
        }
        let high = quadword(machine, self.at.offset(8))?;
        Some(u128::from(high) << 64 | u128::from(quadword(machine, self.at)?))
    }

    /// Where the message would be posted now, if it would be.
    pub fn posting(&self, machine: &Machine) -> Option<Posting> {
        let raw = self.raw(machine)?;
        let (guest, intel) = (GuestEntry::from_bits(raw), RemappedEntry::from_bits(raw));
        match self.format {
            Format::Wide if guest.is_enabled() && guest.is_guest() => Some(Posting::Entry(guest)),
            Format::VtD if intel.is_present() && intel.is_posted() => {
                Some(Posting::Descriptor(PostedEntry::from_bits(raw).descriptor()))
            }
            _ => None,
        }
    }
}

fn quadword(machine: &Machine, at: SystemPhysical) -> Option<u64> {
    machine.memory.read_u64(at).ok()
}
