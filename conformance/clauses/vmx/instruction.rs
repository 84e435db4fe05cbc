//! VMXON to VMWRITE, and how they fail. [SDM3 "VMX Instruction Reference"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, rflags};
use arch::vmx::InstructionError;
use arch::vmx::field::{Field, control, exit, guest};
use cpu::RunEnd;
use iced_x86::code_asm::*;

/// What became of an instruction.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Succeeds,
    Invalid,
    Valid(InstructionError),
    /// Triple fault: the host has no interrupt table.
    Faults,
}

fn outcome(lab: &mut Lab) -> Outcome {
    let end = lab.run_until_stop();
    if end == RunEnd::Shutdown {
        return Outcome::Faults;
    }
    match lab.cpu.registers.flags.bits() & rflags::STATUS {
        0 => Outcome::Succeeds,
        rflags::CF => Outcome::Invalid,
        rflags::ZF => {
            let error = lab.get(exit::INSTRUCTION_ERROR) as u32;
            Outcome::Valid(InstructionError::from_bits(error))
        }
        flags => panic!("flags {flags:#x}"),
    }
}

/// A host that executes `code` with the pointer in memory, with all status flags set before.
fn host(pointer: u64, code: impl FnOnce(&mut CodeAssembler)) -> Lab {
    let mut lab = Lab::host();
    lab.write(HOST_DATA, pointer);
    lab.host_code(|a| {
        code(a);
        a.hlt().unwrap();
    });
    lab.cpu.registers.gpr[3] = HOST_DATA;
    lab.cpu.registers.flags.set_bits(rflags::STATUS | rflags::FIXED);
    lab
}

fn in_operation(pointer: u64, code: impl FnOnce(&mut CodeAssembler)) -> Lab {
    let mut lab = host(pointer, code);
    lab.cpu.guest.vmx.vmxon = Some(SystemPhysical(VMXON));
    lab.cpu.guest.vmx.vmcs = Some(SystemPhysical(VMCS));
    lab
}

#[test]
fn vmxon_takes_a_region_with_the_revision() {
    let vmxon = |a: &mut CodeAssembler| a.vmxon(qword_ptr(rbx)).unwrap();
    let rows = [
        (VMXON, Outcome::Succeeds),
        (VMXON + 8, Outcome::Invalid),
        (1 << 46, Outcome::Invalid),
        (HOST_DATA, Outcome::Invalid),
    ];
    for (pointer, expected) in rows {
        let mut lab = host(pointer, vmxon);
        assert_eq!(outcome(&mut lab), expected, "{pointer:#x}");
        let entered = lab.cpu.guest.vmx.vmxon.is_some();
        assert_eq!(entered, expected == Outcome::Succeeds, "{pointer:#x}");
        assert_eq!(lab.cpu.guest.vmx.vmcs, None);
    }
}

#[test]
fn vmxon_needs_its_registers() {
    let vmxon = |a: &mut CodeAssembler| a.vmxon(qword_ptr(rbx)).unwrap();
    type Change = fn(&mut Lab);
    let rows: [(&str, Change); 4] = [
        ("CR4.VMXE", |lab| lab.cpu.control.switch_cr4(Cr4::VMXE, false)),
        ("CR0.NE", |lab| lab.cpu.control.switch_cr0(Cr0::NUMERIC_ERROR, false)),
        ("the lock", |lab| lab.cpu.guest.vmx.feature_control.set_is_locked(false)),
        ("VMX outside SMX", |lab| lab.cpu.guest.vmx.feature_control.set_vmx_outside_smx(false)),
    ];
    for (name, change) in rows {
        let mut lab = host(VMXON, vmxon);
        change(&mut lab);
        assert_eq!(outcome(&mut lab), Outcome::Faults, "{name}");
        assert!(lab.cpu.guest.vmx.vmxon.is_none(), "{name}");
    }
    let mut lab = in_operation(VMXON, vmxon);
    assert_eq!(outcome(&mut lab), Outcome::Valid(InstructionError::VmxonInRoot));
}

#[test]
fn vmptrld_and_vmclear_check_their_region() {
    use InstructionError as E;
    let load = |a: &mut CodeAssembler| a.vmptrld(qword_ptr(rbx)).unwrap();
    let clear = |a: &mut CodeAssembler| a.vmclear(qword_ptr(rbx)).unwrap();
    let rows = [
        (VMCS, Outcome::Succeeds, Outcome::Succeeds),
        (VMCS + 4, Outcome::Valid(E::VmptrldAddress), Outcome::Valid(E::VmclearAddress)),
        (1 << 46, Outcome::Valid(E::VmptrldAddress), Outcome::Valid(E::VmclearAddress)),
        (VMXON, Outcome::Valid(E::VmptrldOfVmxonRegion), Outcome::Valid(E::VmclearOfVmxonRegion)),
        (HOST_STACK, Outcome::Valid(E::VmptrldRevision), Outcome::Succeeds),
    ];
    for (pointer, loads, clears) in rows {
        assert_eq!(outcome(&mut in_operation(pointer, load)), loads, "VMPTRLD {pointer:#x}");
        let mut lab = in_operation(pointer, clear);
        assert_eq!(outcome(&mut lab), clears, "VMCLEAR {pointer:#x}");
        let is_current = lab.cpu.guest.vmx.vmcs.is_some();
        assert_eq!(is_current, pointer != VMCS, "VMCLEAR {pointer:#x} of the current VMCS");
    }
}

#[test]
fn without_a_current_vmcs_there_is_no_error_number() {
    let mut lab = in_operation(VMXON, |a| a.vmptrld(qword_ptr(rbx)).unwrap());
    lab.cpu.guest.vmx.vmcs = None;
    assert_eq!(outcome(&mut lab), Outcome::Invalid);
    let mut lab = in_operation(0, |a| a.vmptrst(qword_ptr(rbx)).unwrap());
    lab.cpu.guest.vmx.vmcs = None;
    assert_eq!(outcome(&mut lab), Outcome::Succeeds);
    assert_eq!(lab.read(HOST_DATA), u64::MAX);
}

fn read(encoding: u64) -> (Outcome, u64) {
    let mut lab = in_operation(0, |a| a.vmread(rcx, rdx).unwrap());
    lab.set(control::TSC_OFFSET, 0x1122_3344_5566_7788);
    lab.set(guest::CS_SELECTOR, 0xABCD);
    lab.cpu.registers.gpr[1] = 0x5A5A;
    lab.cpu.registers.gpr[2] = encoding;
    let outcome = outcome(&mut lab);
    (outcome, lab.cpu.registers.gpr[1])
}

#[test]
fn vmread_reads_fields_that_the_processor_has() {
    let unsupported = || (Outcome::Valid(InstructionError::UnsupportedField), 0x5A5A);
    let rows = [
        (0x2010, (Outcome::Succeeds, 0x1122_3344_5566_7788)),
        (0x2011, (Outcome::Succeeds, 0x1122_3344)),
        (0x0802, (Outcome::Succeeds, 0xABCD)),
        (0x0803, unsupported()),
        (0x2034, unsupported()),
        (0x1_0802, unsupported()),
        (0xFFFF_FFFF_0000_0802, unsupported()),
    ];
    for (encoding, expected) in rows {
        assert_eq!(read(encoding), expected, "{encoding:#x}");
    }
}

#[test]
fn vmwrite_writes_read_only_fields_only_where_that_is_offered() {
    let write = |field: Field, offered: bool| {
        let mut lab = in_operation(0, |a| a.vmwrite(rdx, rcx).unwrap());
        let mut can = lab.cpu.guest.vmx.capabilities.expect("VMX");
        can.misc.set_writes_read_only_fields(offered);
        lab.cpu.guest.vmx.capabilities = Some(can);
        lab.cpu.registers.gpr[1] = 0x1_2345_6789;
        lab.cpu.registers.gpr[2] = field.encoding().into();
        let outcome = outcome(&mut lab);
        (outcome, lab.get(field))
    };
    let refused = (Outcome::Valid(InstructionError::ReadOnlyField), 0);
    assert_eq!(write(exit::QUALIFICATION, false), refused);
    assert_eq!(write(exit::QUALIFICATION, true), (Outcome::Succeeds, 0x1_2345_6789));
    assert_eq!(write(guest::CS_LIMIT, false), (Outcome::Succeeds, 0x2345_6789));
}

#[test]
fn launch_and_resume_look_at_the_launch_state() {
    use InstructionError as E;
    let rows: [(bool, bool, Option<E>); 4] = [
        (true, false, None),
        (true, true, Some(E::VmlaunchOfNonClear)),
        (false, true, None),
        (false, false, Some(E::VmresumeOfNonLaunched)),
    ];
    for (launches, is_launched, error) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.host_code(|a| {
            if launches { a.vmlaunch() } else { a.vmresume() }.unwrap();
            a.hlt().unwrap();
        });
        let at = VMCS as usize;
        cpu::vmx::Vmcs::new(&mut lab.memory.ram[at..at + cpu::vmx::VMCS_SIZE])
            .expect("4 KiB")
            .set_launched(is_launched);
        lab.run_host();
        assert_eq!(lab.failure(), error, "launch {launches} of launched {is_launched}");
    }
}

#[test]
fn an_entry_behind_a_load_of_ss_fails() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.write(HOST_DATA, 0);
    lab.host_code(|a| {
        a.mov(ss, ecx).unwrap();
        a.vmlaunch().unwrap();
        a.hlt().unwrap();
    });
    lab.run_host();
    assert_eq!(lab.failure(), Some(InstructionError::EntryWhileMovSsBlocks));
}

#[test]
fn instructions_are_undefined_outside_vmx_operation_and_on_other_parts() {
    let codes: [fn(&mut CodeAssembler); 4] = [
        |a| a.vmxoff().unwrap(),
        |a| a.vmlaunch().unwrap(),
        |a| a.vmcall().unwrap(),
        |a| a.vmread(rcx, rdx).unwrap(),
    ];
    for code in codes {
        let mut lab = host(0, code);
        assert_eq!(outcome(&mut lab), Outcome::Faults);
    }
}

#[test]
fn vmcall_in_root_operation_has_nowhere_to_go() {
    let mut lab = in_operation(0, |a| a.vmcall().unwrap());
    assert_eq!(outcome(&mut lab), Outcome::Valid(InstructionError::VmcallInRoot));
}

#[test]
fn fixed_bits_of_control_registers_cannot_be_cleared_in_vmx_operation() {
    let mut lab = in_operation(0, |a| {
        a.mov(rax, cr0).unwrap();
        a.and(eax, !0x20).unwrap();
        a.mov(cr0, rax).unwrap();
    });
    assert_eq!(outcome(&mut lab), Outcome::Faults);
    let mut lab = in_operation(0, |a| {
        a.mov(rax, cr4).unwrap();
        a.and(eax, !0x2000).unwrap();
        a.mov(cr4, rax).unwrap();
    });
    assert_eq!(outcome(&mut lab), Outcome::Faults);
}

#[test]
fn invalidations_check_type_and_descriptor() {
    let bad = || Outcome::Valid(InstructionError::InvalidateOperand);
    let vpid = |kind: u64, low: u64, linear: u64| {
        let mut lab = in_operation(low, |a| a.invvpid(rcx, xmmword_ptr(rbx)).unwrap());
        lab.write(HOST_DATA + 8, linear);
        lab.cpu.registers.gpr[1] = kind;
        outcome(&mut lab)
    };
    for (kind, low, linear, expected) in [
        (0, 1, 0x1000, Outcome::Succeeds),
        (0, 1, 1 << 50, bad()),
        (0, 0, 0x1000, bad()),
        (1, 0, 0, bad()),
        (2, 0, 1 << 50, Outcome::Succeeds),
        (2, 1 << 16, 0, bad()),
        (3, 1, 0, Outcome::Succeeds),
        (4, 1, 0, bad()),
    ] {
        assert_eq!(vpid(kind, low, linear), expected, "INVVPID {kind} {low:#x} {linear:#x}");
    }
    let ept = |kind: u64, pointer: u64| {
        let mut lab = in_operation(pointer, |a| a.invept(rcx, xmmword_ptr(rbx)).unwrap());
        lab.cpu.registers.gpr[1] = kind;
        outcome(&mut lab)
    };
    for (kind, pointer, expected) in [
        (1, EXTENDED_TABLES | 0x1E, Outcome::Succeeds),
        (1, EXTENDED_TABLES | 0x1D, bad()),
        (2, 0, Outcome::Succeeds),
        (0, EXTENDED_TABLES | 0x1E, bad()),
        (3, EXTENDED_TABLES | 0x1E, bad()),
    ] {
        assert_eq!(ept(kind, pointer), expected, "INVEPT {kind} {pointer:#x}");
    }
}
