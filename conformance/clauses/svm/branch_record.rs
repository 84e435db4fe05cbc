//! Control-transfer recording, and its virtualization. [APM2 "Control-Transfer Recording"]
//! [APM2 "LBR Virtualization"]

use crate::lab::*;
use arch::control::rflags;
use arch::svm::exit::ExitCode;
use arch::svm::vmcb::{VirtualizationExtensions, control, save};
use iced_x86::code_asm::*;

const DEBUG_CTL: u32 = 0x1D9;
const RECORDS: u64 = 1;
const STEPS_BRANCHES: u64 = 2;

type Code = fn(&mut CodeAssembler);
/// Its name, the branch, and the record: offsets from the guest's first instruction.
type Row = (&'static str, Code, Option<(u64, u64)>);

/// A guest that records from its first instruction on, in registers of its own.
fn recording(debug_ctl: u64, code: impl FnOnce(&mut CodeAssembler)) -> Lab {
    let mut lab = Lab::new(code);
    let extensions = VirtualizationExtensions::new().with_last_branch_records(true);
    lab.set(control::VIRTUALIZATION_EXTENSIONS, extensions);
    lab.set(save::DBGCTL, debug_ctl);
    lab
}

fn last_branch(lab: &Lab) -> (u64, u64) {
    (lab.get(save::BR_FROM), lab.get(save::BR_TO))
}

#[test]
fn each_taken_branch_is_recorded_with_its_own_address_and_its_target() {
    let rows: &[Row] = &[
        ("jmp", |a| jump(a, |a, to| a.jmp(to).unwrap()), Some((1, 4))),
        ("jz taken", |a| jump(a, |a, to| a.je(to).unwrap()), Some((1, 4))),
        ("jnz not taken", |a| jump(a, |a, to| a.jne(to).unwrap()), None),
        ("jecxz", |a| jump(a, |a, to| a.jecxz(to).unwrap()), Some((1, 4))),
        ("call", |a| jump(a, |a, to| a.call(to).unwrap()), Some((1, 7))),
        ("jmp reg", |a| a.jmp(ebx).unwrap(), Some((1, 0x100))),
        ("no branch", |_| (), None),
    ];
    for (name, code, expected) in rows {
        let mut lab = recording(RECORDS, |a| {
            a.nop().unwrap();
            code(a);
            a.hlt().unwrap();
        });
        lab.set(save::RFLAGS, 2 | rflags::ZF);
        lab.cpu.registers.gpr[1] = 0;
        lab.cpu.registers.gpr[3] = GUEST_CODE + 0x100;
        lab.write(GUEST + GUEST_CODE + 0x100, 0xF4);
        assert_eq!(lab.run(), ExitCode::Hlt, "{name}");
        let expected = expected.map_or((0, 0), |(from, to)| (GUEST_CODE + from, GUEST_CODE + to));
        assert_eq!(last_branch(&lab), expected, "{name}");
    }
}

/// A branch over one NOP.
fn jump(a: &mut CodeAssembler, branch: impl FnOnce(&mut CodeAssembler, CodeLabel)) {
    let mut to = a.create_label();
    branch(a, to);
    a.nop().unwrap();
    a.set_label(&mut to).unwrap();
    a.nop().unwrap();
}

#[test]
fn a_branch_to_the_next_instruction_is_a_branch() {
    let mut lab = recording(RECORDS, |a| {
        let mut next = a.create_label();
        a.jmp(next).unwrap();
        a.set_label(&mut next).unwrap();
        a.hlt().unwrap();
    });
    lab.run();
    assert_eq!(last_branch(&lab), (GUEST_CODE, GUEST_CODE + 2));
}

#[test]
fn an_interrupt_keeps_the_branch_before_it_and_is_recorded_itself() {
    let mut lab = recording(RECORDS, |a| {
        jump(a, |a, to| a.jmp(to).unwrap());
        a.int(0x80).unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    let before = (lab.get(save::LAST_EXCEPTION_FROM), lab.get(save::LAST_EXCEPTION_TO));
    assert_eq!(before, (GUEST_CODE, GUEST_CODE + 3));
    assert_eq!(last_branch(&lab), (GUEST_CODE + 4, GUEST_HANDLER));
}

#[test]
fn a_debug_exception_stops_recording_and_is_not_recorded() {
    let mut lab = recording(RECORDS | STEPS_BRANCHES, |a| {
        jump(a, |a, to| a.jmp(to).unwrap());
        a.int1().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER);
    assert_eq!(last_branch(&lab), (GUEST_CODE, GUEST_CODE + 3));
    assert_eq!(lab.get(save::DBGCTL), 0);
}

#[test]
fn with_btf_single_steps_go_from_branch_to_branch() {
    for (debug_ctl, trapped_at) in [(0, 1), (STEPS_BRANCHES, 4)] {
        let mut lab = recording(debug_ctl, |a| {
            a.nop().unwrap();
            jump(a, |a, to| a.jmp(to).unwrap());
            a.hlt().unwrap();
        });
        lab.set(save::RFLAGS, 2 | rflags::TF);
        lab.intercept(|i| i.exceptions = 1 << 1);
        assert_eq!(lab.run(), ExitCode::Exception(1));
        assert_eq!(lab.get(save::RIP), GUEST_CODE + trapped_at, "{debug_ctl}");
    }
}

#[test]
fn under_lbr_virtualization_the_host_s_registers_come_back() {
    let mut lab = recording(RECORDS, |a| jump(a, |a, to| a.jmp(to).unwrap()));
    lab.write(GUEST + GUEST_CODE + 4, 0xF4);
    let records = &mut lab.cpu.control.msr.branch_records;
    (records.branch_from, records.branch_to) = (0x1111, 0x2222);
    (records.exception_from, records.exception_to) = (0x3333, 0x4444);
    let before = *records;
    lab.cpu.control.msr.debug_ctl = STEPS_BRANCHES;
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(last_branch(&lab), (GUEST_CODE, GUEST_CODE + 3));
    assert_eq!(lab.cpu.control.msr.branch_records, before);
    assert_eq!(lab.cpu.control.msr.debug_ctl, STEPS_BRANCHES);
    assert_eq!(lab.get(save::DBGCTL), RECORDS);
}

#[test]
fn without_it_guest_and_host_share_the_registers() {
    let mut lab = Lab::new(|a| {
        a.mov(ecx, DEBUG_CTL).unwrap();
        a.mov(eax, RECORDS as u32).unwrap();
        a.xor(edx, edx).unwrap();
        a.wrmsr().unwrap();
        jump(a, |a, to| a.jmp(to).unwrap());
        a.hlt().unwrap();
    });
    lab.set(save::BR_FROM, 0x77);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.cpu.control.msr.branch_records.branch_from, GUEST_CODE + 14);
    assert_eq!(lab.cpu.control.msr.debug_ctl, RECORDS, "the guest's stays");
    assert_eq!(lab.get(save::BR_FROM), 0x77, "the VMCB is left alone");
}
