//! The entry of an interrupt remapping table that a device's message selects, where an IOMMU has
//! one, and what it says.

use super::shared::in_hex;
use arch::address::SystemPhysical;
use arch::amd_vi::device_table::{self, DeviceTableEntry};
use arch::amd_vi::register::{CONTROL, DEVICE_TABLE_BASE, DeviceTableBase};
use arch::amd_vi::remapping::{INDEX, LEGACY_SIZE, WIDE_SIZE};
use arch::amd_vi::{Control, GuestEntry, LegacyEntry, RemappedEntry};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register::{REMAPPING_TABLE_ADDRESS, RemappingTableAddress};
use arch::vt_d::remapping::ENTRY_SIZE;
use arch::vt_d::{self, PostedEntry, RemappableAddress};
use board::{Iommu, Machine};

/// Which entry, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    format: Format,
    index: u32,
    at: SystemPhysical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// AMD's of 32 bits.
    Legacy,
    /// AMD's of 128 bits.
    Wide,
    /// Intel's.
    VtD,
}

/// What an entry says: names and values of its fields, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether it leads to a vCPU.
    pub is_posted: bool,
    /// The section about such entries.
    pub rule: &'static str,
    fields: Vec<(&'static str, u64)>,
}

impl Route {
    /// None where nothing remaps.
    pub fn of(
        machine: &Machine,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Option<Self> {
        match machine.state.wiring.iommu.as_ref()? {
            unit @ Iommu::AmdVi(_) => {
                let base = DeviceTableBase::from_bits(unit.read(DEVICE_TABLE_BASE, 8)).base();
                let at = base.offset(u64::from(requester.0) * device_table::ENTRY_SIZE);
                let raw = [0, 8, 16, 24].map(|part| word(machine, at.offset(part)));
                let entry = DeviceTableEntry::from_quadwords(raw).interrupts;
                entry.is_valid().then_some(())?;
                let control = Control::from_bits(unit.read(CONTROL, 8));
                let (format, size) = match control.has_wide_remapping_entries() {
                    true => (Format::Wide, WIDE_SIZE),
                    false => (Format::Legacy, LEGACY_SIZE),
                };
                let index = message.data & INDEX;
                Some(Self { format, index, at: entry.table().offset(u64::from(index) * size) })
            }
            unit @ Iommu::VtD(_) => {
                let address = RemappableAddress::from_bits(message.address.0 as u32);
                address.is_remappable().then_some(())?;
                let index = address.index(message.data)?;
                let table = unit.read(REMAPPING_TABLE_ADDRESS, 8);
                let table = RemappingTableAddress::from_bits(table).table();
                let at = table.offset(u64::from(index) * ENTRY_SIZE);
                Some(Self { format: Format::VtD, index, at })
            }
        }
    }

    /// As it is now.
    pub fn read(&self, machine: &Machine) -> Entry {
        let low = word(machine, self.at);
        let wide = || u128::from(word(machine, self.at.offset(8))) << 64 | u128::from(low);
        match self.format {
            Format::Legacy => legacy(LegacyEntry::from_bits(low as u32)),
            Format::Wide if RemappedEntry::from_bits(wide()).is_guest() => {
                guest(GuestEntry::from_bits(wide()))
            }
            Format::Wide => remapped(RemappedEntry::from_bits(wide())),
            Format::VtD if PostedEntry::from_bits(wide()).is_posted() => {
                posted(PostedEntry::from_bits(wide()))
            }
            Format::VtD => remapped_by_vt_d(vt_d::RemappedEntry::from_bits(wide())),
        }
    }

    /// The entry in words.
    pub fn describe(&self, entry: &Entry) -> String {
        let fields: Vec<String> =
            entry.fields.iter().map(|(name, value)| format!("{name} {}", in_hex(*value))).collect();
        format!("IRTE {}: {}", self.index, fields.join(", "))
    }
}

impl Entry {
    /// The fields in which another is different, as `IRTE: NAME OLD -> NEW`.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        if self.rule != new.rule {
            return vec!["IRTE: has another format".into()];
        }
        let pairs = self.fields.iter().zip(&new.fields).filter(|(old, new)| old != new);
        pairs
            .map(|((name, old), (_, new))| {
                format!("IRTE: {name} {} -> {}", in_hex(*old), in_hex(*new))
            })
            .collect()
    }
}

fn word(machine: &Machine, at: SystemPhysical) -> u64 {
    machine.memory.read_u64(at).unwrap_or(0)
}

fn legacy(entry: LegacyEntry) -> Entry {
    Entry {
        is_posted: false,
        rule: "IOMMU \"Interrupt Remapping Table Entry — Basic Format\"",
        fields: vec![
            ("RemapEn", entry.is_enabled().into()),
            ("destination", entry.destination().into()),
            ("vector", entry.vector().into()),
        ],
    }
}

fn remapped(entry: RemappedEntry) -> Entry {
    Entry {
        is_posted: false,
        rule: "IOMMU \"Interrupt Remapping Table Entry — Guest Virtual APIC Disabled\"",
        fields: vec![
            ("RemapEn", entry.is_enabled().into()),
            ("GuestMode", 0),
            ("destination", entry.destination().into()),
            ("vector", entry.vector().into()),
        ],
    }
}

fn guest(entry: GuestEntry) -> Entry {
    Entry {
        is_posted: true,
        rule: "IOMMU \"Interrupt Remapping Table Entry — Guest Virtual APIC Enabled\"",
        fields: vec![
            ("RemapEn", entry.is_enabled().into()),
            ("GuestMode", 1),
            ("IsRun", entry.is_running().into()),
            ("destination", entry.destination().0.into()),
            ("GALogIntr", entry.logs().into()),
            ("GATag", entry.tag().into()),
            ("vector", entry.vector().into()),
            ("backing page", entry.backing_page().0),
        ],
    }
}

fn remapped_by_vt_d(entry: vt_d::RemappedEntry) -> Entry {
    Entry {
        is_posted: false,
        rule: "VTD \"Interrupt Remapping Table Entry (IRTE) for Remapped Interrupts\"",
        fields: vec![
            ("P", entry.is_present().into()),
            ("IM", 0),
            ("DST", entry.destination().into()),
            ("vector", entry.vector().into()),
        ],
    }
}

fn posted(entry: PostedEntry) -> Entry {
    Entry {
        is_posted: true,
        rule: "VTD \"Interrupt Remapping Table Entry (IRTE) for Posted Interrupts\"",
        fields: vec![
            ("P", entry.is_present().into()),
            ("IM", 1),
            ("URG", entry.is_urgent().into()),
            ("vector", entry.vector().into()),
            ("descriptor", entry.descriptor().0),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kvm_changes_when_a_vcpu_begins_to_run_is_named() {
        let asleep = GuestEntry::new().with_is_enabled(true).with_is_guest(true).with_tag(0x10003);
        let runs = asleep.with_is_running(true).with_destination(arch::identity::ApicId(12));
        assert_eq!(
            guest(asleep).changes(&guest(runs)),
            ["IRTE: IsRun 0 -> 1", "IRTE: destination 0 -> ch"]
        );
        assert_eq!(guest(asleep).changes(&guest(asleep)), Vec::<String>::new());
    }

    #[test]
    fn an_entry_says_whether_it_leads_to_a_vcpu_or_to_a_processor_of_the_host() {
        let route = Route { format: Format::VtD, index: 9, at: SystemPhysical(0) };
        let entry = PostedEntry::new().with_is_posted(true).with_vector(0xE1);
        let entry = posted(entry.with_descriptor(SystemPhysical(0x1_2345_6740)));
        assert!(entry.is_posted);
        assert_eq!(
            route.describe(&entry),
            "IRTE 9: P 0, IM 1, URG 0, vector e1h, descriptor 123456740h"
        );
        let entry = vt_d::RemappedEntry::new().with_is_present(true).with_vector(0x22);
        let entry = remapped_by_vt_d(entry.with_destination(3));
        assert!(!entry.is_posted);
        assert_eq!(route.describe(&entry), "IRTE 9: P 1, IM 0, DST 3, vector 22h");
    }
}
