//! Walks that led outside RAM, where the TLB of this machine has no entries: registers of the local
//! APIC, of devices. Each access there walks three times, as it is tried, put off and made.
//!
//! What is remembered is only the way: if all that the walk depended on is as it was, the entries
//! in memory among them, the walk would say the same. So nothing has to be forgotten, and nothing
//! shows that a walk was spared.

use super::{Access, OwnRights};
use crate::state::Control;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use bus::GuestMemory;

/// Pages that are remembered at one time; a power of two. Linux maps what it uses of them at
/// addresses that follow each other.
const PAGES: usize = 8;
/// Entries of a walk through four levels.
const LEVELS: usize = 4;

/// What decides about a walk besides the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rules {
    cr0: Cr0,
    cr3: u64,
    cr4: Cr4,
    efer: Efer,
    pkru: u32,
}

impl Rules {
    fn of(control: &Control) -> Self {
        Self {
            cr0: control.cr0(),
            cr3: control.cr3,
            cr4: control.cr4(),
            efer: control.efer(),
            pkru: control.pkru,
        }
    }
}

/// The entries that a walk has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trail {
    /// Index into RAM, and what was there.
    entries: [(usize, u64); LEVELS],
    length: usize,
}

impl Trail {
    /// The walk has read this entry.
    pub(super) fn note(&mut self, at: usize, raw: u64) {
        if let Some(entry) = self.entries.get_mut(self.length) {
            *entry = (at, raw);
            self.length += 1;
        }
    }

    fn is_as_it_was(&self, memory: &GuestMemory) -> bool {
        let reads = |at: usize| memory.ram.get(at..)?.first_chunk();
        self.entries[..self.length].iter().all(|(at, raw)| reads(*at) == Some(&raw.to_le_bytes()))
    }
}

/// Where a walk has led.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The page's first byte.
    pub page: SystemPhysical,
    /// Reads, writes, fetches.
    pub grants: (bool, bool, bool),
    pub own: OwnRights,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    set: usize,
    rules: Rules,
    trail: Trail,
    end: End,
}

impl Way {
    #[inline(never)]
    fn end_for(
        &self,
        control: &Control,
        memory: &GuestMemory,
        access: Access,
        set: usize,
    ) -> Option<&End> {
        let is_same =
            self.set == set && self.rules == Rules::of(control) && self.trail.is_as_it_was(memory);
        (is_same && access.is_granted(self.end.grants)).then_some(&self.end)
    }
}

/// The ways that are remembered, by the linear page.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    /// Of which pages; looked at first.
    pages: [u64; PAGES],
    ways: [Option<Way>; PAGES],
}

/// No page begins there.
const NOWHERE: u64 = u64::MAX;

impl Default for Outside {
    fn default() -> Self {
        Self { pages: [NOWHERE; PAGES], ways: [None; PAGES] }
    }
}

impl Outside {
    fn slot(linear: u64) -> usize {
        (linear >> 12) as usize % PAGES
    }

    /// A walk for `linear` has come to this end, outside RAM.
    pub(super) fn remember(
        &mut self,
        control: &Control,
        linear: u64,
        set: usize,
        trail: Trail,
        end: End,
    ) {
        let rules = Rules::of(control);
        let slot = Self::slot(linear);
        self.pages[slot] = linear & !0xFFF;
        self.ways[slot] = Some(Way { set, rules, trail, end });
    }

    /// Where a walk would lead, if it is remembered and the access is granted.
    #[inline(always)]
    pub(super) fn recall(
        &self,
        control: &Control,
        memory: &GuestMemory,
        linear: u64,
        access: Access,
        set: usize,
    ) -> Option<&End> {
        let slot = Self::slot(linear);
        if self.pages[slot] != linear & !0xFFF {
            return None;
        }
        self.ways[slot].as_ref()?.end_for(control, memory, access, set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sets;
    use crate::system::tests::cpu;

    const LINEAR: u64 = 0xFFFF_8000_FEE0_0300;
    const ENTRY: usize = 0x1F00;
    const RAW: u64 = 0xFEE0_0063;

    #[test]
    fn a_way_is_known_as_long_as_all_that_it_rests_on_is_as_it_was() {
        let mut memory = GuestMemory::new(1 << 20);
        memory.ram[ENTRY..][..8].copy_from_slice(&RAW.to_le_bytes());
        let mut control = cpu("zen4").control;
        let mut trail = Trail::default();
        trail.note(ENTRY, RAW);
        let end = End {
            page: SystemPhysical(0xFEE0_0000),
            grants: (true, true, false),
            own: OwnRights::UNPAGED,
        };
        let mut ways = Outside::default();
        ways.remember(&control, LINEAR, sets::SUPERVISOR, trail, end);
        let known = |control: &Control, memory: &GuestMemory, linear, access, set| {
            ways.recall(control, memory, linear, access, set).map(|end| end.page)
        };
        let (write, set) = (Access::Write, sets::SUPERVISOR);
        let there = Some(SystemPhysical(0xFEE0_0000));
        assert_eq!(known(&control, &memory, LINEAR + 0x10, write, set), there);
        assert_eq!(known(&control, &memory, LINEAR, Access::Execute, set), None, "not granted");
        assert_eq!(known(&control, &memory, LINEAR, write, sets::USER), None);
        assert_eq!(known(&control, &memory, LINEAR + 0x8000, write, set), None, "another page");
        memory.ram[ENTRY + 5] ^= 1;
        assert_eq!(known(&control, &memory, LINEAR, write, set), None, "the entry has changed");
        memory.ram[ENTRY + 5] ^= 1;
        control.pkru ^= 1;
        assert_eq!(known(&control, &memory, LINEAR, write, set), None);
        control.pkru ^= 1;
        assert_eq!(known(&control, &memory, LINEAR, write, set), there);
        control.cr3 ^= 0x1000;
        assert_eq!(known(&control, &memory, LINEAR, write, set), None);
    }
}
