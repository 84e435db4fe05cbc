//! Page tables of the program's own making: a window of linear addresses at 4 GiB, in address
//! spaces that are otherwise alike, over frames that nothing else uses. [APM2 "Long-Mode Page
//! Translation"]
//!
//! Each [`AddressSpace`] has its own root and window tables; the identity mapping is shared. All of
//! it is for one processor.

use crate::boot;
use arch::paging::entry;
use core::arch::asm;
use core::cell::UnsafeCell;

/// Where the window starts.
const START: u64 = 1 << 32;
/// Its pages.
pub const PAGES: usize = 512;
/// Frames that can be behind them.
pub const FRAMES: usize = 64;
/// Address spaces.
pub const SPACES: usize = 4;
const WORDS: usize = 512;

#[repr(C, align(4096))]
struct Table([u64; WORDS]);

#[repr(C)]
struct Tables {
    root: Table,
    pointers: Table,
    directory: Table,
    pages: Table,
}

struct Exclusive<T>(UnsafeCell<T>);
// SAFETY: reached through `AddressSpace` and `frame_*` by one processor, as the module says and
// `AddressSpace::new` checks.
unsafe impl<T> Sync for Exclusive<T> {}

static TABLES: Exclusive<[Tables; SPACES]> = Exclusive(UnsafeCell::new(
    [const {
        Tables {
            root: Table([0; WORDS]),
            pointers: Table([0; WORDS]),
            directory: Table([0; WORDS]),
            pages: Table([0; WORDS]),
        }
    }; SPACES],
));
static FRAME_MEMORY: Exclusive<[Table; FRAMES]> =
    Exclusive(UnsafeCell::new([const { Table([0; WORDS]) }; FRAMES]));

/// One of the address spaces.
#[derive(Clone, Copy)]
pub struct AddressSpace(usize);

impl AddressSpace {
    /// Prepares space `index`, with nothing in its window. The first processor alone may.
    pub fn new(index: usize) -> Self {
        assert!(crate::processor::current().index() == 0 && index < SPACES);
        // SAFETY: one processor, and no reference outlives this function.
        let tables = unsafe { &mut (*TABLES.0.get())[index] };
        // SAFETY: the tables of the boot code are filled and stay as they are.
        let root = unsafe { *(boot::root_table() as *const [u64; WORDS]) };
        // SAFETY: as above; the root's first entry is the table that maps the lowest 512 GiB.
        let pointers = unsafe { *((root[0] & entry::ADDRESS) as *const [u64; WORDS]) };
        let link = |table: &Table| &raw const *table as u64 | entry::PRESENT | entry::WRITABLE;
        tables.pages.0 = [0; WORDS];
        tables.directory.0[0] = link(&tables.pages);
        tables.pointers.0 = pointers;
        tables.pointers.0[(START >> 30) as usize] = link(&tables.directory);
        tables.root.0[0] = link(&tables.pointers);
        Self(index)
    }

    /// Space `index`, as [`Self::new`] left it.
    pub fn existing(index: usize) -> Self {
        assert!(crate::processor::current().index() == 0 && index < SPACES);
        Self(index)
    }

    /// Loads CR3: all translations that are not global go.
    #[inline]
    pub fn activate(self) {
        // SAFETY: every space maps this program as the boot tables do.
        unsafe {
            let root = &raw const (*TABLES.0.get())[self.0].root as u64;
            asm!("mov cr3, {}", in(reg) root, options(nostack));
        }
    }

    /// Puts `frame` behind `page`, or nothing.
    #[inline]
    pub fn map(self, page: usize, frame: Option<usize>) {
        let value = frame.map_or(0, |frame| {
            assert!(frame < FRAMES);
            // SAFETY: only an address is taken.
            let memory = unsafe { &raw const (*FRAME_MEMORY.0.get())[frame] };
            memory as u64 | entry::PRESENT | entry::WRITABLE
        });
        assert!(page < PAGES);
        // SAFETY: one processor; the window's addresses are reached by `load` and `store` only.
        unsafe { (&raw mut (*TABLES.0.get())[self.0].pages.0[page]).write_volatile(value) };
    }
}

fn address(page: usize, word: usize) -> *mut u64 {
    assert!(page < PAGES && word < WORDS);
    (START + (page * 4096 + word * 8) as u64) as *mut u64
}

/// The page of the window that a fault's address lies in.
pub fn page_of(address: u64) -> Option<usize> {
    let page = address.checked_sub(START)? as usize / 4096;
    (page < PAGES).then_some(page)
}

/// Forgets the translation of one page. [APM2 "INVLPG"]
#[inline]
pub fn invalidate(page: usize) {
    // SAFETY: only a translation is dropped.
    unsafe { asm!("invlpg [{}]", in(reg) address(page, 0), options(nostack, preserves_flags)) }
}

/// Reads through the window, in the address space that is active; may fault.
#[inline]
pub fn load(page: usize, word: usize) -> u64 {
    // SAFETY: nothing but frames of this module is ever mapped here; a fault goes to its handler.
    unsafe { address(page, word).read_volatile() }
}

/// Writes through the window.
#[inline]
pub fn store(page: usize, word: usize, value: u64) {
    // SAFETY: as in `load`.
    unsafe { address(page, word).write_volatile(value) }
}
