//! VMFUNC. [SDM3 "VM Functions"]

use crate::lab::*;
use arch::vmx::ExitReason;
use arch::vmx::control::SecondaryControls;
use arch::vmx::field::{control, exit, guest};
use iced_x86::code_asm::*;

const LIST: u64 = 0x2_C000;
/// Tables that map the guest's data elsewhere.
const OTHER_TABLES: u64 = 0x3_8000;
const OTHER_FRAME: u64 = 0x70_0000;
const PAGE: u64 = GUEST_DATA >> 12;

/// Reads its data, calls function `eax` with `ecx`, reads its data again.
fn lab(function: u32, index: u32) -> Lab {
    let mut lab = Lab::new(|a| {
        a.mov(esi, dword_ptr(GUEST_DATA)).unwrap();
        a.mov(eax, function).unwrap();
        a.mov(ecx, index).unwrap();
        a.vmfunc().unwrap();
        a.mov(edi, dword_ptr(GUEST_DATA)).unwrap();
        a.hlt().unwrap();
    });
    lab.secondary(SecondaryControls::VM_FUNCTIONS);
    lab.set(control::VM_FUNCTIONS, 1);
    lab.set(control::EPTP_LIST, LIST);
    for table in 0..4 {
        for at in 0..512 {
            let entry = lab.read(EXTENDED_TABLES + 0x1000 * table + 8 * at);
            let moved = if table < 3 && entry != 0 {
                entry + OTHER_TABLES - EXTENDED_TABLES
            } else {
                entry
            };
            lab.write(OTHER_TABLES + 0x1000 * table + 8 * at, moved);
        }
    }
    let entry = lab.read(OTHER_TABLES + 0x3000 + 8 * PAGE);
    lab.write(OTHER_TABLES + 0x3000 + 8 * PAGE, entry & 0xFFF | OTHER_FRAME);
    lab.write(LIST + 8, OTHER_TABLES | 3 << 3 | 6);
    lab.write(LIST + 16, OTHER_TABLES | 3 << 3 | 2);
    lab.write(GUEST + GUEST_DATA, 0x1111);
    lab.write(OTHER_FRAME, 0x2222);
    lab
}

#[test]
fn eptp_switching_uses_the_pointer_of_the_list_at_once_and_keeps_it_in_the_vmcs() {
    let mut lab = lab(0, 1);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.registers.gpr[6], 0x1111);
    assert_eq!(lab.cpu.registers.gpr[7], 0x2222);
    assert_eq!(lab.get(control::EPT_POINTER), OTHER_TABLES | 3 << 3 | 6);
    assert_eq!(lab.get(control::EPTP_INDEX), 0, "kept for #VE alone");
}

#[test]
fn with_virtualization_exceptions_the_index_is_kept_as_well() {
    let mut lab = lab(0, 1);
    lab.secondary(SecondaryControls::EPT_VIOLATION_EXCEPTION);
    lab.set(control::EXCEPTION_AREA, 0x2_D000);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.get(control::EPTP_INDEX), 1);
}

#[test]
fn a_function_that_is_not_enabled_or_fails_exits() {
    let rows = [
        ("function 1", 1, 1),
        ("function 64", 64, 1),
        ("beyond the list", 0, 512),
        ("a memory type that is none", 0, 2),
    ];
    for (name, function, index) in rows {
        let mut lab = lab(function, index);
        assert_eq!(lab.run(), ExitReason::Vmfunc, "{name}");
        assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 3, "{name}");
        assert_eq!(lab.get(control::EPT_POINTER), EXTENDED_TABLES | 3 << 3 | 6, "{name}");
    }
    let mut lab = lab(0, 1);
    lab.set(control::VM_FUNCTIONS, 0);
    assert_eq!(lab.run(), ExitReason::Vmfunc, "not enabled");
}

#[test]
fn without_the_control_it_is_undefined() {
    let mut lab = lab(0, 1);
    lab.clear_bits(control::SECONDARY, SecondaryControls::VM_FUNCTIONS.bits());
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
}
