//! SYSCALL, SYSRET, SYSENTER, SYSEXIT, IRET, far transfers and gates.
//! [APM2 "Fast System Call and Return"] [APM2 "Control Transfers"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED, event};
use arch::control::{Efer, rflags};
use arch::segment::SegmentRegister::{Ds, Es, Fs, Gs};
use iced_x86::code_asm::*;

const TARGET: u64 = CODE + 0x100;

/// STAR of the layout's descriptors: SYSRET's selectors are 20h and above, SYSCALL's 08h and 10h.
const STAR: u64 = 0x20 << 48 | 0x08 << 32;

fn subject(mode: Mode, code: Code) -> Subject {
    let mut subject = Subject::with("zen4", mode, code);
    subject.cpu.control.syscall.star = STAR;
    subject.cpu.control.syscall.lstar = TARGET;
    subject.cpu.control.syscall.sfmask = rflags::IF | rflags::DF;
    subject.memory.write(arch::address::SystemPhysical(TARGET), &[0xCD, DONE]).expect("RAM");
    subject
}

#[test]
fn syscall_keeps_the_return_in_rcx_and_r11_and_masks_flags() {
    let mut subject = subject(Mode::User, |a| a.syscall());
    let before = 2 | rflags::IF | rflags::DF | rflags::CF;
    subject.cpu.registers.flags.set_bits(before);
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.registers.gpr[1], USER + CODE + 2, "RCX: behind SYSCALL");
    assert_eq!(subject.cpu.registers.gpr[11], before);
    let frame = [subject.frame(0), subject.frame(1), subject.frame(2), subject.frame(4)];
    let (code, data) = (u64::from(CODE_64), u64::from(FLAT));
    assert_eq!(frame, [TARGET + 2, code, 2 | rflags::CF, data]);
    assert_eq!(subject.frame(3), USER_STACK, "the stack pointer is the user's");
}

#[test]
fn sysret_goes_to_user_code_of_either_size() {
    for (code, selector) in
        [((|a| a.sysretq()) as Code, USER_CODE_64), (|a| a.sysret(), USER_CODE_32)]
    {
        let mut subject = subject(Mode::Long, code);
        subject.cpu.registers.gpr[1] = USER + TARGET;
        subject.cpu.registers.gpr[11] = rflags::IF | rflags::CF | rflags::VM | rflags::RF;
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.frame(1), u64::from(selector));
        assert_eq!(subject.frame(2), 2 | rflags::IF | rflags::CF, "RF and VM are not loaded");
        assert_eq!(subject.frame(4), u64::from(USER_DATA));
    }
}

#[test]
fn they_exist_where_efer_sce_is_set_and_sysret_in_ring_0_only() {
    for code in [(|a| a.syscall()) as Code, |a| a.sysretq()] {
        let mut subject = subject(Mode::Long, code);
        subject.cpu.control.switch_efer(Efer::SYSCALL, false);
        assert_eq!(subject.run(), UNDEFINED);
    }
    assert_eq!(subject(Mode::User, |a| a.sysretq()).run(), PROTECTION);
}

/// [APM3 "SYSRET"] [SDM2 "SYSRET"]: AMD parts fault in ring 3, at the target; Intel's at SYSRET.
#[test]
fn sysret_to_a_non_canonical_address_faults_where_the_vendor_says() {
    for (model, in_user) in [("zen4", true), ("generic-intel", false)] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.sysretq());
        subject.cpu.control.syscall.star = STAR;
        subject.cpu.registers.gpr[1] = 1 << 47;
        let outcome = subject.run();
        assert!(
            matches!(outcome, Outcome::Event { vector: 13, error: Some(0), .. }),
            "{outcome:?}"
        );
        assert_eq!(subject.frame(2) & 3 == 3, in_user, "{model}");
    }
}

/// [APM3 "SYSENTER"]: AMD parts have it in legacy mode only.
#[test]
fn sysenter_exists_in_long_mode_on_intel_parts_only() {
    for (model, mode, expected) in [
        ("zen4", Mode::Long, UNDEFINED),
        ("zen4", Mode::Compatibility, UNDEFINED),
        ("zen4", Mode::Protected, Outcome::Done),
        ("generic-intel", Mode::Long, Outcome::Done),
    ] {
        let mut subject = Subject::with(model, mode, |a| a.sysenter());
        let is_protected = mode == Mode::Protected;
        subject.cpu.control.syscall.sysenter_cs =
            u64::from(if is_protected { CODE_32 } else { CODE_64 });
        subject.cpu.control.syscall.sysenter_eip = TARGET;
        subject.cpu.control.syscall.sysenter_esp = STACK;
        subject.put(TARGET, 0x80CD);
        // SS is the descriptor behind CS.
        subject.put(GDT + u64::from(CODE_32) + 8, descriptor(0, 0xF_FFFF, 0xC93));
        assert_eq!(subject.run(), expected, "{model} {mode:?}");
    }
}

#[test]
fn sysenter_without_a_code_selector_is_refused() {
    let mut subject = Subject::with("zen4", Mode::Protected, |a| a.sysenter());
    subject.cpu.control.syscall.sysenter_cs = 0;
    assert_eq!(subject.run(), PROTECTION);
}

/// Pushes what IRETQ pops: SS, RSP, flags, CS, RIP.
fn push_return(
    a: &mut CodeAssembler,
    code: u16,
    data: u16,
    flags: i32,
) -> Result<(), iced_x86::IcedError> {
    a.push(i32::from(data))?;
    a.push(USER_STACK as i32)?;
    a.push(flags)?;
    a.push(i32::from(code))?;
    a.push((USER + TARGET) as i32)
}

#[test]
fn iret_goes_outward_and_never_inward() {
    let rows: [(&str, Mode, Code, Outcome); 5] = [
        (
            "to ring 3",
            Mode::Long,
            |a| {
                push_return(a, USER_CODE_64, USER_DATA, 0x202)?;
                a.iretq()
            },
            Outcome::Done,
        ),
        (
            "to 32-bit code of ring 3",
            Mode::Long,
            |a| {
                push_return(a, USER_CODE_32, USER_DATA, 0x202)?;
                a.iretq()
            },
            Outcome::Done,
        ),
        (
            "to ring 0 from ring 3",
            Mode::User,
            |a| {
                push_return(a, CODE_64, FLAT, 0x202)?;
                a.iretq()
            },
            event(13, Some(CODE_64.into()), 19),
        ),
        (
            "with an SS of another ring",
            Mode::Long,
            |a| {
                push_return(a, USER_CODE_64, FLAT, 0x202)?;
                a.iretq()
            },
            event(13, Some(FLAT.into()), 19),
        ),
        (
            "with NT set in long mode",
            Mode::Long,
            |a| {
                a.push(0x4002)?;
                a.popfq()?;
                push_return(a, USER_CODE_64, USER_DATA, 0x202)?;
                a.iretq()
            },
            event(13, Some(0), 25),
        ),
    ];
    for (rule, mode, code, expected) in rows {
        assert_eq!(subject(mode, code).run(), expected, "{rule}");
    }
}

#[test]
fn iret_to_ring_3_takes_segments_of_ring_0_away() {
    let mut subject = subject(Mode::Long, |a| {
        push_return(a, USER_CODE_64, USER_DATA, 0x202)?;
        a.iretq()
    });
    assert_eq!(subject.run(), Outcome::Done);
    let selectors: Vec<u16> =
        [Es, Ds, Fs, Gs].map(|at| subject.cpu.registers.segment(at).selector).to_vec();
    assert_eq!(selectors, [0; 4], "ES, DS, FS, GS held supervisors' segments");
}

#[test]
fn swapgs_exchanges_the_base_with_the_msr() {
    let mut subject = subject(Mode::Long, |a| a.swapgs());
    subject.cpu.registers.set_segment_base(Gs, 0x1111);
    subject.cpu.control.syscall.kernel_gs_base = 0x2222;
    subject.refresh();
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.registers.segment(Gs).base, 0x2222);
    assert_eq!(subject.cpu.control.syscall.kernel_gs_base, 0x1111);
}

/// [APM2 "Call Gates"]
#[test]
fn a_call_gate_of_long_mode_switches_to_the_stack_of_the_inner_ring() {
    const GATE: u16 = 0x70;
    let mut subject = subject(Mode::User, |a| a.call(fword_ptr(rbx)));
    let low =
        TARGET & 0xFFFF | u64::from(CODE_64) << 16 | 0xEC << 40 | (TARGET >> 16 & 0xFFFF) << 48;
    subject.put(GDT + u64::from(GATE), low);
    subject.put(GDT + u64::from(GATE) + 8, 0);
    subject.put(DATA, u64::from(GATE | 3) << 32);
    subject.cpu.registers.gpr[3] = USER + DATA;
    assert_eq!(subject.run(), Outcome::Done);
    // Below the interrupt's own frame of five words: RIP, CS, RSP, SS.
    let at = subject.frame(3);
    assert_eq!(at, STACK - 32);
    let saved = [0, 8, 16, 24].map(|offset| subject.get(at + offset));
    let (code, data) = (u64::from(USER_CODE_64), u64::from(USER_DATA));
    assert_eq!(saved, [USER + CODE + 2, code, USER_STACK, data]);
}
