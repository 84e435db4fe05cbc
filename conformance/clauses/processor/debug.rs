//! Which debug traps come, and with what in DR6: single step beside loads of SS, software
//! interrupts and SYSCALL; watchpoints beside INT1; how many NMIs wait; and what a page fault says
//! of protection keys.
//! [APM2 "Debug Registers"] [SDM3 "Masking Exceptions and Interrupts When Switching Stacks"]

use crate::layout::{DATA, IDT};
use crate::subject::{Code, Mode, Subject};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use interrupt::local_apic::Acceptance;

const DEBUG_HANDLER: u64 = 0xE000;
const NMI_HANDLER: u64 = 0xE800;
const SYSCALL_TARGET: u64 = 0xF000;

/// What the handlers report to.
const DR6_PORT: u16 = 0xD6;
const COUNT_PORT: u16 = 0xD8;

/// DR6 without a cause.
const NOTHING: u32 = 0xFFFF_0FF0;
const STEP: u32 = NOTHING | 1 << 14;
const GENERAL_DETECT: u32 = NOTHING | 1 << 13;

/// A processor in 64-bit mode whose handlers of #DB, NMIs and INT 40h report and return.
fn subject(code: Code) -> Subject {
    let mut subject = Subject::with("zen4", Mode::Long, code);
    subject.assemble(DEBUG_HANDLER, |a| {
        a.push(rax)?;
        a.mov(rax, dr6)?;
        a.out(i32::from(DR6_PORT), eax)?;
        a.xor(eax, eax)?;
        a.mov(dr6, rax)?;
        a.pop(rax)?;
        a.iretq()
    });
    subject.assemble(NMI_HANDLER, |a| {
        a.out(i32::from(COUNT_PORT), eax)?;
        a.iretq()
    });
    for (vector, target) in [(1, DEBUG_HANDLER), (2, NMI_HANDLER), (0x40, NMI_HANDLER)] {
        let at = IDT + 16 * vector;
        let gate = subject.get(at) & !0xFFFF | target;
        subject.put(at, gate);
    }
    subject.assemble(SYSCALL_TARGET, |a| {
        a.nop()?;
        a.hlt()
    });
    subject.cpu.control.syscall.star = 0x08 << 32;
    subject.cpu.control.syscall.lstar = SYSCALL_TARGET;
    subject.put(DATA, 0x10);
    subject
}

/// Runs until HLT; what was written to a port.
fn written(subject: &mut Subject, port: u16) -> Vec<u32> {
    subject.run();
    let of_port = subject.ports.0.iter().filter(|(other, _)| *other == port);
    of_port.map(|(_, value)| *value).collect()
}

/// POPF with TF set: the next instruction is the first that is stepped.
fn step(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.pushfq()?;
    a.or(qword_ptr(rsp), 0x100)?;
    a.popfq()
}

/// POPF with TF clear, two stepped instructions before it and stepped itself: three traps.
fn stop_stepping(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.pushfq()?;
    a.and(qword_ptr(rsp), !0x100)?;
    a.popfq()?;
    a.hlt()
}

#[test]
fn debug_traps_come_as_often_as_the_manual_says_and_name_their_cause() {
    let rows: [(&str, Code, &[u32]); 9] = [
        (
            "every instruction is stepped, the one that clears TF too",
            |a| {
                step(a)?;
                a.nop()?;
                stop_stepping(a)
            },
            &[STEP; 4],
        ),
        (
            "a load of SS is not stepped, now or later",
            |a| {
                a.mov(ax, ss)?;
                step(a)?;
                a.mov(ss, ax)?;
                a.nop()?;
                stop_stepping(a)
            },
            &[STEP; 4],
        ),
        (
            "INT1 behind a load of SS reports no step",
            |a| {
                a.mov(ax, ss)?;
                step(a)?;
                a.mov(ss, ax)?;
                a.int1()?;
                stop_stepping(a)
            },
            &[NOTHING, STEP, STEP, STEP],
        ),
        (
            "INT1 is not stepped",
            |a| {
                step(a)?;
                a.int1()?;
                stop_stepping(a)
            },
            &[NOTHING, STEP, STEP, STEP],
        ),
        (
            "a software interrupt is not stepped, nor is its handler",
            |a| {
                step(a)?;
                a.int(0x40)?;
                stop_stepping(a)
            },
            &[STEP; 3],
        ),
        (
            "general detect behind a load of SS reports no step",
            |a| {
                a.mov(ebx, 0x2400)?;
                a.mov(ax, ss)?;
                a.xor(ecx, ecx)?;
                a.pushfq()?;
                a.or(qword_ptr(rsp), 0x100)?;
                a.mov(dr7, rbx)?;
                a.popfq()?;
                a.mov(ss, ax)?;
                a.mov(dr6, rcx)?;
                stop_stepping(a)
            },
            &[GENERAL_DETECT, STEP, STEP, STEP, STEP],
        ),
        (
            "a watchpoint hit by a load of SS waits for the next instruction",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.nop()?;
                a.hlt()
            },
            &[NOTHING | 2],
        ),
        (
            "INT1 takes a waiting watchpoint with it",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.int1()?;
                a.hlt()
            },
            &[NOTHING | 2],
        ),
        (
            "INT 1 does not",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.int(1)?;
                a.hlt()
            },
            &[NOTHING | 2, NOTHING],
        ),
    ];
    for (rule, code, expected) in rows {
        let seen = written(&mut subject(code), DR6_PORT);
        let hex = |values: &[u32]| format!("{values:x?}");
        assert_eq!(hex(&seen), hex(expected), "{rule}");
    }
}

/// Four bytes, read or written, by DR1.
fn watch(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(ecx, DATA as u32)?;
    a.mov(dr1, rcx)?;
    a.mov(ecx, 0x00F0_0408)?;
    a.mov(dr7, rcx)
}

#[test]
fn syscall_is_stepped_by_the_flag_that_it_leaves() {
    for (mask, expected) in [(0x100, 0), (0, 2)] {
        let mut stepped = subject(|a| {
            step(a)?;
            a.syscall()
        });
        stepped.cpu.control.syscall.sfmask = mask;
        assert_eq!(written(&mut stepped, DR6_PORT).len(), expected, "mask {mask:#x}");
    }
}

#[test]
fn one_nmi_waits_behind_the_one_that_is_handled() {
    for (arriving, taken) in [(1, 1), (2, 2), (3, 2), (9, 2)] {
        let mut stepped = subject(|a| {
            a.nop()?;
            a.hlt()
        });
        (0..arriving).for_each(|_| stepped.cpu.accepted(Acceptance::Nmi));
        assert_eq!(written(&mut stepped, COUNT_PORT).len(), taken, "{arriving} at once");
        stepped.cpu.pending.set_blocks_nmis(true);
        (0..arriving).for_each(|_| stepped.cpu.accepted(Acceptance::Nmi));
        assert!(
            !stepped.cpu.pending.has_second_nmi(),
            "{arriving} while one is handled: one waits"
        );
    }
}
