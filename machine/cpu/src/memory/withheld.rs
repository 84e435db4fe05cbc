//! Translations that the TLB knows and keeps to itself, for a debugger outside the machine: an
//! access of such a page takes the slow path, which looks at it and finds here what it would have
//! found on the fast one. So nothing shows that anybody looks but the host's time.

use super::tlb::{ENTRIES, Entry, NEVER, Tlb};
use super::{Access, sets};
use std::collections::BTreeMap;

/// Pages that a debugger looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// The linear address of any byte in the first.
    pub first: u64,
    /// The linear address of any byte in the last.
    pub last: u64,
    /// Otherwise their fetches are looked at.
    pub is_data: bool,
}

/// What is withheld.
#[derive(Clone, Debug, Default)]
pub(super) struct Withheld {
    pages: Vec<Pages>,
    /// By the slot that they belong into.
    entries: BTreeMap<usize, Entry>,
}

impl Withheld {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn forget(&mut self, slot: usize) -> Option<Entry> {
        self.entries.remove(&slot)
    }

    pub(super) fn forget_all(&mut self) {
        self.entries.clear();
    }

    /// What the slot shows of an entry.
    pub(super) fn hold(&mut self, slot: usize, entry: Entry) -> Entry {
        let tags = [entry.read, entry.write, entry.execute];
        let Some(tag) = tags.into_iter().find(|tag| *tag != NEVER) else { return entry };
        let page = tag >> 12;
        let mut shown = entry;
        for pages in &self.pages {
            if !(pages.first >> 12..=pages.last >> 12).contains(&page) {
            } else if pages.is_data {
                (shown.read, shown.write) = (NEVER, NEVER);
            } else {
                shown.execute = NEVER;
            }
        }
        if [shown.read, shown.write, shown.execute] != tags {
            self.entries.insert(slot, entry);
        }
        shown
    }
}

impl Tlb {
    /// These pages' accesses take the slow path from now on, and no others' do.
    pub(crate) fn withhold(&mut self, pages: Vec<Pages>) {
        self.changes.change();
        for (slot, entry) in std::mem::take(&mut self.withheld.entries) {
            self.entries[slot] = entry;
        }
        self.withheld.pages = pages;
        if self.withheld.is_empty() {
            return;
        }
        for slot in 0..sets::CHECKED {
            self.entries[slot] = self.withheld.hold(slot, self.entries[slot]);
        }
    }

    /// Whether some pages' accesses take the slow path.
    pub(crate) fn is_withholding(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// The index into RAM of the page of `linear`, if that is withheld and allows the access.
    pub(crate) fn withheld(&self, set: usize, linear: u64, access: Access) -> Option<u64> {
        if self.withheld.is_empty() {
            return None;
        }
        let entry = self.withheld.entries.get(&Self::slot(set, linear))?;
        let tag = match access {
            Access::Read => entry.read,
            Access::Write => entry.write,
            Access::Execute => entry.execute,
        };
        (tag == self.tag(linear)).then_some(entry.offset)
    }
}

const _: () = assert!(sets::CHECKED == 3 * ENTRIES, "what is never filled comes last");
