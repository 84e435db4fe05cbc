//! What a VM exit saves beside the guest's registers. [SDM3 "VM Exits"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::vmx::control::{ExitControls, PrimaryControls};
use arch::vmx::field::{control, exit, guest, host};
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
        assert_eq!(lab.get(guest::INTERRUPTIBILITY), 0, "{name}: it covers the VMCALL alone");
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
}
