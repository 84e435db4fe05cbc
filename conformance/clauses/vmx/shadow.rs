//! VMCS shadowing. [SDM3 "VMCS Shadowing Bitmap Addresses"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::vmx::control::SecondaryControls;
use arch::vmx::field::{control, exit, guest};
use arch::vmx::{ExitReason, InstructionError};
use cpu::vmx::{VMCS_SIZE, Vmcs};
use iced_x86::code_asm::*;

const SHADOW: u64 = 0x2_9000;
const READS: u64 = 0x2_A000;
const WRITES: u64 = 0x2_B000;

/// A guest that writes `value` to a field of `encoding`, reads it into EDI, and halts; its flags
/// after the write are in ESI.
fn lab(encoding: u32, value: u32) -> Lab {
    let mut lab = Lab::new(|a| {
        a.mov(ecx, encoding).unwrap();
        a.mov(eax, value).unwrap();
        a.vmwrite(ecx, eax).unwrap();
        a.pushfd().unwrap();
        a.pop(esi).unwrap();
        a.vmread(edi, ecx).unwrap();
        a.hlt().unwrap();
    });
    let revision = lab.revision() | 1 << 31;
    lab.memory.write(SystemPhysical(SHADOW), &revision.to_le_bytes()).expect("RAM");
    lab.secondary(SecondaryControls::VMCS_SHADOWING);
    lab.set(control::VMREAD_BITMAP, READS);
    lab.set(control::VMWRITE_BITMAP, WRITES);
    lab.set(guest::VMCS_LINK_POINTER, SHADOW);
    lab
}

fn shadowed(lab: &Lab, field: arch::vmx::field::Field) -> u64 {
    let at = SHADOW as usize;
    Vmcs::new(&lab.memory.ram[at..at + VMCS_SIZE]).expect("4 KiB").get(field)
}

#[test]
fn a_guest_reads_and_writes_the_shadow_without_an_exit() {
    let mut lab = lab(guest::RSP.encoding().into(), 0x1234);
    let own = lab.get(guest::RSP);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(shadowed(&lab, guest::RSP), 0x1234);
    assert_eq!(lab.cpu.registers.gpr[7], 0x1234);
    assert_eq!(lab.cpu.registers.gpr[6] & rflags::STATUS, 0, "VMsucceed");
    assert_eq!(lab.get(guest::RSP), own, "its own VMCS is another one");
}

#[test]
fn a_bit_of_a_bitmap_makes_the_access_exit() {
    let encoding = guest::RSP.encoding();
    let at = u64::from(encoding / 8) & !7;
    let bit = 1 << (encoding % 64);
    for (bitmap, expected) in [(WRITES, ExitReason::Vmwrite), (READS, ExitReason::Vmread)] {
        let mut lab = lab(encoding.into(), 5);
        lab.write(bitmap + at, bit);
        assert_eq!(lab.run(), expected);
    }
}

#[test]
fn an_encoding_beyond_the_bitmaps_exits() {
    for encoding in [0x8000, 0x1_681C, 0x8000_0000] {
        assert_eq!(lab(encoding, 0).run(), ExitReason::Vmwrite, "{encoding:#x}");
    }
}

#[test]
fn a_field_that_does_not_exist_fails_with_the_error_in_the_guests_own_vmcs() {
    let mut lab = lab(0x2FFE, 0);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.registers.gpr[6] & rflags::STATUS, rflags::ZF);
    let error = InstructionError::from_bits(lab.get(exit::INSTRUCTION_ERROR) as u32);
    assert_eq!(error, InstructionError::UnsupportedField);
}

#[test]
fn without_a_link_pointer_the_instructions_fail_and_name_no_error() {
    let mut lab = lab(guest::RSP.encoding().into(), 5);
    lab.set(guest::VMCS_LINK_POINTER, u64::MAX);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.registers.gpr[6] & rflags::STATUS, rflags::CF);
}

#[test]
fn a_shadow_is_not_entered_and_a_link_to_what_is_none_fails_the_entry() {
    let mut lab = lab(guest::RSP.encoding().into(), 5);
    let revision = lab.revision();
    lab.memory.write(SystemPhysical(SHADOW), &revision.to_le_bytes()).expect("RAM");
    assert_eq!(lab.run(), ExitReason::InvalidGuestState);
    assert_eq!(lab.qualification(), 4);
    lab.memory.write(SystemPhysical(VMCS), &(revision | 1 << 31).to_le_bytes()).expect("RAM");
    lab.cpu.registers.ip = HOST_CODE;
    lab.cpu.pending.set_activity(cpu::Activity::Running);
    lab.run_host();
    assert_eq!(lab.cpu.registers.ip, HOST_CODE + 4, "behind VMLAUNCH and HLT");
    assert_eq!(lab.cpu.registers.flags.bits() & rflags::STATUS, rflags::CF);
}
