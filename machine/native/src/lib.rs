//! Executable memory, and the way into translated code and out of it. The README says why what is
//! unsafe here is sound.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod arena;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "absent.rs"]
mod arena;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod gate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod mapping;

pub use arena::Arena;
use translate::{State, Translation, Wanted};

/// The beginning of a block's code in the arena that published it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    offset: u32,
    /// Of the arena when it was published; no other arena of the process has had it.
    age: u64,
}

/// A link of a published block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// The link that [`translate::Exit::Link`] names.
    pub fn of(number: u32) -> Self {
        Self(number)
    }

    pub fn number(self) -> u32 {
        self.0
    }
}

/// Numbers that are the same only while what accesses were found by is the same: the TLB's entries
/// for data of the running address space, and which pages have watched lines.
pub type Version = [u64; 5];

/// What a machine lends.
pub struct Ground<'a> {
    pub ram: &'a mut [u8],
    /// Per page of RAM, not zero if some of its lines are watched.
    pub watched: &'a [u64],
    /// The TLB, in sets of [`translate::TRANSLATIONS`].
    pub tlb: &'a [Translation],
    /// XMM0 to XMM15; for windows, if instructions that use them may be executed.
    pub vectors: Option<&'a mut [u128; 16]>,
    /// The high halves of YMM0 to YMM15; for windows, if instructions of AVX2 may be executed.
    pub high_halves: Option<&'a mut [u128; 16]>,
    /// Without one, what was found is forgotten wherever it may have changed.
    pub version: Option<Version>,
}

/// What a machine lets code touch.
pub struct Windows<'a> {
    pub ground: Ground<'a>,
    /// Where in the TLB the set for data begins, and that for fetches.
    pub sets: (usize, usize),
    pub context: u64,
    /// As [`translate::Windows::fs_base`] has it.
    pub fs_base: u64,
    pub gs_base: u64,
    /// Whether code may do string instructions, as [`translate::Windows::strings`] says it.
    pub strings: bool,
}

/// What code runs in.
pub trait Machine {
    /// Writes the state that code begins with, except for why it is left.
    fn begin(&mut self, state: &mut State);

    /// Takes the state that code has left.
    fn end(&mut self, state: &State);

    fn windows(&mut self) -> Windows<'_>;

    /// The ground of the windows, its registers whether they may be used or not.
    fn ground(&mut self) -> Ground<'_>;

    /// Does the instruction of a number by its handler.
    fn call(&mut self, state: &mut State, number: u32) -> After;

    /// Has the TLB know an access to a linear address. Of the state nothing may change but the
    /// room, of what the windows show nothing but the entry of the TLB.
    fn fill(&mut self, state: &mut State, linear: u64, wanted: Wanted) -> Filled;
}

/// What comes after a handler's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Code is left.
    Leaves,
    /// Code goes on.
    GoesOn,
    /// Code goes on, and all that the windows show is as it was.
    GoesOnAlike,
}

/// What has come of the search for a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It is not known, and a handler does the access.
    Unknown,
    /// It is known, in the place of this.
    Known(Replaced),
}

/// What an entry of the TLB was for before it was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// No page that code can have found.
    Nothing,
    /// This linear page of the running address space, by its first byte.
    Page(u64),
    /// That is not told.
    Unknown,
}

/// Why there is no arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Code is made for 64-bit x86 processors under Linux.
    Host,
    /// The host refuses memory that is executable, or refuses so much of it.
    Memory,
}

impl std::fmt::Display for Absence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host => "code is made for x86-64 Linux hosts only",
            Self::Memory => "the host refuses executable memory",
        })
    }
}
