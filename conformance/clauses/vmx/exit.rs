//! What a VM exit saves beside the guest's registers. [SDM3 "VM Exits"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::vmx::control::{ExitControls, PrimaryControls};
use arch::vmx::field::{SEGMENTS, TR, control, exit, guest, host};
use arch::vmx::{AbortCode, ExitReason};
use bus::Happening;
use cpu::RunEnd;
use iced_x86::code_asm::*;

#[test]
fn the_interrupt_shadow_is_saved() {
    for (name, expected, code) in [
        ("STI", 1, (|a| a.sti().unwrap()) as fn(&mut CodeAssembler)),
        ("MOV SS", 2, |a| {
            a.mov(ax, ss).unwrap();
            a.mov(ss, ax).unwrap();
        }),
    ] {
        let mut lab = Lab::new(|a| {
            code(a);
            a.vmcall().unwrap();
        });
        assert_eq!(lab.run(), ExitReason::Vmcall, "{name}");
        assert_eq!(lab.get(guest::INTERRUPTIBILITY), expected, "{name}: it covers the VMCALL");
        lab.set(guest::INTERRUPTIBILITY, 0);
        lab.set(guest::RIP, GUEST_CODE);
        lab.set(guest::RFLAGS, 2);
        lab.primary(PrimaryControls::MONITOR_TRAP_FLAG);
        let mut reason = lab.resume();
        if expected == 2 {
            reason = lab.resume();
        }
        assert_eq!(reason, ExitReason::MonitorTrapFlag, "{name}");
        assert_eq!(lab.get(guest::INTERRUPTIBILITY), expected, "{name}");
    }
}

/// An instruction that exits has not been executed, so what comes next is in the shadow still; one
/// behind it is not, and one that has completed is not any more.
#[test]
fn the_shadow_covers_one_instruction_whatever_it_exits_for() {
    type Code = fn(&mut CodeAssembler);
    let rows: [(&str, Code, ExitReason, u64); 5] = [
        ("STI; CPUID", |a| (a.sti().unwrap(), a.cpuid().unwrap()).1, ExitReason::Cpuid, 1),
        ("STI; HLT", |a| (a.sti().unwrap(), a.hlt().unwrap()).1, ExitReason::Hlt, 1),
        (
            "STI; an access without a page",
            |a| (a.sti().unwrap(), a.mov(eax, dword_ptr(GUEST_DATA)).unwrap()).1,
            ExitReason::EptViolation,
            1,
        ),
        (
            "STI; NOP; CPUID",
            |a| (a.sti().unwrap(), a.nop().unwrap(), a.cpuid().unwrap()).2,
            ExitReason::Cpuid,
            0,
        ),
        (
            "a second STI has no shadow",
            |a| (a.sti().unwrap(), a.nop().unwrap(), a.sti().unwrap(), a.cpuid().unwrap()).3,
            ExitReason::Cpuid,
            0,
        ),
    ];
    for (rule, code, reason, expected) in rows {
        let mut lab = Lab::new(code);
        lab.write(Lab::extended_entry(GUEST_DATA >> 12), 0);
        assert_eq!(lab.run(), reason, "{rule}");
        assert_eq!(lab.get(guest::INTERRUPTIBILITY), expected, "{rule}");
    }
}

#[test]
fn efer_and_pat_are_saved_and_loaded_by_control() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    let pat = 0x0606_0606_0606_0606;
    lab.set(guest::PAT, pat);
    lab.set(host::PAT, 0x0007_0406_0007_0406);
    lab.set_bits(control::ENTRY, 1u64 << 14);
    lab.set_bits(control::EXIT, ExitControls::LOAD_PAT.bits());
    lab.run();
    assert_eq!(lab.cpu.control.msr.pat, 0x0007_0406_0007_0406);
    lab.clear_bits(control::EXIT, ExitControls::LOAD_PAT.bits());
    lab.resume();
    assert_eq!(lab.cpu.control.msr.pat, pat, "the guest's stays");
}

#[test]
fn msrs_are_stored_and_loaded_on_exit() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.cpu.control.msr.tsc_aux = 0x1234;
    lab.write(MSR_AREA, 0xC000_0103);
    lab.set(control::EXIT_MSR_STORE_ADDRESS, MSR_AREA);
    lab.set(control::EXIT_MSR_STORE_COUNT, 1);
    lab.write(MSR_AREA + 16, 0xC000_0103);
    lab.write(MSR_AREA + 24, 0x99);
    lab.set(control::EXIT_MSR_LOAD_ADDRESS, MSR_AREA + 16);
    lab.set(control::EXIT_MSR_LOAD_COUNT, 1);
    lab.run();
    assert_eq!(lab.read(MSR_AREA + 8), 0x1234);
    assert_eq!(lab.cpu.control.msr.tsc_aux, 0x99);
}

#[test]
fn an_msr_that_cannot_be_loaded_aborts() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.write(MSR_AREA, 0x4000_0000);
    lab.set(control::EXIT_MSR_LOAD_ADDRESS, MSR_AREA);
    lab.set(control::EXIT_MSR_LOAD_COUNT, 1);
    assert_eq!(lab.run_until_stop(), RunEnd::Shutdown);
    assert_eq!(lab.read(VMCS) >> 32, 4, "the abort indicator");
    let (vmcs, code) = (SystemPhysical(VMCS), AbortCode::LoadingMsrs);
    let told = Happening::VmxAbort { vmcs, code, entry: 1 };
    assert_eq!(lab.platform.happenings.last(), Some(&told));
}

#[test]
fn a_task_switch_always_exits() {
    let mut lab = Lab::new(|a| {
        a.int(0x41).unwrap();
    });
    // A task gate for selector 28h.
    lab.write(GUEST + GUEST_IDT + 8 * 0x41, 0x28 << 16 | 0x8500 << 32);
    assert_eq!(lab.run(), ExitReason::TaskSwitch);
    assert_eq!(lab.qualification(), 3 << 30 | 0x28);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO), 1 << 31 | 4 << 8 | 0x41);
    assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 2);
}

/// [SDM3 "Information for VM Exits Due to Instruction Execution"]: "attempts to effect a task switch
/// via instruction execution".
#[test]
fn a_task_switch_by_an_instruction_tells_its_length() {
    const NESTED_TASK: u64 = 1 << 14;
    for (name, bytes, source) in [
        ("CALL", &[0x9A, 0, 0, 0, 0, 0x28, 0][..], 0),
        ("IRET", &[0xCF], 1),
        ("IRET with a prefix", &[0x66, 0xCF], 1),
        ("JMP", &[0xEA, 0, 0, 0, 0, 0x28, 0], 2),
    ] {
        let mut lab = Lab::new(|a| a.db(bytes).unwrap());
        let is_return = source == 1;
        // An available task of 32 bits, or the busy one to go back to.
        let kind = if is_return { 0x8B } else { 0x89 };
        lab.write(GUEST + GUEST_GDT + 0x28, kind << 40 | GUEST_DATA << 16 | 0x67);
        lab.set(guest::GDTR_LIMIT, 0x2F);
        lab.set(guest::RFLAGS, 2 | if is_return { NESTED_TASK } else { 0 });
        let link = GUEST + lab.get(SEGMENTS[TR].base);
        lab.write(link, 0x28);
        assert_eq!(lab.run(), ExitReason::TaskSwitch, "{name}");
        assert_eq!(lab.qualification(), source << 30 | 0x28, "{name}");
        assert_eq!(lab.get(exit::IDT_VECTORING_INFO) >> 31, 0, "{name}");
        assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), bytes.len() as u64, "{name}");
        assert_eq!(lab.get(guest::RIP), GUEST_CODE, "{name}");
    }
}

#[test]
fn a_task_switch_for_an_exception_has_no_length() {
    let mut lab = Lab::new(|a| a.ud2().unwrap());
    lab.write(GUEST + GUEST_IDT + 8 * 6, 0x28 << 16 | 0x8500 << 32);
    assert_eq!(lab.run(), ExitReason::TaskSwitch);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO), 1 << 31 | 3 << 8 | 6);
    assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 0);
}
