//! SVM's MSRs, VMLOAD and VMSAVE, the time-stamp counter. [APM2 "SVM Related MSRs"]

use crate::lab::*;
use arch::identity::ApicId;
use arch::svm::exit::ExitCode;
use arch::svm::vmcb::{VirtualizationExtensions, control, save};
use arch::time::Picoseconds;
use bus::Effect;
use cpu::RunEnd;
use iced_x86::code_asm::*;

/// WRMSR in a guest without MSR intercepts reaches the processor's own registers.
fn write_msr(number: u32, value: u64) -> (Lab, bool) {
    let mut lab = Lab::new(|a| {
        a.mov(ecx, number).unwrap();
        a.mov(eax, value as u32).unwrap();
        a.mov(edx, (value >> 32) as u32).unwrap();
        a.wrmsr().unwrap();
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.exceptions = 1 << 13);
    let is_accepted = lab.run() == ExitCode::Hlt;
    (lab, is_accepted)
}

#[test]
fn msr_values_are_checked() {
    let rows = [
        (0xC001_0117, 0x2_1000, true),
        (0xC001_0117, 0x2_1001, false),
        (0xC001_0117, 1 << 48, false),
        (0xC000_0104, 1 << 32, true),
        (0xC000_0104, 1 << 40, false),
        (0xC001_0114, 1 << 3, true),
        (0xC001_0114, 1 << 5, false),
        // SVMDIS while EFER.SVME is set.
        (0xC001_0114, 1 << 4, false),
        (0xC001_011B, 0xFFF, true),
        (0xC001_011B, 0x1000, false),
    ];
    for (number, value, is_legal) in rows {
        assert_eq!(write_msr(number, value).1, is_legal, "{number:#x} {value:#x}");
    }
}

#[test]
fn the_doorbell_rings_and_cannot_be_read() {
    let (lab, _) = write_msr(0xC001_011B, 5);
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(5) }]);
    let mut lab = Lab::new(|a| {
        a.mov(ecx, 0xC001_011Bu32).unwrap();
        a.rdmsr().unwrap();
    });
    lab.intercept(|i| i.exceptions = 1 << 13);
    assert_eq!(lab.run(), ExitCode::Exception(13));
}

/// The target may idle, and nothing else come for long: the turn ends, so that it hears.
#[test]
fn doorbell_ends_the_turn() {
    let mut lab = Lab::new(|a| {
        a.mov(ecx, 0xC001_011Bu32).unwrap();
        a.mov(eax, 5).unwrap();
        a.xor(edx, edx).unwrap();
        a.wrmsr().unwrap();
        let mut again = a.create_label();
        a.set_label(&mut again).unwrap();
        a.jmp(again).unwrap();
    });
    assert_eq!(lab.run_turn(), RunEnd::Yield);
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(5) }]);
}

#[test]
fn the_guest_s_tsc_is_scaled_and_offset() {
    let mut lab = Lab::new(|a| {
        a.rdtsc().unwrap();
        a.mov(ebx, eax).unwrap();
        a.hlt().unwrap();
    });
    // Late enough that twice the counter is far from the counter.
    lab.cpu.clock.move_to(Picoseconds(100_000_000_000));
    lab.cpu.guest.svm.tsc_ratio = 2 << 32;
    lab.set(control::TSC_OFFSET, 1_000_000);
    let before = lab.cpu.clock.tsc();
    lab.run();
    let after = lab.cpu.clock.tsc();
    assert!(after < 2 * before, "the ratio shows");
    let seen = lab.cpu.registers.gpr[3];
    assert!((2 * before + 1_000_000..=2 * after + 1_000_000).contains(&seen), "{seen}");
}

#[test]
fn vmsave_and_vmload_carry_the_hidden_state() {
    let code: fn(&mut CodeAssembler) = |a| {
        a.mov(eax, GUEST_DATA as u32).unwrap();
        a.vmsave().unwrap();
        a.mov(eax, GUEST_DATA as u32 + 0x1000).unwrap();
        a.vmload().unwrap();
        a.hlt().unwrap();
    };
    // Virtual, the addresses are the guest's; otherwise the system's.
    for is_virtual in [true, false] {
        let mut lab = Lab::new(code);
        let extensions = VirtualizationExtensions::new().with_virtual_vmload_vmsave(is_virtual);
        lab.set(control::VIRTUALIZATION_EXTENSIONS, extensions);
        let base = if is_virtual { GUEST } else { 0 };
        lab.cpu.control.syscall.lstar = 0x1234;
        let lstar = u64::from(save::LSTAR.offset());
        let gs_base = u64::from(save::GS.offset()) + 8;
        lab.write(base + GUEST_DATA + 0x1000 + lstar, 0x5678);
        lab.write(base + GUEST_DATA + 0x1000 + gs_base, 0xFFFF_8000_0000_0000);
        let sysenter_esp = u64::from(save::SYSENTER_ESP.offset());
        lab.write(base + GUEST_DATA + 0x1000 + sysenter_esp, 0x1234_5678_9000);
        assert_eq!(lab.run(), ExitCode::Hlt);
        assert_eq!(lab.read(base + GUEST_DATA + lstar), 0x1234);
        assert_eq!(lab.cpu.control.syscall.lstar, 0x5678);
        assert_eq!(lab.cpu.control.syscall.sysenter_esp, 0x5678_9000, "of 32 bits");
        assert_eq!(
            lab.cpu.registers.segment(arch::segment::SegmentRegister::Gs).base,
            0xFFFF_8000_0000_0000
        );
    }
}
