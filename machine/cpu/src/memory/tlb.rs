//! The translation lookaside buffer: yields an index into RAM for a linear page.
//!
//! Entries carry a context number, which stands for an address space (ASID and PCID); a flush of an
//! address space gives it a new number. An entry grants what it was filled for: reads, writes
//! (which imply a dirty page) and fetches have a tag each.

use serde::{Deserialize, Serialize};
pub use translate::Translation as Entry;

/// Entries of one set; a power of two.
pub const ENTRIES: usize = 1024;
/// User accesses.
pub const USER: usize = 0;
/// Supervisor accesses while RFLAGS.AC is clear, and implicit ones.
pub const SUPERVISOR: usize = ENTRIES;
/// Supervisor accesses while RFLAGS.AC is set: SMAP is suspended.
pub const SUPERVISOR_AC: usize = 2 * ENTRIES;
/// Never filled: alignment checks or data breakpoints are on, so every access takes the slow path.
pub const CHECKED: usize = 3 * ENTRIES;

const NEVER: u64 = u64::MAX;
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
    entries: Box<[Entry; 4 * ENTRIES]>,
    spaces: Vec<Space>,
    next_context: u64,
    /// The context of the running address space.
    pub(crate) context: u64,
    asid: u32,
    pcid: u16,
    /// Linear pages of large mappings in the buffer lie in this range.
    large_first: u64,
    large_last: u64,
    /// Counts flushes and evictions of fetched pages, so that whoever kept a translation can tell.
    pub(crate) epoch: u64,
}

impl Default for Tlb {
    fn default() -> Self {
        let mut tlb = Self {
            entries: Box::new([EMPTY; 4 * ENTRIES]),
            spaces: Vec::new(),
            next_context: 1,
            context: 0,
            asid: 0,
            pcid: 0,
            large_first: u64::MAX,
            large_last: 0,
            epoch: 0,
        };
        tlb.select(0, 0);
        tlb
    }
}

impl Tlb {
    #[inline(always)]
    fn slot(set: usize, linear: u64) -> usize {
        (set + (linear >> 12) as usize % ENTRIES) % (4 * ENTRIES)
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
        let tag = self.tag(linear);
        let grant = |on: bool| if on { tag } else { NEVER };
        let (read, write, execute) = grants;
        let entry = &mut self.entries[Self::slot(set, linear)];
        if entry.execute != NEVER && entry.execute != tag {
            self.epoch += 1;
        }
        *entry = Entry { read: grant(read), write: grant(write), execute: grant(execute), offset };
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
        let known = self.spaces.iter().find(|space| space.asid == asid && space.pcid == pcid);
        self.context = match known {
            Some(space) => space.context,
            None => self.admit(asid, pcid),
        };
    }

    fn admit(&mut self, asid: u32, pcid: u16) -> u64 {
        if self.next_context > LAST_CONTEXT {
            self.entries.fill(EMPTY);
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
        if (self.large_first..=self.large_last).contains(&linear) {
            return self.flush_all();
        }
        for set in [USER, SUPERVISOR, SUPERVISOR_AC] {
            self.entries[Self::slot(set, linear)] = EMPTY;
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
