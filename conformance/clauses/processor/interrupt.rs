//! When interrupts and NMIs are taken, and what they leave behind.
//! [APM2 "Masking External Interrupts"] [SDM3 "Masking Maskable Hardware Interrupts"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, Subject, event};
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage, Register};
use arch::control::rflags;
use arch::identity::Vector;
use arch::time::Picoseconds;
use cpu::RunEnd;
use iced_x86::code_asm::*;
use interrupt::local_apic::Acceptance;

const VECTOR: u8 = 0x61;

/// A subject with an interrupt waiting in its local APIC.
fn subject(mode: Mode, code: Code) -> Subject {
    let mut subject = Subject::with("zen4", mode, code);
    let mut effects = Vec::new();
    let apic = &mut subject.cpu.apic;
    // Enabled by software, spurious vector FFh.
    apic.write_mmio(Register::SpuriousVector.offset(), 4, 0x1FF, Picoseconds::ZERO, &mut effects);
    let acceptance = apic.accept(&InterruptMessage {
        destination: 0,
        destination_mode: DestinationMode::Physical,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(VECTOR),
        is_level: false,
        is_asserted: true,
        is_x2apic: false,
    });
    subject.cpu.accepted(acceptance);
    subject
}

#[test]
fn an_interrupt_waits_for_rflags_if() {
    let mut closed = subject(Mode::Long, |a| a.nop());
    assert_eq!(closed.run(), Outcome::Done);
    let mut open = subject(Mode::Long, |a| a.nop());
    open.cpu.registers.flags.set_bits(2 | rflags::IF);
    assert_eq!(open.run(), event(VECTOR, None, 0));
}

#[test]
fn sti_opens_behind_the_next_instruction() {
    let rows: [(&str, Code, i64); 3] = [
        (
            "STI; NOP",
            |a| {
                a.sti()?;
                a.nop()?;
                a.nop()
            },
            2,
        ),
        (
            "with IF set already there is no shadow",
            |a| {
                a.sti()?;
                a.sti()?;
                a.nop()
            },
            2,
        ),
        (
            "POPF has none",
            |a| {
                a.push(0x202)?;
                a.popfq()?;
                a.nop()
            },
            6,
        ),
    ];
    for (rule, code, offset) in rows {
        assert_eq!(subject(Mode::Long, code).run(), event(VECTOR, None, offset), "{rule}");
    }
}

#[test]
fn sti_and_cli_side_by_side_let_nothing_in() {
    let mut subject = subject(Mode::Long, |a| {
        a.sti()?;
        a.cli()?;
        a.nop()
    });
    assert_eq!(subject.run(), Outcome::Done);
}

#[test]
fn a_load_of_ss_holds_interrupts_back_for_one_instruction() {
    let mut subject = subject(Mode::Long, |a| {
        a.mov(eax, ss)?;
        a.push(0x202)?;
        a.mov(ss, eax)?;
        a.popfq()?;
        a.nop()
    });
    assert_eq!(subject.run(), event(VECTOR, None, 2 + 5 + 2 + 1));
}

#[test]
fn a_halted_processor_continues_behind_hlt() {
    let mut subject = subject(Mode::Long, |a| {
        a.sti()?;
        a.hlt()?;
        a.nop()
    });
    assert_eq!(subject.run(), event(VECTOR, None, 2));
}

#[test]
fn interrupt_gates_clear_if_and_trap_gates_do_not() {
    for (kind, expected) in [(0x8E, 0), (0x8F, rflags::IF)] {
        let mut subject = subject(Mode::Long, |a| a.nop());
        let at = IDT + 16 * u64::from(VECTOR);
        let gate = subject.get(at) & !(0xFF << 40) | kind << 40;
        subject.put(at, gate);
        subject.cpu.registers.flags.set_bits(2 | rflags::IF);
        subject.run();
        assert_eq!(subject.cpu.registers.flags.bits() & rflags::IF, expected, "gate {kind:x}");
        assert_eq!(subject.frame(2) & rflags::IF, rflags::IF, "the flags before");
    }
}

#[test]
fn an_interrupt_of_user_code_runs_on_the_stack_of_the_task() {
    let mut subject = subject(Mode::User, |a| a.nop());
    subject.cpu.registers.flags.set_bits(2 | rflags::IF);
    assert_eq!(subject.run(), event(VECTOR, None, 0));
    assert_eq!(subject.cpu.registers.gpr[4], STACK - 40);
    let saved = [subject.frame(1), subject.frame(3), subject.frame(4)];
    assert_eq!(saved, [u64::from(USER_CODE_64), USER_STACK, u64::from(USER_DATA)]);
}

#[test]
fn stacks_of_64_bit_handlers_are_aligned_to_16_bytes() {
    for misaligned in 0..16 {
        let mut subject = Subject::with("zen4", Mode::Long, |a| a.ud2());
        subject.cpu.registers.gpr[4] = STACK - misaligned;
        subject.run();
        assert_eq!(subject.cpu.registers.gpr[4], ((STACK - misaligned) & !15) - 40, "{misaligned}");
        assert_eq!(subject.frame(3), STACK - misaligned);
    }
}

/// [APM2 "NMI—Non-Maskable-Interrupt Exception (Vector 2)"]
#[test]
fn an_nmi_ignores_if_and_holds_back_others_until_iret() {
    let mut subject = Subject::with("zen4", Mode::Long, |a| {
        a.nop()?;
        a.nop()
    });
    subject.cpu.accepted(Acceptance::Nmi);
    assert_eq!(subject.run(), event(2, None, 0));
    assert!(subject.cpu.pending.blocks_nmis());
    let mut returning = Subject::with("zen4", Mode::Long, |a| {
        a.mov(eax, ss)?;
        a.push(rax)?;
        a.push(STACK as i32)?;
        a.pushfq()?;
        a.push(i32::from(CODE_64))?;
        a.push((CODE + 0x40) as i32)?;
        a.iretq()
    });
    returning.assemble(CODE + 0x40, |a| a.nop());
    returning.cpu.pending.set_blocks_nmis(true);
    returning.cpu.accepted(Acceptance::Nmi);
    assert_eq!(returning.run(), event(2, None, 0x40), "taken behind IRET, not before");
}

/// [APM3 "MWAIT"]: bit 0 of ECX makes interrupts end the wait that RFLAGS.IF masks; they are not
/// taken.
#[test]
fn mwait_wakes_for_masked_interrupts_when_told_to() {
    let closed: Code = |a| {
        a.monitor()?;
        a.mov(ecx, r8d)?;
        a.mwait()
    };
    let open: Code = |a| {
        a.monitor()?;
        a.mov(ecx, r8d)?;
        a.sti()?;
        a.mwait()
    };
    let taken = event(VECTOR, None, 3 + 3 + 1 + 3);
    let rows = [
        (closed, 0, Outcome::Halt),
        (closed, 1, Outcome::Done),
        (open, 0, taken),
        (open, 1, taken),
        (closed, 2, event(13, Some(0), 6)),
    ];
    for (code, extensions, expected) in rows {
        let mut subject = subject(Mode::Long, code);
        subject.cpu.registers.gpr[0] = SPARE;
        subject.cpu.registers.gpr[8] = extensions;
        assert_eq!(subject.run(), expected, "ECX {extensions}");
    }
}

/// Time stamps of all processors are read in the order of time: RDTSC waits for processors that are
/// behind, also where a shadow came before.
#[test]
fn a_shadow_does_not_let_later_time_stamps_out_of_order() {
    let rows: [(&str, Code); 3] = [
        ("no shadow", |a| {
            a.nop()?;
            a.rdtsc()
        }),
        ("behind STI", |a| {
            a.sti()?;
            a.nop()?;
            a.rdtsc()
        }),
        ("behind a load of SS", |a| {
            a.mov(eax, ss)?;
            a.mov(ss, eax)?;
            a.nop()?;
            a.rdtsc()
        }),
    ];
    for (rule, code) in rows {
        let mut subject = Subject::with("zen4", Mode::Long, code);
        subject.cpu.clock.set_others(Picoseconds::ZERO);
        assert_eq!(subject.turn(), RunEnd::Yield, "{rule}: the others run first");
        let behind = subject.cpu.registers.ip;
        assert_eq!(subject.turn(), RunEnd::Yield, "{rule}: and RDTSC has not been executed");
        assert_eq!(subject.cpu.registers.ip, behind, "{rule}");
        subject.cpu.clock.set_others(Picoseconds::MAX);
        assert_eq!(subject.run(), Outcome::Done, "{rule}");
    }
}
