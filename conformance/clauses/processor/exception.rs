//! Which exception an instruction raises, with what error code, and where it leaves the instruction
//! pointer. [APM2 "Exceptions and Interrupts"] [SDM3 "Exception and Interrupt Reference"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED, event};
use arch::control::{Cr0, Cr4, rflags};
use iced_x86::code_asm::*;

const NOT_CANONICAL: u64 = 1 << 47;

fn check(mode: Mode, rows: &[(&str, Code, Outcome)]) {
    for (rule, code, expected) in rows {
        assert_eq!(Subject::with("zen4", mode, *code).run(), *expected, "{rule}");
    }
}

#[test]
fn faults_point_at_the_instruction_and_traps_behind_it() {
    check(
        Mode::Long,
        &[
            ("division by zero", |a| a.div(ecx), event(0, None, 0)),
            (
                "a quotient that does not fit",
                |a| {
                    a.mov(edx, 5)?;
                    a.mov(ecx, 5)?;
                    a.div(ecx)
                },
                event(0, None, 10),
            ),
            ("INT3 is a trap", |a| a.int3(), event(3, None, 1)),
            ("INT n is a trap", |a| a.int(0x41), event(0x41, None, 2)),
            ("UD2", |a| a.ud2(), UNDEFINED),
            (
                "a load from a non-canonical address",
                |a| {
                    a.mov(rbx, NOT_CANONICAL)?;
                    a.mov(eax, dword_ptr(rbx))
                },
                event(13, Some(0), 10),
            ),
            (
                "a jump to a non-canonical address faults at the jump",
                |a| {
                    a.mov(rbx, NOT_CANONICAL)?;
                    a.jmp(rbx)
                },
                event(13, Some(0), 10),
            ),
            (
                "a return to one",
                |a| {
                    a.mov(rbx, NOT_CANONICAL)?;
                    a.push(rbx)?;
                    a.ret()
                },
                event(13, Some(0), 11),
            ),
            ("LOCK where it is not allowed", |a| a.db(&[0xF0, 0x89, 0xC8]), UNDEFINED),
            ("LOCK on a register", |a| a.db(&[0xF0, 0x01, 0xC8]), UNDEFINED),
            (
                "an instruction of 16 bytes",
                |a| a.db(&[0x66; 15]).and_then(|()| a.nop()),
                PROTECTION,
            ),
            ("PUSH ES does not exist in 64-bit mode", |a| a.db(&[0x06]), UNDEFINED),
            (
                "unaligned MOVAPS",
                |a| {
                    a.mov(ebx, DATA as u32 + 1)?;
                    a.movaps(xmm0, xmmword_ptr(rbx))
                },
                event(13, Some(0), 5),
            ),
        ],
    );
}

#[test]
fn accesses_by_the_stack_pointers_are_stack_faults() {
    check(
        Mode::User,
        &[
            (
                "a push to a non-canonical address is a stack fault",
                |a| {
                    a.mov(rsp, NOT_CANONICAL + 16)?;
                    a.push(rax)
                },
                event(12, Some(0), 10),
            ),
            (
                "an access by RBP, too",
                |a| {
                    a.mov(rbp, NOT_CANONICAL)?;
                    a.mov(eax, dword_ptr(rbp))
                },
                event(12, Some(0), 10),
            ),
        ],
    );
}

#[test]
fn loads_of_segment_registers_name_the_selector() {
    check(
        Mode::Long,
        &[
            ("beyond the table", |a| load(a, 0x1000), event(13, Some(0x1000), 5)),
            ("not present", |a| load(a, ABSENT), event(11, Some(ABSENT.into()), 5)),
            ("a system descriptor", |a| load(a, TASK_64), event(13, Some(TASK_64.into()), 5)),
            ("null is allowed in DS", |a| load(a, 0), Outcome::Done),
            ("null is allowed in SS of ring 0 in 64-bit mode", |a| load_stack(a, 0), Outcome::Done),
            ("SS of another privilege", |a| load_stack(a, USER_DATA), event(13, Some(0x28), 5)),
            (
                "SS that is read-only",
                |a| load_stack(a, READ_ONLY),
                event(13, Some(READ_ONLY.into()), 5),
            ),
            (
                "SS that is not present is a stack fault",
                |a| load_stack(a, ABSENT),
                event(12, Some(ABSENT.into()), 5),
            ),
        ],
    );
    check(
        Mode::User,
        &[
            ("a supervisor's segment", |a| load(a, FLAT), event(13, Some(FLAT.into()), 5)),
            ("null in SS of ring 3", |a| load_stack(a, 0), event(13, Some(0), 5)),
        ],
    );
}

fn load(a: &mut CodeAssembler, selector: u16) -> Result<(), iced_x86::IcedError> {
    a.mov(eax, u32::from(selector))?;
    a.mov(ds, eax)
}

fn load_stack(a: &mut CodeAssembler, selector: u16) -> Result<(), iced_x86::IcedError> {
    a.mov(eax, u32::from(selector))?;
    a.mov(ss, eax)
}

#[test]
fn users_may_not() {
    let gate = |vector: u32| Some(vector << 3 | 2);
    check(
        Mode::User,
        &[
            ("HLT", |a| a.hlt(), PROTECTION),
            ("CLI without I/O privilege", |a| a.cli(), PROTECTION),
            ("STI without I/O privilege", |a| a.sti(), PROTECTION),
            ("IN without I/O privilege or bitmap", |a| a.in_(al, 0x60), PROTECTION),
            ("OUT, too", |a| a.out(0x60, al), PROTECTION),
            ("MOV from CR0", |a| a.mov(rax, cr0), PROTECTION),
            ("MOV to CR8", |a| a.mov(cr8, rax), PROTECTION),
            ("MOV from DR0", |a| a.mov(rax, dr0), PROTECTION),
            ("RDMSR", |a| a.rdmsr(), PROTECTION),
            ("WRMSR", |a| a.wrmsr(), PROTECTION),
            ("LGDT", |a| a.lgdt(ptr(DATA)), PROTECTION),
            ("LTR", |a| a.ltr(ax), PROTECTION),
            ("CLTS", |a| a.clts(), PROTECTION),
            ("INVLPG", |a| a.invlpg(byte_ptr(DATA)), PROTECTION),
            ("WBINVD", |a| a.wbinvd(), PROTECTION),
            ("SWAPGS", |a| a.swapgs(), PROTECTION),
            ("XSETBV", |a| a.xsetbv(), UNDEFINED),
            ("call a gate of ring 0 by INT n", |a| a.int(0x41), event(13, gate(0x41), 0)),
            ("CLAC and STAC", |a| a.clac(), UNDEFINED),
            ("MONITOR", |a| a.monitor(), UNDEFINED),
        ],
    );
}

/// [APM2 "User-Mode Instruction Prevention (UMIP)"]
#[test]
fn umip_keeps_users_from_seeing_system_registers() {
    let codes: [(&str, Code); 5] = [
        ("SGDT", |a| a.sgdt(ptr(USER + DATA))),
        ("SIDT", |a| a.sidt(ptr(USER + DATA))),
        ("SLDT", |a| a.sldt(eax)),
        ("STR", |a| a.str(eax)),
        ("SMSW", |a| a.smsw(eax)),
    ];
    for (name, code) in codes {
        for (umip, mode, expected) in [
            (false, Mode::User, Outcome::Done),
            (true, Mode::User, PROTECTION),
            (true, Mode::Long, Outcome::Done),
        ] {
            let mut subject = Subject::with("zen4", mode, code);
            subject.cpu.control.switch_cr4(Cr4::UMIP, umip);
            assert_eq!(subject.run(), expected, "{name}, UMIP {umip}, {mode:?}");
        }
    }
}

#[test]
fn time_stamps_and_processor_numbers_can_be_kept_from_users() {
    for code in [(|a| a.rdtsc()) as Code, |a| a.rdtscp()] {
        for (mode, disabled, expected) in [
            (Mode::User, false, Outcome::Done),
            (Mode::User, true, PROTECTION),
            (Mode::Long, true, Outcome::Done),
        ] {
            let mut subject = Subject::with("zen4", mode, code);
            subject.cpu.control.switch_cr4(Cr4::TSD, disabled);
            assert_eq!(subject.run(), expected, "{mode:?}, TSD {disabled}");
        }
    }
}

/// CR0.TS, EM and MP, CR4.OSFXSR. [APM2 "#NM—Device-Not-Available Exception"]
#[test]
fn floating_point_and_vector_instructions_obey_cr0_and_cr4() {
    let absent = event(7, None, 0);
    let (x87, sse, wait): (Code, Code, Code) =
        (|a| a.fld1(), |a| a.addps(xmm0, xmm1), |a| a.wait());
    let rows: [(&str, Code, Cr0, bool, Outcome); 9] = [
        ("x87 runs", x87, Cr0::empty(), true, Outcome::Done),
        ("x87 under TS", x87, Cr0::TASK_SWITCHED, true, absent),
        ("x87 under EM", x87, Cr0::EMULATION, true, absent),
        ("SSE under TS", sse, Cr0::TASK_SWITCHED, true, absent),
        ("SSE under EM", sse, Cr0::EMULATION, true, UNDEFINED),
        ("SSE without OSFXSR", sse, Cr0::empty(), false, UNDEFINED),
        (
            "SSE without OSFXSR under TS: the missing opcode counts",
            sse,
            Cr0::TASK_SWITCHED,
            false,
            UNDEFINED,
        ),
        ("WAIT under TS alone", wait, Cr0::TASK_SWITCHED, true, Outcome::Done),
        (
            "WAIT under TS and MP",
            wait,
            Cr0::TASK_SWITCHED.union(Cr0::MONITOR_COPROCESSOR),
            true,
            absent,
        ),
    ];
    for (rule, code, switches, osfxsr, expected) in rows {
        let mut subject = Subject::with("zen4", Mode::Long, code);
        subject.cpu.control.switch_cr0(switches, true);
        subject.cpu.control.switch_cr4(Cr4::OSFXSR, osfxsr);
        assert_eq!(subject.run(), expected, "{rule}");
    }
}

/// [APM2 "#AC—Alignment-Check Exception"]
#[test]
fn alignment_is_checked_for_users_under_cr0_am_and_rflags_ac_only() {
    for (mode, mask, flag, offset, expected) in [
        (Mode::User, true, true, 1, event(17, Some(0), 0)),
        (Mode::User, true, true, 4, Outcome::Done),
        (Mode::User, false, true, 1, Outcome::Done),
        (Mode::User, true, false, 1, Outcome::Done),
        (Mode::Long, true, true, 1, Outcome::Done),
    ] {
        let mut subject = Subject::with("zen4", mode, |a| a.mov(eax, dword_ptr(rbx)));
        subject.cpu.control.switch_cr0(Cr0::ALIGNMENT_MASK, mask);
        subject.cpu.registers.flags.set_bits(2 | if flag { rflags::AC } else { 0 });
        subject.cpu.registers.gpr[3] = USER + DATA + offset;
        subject.refresh();
        assert_eq!(subject.run(), expected, "{mode:?} {mask} {flag} {offset}");
    }
}

#[test]
fn instructions_that_64_bit_mode_dropped_work_in_32_bit_code() {
    check(
        Mode::Protected,
        &[
            ("INTO with OF clear", |a| a.into(), Outcome::Done),
            (
                "INTO with OF set is a trap",
                |a| {
                    a.mov(eax, 0x7FFF_FFFF)?;
                    a.add(eax, 1)?;
                    a.into()
                },
                event(4, None, 11),
            ),
            (
                "BOUND outside",
                |a| {
                    a.mov(eax, 5)?;
                    a.bound(eax, qword_ptr(DATA as i32))
                },
                event(5, None, 5),
            ),
            (
                "a null data segment cannot be used",
                |a| {
                    a.xor(eax, eax)?;
                    a.mov(ds, eax)?;
                    a.mov(eax, dword_ptr(0))
                },
                event(13, Some(0), 4),
            ),
            (
                "a read-only segment is not written",
                |a| {
                    load(a, READ_ONLY)?;
                    a.mov(dword_ptr(DATA as i32), eax)
                },
                event(13, Some(0), 7),
            ),
        ],
    );
}
