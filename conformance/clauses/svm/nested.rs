//! Nested paging: exact fault codes, TLB tags. [APM2 "Nested Paging"]

use crate::lab::*;
use arch::svm::exit::ExitCode;
use arch::svm::vmcb::{NestedControl, control, save};
use iced_x86::code_asm::*;

const P: u64 = 1 << 0;
const W: u64 = 1 << 1;
const U: u64 = 1 << 2;
const RESERVED: u64 = 1 << 3;
const FETCH: u64 = 1 << 4;
const FINAL: u64 = 1 << 32;
const WALK: u64 = 1 << 33;

fn nested_entry(guest_physical: u64) -> u64 {
    NESTED_TABLES + 0x3000 + 8 * (guest_physical >> 12)
}

const ACCESSED_DIRTY: u64 = 0x60;

#[test]
fn final_translations_fault_with_exact_codes() {
    let page = GUEST + GUEST_DATA;
    let rows: &[(u64, bool, u64)] = &[
        (0, false, U | FINAL),
        (0, true, W | U | FINAL),
        (page | P | U, true, P | W | U | FINAL),
        (page | P | W, false, P | U | FINAL),
        (page | P | W | U | 1 << 51, false, P | U | RESERVED | FINAL),
    ];
    for &(entry, is_write, code) in rows {
        let mut lab = Lab::new(|a| {
            if is_write {
                a.mov(dword_ptr(GUEST_DATA + 0x10), ebx).unwrap();
            } else {
                a.mov(ebx, dword_ptr(GUEST_DATA + 0x10)).unwrap();
            }
            a.hlt().unwrap();
        });
        lab.write(nested_entry(GUEST_DATA), entry);
        assert_eq!(lab.run(), ExitCode::NestedPageFault);
        assert_eq!(lab.exit_info(), [code, GUEST_DATA + 0x10], "entry {entry:#x}");
        assert_eq!(lab.get(save::RIP), GUEST_CODE);
        assert_eq!(lab.get(control::N_RIP), 0);
        let fetched = lab.get(control::FETCHED_BYTES);
        assert_eq!(fetched.count, 15, "decode assists");
        lab.write(nested_entry(GUEST_DATA), page | P | W | U);
        assert_eq!(lab.resume(), ExitCode::Hlt, "repaired");
    }
}

#[test]
fn a_fetch_from_a_page_without_execute_faults() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.write(nested_entry(GUEST_CODE), GUEST + GUEST_CODE | P | W | U | 1 << 63);
    assert_eq!(lab.run(), ExitCode::NestedPageFault);
    assert_eq!(lab.exit_info(), [P | U | FETCH | FINAL, GUEST_CODE]);
    assert_eq!(lab.get(control::FETCHED_BYTES).count, 0);
}

#[test]
fn the_guest_s_walk_counts_as_writes() {
    let directory = 0x10_0000u64;
    let rows = [
        (0, W | U | WALK),
        (GUEST + directory | P | U, P | W | U | WALK),
        (GUEST + directory | P | W | U | 1 << 51, P | W | U | RESERVED | WALK),
    ];
    for (entry, code) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.use_guest_paging();
        lab.write(nested_entry(directory), entry);
        assert_eq!(lab.run(), ExitCode::NestedPageFault);
        let [info, address] = lab.exit_info();
        assert_eq!(info, code, "{entry:#x}");
        assert_eq!(address & !0xFFF, directory);
    }
}

#[test]
fn accessed_and_dirty_follow_the_accesses() {
    let mut lab = Lab::new(|a| {
        a.mov(ebx, dword_ptr(GUEST_DATA)).unwrap();
        a.mov(dword_ptr(0xD000), ebx).unwrap();
        a.mov(ebx, dword_ptr(0xE000)).unwrap();
        a.mov(dword_ptr(0xE000), ebx).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.read(nested_entry(GUEST_DATA)) & ACCESSED_DIRTY, 0x20);
    assert_eq!(lab.read(nested_entry(0xD000)) & ACCESSED_DIRTY, 0x60);
    assert_eq!(lab.read(nested_entry(0xE000)) & ACCESSED_DIRTY, 0x60, "read first");
    assert_eq!(lab.read(nested_entry(0xF000)) & ACCESSED_DIRTY, 0);
}

#[test]
fn translations_live_until_the_asid_is_flushed_or_changed() {
    // Flushing by TLB_CONTROL, or running under another ASID.
    for (tlb_control, asid, sees_change) in
        [(0, 1, false), (1, 1, true), (3, 1, true), (7, 1, true), (0, 2, true)]
    {
        let mut lab = Lab::new(|a| {
            a.mov(ebx, dword_ptr(GUEST_DATA)).unwrap();
            a.hlt().unwrap();
        });
        lab.write(GUEST + GUEST_DATA, 1);
        lab.write(GUEST + 0xD000, 2);
        assert_eq!(lab.run(), ExitCode::Hlt);
        assert_eq!(lab.cpu.registers.gpr[3], 1);
        lab.write(nested_entry(GUEST_DATA), GUEST + 0xD000 | P | W | U);
        lab.set(save::RIP, GUEST_CODE);
        lab.set(control::TLB_CONTROL, tlb_control);
        lab.set(control::GUEST_ASID, asid);
        assert_eq!(lab.resume(), ExitCode::Hlt);
        assert_eq!(lab.cpu.registers.gpr[3] == 2, sees_change, "control {tlb_control} asid {asid}");
    }
}

#[test]
fn without_nested_paging_guest_addresses_are_system_addresses() {
    // The nested tables lead to UD2, the address itself to HLT.
    for (is_nested, expected) in [(true, ExitCode::Exception(6)), (false, ExitCode::Hlt)] {
        let mut lab = Lab::new(|a| a.ud2().unwrap());
        lab.intercept(|i| i.exceptions = 1 << 6);
        let nested = NestedControl::new().with_nested_paging(is_nested);
        lab.set(control::NESTED_CONTROL, nested);
        lab.write(GUEST_CODE, 0xF4);
        assert_eq!(lab.run(), expected, "nested paging {is_nested}");
        assert_eq!(lab.get(save::RIP), GUEST_CODE);
    }
}
