//! Page-table entries and page-fault error codes. [APM2 "Page Translation and Protection"]

/// Bits of an entry, common to all levels of PAE and long-mode tables.
pub mod entry {
    /// Clear: all other bits are software's, and an access faults.
    pub const PRESENT: u64 = 1 << 0;
    /// At every level, or writes fault.
    pub const WRITABLE: u64 = 1 << 1;
    /// At every level, or the page is a supervisor page.
    pub const USER: u64 = 1 << 2;
    /// PWT: low bit of three that select a memory type from the PAT.
    pub const WRITE_THROUGH: u64 = 1 << 3;
    /// PCD: middle bit of three that select a memory type from the PAT.
    pub const CACHE_DISABLE: u64 = 1 << 4;
    /// Set by the processor when it uses the entry.
    pub const ACCESSED: u64 = 1 << 5;
    /// Set by the processor on a write through a leaf.
    pub const DIRTY: u64 = 1 << 6;
    /// In a directory: the entry maps a large page.
    pub const LARGE: u64 = 1 << 7;
    /// In a leaf, under CR4.PGE: the translation outlives a write of CR3.
    pub const GLOBAL: u64 = 1 << 8;
    /// At any level, under EFER.NXE: fetches fault.
    pub const NO_EXECUTE: u64 = 1 << 63;
    /// Bits 51:12.
    pub const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

    /// The protection key, bits 62:59. [APM2 "Memory Protection Keys"]
    pub const fn protection_key(entry: u64) -> u32 {
        (entry >> 59) as u32 & 15
    }
}

/// Bits of a page fault's error code. [APM2 "#PF—Page-Fault Exception"]
pub mod fault {
    /// Clear: an entry was not present. Set: its permissions, or a reserved bit.
    pub const PRESENT: u32 = 1 << 0;
    /// A write, and not a read.
    pub const WRITE: u32 = 1 << 1;
    /// At CPL 3, and no implicit supervisor access.
    pub const USER: u32 = 1 << 2;
    /// A reserved bit is set in an entry.
    pub const RESERVED: u32 = 1 << 3;
    /// An instruction fetch; reported under EFER.NXE or CR4.SMEP.
    pub const FETCH: u32 = 1 << 4;
    /// The page's protection key forbids the access.
    pub const PROTECTION_KEY: u32 = 1 << 5;
}
