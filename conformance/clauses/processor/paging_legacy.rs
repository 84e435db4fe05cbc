//! Page tables of 32-bit modes: two levels, with and without large pages, and PAE's three.
//! [APM2 "Legacy-Mode Page Translation"] [SDM3 "32-Bit Paging", "PAE Paging"]

use crate::layout::*;
use crate::page::*;
use crate::subject::{Mode, Outcome, Subject, event};
use arch::control::{Cr0, Cr4, Efer};
use iced_x86::code_asm::*;

const SHORT_ROOT: u64 = SPARE;
const SHORT_TABLE: u64 = SPARE + 0x1000;
const PAE_ROOT: u64 = SPARE + 0x2000;
const PAE_DIRECTORY: u64 = SPARE + 0x3000;
const PAE_TABLE: u64 = SPARE + 0x4000;
const PAGE: u64 = SPARE + 0x5000;
/// The linear page, in the second of four entries of each root.
const SHORT_LINEAR: u64 = 4 << 20;
const PAE_LINEAR: u64 = 1 << 30;
const PATTERN: u64 = 0x5A5A_1234;

/// A 32-bit subject that reads the linear page in EBX.
fn subject(linear: u64) -> Subject {
    let mut subject = Subject::with("generic", Mode::Protected, |a| {
        a.mov(ecx, dword_ptr(ebx))?;
        a.mov(dword_ptr(ebx + 4), ecx)
    });
    subject.put(PAGE, PATTERN);
    subject.cpu.registers.gpr[3] = linear;
    subject.cpu.control.switch_cr0(Cr0::PAGING, true);
    subject
}

fn short(entry: u64, table_entry: u64, extensions: Cr4) -> Subject {
    let mut subject = subject(SHORT_LINEAR);
    // The first 4 MiB where they are, through a table.
    for page in 0..512 {
        let pair = (2 * page) << 12 | P | W | U | ((2 * page + 1) << 12 | P | W | U) << 32;
        subject.put(SPARE + 0x8000 + 8 * page, pair);
    }
    subject.put(SHORT_ROOT, (SPARE + 0x8000) | P | W | U | entry << 32);
    subject.put(SHORT_TABLE, table_entry);
    subject.cpu.control.cr3 = SHORT_ROOT;
    subject.cpu.control.switch_cr4(extensions, true);
    subject.refresh();
    subject
}

fn fault(error: u32) -> Outcome {
    event(14, Some(error), 0)
}

#[test]
fn two_levels_of_four_bytes_each() {
    let table = SHORT_TABLE | P | W | U;
    let rows = [
        ("both present", table, PAGE | P | W, Outcome::Done),
        ("no directory entry", 0, PAGE | P | W, fault(0)),
        ("no table entry", table, 0, fault(0)),
        ("bit 7 means nothing without CR4.PSE", table | LARGE, PAGE | P | W, Outcome::Done),
    ];
    for (rule, entry, table_entry, expected) in rows {
        let mut subject = short(entry, table_entry, Cr4::empty());
        assert_eq!(subject.run(), expected, "{rule}");
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[1], PATTERN, "{rule}");
            let entries =
                (subject.get(SHORT_ROOT) >> 32 & (A | D), subject.get(SHORT_TABLE) & (A | D));
            assert_eq!(entries, (A, A | D), "{rule}");
        }
    }
}

#[test]
fn four_megabyte_pages_with_cr4_pse() {
    // The page begins at 0 in RAM, so the linear address has the pattern at PAGE.
    for (rule, entry, expected) in [
        ("mapped", P | W | LARGE, Outcome::Done),
        ("bit 21 is reserved", P | W | LARGE | 1 << 21, fault(PRESENT | RESERVED)),
        ("an address above 4 GiB is not RAM here", P | W | LARGE | 1 << 13, Outcome::Done),
    ] {
        let mut subject = short(entry, 0, Cr4::PSE);
        subject.cpu.registers.gpr[3] = SHORT_LINEAR + PAGE;
        assert_eq!(subject.run(), expected, "{rule}");
        let is_low = entry & 1 << 13 == 0;
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[1] == PATTERN, is_low, "{rule}");
        }
    }
}

fn pae(pointer: u64, entry: u64, table_entry: u64) -> Subject {
    let mut subject = subject(PAE_LINEAR);
    subject.put(PAE_ROOT, DIRECTORY | P);
    subject.put(PAE_ROOT + 8, pointer);
    subject.put(PAE_DIRECTORY, entry);
    subject.put(PAE_TABLE, table_entry);
    subject.cpu.control.pdpte = [DIRECTORY | P, pointer, 0, 0];
    subject.cpu.control.cr3 = PAE_ROOT;
    subject.cpu.control.switch_cr4(Cr4::PAE, true);
    subject.refresh();
    subject
}

#[test]
fn pae_has_three_levels_and_no_rights_in_the_first() {
    let (pointer, entry) = (PAE_DIRECTORY | P, PAE_TABLE | P | W | U);
    let rows = [
        ("all present", pointer, entry, PAGE | P | W, Outcome::Done),
        ("no pointer", 0, entry, PAGE | P | W, fault(0)),
        ("no directory entry", pointer, 0, PAGE | P | W, fault(0)),
        ("no table entry", pointer, entry, 0, fault(0)),
        (
            "bits 62:52 are reserved",
            pointer,
            entry,
            PAGE | P | W | 1 << 55,
            fault(PRESENT | RESERVED),
        ),
        (
            "address bits that the part has not are, too",
            pointer,
            entry,
            PAGE | P | 1 << 45,
            fault(PRESENT | RESERVED),
        ),
        ("no-execute does not keep from reading", pointer, entry, PAGE | P | W | NX, Outcome::Done),
    ];
    for (rule, pointer, entry, table_entry, expected) in rows {
        let mut subject = pae(pointer, entry, table_entry);
        assert_eq!(subject.run(), expected, "{rule}");
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[1], PATTERN, "{rule}");
        }
    }
}

#[test]
fn without_efer_nxe_the_no_execute_bit_is_reserved() {
    let mut subject = pae(PAE_DIRECTORY | P, PAE_TABLE | P | W | U, PAGE | P | W | NX);
    subject.cpu.control.switch_efer(Efer::NO_EXECUTE, false);
    subject.refresh();
    assert_eq!(subject.run(), fault(PRESENT | RESERVED));
}

/// [SDM3 "PDPTE Registers"]
#[test]
fn mov_to_cr3_loads_the_pointers_and_refuses_reserved_bits_of_present_ones() {
    for (rule, pointer, expected) in [
        ("sound", PAE_DIRECTORY | P, Outcome::Done),
        ("writable is reserved", PAE_DIRECTORY | P | W, event(13, Some(0), 3)),
        ("not present: nothing is checked", 0xFFFF_0000_0000_01E6, Outcome::Done),
    ] {
        let mut subject = pae(0, PAE_TABLE | P | W | U, PAGE | P | W);
        subject.assemble(CODE, |a| {
            a.mov(eax, cr3)?;
            a.mov(cr3, eax)
        });
        subject.put(PAE_ROOT + 8, pointer);
        assert_eq!(subject.run(), expected, "{rule}");
        assert_eq!(subject.cpu.control.pdpte[1] == pointer, expected == Outcome::Done, "{rule}");
    }
}
