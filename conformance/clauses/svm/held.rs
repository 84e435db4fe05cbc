//! INIT and SMI: intercepted, held back by GIF, redirected. [APM2 "INIT Intercept"]
//! [APM2 "SMI Intercept"] [APM2 "Global Interrupt Flag"]

use crate::lab::*;
use arch::svm::exit::ExitCode;
use arch::svm::intercept::Vector3;
use arch::svm::vmcb::{control, save};
use cpu::{Activity, Attention, RunEnd};
use interrupt::local_apic::Acceptance;

/// A guest that runs for ever, and does.
fn spinning(intercept: Vector3) -> Lab {
    let mut lab = Lab::new(|a| {
        let mut here = a.create_label();
        a.set_label(&mut here).unwrap();
        a.jmp(here).unwrap();
    });
    lab.intercept(|i| i.vector3 |= intercept);
    assert_eq!(lab.run_until_stop(), RunEnd::Instructions);
    assert!(lab.cpu.is_guest());
    lab
}

#[test]
fn an_intercepted_init_or_smi_exits_and_stays_pending_for_the_host() {
    let rows = [
        (Acceptance::Init, Vector3::INIT, Attention::INIT, ExitCode::Init),
        (Acceptance::Smi, Vector3::SMI, Attention::SMI, ExitCode::Smi),
    ];
    for (arrives, intercept, attention, exit) in rows {
        let mut lab = spinning(intercept);
        lab.cpu.accepted(arrives);
        assert_eq!(lab.run(), exit);
        assert_eq!(lab.get(save::RIP), GUEST_CODE);
        assert!(lab.cpu.pending.has(attention), "held while GIF is clear");
        assert_eq!(lab.resume(), exit, "at once: VMRUN sets GIF");
    }
}

#[test]
fn an_intercepted_init_wakes_a_halted_guest() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.intercept(|i| {
        i.vector3.remove(Vector3::HLT);
        i.vector3 |= Vector3::INIT;
    });
    assert_eq!(lab.run_until_stop(), RunEnd::Idle);
    lab.cpu.accepted(Acceptance::Init);
    assert_eq!(lab.run(), ExitCode::Init);
}

#[test]
fn an_init_that_nobody_intercepts_resets_the_processor_out_of_the_guest() {
    let mut lab = spinning(Vector3::empty());
    lab.cpu.accepted(Acceptance::Init);
    assert!(!lab.cpu.is_guest());
    assert_eq!(
        (
            lab.cpu.registers.ip,
            lab.cpu.registers.segment(arch::segment::SegmentRegister::Cs).selector
        ),
        (0xFFF0, 0xF000)
    );
}

#[test]
fn init_waits_for_gif() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.run();
    lab.cpu.accepted(Acceptance::Init);
    assert_eq!(lab.cpu.pending.activity(), Activity::Halted, "GIF is clear after #VMEXIT");
    assert_eq!(lab.run_until_stop(), RunEnd::Idle);
    assert!(lab.cpu.is_64_bit());
    lab.cpu.guest.svm.global_interrupts = true;
    lab.run_turn();
    assert!(lab.cpu.control.is_real(), "reset");
}

#[test]
fn an_smi_that_nobody_intercepts_leaves_no_trace() {
    let mut lab = spinning(Vector3::empty());
    lab.cpu.accepted(Acceptance::Smi);
    assert_eq!(lab.run_until_stop(), RunEnd::Instructions);
    assert!(lab.cpu.is_guest() && !lab.cpu.pending.has(Attention::SMI));
}

#[test]
fn r_init_turns_init_into_a_security_exception() {
    let mut lab = spinning(Vector3::empty());
    lab.cpu.guest.svm.vm_cr = lab.cpu.guest.svm.vm_cr.with_redirects_init(true);
    lab.cpu.accepted(Acceptance::Init);
    assert_eq!(lab.run(), ExitCode::Hlt, "of the guest's handler");
    let stack = GUEST + lab.get(save::RSP);
    assert_eq!(lab.read(stack) as u32, 1, "the error code");
    assert!(!lab.get(control::EXITINTINFO).is_valid());
    assert!(!lab.cpu.pending.has(Attention::INIT));
}
