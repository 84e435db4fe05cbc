//! What translated code works on: the guest's registers and how far it may run, the memory that it
//! may touch. It is reached through host RBP, which points into the middle of it so that one byte
//! of displacement reaches everything.

use crate::address::Access;
use crate::block::Mode;
use crate::encode::{Memory, Register};
use serde::{Deserialize, Serialize};
use std::mem::offset_of;
use std::ops::{Index, IndexMut};

/// RAX to R15, by number. They do not lie in that order: compilers copy what lies in order by loads
/// of 16 bytes, which wait until code's stores of 8 bytes have left the host's store buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct General([u64; 16]);

/// What is done for each register's number. No loop: all are copied around each handler that
/// translated code calls, and builds for tests do not unroll.
macro_rules! for_each_register {
    (|$number:ident| $done:expr) => {
        for_each_register!(@ $number, $done; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $number:ident, $done:expr; $($value:literal)*) => {
        $({
            let $number: usize = $value;
            $done;
        })*
    };
}

impl General {
    #[inline(always)]
    const fn place(number: usize) -> usize {
        number * 5 % 16
    }

    /// In the order of their numbers.
    #[inline(always)]
    pub fn copy_to(&self, values: &mut [u64; 16]) {
        for_each_register!(|number| values[number] = self[number]);
    }

    /// The same from such an order.
    #[inline(always)]
    pub fn copy_from(&mut self, values: &[u64; 16]) {
        for_each_register!(|number| self[number] = values[number]);
    }
}

impl From<[u64; 16]> for General {
    fn from(values: [u64; 16]) -> Self {
        let mut registers = Self::default();
        registers.copy_from(&values);
        registers
    }
}

impl Index<usize> for General {
    type Output = u64;

    #[inline(always)]
    fn index(&self, number: usize) -> &u64 {
        &self.0[Self::place(number)]
    }
}

impl IndexMut<usize> for General {
    #[inline(always)]
    fn index_mut(&mut self, number: usize) -> &mut u64 {
        &mut self.0[Self::place(number)]
    }
}

/// The part of a processor that translated code reads and writes. While it runs, eleven of the
/// registers are in the host's instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// The general registers, by the numbers that instructions have for them.
    pub registers: General,
    /// The instruction pointer at the start of the block.
    pub ip: u64,
    /// What is left of the time, in picoseconds; of the running block all is taken already.
    /// Negative: the next block does not begin.
    pub room: i64,
    /// Instructions completed.
    pub instructions: u64,
    /// The status flags: bit 0 is OF, bits 15:8 are SF ZF 0 AF 0 PF 1 CF.
    pub status: u64,
    /// Why and where code was left; see [`Exit`](crate::Exit).
    pub exit: u64,
}

/// What memory there is, as addresses of the host, and what else code finds its way with; filled in
/// by the caller that runs code.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Windows {
    /// The number that stands for the address space in tags of the TLB.
    pub context: u64,
    /// The TLB's entries for data accesses.
    pub data: u64,
    /// The TLB's entries for fetches.
    pub fetch: u64,
    /// RAM.
    pub ram: u64,
    /// The last index into RAM at which an access of any size may begin.
    pub last: u64,
    /// Per page of RAM, a word that is not zero if some of its lines are watched.
    pub watched: u64,
    /// Added to addresses with an FS prefix. For 32-bit code, [`Windows::NOT_FLAT`] besides where
    /// the segment may refuse an access that does not wrap.
    pub fs_base: u64,
    /// As `fs_base`, with a GS prefix.
    pub gs_base: u64,
    /// The jump cache: pairs of a key ([`jump_key`]) and the address of the block's code.
    pub jumps: u64,
    /// The function that does an instruction by its handler, or looks for a translation.
    pub helper: u64,
    /// XMM0 to XMM15, if instructions that use them may be executed; else zero.
    pub vectors: u64,
    /// Counters of runs. Only blocks that count look here, which lies farther from RBP.
    pub counters: u64,
    /// The high halves of YMM0 to YMM15, if instructions of AVX2 may be executed; else zero. Beside
    /// them there are the low ones.
    pub high_halves: u64,
    /// Not zero where string instructions go upwards and, in 32-bit code, ES begins at 0, ends at
    /// 4 GiB and may be read and written.
    pub strings: u64,
}

impl Windows {
    /// Beside a base of 32 bits: the segment is not one that ends at 4 GiB and may be read and
    /// written.
    pub const NOT_FLAT: u64 = 1 << 32;
}

/// Pages of RAM in which accesses of a kind were found last. Each access has its place here, shared
/// with those that are likely to be in the same page. What is here is what the TLB says, as long as
/// neither that nor anything else that [`Windows`] shows has changed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Found {
    /// Linear addresses of pages, or [`Found::NOWHERE`].
    pages: [u64; Self::PLACES],
    /// Added to a linear address in the page, the host's.
    hosts: [u64; Self::PLACES],
}

impl Found {
    pub(crate) const PLACES: usize = 16;
    /// Differs from each address that code looks for: of those, bits 11:4 are clear.
    const NOWHERE: u64 = 0x800;

    /// Nothing has been found.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.pages = [Self::NOWHERE; Self::PLACES];
    }

    /// Nothing has been found in this page.
    #[inline(always)]
    pub fn forget_page(&mut self, page: u64) {
        for one in &mut self.pages {
            *one = if *one == page { Self::NOWHERE } else { *one };
        }
    }
}

impl Default for Found {
    fn default() -> Self {
        Self { pages: [Self::NOWHERE; Self::PLACES], hosts: [0; Self::PLACES] }
    }
}

/// All that lies before translated code.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    /// What code reads and writes.
    pub state: State,
    /// What code only reads.
    pub windows: Windows,
    /// Where reads were found.
    pub reads: Found,
    /// Where writes were found, to pages of which no line is watched.
    pub writes: Found,
    /// What is looked for in the TLB, as [`Wanted`](crate::Wanted) has it, and for which place.
    wanted: u64,
}

/// An entry of the TLB.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Translation {
    /// Tags: the linear page and the context for which reading, writing and fetching is granted.
    pub read: u64,
    /// As `read`.
    pub write: u64,
    /// As `read`.
    pub execute: u64,
    /// Index into RAM of the page's first byte.
    pub offset: u64,
}

/// Entries of the TLB that an access may be found in; a power of two.
pub const TRANSLATIONS: usize = 2048;
/// Stacks, tables and images often lie some MiB apart: their pages would share an entry if the
/// lowest bits of an address alone told which. Bit 31 is left out: with it the last page below
/// 4 GiB would share the entry of the one behind it, and an access across the two would be taken
/// for one within a page.
pub(crate) const TRANSLATION_SHIFT: u8 = 10;

/// Which of them belongs to a linear address: to pages that follow each other, never the same.
#[inline(always)]
pub fn translation_place(linear: u64) -> usize {
    let linear = linear as u32;
    ((linear ^ linear << 1 >> (TRANSLATION_SHIFT + 1)) >> 12) as usize % TRANSLATIONS
}

/// Pairs in the jump cache; a power of two.
pub const JUMPS: usize = 1 << 14;
/// Functions begin at multiples of 16, so the lowest bits of an index alone would leave most pairs
/// without use.
pub(crate) const JUMP_SHIFT: u8 = 10;

/// Of keys in the jump cache: the block is of 32-bit code. No index into RAM has it.
pub(crate) const FLAT_KEY: u8 = 62;

/// What the jump cache knows the block by that begins at an index into RAM: the same bytes may be
/// code of more than one mode.
pub fn jump_key(index: u64, mode: Mode) -> u64 {
    index | u64::from(mode == Mode::Flat) << FLAT_KEY
}

/// The index into RAM that a key was made of.
pub fn jump_index(key: u64) -> u64 {
    key & !(1 << FLAT_KEY)
}

/// Which pair of the jump cache belongs to a key.
pub fn jump_place(key: u64) -> usize {
    let key = key as u32;
    (key ^ key >> JUMP_SHIFT) as usize % JUMPS
}

/// The widest access.
pub const WIDEST: usize = 32;

pub(crate) const READ_TAG: i32 = offset_of!(Translation, read) as i32;
pub(crate) const WRITE_TAG: i32 = offset_of!(Translation, write) as i32;
pub(crate) const EXECUTE_TAG: i32 = offset_of!(Translation, execute) as i32;
pub(crate) const PAGE_INDEX: i32 = offset_of!(Translation, offset) as i32;

/// Where RBP points.
pub(crate) const MIDDLE: usize = 128;

const _: () = assert!(
    offset_of!(Frame, windows.counters) <= MIDDLE + 128,
    "all that every block may use is within a byte of displacement"
);

const fn at(offset: usize) -> i32 {
    offset as i32 - MIDDLE as i32
}

macro_rules! fields {
    ($($name:ident: $($path:ident).+;)*) => {
        $(pub(crate) const $name: Memory = Memory {
            base: Some(Register::RBP),
            index: None,
            scale: 0,
            displacement: at(offset_of!(Frame, $($path).+)),
        };)*
    };
}

fields! {
    IP: state.ip;
    ROOM: state.room;
    INSTRUCTIONS: state.instructions;
    STATUS: state.status;
    EXIT: state.exit;
    CONTEXT: windows.context;
    DATA: windows.data;
    FETCH: windows.fetch;
    RAM: windows.ram;
    LAST: windows.last;
    WATCHED: windows.watched;
    FS_BASE: windows.fs_base;
    GS_BASE: windows.gs_base;
    JUMP_CACHE: windows.jumps;
    HELPER: windows.helper;
    VECTORS: windows.vectors;
    COUNTERS: windows.counters;
    HIGH_HALVES: windows.high_halves;
    STRINGS: windows.strings;
    WANTED: wanted;
    READ_PAGES: reads.pages;
    READ_HOSTS: reads.hosts;
    WRITE_PAGES: writes.pages;
    WRITE_HOSTS: writes.hosts;
}

/// Where the page and the host's address of a kind of access begin that has the first place.
pub(crate) fn found(access: Access) -> (Memory, Memory) {
    match access {
        Access::Read => (READ_PAGES, READ_HOSTS),
        Access::Write => (WRITE_PAGES, WRITE_HOSTS),
    }
}

/// A guest register's place in the frame.
pub(crate) fn register(number: u8) -> Memory {
    let place = General::place(usize::from(number & 15));
    let offset = offset_of!(Frame, state.registers) + size_of::<u64>() * place;
    Memory::at(Register::RBP, at(offset))
}
