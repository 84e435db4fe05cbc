//! Extended page tables. [SDM3 "The Extended Page Table Mechanism (EPT)"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::vmx::ExitReason;
use arch::vmx::control::SecondaryControls;
use arch::vmx::field::{control, exit, guest};
use iced_x86::code_asm::*;

const PAGE: u64 = GUEST_DATA >> 12;
const FRAME: u64 = GUEST + GUEST_DATA;
const WRITE_BACK: u64 = 6 << 3;
const KEEPS_FLAGS: u64 = 1 << 6;

fn store(a: &mut CodeAssembler) {
    a.mov(dword_ptr(GUEST_DATA + 0x10), eax).unwrap();
    a.hlt().unwrap();
}

fn load(a: &mut CodeAssembler) {
    a.mov(eax, dword_ptr(GUEST_DATA + 0x10)).unwrap();
    a.hlt().unwrap();
}

fn jump(a: &mut CodeAssembler) {
    a.mov(eax, GUEST_DATA as u32 + 0x10).unwrap();
    a.jmp(eax).unwrap();
}

#[test]
fn a_violation_tells_access_and_permissions() {
    type Code = fn(&mut CodeAssembler);
    // Linear address valid and final translation are bits 7 and 8. Without paging every address
    // is a user-mode address that may be written: bits 9 and 10.
    let rows: [(&str, u64, Code, Option<u64>); 8] = [
        ("read of nothing", 0, load, Some(0x181)),
        ("write of nothing", 0, store, Some(0x182)),
        ("write of what is read-only", 1, store, Some(0x182 | 1 << 3)),
        ("read of what is read-only", 1, load, None),
        ("read of what is executed", 4, load, Some(0x181 | 4 << 3)),
        ("fetch of what is not", 3, jump, Some(0x184 | 3 << 3)),
        ("write of what is executed", 5, store, Some(0x182 | 5 << 3)),
        ("write of all", 7, store, None),
    ];
    for (name, rights, code, expected) in rows {
        let mut lab = Lab::new(code);
        lab.write(Lab::extended_entry(PAGE), FRAME | rights | WRITE_BACK);
        let reason = lab.run();
        let Some(qualification) = expected else {
            assert_eq!(reason, ExitReason::Hlt, "{name}");
            continue;
        };
        assert_eq!(reason, ExitReason::EptViolation, "{name}");
        assert_eq!(lab.qualification(), qualification | 0x600, "{name}");
        assert_eq!(lab.get(exit::GUEST_PHYSICAL_ADDRESS), GUEST_DATA + 0x10, "{name}");
        assert_eq!(lab.get(exit::GUEST_LINEAR_ADDRESS), GUEST_DATA + 0x10, "{name}");
    }
}

#[test]
fn malformed_entries_are_misconfigurations() {
    let rows = [
        ("writable alone", 2),
        ("writable and executable", 6),
        ("memory type 2", 7 | 2 << 3),
        ("memory type 7", 7 | 7 << 3),
        ("beyond the physical width", 7 | WRITE_BACK | 1 << 46),
    ];
    for (name, bits) in rows {
        let mut lab = Lab::new(load);
        lab.write(Lab::extended_entry(PAGE), FRAME | bits);
        assert_eq!(lab.run(), ExitReason::EptMisconfiguration, "{name}");
        assert_eq!(lab.qualification(), 0, "{name}");
        assert_eq!(lab.get(exit::GUEST_PHYSICAL_ADDRESS), GUEST_DATA + 0x10, "{name}");
        assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 5, "{name}: hypervisors skip by it");
    }
    let mut lab = Lab::new(load);
    let ignored = 1 << 7 | 1 << 11 | 0x7FF << 52 | 1 << 63;
    lab.write(Lab::extended_entry(PAGE), FRAME | 7 | WRITE_BACK | ignored);
    assert_eq!(lab.run(), ExitReason::Hlt, "ignored bits");
}

#[test]
fn accessed_and_dirty_flags_are_kept_where_asked_for() {
    for (keeps, code, expected) in
        [(false, load as fn(&mut CodeAssembler), 0), (true, load, 1 << 8), (true, store, 3 << 8)]
    {
        let mut lab = Lab::new(code);
        if keeps {
            lab.set_bits(control::EPT_POINTER, KEEPS_FLAGS);
        }
        assert_eq!(lab.run(), ExitReason::Hlt);
        let flags = lab.read(Lab::extended_entry(PAGE)) & 3 << 8;
        assert_eq!(flags, expected, "keeps {keeps}");
    }
}

#[test]
fn a_page_that_has_been_read_becomes_dirty_when_it_is_written() {
    let mut lab = Lab::new(|a| {
        a.mov(eax, dword_ptr(GUEST_DATA)).unwrap();
        a.vmcall().unwrap();
        a.mov(dword_ptr(GUEST_DATA), eax).unwrap();
        a.hlt().unwrap();
    });
    lab.set_bits(control::EPT_POINTER, KEEPS_FLAGS);
    assert_eq!(lab.run(), ExitReason::Vmcall);
    assert_eq!(lab.read(Lab::extended_entry(PAGE)) & 3 << 8, 1 << 8);
    assert_eq!(lab.skip_and_resume(), ExitReason::Hlt);
    assert_eq!(lab.read(Lab::extended_entry(PAGE)) & 3 << 8, 3 << 8);
}

#[test]
fn walks_of_the_guests_tables_are_accesses_of_their_own() {
    let directory = 0x10_0000u64;
    for (keeps, qualification) in [(false, 0x81), (true, 0x83)] {
        let mut lab = Lab::new(load);
        lab.use_guest_paging();
        if keeps {
            lab.set_bits(control::EPT_POINTER, KEEPS_FLAGS);
        }
        lab.write(Lab::extended_entry(directory >> 12), 0);
        assert_eq!(lab.run(), ExitReason::EptViolation);
        assert_eq!(lab.qualification(), qualification, "keeps {keeps}");
        assert_eq!(lab.get(exit::GUEST_PHYSICAL_ADDRESS), directory);
        assert_eq!(lab.get(exit::GUEST_LINEAR_ADDRESS), GUEST_CODE);
    }
}

/// 4 MiB pages at guest-physical 0, by a directory in a page that only reads.
const DIRECTORY: u64 = 0x10_0000;

fn read_only_directory(code: fn(&mut CodeAssembler), flags: u64) -> Lab {
    let mut lab = Lab::new(code);
    lab.use_guest_paging();
    let entry = lab.read(GUEST + DIRECTORY) & !0x60;
    lab.write(GUEST + DIRECTORY, entry | flags);
    lab.write(Lab::extended_entry(DIRECTORY >> 12), GUEST + DIRECTORY | 1 | WRITE_BACK);
    lab
}

#[test]
fn setting_a_flag_in_the_guests_tables_is_a_write_while_ept_keeps_no_flags() {
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    let rows = [
        ("accessed", load as fn(&mut CodeAssembler), 0, Some(GUEST_CODE)),
        ("dirty", store, ACCESSED, Some(GUEST_DATA + 0x10)),
        ("nothing to set for a read", load, ACCESSED, None),
        ("nothing to set for a write", store, ACCESSED | DIRTY, None),
    ];
    for (name, code, flags, expected) in rows {
        let mut lab = read_only_directory(code, flags);
        let reason = lab.run();
        let Some(linear) = expected else {
            assert_eq!(reason, ExitReason::Hlt, "{name}");
            continue;
        };
        assert_eq!(reason, ExitReason::EptViolation, "{name}");
        assert_eq!(lab.qualification(), 0x83 | 1 << 3, "{name}");
        assert_eq!(lab.get(exit::GUEST_PHYSICAL_ADDRESS), DIRECTORY, "{name}");
        assert_eq!(lab.get(exit::GUEST_LINEAR_ADDRESS), linear, "{name}");
        assert_eq!(lab.read(GUEST + DIRECTORY) & (ACCESSED | DIRTY), flags, "{name}");
    }
}

#[test]
fn reading_the_guests_tables_is_a_write_while_ept_keeps_flags() {
    let mut lab = read_only_directory(load, 3 << 5);
    lab.set_bits(control::EPT_POINTER, KEEPS_FLAGS);
    assert_eq!(lab.run(), ExitReason::EptViolation);
    assert_eq!(lab.qualification(), 0x83 | 1 << 3);
}

#[test]
fn modified_pages_are_logged_until_the_log_is_full() {
    let mut lab = Lab::new(store);
    lab.set_bits(control::EPT_POINTER, KEEPS_FLAGS);
    lab.secondary(SecondaryControls::PAGE_MODIFICATION_LOGGING);
    lab.set(control::PML_ADDRESS, LOG);
    lab.set(guest::PML_INDEX, 5);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.read(LOG + 8 * 5), GUEST_DATA);
    assert_eq!(lab.get(guest::PML_INDEX), 4);
    // A log that is full exits before anything is set.
    let entry = lab.read(Lab::extended_entry(PAGE));
    lab.write(Lab::extended_entry(PAGE), entry & !(3 << 8));
    lab.set(guest::PML_INDEX, 0xFFFF);
    lab.set(guest::RIP, GUEST_CODE);
    assert_eq!(lab.resume(), ExitReason::PageModificationLogFull);
    assert_eq!(lab.read(Lab::extended_entry(PAGE)) & 3 << 8, 0);
}

/// A guest whose tables make everything a page of supervisor mode, or of user mode.
fn paged(code: fn(&mut CodeAssembler), directory_entry: u64) -> Lab {
    let mut lab = Lab::new(code);
    lab.use_guest_paging();
    lab.write(GUEST + DIRECTORY, 0x80 | directory_entry);
    lab
}

#[test]
fn a_violation_tells_what_the_guests_own_tables_grant() {
    // Present and writable; user as well; read-only.
    for (entry, expected) in [(3, 2 << 9), (7, 3 << 9), (1, 0)] {
        let mut lab = paged(load, entry);
        lab.write(Lab::extended_entry(PAGE), 0);
        assert_eq!(lab.run(), ExitReason::EptViolation);
        assert_eq!(lab.qualification(), 0x181 | expected, "entry {entry:#x}");
    }
}

#[test]
fn fetches_from_user_mode_addresses_have_a_permission_of_their_own() {
    const USER_EXECUTABLE: u64 = 1 << 10;
    // The guest's entry, what EPT grants, and the qualification of the violation.
    let rows = [
        ("supervisor by bit 2", 3, 5, None),
        ("supervisor by bit 10", 3, 1 | USER_EXECUTABLE, Some(0x184 | 1 << 3 | 1 << 6 | 2 << 9)),
        ("user by bit 10", 7, 1 | USER_EXECUTABLE, None),
        ("user by bit 2", 7, 5, Some(0x184 | 5 << 3 | 3 << 9)),
    ];
    for (name, own, granted, expected) in rows {
        let mut lab = paged(jump, own);
        lab.memory.write(SystemPhysical(FRAME + 0x10), &[0xF4]).expect("RAM");
        lab.secondary(SecondaryControls::MODE_BASED_EXECUTE);
        // The tables and the code of the guest are for both.
        for table in 0..3 {
            let at = EXTENDED_TABLES + 0x1000 * table;
            let entry = lab.read(at);
            lab.write(at, entry | USER_EXECUTABLE);
        }
        for page in [GUEST_CODE >> 12, DIRECTORY >> 12] {
            let entry = lab.read(Lab::extended_entry(page));
            lab.write(Lab::extended_entry(page), entry | USER_EXECUTABLE);
        }
        lab.write(Lab::extended_entry(PAGE), FRAME | granted | WRITE_BACK);
        let reason = lab.run();
        let Some(qualification) = expected else {
            assert_eq!(reason, ExitReason::Hlt, "{name}");
            continue;
        };
        assert_eq!(reason, ExitReason::EptViolation, "{name}");
        assert_eq!(lab.qualification(), qualification, "{name}");
    }
}

#[test]
fn an_entry_that_only_user_mode_addresses_may_use_is_present_with_mode_based_execute_control() {
    for (control, expected) in [(true, 0x181 | 1 << 6), (false, 0x181)] {
        let mut lab = Lab::new(load);
        lab.write(Lab::extended_entry(PAGE), FRAME | 1 << 10 | WRITE_BACK);
        if control {
            lab.secondary(SecondaryControls::MODE_BASED_EXECUTE);
            for table in 0..3 {
                let at = EXTENDED_TABLES + 0x1000 * table;
                let entry = lab.read(at);
                lab.write(at, entry | 1 << 10);
            }
            let code = lab.read(Lab::extended_entry(GUEST_CODE >> 12));
            lab.write(Lab::extended_entry(GUEST_CODE >> 12), code | 1 << 10);
        }
        assert_eq!(lab.run(), ExitReason::EptViolation);
        assert_eq!(lab.qualification(), expected | 0x600, "control {control}");
    }
}
