//! Page-table entries and page-fault error codes. [APM2 "Page Translation and Protection"]

/// Bits of an entry, common to all levels of PAE and long-mode tables.
pub mod entry {
    pub const PRESENT: u64 = 1 << 0;
    pub const WRITABLE: u64 = 1 << 1;
    pub const USER: u64 = 1 << 2;
    pub const WRITE_THROUGH: u64 = 1 << 3;
    pub const CACHE_DISABLE: u64 = 1 << 4;
    pub const ACCESSED: u64 = 1 << 5;
    pub const DIRTY: u64 = 1 << 6;
    /// In a directory: the entry maps a large page.
    pub const LARGE: u64 = 1 << 7;
    pub const GLOBAL: u64 = 1 << 8;
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
    pub const PRESENT: u32 = 1 << 0;
    pub const WRITE: u32 = 1 << 1;
    pub const USER: u32 = 1 << 2;
    pub const RESERVED: u32 = 1 << 3;
    pub const FETCH: u32 = 1 << 4;
    pub const PROTECTION_KEY: u32 = 1 << 5;
}
