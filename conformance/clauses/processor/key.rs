//! Protection keys. [APM2 "Memory Protection Keys (MPK) Bit"] [SDM3 "Protection Keys"]

use crate::layout::*;
use crate::page::*;
use crate::subject::{Code, Mode, Outcome, Subject, event};
use arch::control::{Cr0, Cr4};
use iced_x86::code_asm::*;

const TABLE: u64 = SPARE;
const PAGE: u64 = SPARE + 0x1000;
/// The linear page: the third entry of the directory.
const LINEAR: u64 = 0x40_0000;
const KEY: u64 = 5;

struct Row {
    rule: &'static str,
    /// PKRU's two bits of the page's key: access disabled, write disabled.
    rights: u32,
    attributes: u64,
    mode: Mode,
    writes: bool,
    write_protect: bool,
    /// The error code's part that tells of the key; zero if the access is made.
    fault: u32,
}

const USERS: u64 = 7;
const SUPERVISORS: u64 = 3;

const ROWS: [Row; 10] = [
    row("no rights taken: a user reads", 0, USERS, Mode::User, false, true, 0),
    row("access disabled: a user's read faults", 1, USERS, Mode::User, false, true, KEY_FAULT),
    row("write disabled: a user reads", 2, USERS, Mode::User, false, true, 0),
    row("write disabled: a user's write faults", 2, USERS, Mode::User, true, true, KEY_FAULT),
    row(
        "write disabled: CR0.WP does not matter to users",
        2,
        USERS,
        Mode::User,
        true,
        false,
        KEY_FAULT,
    ),
    row(
        "write disabled: the supervisor's write faults under CR0.WP",
        2,
        USERS,
        Mode::Long,
        true,
        true,
        KEY_FAULT,
    ),
    row(
        "write disabled: without CR0.WP the supervisor writes",
        2,
        USERS,
        Mode::Long,
        true,
        false,
        0,
    ),
    row(
        "access disabled: the supervisor's read faults, too",
        1,
        USERS,
        Mode::Long,
        false,
        false,
        KEY_FAULT,
    ),
    row("pages of the supervisor have no key", 3, SUPERVISORS, Mode::Long, true, true, 0),
    row("access disabled: a write faults", 1, USERS, Mode::User, true, true, KEY_FAULT),
];

const fn row(
    rule: &'static str,
    rights: u32,
    attributes: u64,
    mode: Mode,
    writes: bool,
    write_protect: bool,
    fault: u32,
) -> Row {
    Row { rule, rights, attributes, mode, writes, write_protect, fault }
}

fn subject(row: &Row, code: Code) -> Subject {
    let mut subject = Subject::with("zen4", row.mode, code);
    subject.put(DIRECTORY + 16, TABLE | 7);
    subject.put(TABLE, PAGE | row.attributes | KEY << 59);
    subject.cpu.control.switch_cr0(Cr0::WRITE_PROTECT, row.write_protect);
    subject.cpu.control.switch_cr4(Cr4::PKE, true);
    subject.cpu.control.pkru = row.rights << (2 * KEY);
    subject.cpu.registers.gpr[3] = LINEAR;
    subject.refresh();
    subject
}

#[test]
fn pkru_takes_rights_from_users_pages() {
    for row in ROWS {
        let code: Code = if row.writes {
            |a| a.mov(dword_ptr(rbx), ecx)
        } else {
            |a| a.mov(ecx, dword_ptr(rbx))
        };
        let kind = if row.writes { WRITE } else { 0 }
            | if row.mode == Mode::User { USER_ACCESS } else { 0 };
        let expected = match row.fault {
            0 => Outcome::Done,
            fault => event(14, Some(PRESENT | kind | fault), 0),
        };
        assert_eq!(subject(&row, code).run(), expected, "{}", row.rule);
    }
}

#[test]
fn fetches_ignore_keys() {
    let row = row("", 3, USERS, Mode::User, false, true, 0);
    let mut subject = subject(&row, |a| a.jmp(rbx));
    subject.put(PAGE, 0x80CD);
    assert_eq!(subject.run(), Outcome::Done);
}

#[test]
fn without_cr4_pke_keys_mean_nothing_and_pkru_is_not_there() {
    let row = row("", 3, USERS, Mode::User, true, true, 0);
    let mut written = subject(&row, |a| a.mov(dword_ptr(rbx), ecx));
    written.cpu.control.switch_cr4(Cr4::PKE, false);
    written.refresh();
    assert_eq!(written.run(), Outcome::Done);
    let mut read = subject(&row, |a| a.rdpkru());
    read.cpu.control.switch_cr4(Cr4::PKE, false);
    read.refresh();
    assert_eq!(read.run(), event(6, None, 0));
}

#[test]
fn wrpkru_takes_effect_at_once_and_wants_ecx_and_edx_clear() {
    let row = row("", 0, USERS, Mode::User, false, true, 0);
    let mut subject_of = subject(&row, |a| {
        a.mov(edx, dword_ptr(rbx))?;
        a.mov(eax, 1 << (2 * KEY))?;
        a.xor(edx, edx)?;
        a.wrpkru()?;
        a.mov(eax, dword_ptr(rbx))
    });
    let fault = Some(PRESENT | USER_ACCESS | KEY_FAULT);
    assert_eq!(subject_of.run(), event(14, fault, 2 + 5 + 2 + 3));
    for code in [
        (|a| {
            a.mov(ecx, 1)?;
            a.wrpkru()
        }) as Code,
        |a| {
            a.mov(edx, 1)?;
            a.wrpkru()
        },
    ] {
        assert_eq!(subject(&row, code).run(), event(13, Some(0), 5));
    }
}

#[test]
fn a_page_fault_names_the_key_whatever_else_forbids_the_access() {
    const READ_ONLY: u64 = USERS & !2;
    // The supervisor's write under CR0.WP.
    for (attributes, rights, key_fault) in [
        (USERS, 1, KEY_FAULT),
        (READ_ONLY, 1, KEY_FAULT),
        (READ_ONLY, 2, KEY_FAULT),
        (READ_ONLY, 0, 0),
    ] {
        let row = row("", rights, attributes, Mode::Long, true, true, key_fault);
        let mut written = subject(&row, |a| a.mov(dword_ptr(rbx), ecx));
        let expected = event(14, Some(PRESENT | WRITE | key_fault), 0);
        assert_eq!(written.run(), expected, "entry {attributes:#x}, rights {rights}");
    }
}
