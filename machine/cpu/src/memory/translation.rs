//! What linear addresses are translated with, and what the last translation has left behind.

use super::Place;
use super::access::Access;
use super::outside::Outside;
use super::tlb::{self, BadTranslation, Entry, Tlb};
use serde::{Deserialize, Serialize};

/// What the running software's tables grant to a linear address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnRights {
    /// A user-mode address: the privilege level does not matter.
    pub is_user: bool,
    pub is_writable: bool,
    pub is_executable: bool,
}

impl OwnRights {
    /// Without paging every address is a user-mode address that may be written and executed.
    /// [SDM3 "Exit Qualification for EPT Violations"]
    pub const UNPAGED: Self = Self { is_user: true, is_writable: true, is_executable: true };
}

/// Translations of the running and of recent address spaces.
#[derive(Clone, Serialize, Deserialize)]
pub struct Translation {
    /// Those that are known.
    pub tlb: Tlb,
    /// The set of the TLB that data accesses use; see `Cpu::update_access_mode`.
    set: usize,
    /// The linear address that a guest's access is being translated for; `None` where there is
    /// none.
    linear: Option<u64>,
    /// What the guest's own tables say of that address, once it is translated.
    own: OwnRights,
    /// Walks that led outside RAM.
    #[serde(skip)]
    pub(super) outside: Outside,
    #[serde(skip)]
    asked: Option<Asked>,
    /// An entry of a table came from outside RAM since this was cleared.
    #[serde(skip)]
    pub(super) read_device: bool,
}

/// What an instruction wanted that asks to be executed by itself.
#[derive(Clone, Copy, Debug)]
struct Asked {
    linear: u64,
    size: usize,
    access: Access,
    place: Place,
}

impl Default for Translation {
    fn default() -> Self {
        Self {
            tlb: Tlb::default(),
            set: 0,
            linear: None,
            own: OwnRights::UNPAGED,
            outside: Outside::default(),
            asked: None,
            read_device: false,
        }
    }
}

impl Translation {
    /// Whether what a file says of it can be, in a machine with `ram` bytes of RAM.
    pub fn check(&self, ram: u64) -> Result<(), BadTranslation> {
        if self.set > tlb::CHECKED || !self.set.is_multiple_of(tlb::ENTRIES) {
            return Err(BadTranslation::Set(self.set));
        }
        self.tlb.check(ram)
    }

    /// The set that data accesses use.
    #[inline(always)]
    pub(crate) fn set(&self) -> usize {
        self.set
    }

    /// Data accesses use this set from now on.
    #[inline(always)]
    pub(crate) fn select(&mut self, set: usize) {
        self.set = set;
    }

    /// Whether each data access is looked at.
    #[inline(always)]
    pub(crate) fn is_checked(&self) -> bool {
        self.set == tlb::CHECKED
    }

    /// The entry where a data access at `linear` is, if the TLB knows it.
    #[inline(always)]
    pub(crate) fn entry(&self, linear: u64) -> &Entry {
        self.tlb.entry(self.set, linear)
    }

    /// The linear page, of the running address space, that has the entry where a data access at
    /// `linear` is looked for.
    pub(crate) fn page_at(&self, linear: u64) -> Option<u64> {
        let entry = self.entry(linear);
        let is_running = |tag: &u64| *tag == self.tlb.tag(*tag);
        [entry.read, entry.write].into_iter().find(is_running).map(|tag| tag & !0xFFF)
    }

    /// The index into RAM of `[linear, linear + size)` if the TLB has it for `access`, in one page.
    #[inline(always)]
    pub(crate) fn ram_known(&self, linear: u64, size: usize, access: Access) -> Option<usize> {
        self.ram_known_in(self.set, linear, size, access)
    }

    /// The same in a set that is not that of the running software's data.
    #[inline(always)]
    pub(crate) fn ram_known_in(
        &self,
        set: usize,
        linear: u64,
        size: usize,
        access: Access,
    ) -> Option<usize> {
        let entry = self.tlb.entry(set, linear);
        let held = if access == Access::Write { entry.write } else { entry.read };
        // The last byte's page is that of the entry only if it is the first byte's, too.
        let last = linear.wrapping_add(size as u64 - 1);
        (held == self.tlb.tag(last)).then(|| (entry.offset + (linear & 0xFFF)) as usize)
    }

    /// The instruction that wants this place of a device asks to be executed by itself.
    pub(super) fn ask(&mut self, linear: u64, size: usize, access: Access, place: Place) {
        self.asked = Some(Asked { linear, size, access, place });
    }

    /// What was asked for, if it is this.
    pub(super) fn take_asked(&mut self, linear: u64, size: usize, access: Access) -> Option<Place> {
        let asked = self.asked.take()?;
        let is_this = asked.linear == linear && asked.size == size && asked.access == access;
        is_this.then_some(asked.place)
    }

    /// Something came between the question and the instruction.
    pub(crate) fn forget_asked(&mut self) {
        self.asked = None;
    }

    /// The linear address that an access is being translated for; `None` where there is none.
    pub(crate) fn linear(&self) -> Option<u64> {
        self.linear
    }

    /// An access of this address, or of none, is being translated.
    pub(crate) fn begin(&mut self, linear: Option<u64>) {
        self.linear = linear;
    }

    /// What the running software's own tables say of the address translated last.
    pub(crate) fn own(&self) -> OwnRights {
        self.own
    }

    /// They say so.
    pub(crate) fn grant(&mut self, own: OwnRights) {
        self.own = own;
    }
}
