//! Task switches of 32-bit protected mode. [APM2 "Hardware Task Management in Legacy Mode"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, Subject, event};
use arch::control::{Cr0, rflags};
use iced_x86::code_asm::*;

/// Where the other task begins.
const OTHER: u64 = CODE + 0x100;
const OTHER_STACK: u64 = STACK - 0x400;

/// Offsets in a 32-bit TSS.
const LINK: u64 = 0;
const EIP: u64 = 0x20;
const EFLAGS: u64 = 0x24;
const EAX: u64 = 0x28;
const ESP: u64 = 0x38;
const SELECTORS: u64 = 0x48;

/// The busy bit of a TSS descriptor's type.
const BUSY: u64 = 1 << 41;

fn word(subject: &Subject, at: u64) -> u32 {
    subject.get(at) as u32
}

fn put_word(subject: &mut Subject, at: u64, value: u32) {
    subject.memory.write(arch::address::SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
}

fn is_busy(subject: &Subject, task: u16) -> bool {
    subject.get(GDT + u64::from(task)) & BUSY != 0
}

/// Task A runs `code`; task B waits at `OTHER` and runs `other`.
fn subject(code: Code, other: Code) -> Subject {
    let mut subject = Subject::with("generic", Mode::Protected, code);
    subject.assemble(OTHER, other);
    put_word(&mut subject, TSS_B + EIP, OTHER as u32);
    put_word(&mut subject, TSS_B + EFLAGS, 2);
    put_word(&mut subject, TSS_B + EAX, 0xB0B0);
    put_word(&mut subject, TSS_B + ESP, OTHER_STACK as u32);
    for register in 0..6 {
        let selector = if register == 1 { CODE_32 } else { FLAT };
        put_word(&mut subject, TSS_B + SELECTORS + 4 * register, selector.into());
    }
    subject
}

const NOTHING: Code = |a| a.nop();

/// Far transfers with an immediate selector, as the assembler's interface does not offer them.
fn jump_far(a: &mut CodeAssembler, selector: u16) -> Result<(), iced_x86::IcedError> {
    let [low, high] = selector.to_le_bytes();
    a.db(&[0xEA, 0, 0, 0, 0, low, high])
}

fn call_far(a: &mut CodeAssembler, selector: u16) -> Result<(), iced_x86::IcedError> {
    let [low, high] = selector.to_le_bytes();
    a.db(&[0x9A, 0, 0, 0, 0, low, high])
}

#[test]
fn a_jump_saves_one_task_and_loads_the_other() {
    let mut subject = subject(
        |a| {
            a.mov(eax, 0xA0A0)?;
            jump_far(a, TASK_B)
        },
        NOTHING,
    );
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.control.tr.selector, TASK_B);
    assert_eq!(subject.cpu.registers.gpr[0], 0xB0B0);
    assert_eq!(word(&subject, TSS_A + EAX), 0xA0A0);
    assert_eq!(word(&subject, TSS_A + EIP), CODE as u32 + 5 + 7, "behind the jump");
    assert!(subject.cpu.control.cr0().contains(Cr0::TASK_SWITCHED));
    assert_eq!((is_busy(&subject, TASK_A), is_busy(&subject, TASK_B)), (false, true));
    assert_eq!(subject.frame(0), OTHER + 1 + 2);
}

#[test]
fn a_call_links_the_tasks_and_iret_returns_along_the_link() {
    let mut subject = subject(
        |a| {
            call_far(a, TASK_B)?;
            a.mov(ebx, eax)
        },
        |a| {
            a.pushfd()?;
            a.pop(ecx)?;
            a.iretd()
        },
    );
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.control.tr.selector, TASK_A, "back");
    assert_eq!(word(&subject, TSS_B + LINK) & 0xFFFF, TASK_A.into());
    let others_flags = word(&subject, TSS_B + 0x2C);
    assert_ne!(u64::from(others_flags) & rflags::NT, 0, "ECX of B: the nested task has NT set");
    assert_eq!(u64::from(word(&subject, TSS_B + EFLAGS)) & rflags::NT, 0, "and IRET clears it");
    assert_eq!((is_busy(&subject, TASK_A), is_busy(&subject, TASK_B)), (true, false));
}

#[test]
fn a_task_gate_switches_as_its_task_does() {
    for selector in [TASK_B, TASK_GATE] {
        let code: Code =
            if selector == TASK_B { |a| jump_far(a, TASK_B) } else { |a| jump_far(a, TASK_GATE) };
        let mut subject = subject(code, NOTHING);
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.cpu.control.tr.selector, TASK_B);
    }
}

#[test]
fn an_exception_through_a_task_gate_pushes_its_error_code_onto_the_new_stack() {
    let mut subject = subject(|a| a.mov(ds, eax), NOTHING);
    subject.cpu.registers.gpr[0] = 0x1000;
    subject.put(IDT + 8 * 13, u64::from(TASK_B) << 16 | 0x85 << 40);
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.control.tr.selector, TASK_B);
    assert_eq!(word(&subject, OTHER_STACK - 4), 0x1000);
    assert_eq!(word(&subject, TSS_A + EIP), CODE as u32, "the fault's own address");
}

#[test]
fn bad_tasks_are_refused_with_the_selector() {
    let entry = GDT + u64::from(TASK_B);
    let rows: [(&str, u64, Outcome); 3] = [
        ("busy", descriptor(TSS_B, 0x67, 0x8B), event(13, Some(TASK_B.into()), 0)),
        ("not present", descriptor(TSS_B, 0x67, 0x09), event(11, Some(TASK_B.into()), 0)),
        ("too small", descriptor(TSS_B, 0x66, 0x89), event(10, Some(TASK_B.into()), 0)),
    ];
    for (rule, written, expected) in rows {
        let mut subject = subject(|a| jump_far(a, TASK_B), NOTHING);
        subject.put(entry, written);
        assert_eq!(subject.run(), expected, "{rule}");
    }
}

#[test]
fn a_bad_segment_of_the_new_task_faults_in_it() {
    let mut subject = subject(|a| jump_far(a, TASK_B), NOTHING);
    put_word(&mut subject, TSS_B + SELECTORS + 12, ABSENT.into());
    let outcome = subject.run();
    assert!(
        matches!(outcome, Outcome::Event { vector: 11, error: Some(error), .. } if error == u32::from(ABSENT)),
        "{outcome:?}"
    );
    assert_eq!(subject.cpu.control.tr.selector, TASK_B, "the switch has happened");
}

#[test]
fn the_debug_bit_of_a_task_traps_before_its_first_instruction() {
    let mut subject = subject(|a| jump_far(a, TASK_B), NOTHING);
    put_word(&mut subject, TSS_B + 0x64, 1);
    assert_eq!(subject.run(), event(1, None, (OTHER - CODE) as i64));
    assert_ne!(subject.cpu.debug.dr6() & 1 << 15, 0, "DR6.BT");
}

#[test]
fn long_mode_has_no_task_switches() {
    for selector in [TASK_A, TASK_64] {
        let mut subject = Subject::with("generic", Mode::Long, |a| a.jmp(fword_ptr(rbx)));
        subject.put(DATA, u64::from(selector) << 32);
        subject.cpu.registers.gpr[3] = DATA;
        assert_eq!(subject.run(), event(13, Some(selector.into()), 0), "{selector:x}");
    }
}
