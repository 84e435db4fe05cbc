//! Bits of page-table entries and of a page fault's error code, transcribed once more: what `arch`
//! says of them is under test, too. [APM2 "Page-Translation-Table Entry Fields"] [APM2 "Page-Fault
//! Error Code"]

pub const P: u64 = 1 << 0;
pub const W: u64 = 1 << 1;
pub const U: u64 = 1 << 2;
pub const A: u64 = 1 << 5;
pub const D: u64 = 1 << 6;
pub const LARGE: u64 = 1 << 7;
pub const NX: u64 = 1 << 63;

pub const PRESENT: u32 = 1 << 0;
pub const WRITE: u32 = 1 << 1;
pub const USER_ACCESS: u32 = 1 << 2;
pub const RESERVED: u32 = 1 << 3;
pub const FETCH: u32 = 1 << 4;
pub const KEY_FAULT: u32 = 1 << 5;
