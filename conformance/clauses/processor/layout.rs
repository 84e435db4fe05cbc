//! Where everything is in the subject's 4 MiB of RAM, and its descriptor tables.
//!
//! The first 2 MiB are mapped twice: where they are for the supervisor, and from `USER` on for
//! users.

use arch::address::SystemPhysical;
use bus::GuestMemory;

pub const RAM: u64 = 4 << 20;
/// The page-map level-4 table; its first entry leads to the two mappings of the first 2 MiB.
pub const ROOT: u64 = 0x1000;
/// Page directory of the two mappings, for PAE paging as well.
pub const DIRECTORY: u64 = 0x3000;
pub const IDT: u64 = 0x5000;
pub const GDT: u64 = 0x6000;
pub const GDT_LIMIT: u16 = 0xFF;
/// The 64-bit TSS, and two of 32 bits.
pub const TSS: u64 = 0x7000;
pub const TSS_A: u64 = 0x7200;
pub const TSS_B: u64 = 0x7400;
pub const STACK: u64 = 0x9000;
pub const USER_STACK: u64 = USER + 0xA000;
/// One HLT for each vector, 16 bytes apart.
pub const HANDLERS: u64 = 0xB000;
pub const CODE: u64 = 0xC000;
pub const DATA: u64 = 0xD000;
/// Free for a test's page tables and pages.
pub const SPARE: u64 = 0x1_0000;
/// The users' view of the first 2 MiB.
pub const USER: u64 = 0x20_0000;

pub const CODE_64: u16 = 0x08;
pub const FLAT: u16 = 0x10;
pub const CODE_32: u16 = 0x18;
pub const USER_CODE_32: u16 = 0x23;
pub const USER_DATA: u16 = 0x2B;
pub const USER_CODE_64: u16 = 0x33;
pub const TASK_64: u16 = 0x38;
pub const TASK_A: u16 = 0x48;
pub const TASK_B: u16 = 0x50;
pub const TASK_GATE: u16 = 0x58;
pub const ABSENT: u16 = 0x60;
pub const READ_ONLY: u16 = 0x68;

/// The vector whose gate users may call; it ends a test's code.
pub const DONE: u8 = 0x80;

pub fn handler(vector: u8) -> u64 {
    HANDLERS + 16 * u64::from(vector)
}

pub fn put(memory: &mut GuestMemory, at: u64, value: u64) {
    memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
}

/// Everything that no test changes for good.
pub fn write_tables(memory: &mut GuestMemory) {
    put(memory, ROOT, 0x2000 | 7);
    put(memory, 0x2000, DIRECTORY | 7);
    put(memory, DIRECTORY, 0x83);
    put(memory, DIRECTORY + 8, 0x87);
    for vector in 0..=255 {
        memory.write(SystemPhysical(handler(vector)), &[0xF4]).expect("RAM");
    }
    write_descriptors(memory);
}

/// A descriptor of a segment with base and limit.
pub fn descriptor(base: u64, limit: u64, attributes: u64) -> u64 {
    limit & 0xFFFF
        | (base & 0xFF_FFFF) << 16
        | (attributes & 0xFF) << 40
        | (limit >> 16 & 15) << 48
        | (attributes >> 8 & 15) << 52
        | (base >> 24 & 0xFF) << 56
}

fn write_descriptors(memory: &mut GuestMemory) {
    let rows = [
        (CODE_64, descriptor(0, 0xF_FFFF, 0xA9B)),
        (FLAT, descriptor(0, 0xF_FFFF, 0xC93)),
        (CODE_32, descriptor(0, 0xF_FFFF, 0xC9B)),
        (USER_CODE_32, descriptor(0, 0xF_FFFF, 0xCFB)),
        (USER_DATA, descriptor(0, 0xF_FFFF, 0xCF3)),
        (USER_CODE_64, descriptor(0, 0xF_FFFF, 0xAFB)),
        (TASK_64, descriptor(TSS, 0x67, 0x8B)),
        (TASK_A, descriptor(TSS_A, 0x67, 0x8B)),
        (TASK_B, descriptor(TSS_B, 0x67, 0x89)),
        (TASK_GATE, u64::from(TASK_B) << 16 | 0xE5 << 40),
        (ABSENT, descriptor(0, 0xF_FFFF, 0xC13)),
        (READ_ONLY, descriptor(0, 0xF_FFFF, 0xC91)),
    ];
    for (selector, descriptor) in rows {
        put(memory, GDT + u64::from(selector & !7), descriptor);
    }
    put(memory, TSS + 4, STACK);
    // No permission bitmap for ports.
    put(memory, TSS + 0x60, 0xFFFF << 48);
}

/// An interrupt gate to a vector's handler. Users may call that of `DONE`.
pub fn write_gate(memory: &mut GuestMemory, vector: u8, is_long: bool) {
    let kind = if vector == DONE { 0xEE } else { 0x8E };
    let target = handler(vector);
    let code = if is_long { CODE_64 } else { CODE_32 };
    let gate = target & 0xFFFF | u64::from(code) << 16 | kind << 40 | (target >> 16) << 48;
    if is_long {
        put(memory, IDT + 16 * u64::from(vector), gate);
        put(memory, IDT + 16 * u64::from(vector) + 8, 0);
    } else {
        put(memory, IDT + 8 * u64::from(vector), gate);
    }
}
