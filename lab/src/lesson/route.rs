//! What an entry of an interrupt remapping table says.

use super::shared::in_hex;
use crate::silicon::remapping::{Format, Route};
use arch::amd_vi::{GuestEntry, LegacyEntry, RemappedEntry};
use arch::vt_d::{self, PostedEntry};
use board::Machine;

/// What an entry says: names and values of its fields, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether it leads to a vCPU.
    pub is_posted: bool,
    /// The section about such entries.
    pub rule: &'static str,
    fields: Vec<(&'static str, u64)>,
}

impl Entry {
    /// As it is now.
    pub fn of(route: &Route, machine: &Machine) -> Self {
        let raw = route.raw(machine).unwrap_or(0);
        match route.format {
            Format::Legacy => legacy(LegacyEntry::from_bits(raw as u32)),
            Format::Wide if RemappedEntry::from_bits(raw).is_guest() => {
                guest(GuestEntry::from_bits(raw))
            }
            Format::Wide => remapped(RemappedEntry::from_bits(raw)),
            Format::VtD if PostedEntry::from_bits(raw).is_posted() => {
                posted(PostedEntry::from_bits(raw))
            }
            Format::VtD => remapped_by_vt_d(vt_d::RemappedEntry::from_bits(raw)),
        }
    }

    /// The entry in words; `index` is its place in the table.
    pub fn describe(&self, index: u32) -> String {
        let fields: Vec<String> =
            self.fields.iter().map(|(name, value)| format!("{name} {}", in_hex(*value))).collect();
        format!("IRTE {index}: {}", fields.join(", "))
    }

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
        let entry = PostedEntry::new().with_is_posted(true).with_vector(0xE1);
        let entry = posted(entry.with_descriptor(arch::address::SystemPhysical(0x1_2345_6740)));
        assert!(entry.is_posted);
        assert_eq!(
            entry.describe(9),
            "IRTE 9: P 0, IM 1, URG 0, vector e1h, descriptor 123456740h"
        );
        let entry = vt_d::RemappedEntry::new().with_is_present(true).with_vector(0x22);
        let entry = remapped_by_vt_d(entry.with_destination(3));
        assert!(!entry.is_posted);
        assert_eq!(entry.describe(9), "IRTE 9: P 1, IM 0, DST 3, vector 22h");
    }
}
