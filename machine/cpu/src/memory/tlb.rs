//! The translation lookaside buffer: yields an index into RAM for a linear page.
//!
//! Entries carry a context number, which stands for an address space (ASID and PCID); a flush of an
//! address space gives it a new number. An entry grants what it was filled for: reads, writes
//! (which imply a dirty page) and fetches have a tag each.

use super::withheld::Withheld;
use arch::address::Linear;
use bus::Stamp;
use serde::{Deserialize, Serialize};
pub use translate::Translation as Entry;
use translate::translation_place;

/// Entries of one set; a power of two.
pub const ENTRIES: usize = 2048;
/// User accesses.
pub const USER: usize = 0;
/// Supervisor accesses while RFLAGS.AC is clear, and implicit ones.
pub const SUPERVISOR: usize = ENTRIES;
/// Supervisor accesses while RFLAGS.AC is set: SMAP is suspended.
pub const SUPERVISOR_AC: usize = 2 * ENTRIES;
/// Never filled: alignment checks or data breakpoints are on, so every access takes the slow path.
pub const CHECKED: usize = 3 * ENTRIES;

/// A tag that no address has.
pub(super) const NEVER: u64 = u64::MAX;
const _: () = assert!(ENTRIES == translate::TRANSLATIONS, "translated code looks into one set");
/// Context numbers are bits 11:0 of a tag.
const LAST_CONTEXT: u64 = 0xFFE;
/// Address spaces that keep their entries at one time.
const SPACES: usize = 64;

const EMPTY: Entry = Entry { read: NEVER, write: NEVER, execute: NEVER, offset: 0 };

/// An address space: what tags translations besides the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Space {
    asid: u32,
    pcid: u16,
    context: u64,
}

/// One processor's cached translations: four sets, of which privilege and checks select one.
#[derive(Clone, Serialize, Deserialize)]
pub struct Tlb {
    #[serde(with = "boxed")]
    pub(super) entries: Box<[Entry; 4 * ENTRIES]>,
    /// Entries that only the slow path finds; empty but for a debugger.
    #[serde(skip)]
    pub(super) withheld: Withheld,
    spaces: Vec<Space>,
    next_context: u64,
    /// The context of the running address space.
    pub(crate) context: u64,
    asid: u32,
    pcid: u16,
    /// Linear pages of large mappings in the buffer lie in this range.
    large_first: u64,
    large_last: u64,
    /// Counts flushes and evictions of fetched pages, so that a kept translation can be told from a
    /// valid one.
    pub(crate) epoch: u64,
    /// Changes with each entry, and with the running address space.
    #[serde(skip)]
    pub(crate) changes: Stamp,
}

/// A translation, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first byte of its 4 KiB.
    pub linear: Linear,
    /// Where it leads: an index into RAM.
    pub offset: u64,
    /// 0 is the host's.
    pub asid: u32,
    /// With PCIDE, of CR3.
    pub pcid: u16,
    /// For accesses at CPL 3.
    pub is_user: bool,
    /// Which accesses it serves.
    pub reads: bool,
    /// Which accesses it serves.
    pub writes: bool,
    /// Which accesses it serves.
    pub executes: bool,
}

/// What a translation buffer from a file cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTranslation {
    /// Of a page that is not one of RAM's.
    #[error(
        "translation {number} leads to index {index:#x} into RAM, must be a page below {size:#x}"
    )]
    Place {
        /// The entry's.
        number: usize,
        /// Where it leads.
        index: u64,
        /// Bytes of RAM.
        size: u64,
    },
    /// Of a page that is looked for elsewhere.
    #[error("translation {number} is of a page whose translations have another number")]
    Elsewhere {
        /// The entry's.
        number: usize,
    },
    /// A number of an address space that is none.
    #[error("address space {context:#x}, must be from 0x1 to {LAST_CONTEXT:#x}")]
    Context {
        /// The number.
        context: u64,
    },
    /// More address spaces than are kept.
    #[error("{0} address spaces, must be at most {SPACES}")]
    Spaces(usize),
    /// No set begins there.
    #[error("the set of translations at entry {0}, must be at one of 4 multiples of {ENTRIES}")]
    Set(usize),
}

impl Default for Tlb {
    fn default() -> Self {
        let mut tlb = Self {
            entries: Box::new([EMPTY; 4 * ENTRIES]),
            withheld: Withheld::default(),
            spaces: Vec::new(),
            next_context: 1,
            context: 0,
            asid: 0,
            pcid: 0,
            large_first: u64::MAX,
            large_last: 0,
            epoch: 0,
            changes: Stamp::default(),
        };
        tlb.select(0, 0);
        tlb
    }
}

impl Tlb {
    #[inline(always)]
    pub(super) fn slot(set: usize, linear: u64) -> usize {
        (set + translation_place(linear)) % (4 * ENTRIES)
    }

    /// Whether all that it says can be, in a machine with `ram` bytes of RAM: it comes from a file.
    pub(crate) fn check(&self, ram: u64) -> Result<(), BadTranslation> {
        let leads_nowhere = |entry: &Entry| {
            let grants = [entry.read, entry.write, entry.execute].iter().any(|tag| *tag != NEVER);
            let is_page = entry.offset & 0xFFF == 0 && entry.offset < ram & !0xFFF;
            grants && !is_page
        };
        if let Some(number) = self.entries.iter().position(leads_nowhere) {
            let index = self.entries[number].offset;
            return Err(BadTranslation::Place { number, index, size: ram });
        }
        // An access across two pages is told from one within a page by where entries are.
        let is_elsewhere = |(number, entry): &(usize, &Entry)| {
            let tags = [entry.read, entry.write, entry.execute];
            let mut granted = tags.into_iter().filter(|tag| *tag != NEVER);
            granted.any(|tag| translation_place(tag) != number % ENTRIES)
        };
        if let Some((number, _)) = self.entries.iter().enumerate().find(is_elsewhere) {
            return Err(BadTranslation::Elsewhere { number });
        }
        if self.spaces.len() > SPACES {
            return Err(BadTranslation::Spaces(self.spaces.len()));
        }
        let spaces = self.spaces.iter().map(|space| space.context);
        let mut used = spaces.chain([self.context, self.next_context.saturating_sub(1).max(1)]);
        match used.find(|context| !(1..=LAST_CONTEXT).contains(context)) {
            Some(context) => Err(BadTranslation::Context { context }),
            None => Ok(()),
        }
    }

    /// What is known of address spaces that keep their translations, for reports. A page may be
    /// held in several sets.
    pub fn held(&self) -> impl Iterator<Item = Held> {
        self.entries.iter().enumerate().filter_map(|(number, entry)| {
            let grants = [entry.read, entry.write, entry.execute];
            let tag = *grants.iter().find(|tag| **tag != NEVER)?;
            let space = self.spaces.iter().find(|space| space.context == tag & 0xFFF)?;
            let [reads, writes, executes] = grants.map(|grant| grant == tag);
            Some(Held {
                linear: Linear(tag & !0xFFF),
                offset: entry.offset,
                asid: space.asid,
                pcid: space.pcid,
                is_user: number / ENTRIES == USER / ENTRIES,
                reads,
                writes,
                executes,
            })
        })
    }

    /// All entries: a set behind the other.
    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.as_slice()
    }

    #[inline(always)]
    pub(crate) fn entry(&self, set: usize, linear: u64) -> &Entry {
        &self.entries[Self::slot(set, linear)]
    }

    /// The tag of a linear address in the running address space.
    #[inline(always)]
    pub(crate) fn tag(&self, linear: u64) -> u64 {
        linear & !0xFFF | self.context
    }

    /// Enters a translation. `is_large` if its page is larger than 4 KiB.
    pub(crate) fn fill(
        &mut self,
        set: usize,
        linear: u64,
        offset: u64,
        grants: (bool, bool, bool),
        is_large: bool,
    ) {
        self.changes.change();
        let tag = self.tag(linear);
        let grant = |on: bool| if on { tag } else { NEVER };
        let (read, write, execute) = grants;
        let slot = Self::slot(set, linear);
        if !self.withheld.is_empty()
            && let Some(withheld) = self.withheld.forget(slot)
        {
            self.entries[slot] = withheld;
        }
        let entry = &mut self.entries[slot];
        if entry.execute != NEVER && entry.execute != tag {
            self.epoch += 1;
        }
        *entry = Entry { read: grant(read), write: grant(write), execute: grant(execute), offset };
        if !self.withheld.is_empty() {
            self.entries[slot] = self.withheld.hold(slot, self.entries[slot]);
        }
        if is_large {
            self.large_first = self.large_first.min(linear & !0x3FFF_FFFF);
            self.large_last = self.large_last.max(linear | 0x3FFF_FFFF);
        }
    }

    /// Makes an address space the running one, keeping its translations.
    pub(crate) fn select(&mut self, asid: u32, pcid: u16) {
        self.asid = asid;
        self.pcid = pcid;
        self.epoch += 1;
        self.changes.change();
        let known = self.spaces.iter().find(|space| space.asid == asid && space.pcid == pcid);
        self.context = match known {
            Some(space) => space.context,
            None => self.admit(asid, pcid),
        };
    }

    fn admit(&mut self, asid: u32, pcid: u16) -> u64 {
        if self.next_context > LAST_CONTEXT {
            self.entries.fill(EMPTY);
            self.withheld.forget_all();
            self.spaces.clear();
            self.next_context = 1;
            self.large_first = u64::MAX;
            self.large_last = 0;
        }
        if self.spaces.len() == SPACES {
            self.spaces.remove(0);
        }
        let context = self.next_context;
        self.next_context += 1;
        self.spaces.push(Space { asid, pcid, context });
        context
    }

    /// Forgets all translations of the running address space.
    pub(crate) fn flush_current(&mut self) {
        self.flush_pcid(self.asid, self.pcid);
    }

    /// Forgets all translations of one address space.
    pub(crate) fn flush_pcid(&mut self, asid: u32, pcid: u16) {
        self.spaces.retain(|space| space.asid != asid || space.pcid != pcid);
        self.select(self.asid, self.pcid);
    }

    /// Forgets all translations of an ASID, global ones included.
    pub(crate) fn flush_asid(&mut self, asid: u32) {
        self.spaces.retain(|space| space.asid != asid);
        self.select(self.asid, self.pcid);
    }

    /// Forgets everything.
    pub fn flush_all(&mut self) {
        self.spaces.clear();
        self.select(self.asid, self.pcid);
    }

    /// The address space identifier of what runs; 0 is the host.
    pub fn asid(&self) -> u32 {
        self.asid
    }

    /// Forgets the translations of one page in every address space.
    pub(crate) fn flush_page(&mut self, linear: u64) {
        self.epoch += 1;
        self.changes.change();
        if (self.large_first..=self.large_last).contains(&linear) {
            return self.flush_all();
        }
        for set in [USER, SUPERVISOR, SUPERVISOR_AC] {
            let slot = Self::slot(set, linear);
            self.entries[slot] = EMPTY;
            self.withheld.forget(slot);
        }
    }
}

/// The entries in a snapshot: a sequence of known length.
mod boxed {
    use super::{ENTRIES, Entry};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    type Entries = Box<[Entry; 4 * ENTRIES]>;

    pub fn serialize<S: Serializer>(entries: &Entries, to: S) -> Result<S::Ok, S::Error> {
        entries.as_slice().serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Entries, D::Error> {
        let entries = Vec::<Entry>::deserialize(from)?.into_boxed_slice();
        entries.try_into().map_err(|entries: Box<[Entry]>| {
            Error::invalid_length(entries.len(), &"the translation buffer's number of entries")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: u64 = 16 << 20;

    fn checked(change: impl FnOnce(&mut Tlb)) -> Result<(), BadTranslation> {
        let mut tlb = Tlb::default();
        tlb.select(1, 2);
        tlb.fill(SUPERVISOR, 0x5000, RAM - 0x1000, (true, false, true), false);
        change(&mut tlb);
        tlb.check(RAM)
    }

    #[test]
    fn what_a_processor_has_filled_in_is_accepted() {
        assert_eq!(checked(|_| ()), Ok(()));
        assert_eq!(checked(|tlb| tlb.flush_all()), Ok(()));
        assert_eq!(checked(|tlb| (0..5000).for_each(|asid| tlb.select(asid, 0))), Ok(()));
    }

    #[test]
    fn a_translation_that_leads_out_of_ram_or_into_a_page_is_refused() {
        for index in [RAM, RAM - 1, 8, u64::MAX, 1 << 63] {
            let grants = [(true, false, false), (false, true, false), (false, false, true)];
            for grants in grants {
                let found = checked(|tlb| tlb.fill(USER, 0x7000, index, grants, false));
                assert_eq!(found, Err(BadTranslation::Place { number: 7, index, size: RAM }));
            }
        }
        assert_eq!(checked(|tlb| tlb.fill(USER, 0, RAM, (false, false, false), false)), Ok(()));
    }

    #[test]
    fn a_translation_in_the_place_of_another_page_is_refused() {
        let place = translation_place(0x40_3000);
        let moved = |tlb: &mut Tlb| {
            tlb.fill(USER, 0x40_3000, 0x1000, (true, true, false), false);
            tlb.entries.swap(place, place + 1);
        };
        assert_eq!(checked(moved), Err(BadTranslation::Elsewhere { number: place + 1 }));
        // In another set it is in its place.
        assert_eq!(checked(|tlb| tlb.entries.swap(place, SUPERVISOR + place)), Ok(()));
    }

    #[test]
    fn an_address_space_with_an_impossible_number_is_refused() {
        for context in [0, LAST_CONTEXT + 1, 0x1000, u64::MAX] {
            let refused = Err(BadTranslation::Context { context });
            assert_eq!(checked(|tlb| tlb.context = context), refused);
            assert_eq!(checked(|tlb| tlb.spaces[0].context = context), refused);
        }
        let found = checked(|tlb| tlb.spaces = vec![tlb.spaces[0]; SPACES + 1]);
        assert_eq!(found, Err(BadTranslation::Spaces(SPACES + 1)));
    }
}
