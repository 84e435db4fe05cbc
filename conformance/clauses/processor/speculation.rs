//! Registers and instructions against speculation: which parts have them, and what they take.

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject};
use arch::msr;
use cpu::Step;
use iced_x86::code_asm::*;

const AMD: &str = "generic";
const INTEL: &str = "generic-intel";
const ZERO: u64 = 1 << 6;

/// [APM2 "Speculation Control MSRs"]: PRED_CMD takes barriers, and is not read; Zen 2 has no
/// selective one, and generic models have none.
#[test]
fn prediction_commands_are_written_where_a_part_has_them() {
    for (model, value, expected) in [
        ("zen4", 0, Outcome::Done),
        ("zen4", 1, Outcome::Done),
        ("zen4", 0x80, Outcome::Done),
        ("zen4", 2, PROTECTION),
        ("zen2", 1, Outcome::Done),
        ("zen2", 0x80, PROTECTION),
        ("zen4,-ibpb", 1, PROTECTION),
        (AMD, 1, PROTECTION),
        (INTEL, 1, PROTECTION),
    ] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.wrmsr());
        subject.cpu.registers.gpr[..2].copy_from_slice(&[value, msr::PRED_CMD.into()]);
        assert_eq!(subject.run(), expected, "{model}: {value:#x}");
    }
    let mut subject = Subject::with("zen4", Mode::Long, |a| a.rdmsr());
    subject.cpu.registers.gpr[1] = msr::PRED_CMD.into();
    assert_eq!(subject.run(), PROTECTION, "it is not read");
}

/// [APM2 "Extended Feature Enable Register (EFER)"]
#[test]
fn automatic_ibrs_is_enabled_where_a_part_has_it() {
    let bit = arch::control::Efer::AUTOMATIC_IBRS.bits();
    for (model, expected) in [("zen4", Outcome::Done), ("zen3", PROTECTION)] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.wrmsr());
        let value = subject.cpu.control.efer().bits() | bit;
        subject.cpu.registers.gpr[..2].copy_from_slice(&[value, msr::EFER.into()]);
        subject.cpu.registers.gpr[2] = value >> 32;
        assert_eq!(subject.run(), expected, "{model}");
    }
}

/// [SDM4 "IA32_SPEC_CTRL"]: bits of what the part does not announce are reserved, but STIBP.
#[test]
fn speculation_control_has_the_bits_of_what_is_announced() {
    for (model, value, expected) in [
        ("skylake-sp", 0b111, Outcome::Done),
        ("skylake-sp", 1 << 10, PROTECTION),
        ("skylake-sp", 1 << 7, PROTECTION),
        ("skylake-sp,-stibp", 0b10, Outcome::Done),
        ("skylake-sp,-ssbd", 0b100, PROTECTION),
        ("skylake-sp,-spec_ctrl", 1, PROTECTION),
        ("sapphire-rapids", 0x4FF, Outcome::Done),
        ("sapphire-rapids", 1 << 8, PROTECTION),
        (AMD, 1, PROTECTION),
        (INTEL, 1, PROTECTION),
    ] {
        let mut subject = Subject::with(model, Mode::Long, |a| {
            a.wrmsr()?;
            a.xor(eax, eax)?;
            a.rdmsr()
        });
        subject.cpu.registers.gpr[..2].copy_from_slice(&[value, msr::SPEC_CTRL.into()]);
        assert_eq!(subject.run(), expected, "{model}: {value:#x}");
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[0], value, "{model}");
        }
    }
}

/// [SDM4 "IA32_PRED_CMD", "IA32_FLUSH_CMD"]: each has one bit and is not read.
#[test]
fn commands_of_intel_parts_are_written_where_a_part_has_them() {
    for (model, number, value, expected) in [
        ("skylake-sp", msr::PRED_CMD, 1, Outcome::Done),
        ("skylake-sp", msr::PRED_CMD, 0, Outcome::Done),
        ("skylake-sp", msr::PRED_CMD, 0x80, PROTECTION),
        ("skylake-sp,-spec_ctrl", msr::PRED_CMD, 1, PROTECTION),
        ("skylake-sp", msr::FLUSH_CMD, 1, Outcome::Done),
        ("skylake-sp", msr::FLUSH_CMD, 2, PROTECTION),
        ("skylake-sp,-flush_l1d", msr::FLUSH_CMD, 1, PROTECTION),
        ("zen4", msr::FLUSH_CMD, 1, PROTECTION),
    ] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.wrmsr());
        subject.cpu.registers.gpr[..2].copy_from_slice(&[value, number.into()]);
        assert_eq!(subject.run(), expected, "{model}: {number:#x} {value:#x}");
        let mut subject = Subject::with(model, Mode::Long, |a| a.rdmsr());
        subject.cpu.registers.gpr[1] = number.into();
        assert_eq!(subject.run(), PROTECTION, "{model}: {number:#x} is not read");
    }
}

/// [SDM4 "IA32_ARCH_CAPABILITIES"]
#[test]
fn what_a_part_says_of_its_weaknesses_is_read_where_it_says_something() {
    let rdcl_no = msr::ArchCapabilities::RDCL_NO.bits();
    for (model, expected) in [
        ("sapphire-rapids", Outcome::Done),
        ("ice-lake-sp", Outcome::Done),
        ("skylake-sp", PROTECTION),
        ("sapphire-rapids,-arch_capabilities", PROTECTION),
    ] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.rdmsr());
        subject.cpu.registers.gpr[1] = msr::ARCH_CAPABILITIES.into();
        assert_eq!(subject.run(), expected, "{model}");
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[0] & rdcl_no, rdcl_no, "{model}: no Meltdown");
        }
    }
}

/// [Intel, "Microarchitectural Data Sampling"]: the form with memory overwrites buffers, the one
/// with a register does not; each verifies as ever.
#[test]
fn verw_of_memory_takes_the_time_of_overwriting_buffers_where_a_part_does_that() {
    const FROM_MEMORY: Code = |a| a.verw(word_ptr(rbx));
    const FROM_REGISTER: Code = |a| a.verw(cx);
    for (model, code, expected) in [
        ("skylake-sp", FROM_MEMORY, 1),
        ("skylake-sp", FROM_REGISTER, 0),
        ("skylake-sp,-md_clear", FROM_MEMORY, 0),
        ("zen4", FROM_MEMORY, 0),
    ] {
        let mut subject = Subject::with(model, Mode::Long, code);
        subject.put(DATA, FLAT.into());
        subject.cpu.registers.gpr[3] = DATA;
        subject.cpu.registers.gpr[1] = FLAT.into();
        assert_eq!(subject.run(), Outcome::Done, "{model}");
        assert!(subject.cpu.registers.flags.bits() & ZERO != 0, "{model}: it can be written");
        let steps = subject.cpu.clock.spent().steps;
        assert_eq!(steps[Step::BufferClear as usize], expected, "{model}");
    }
}
