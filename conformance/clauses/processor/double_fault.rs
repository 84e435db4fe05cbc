//! An exception during the delivery of another. [APM2 "#DF—Double-Fault Exception (Vector 8)"]
//! [SDM3 "Interrupt 8—Double Fault Exception (#DF)"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, Subject, event};
use iced_x86::code_asm::*;

/// Not mapped: a gate that switches to it as its stack raises a page fault.
const NOWHERE: u64 = 0x8000_0000;

/// What goes wrong while an event is delivered.
#[derive(Clone, Copy, Debug)]
enum Second {
    /// The gate is not present: contributory, with this error code beside the vector.
    Contributory,
    PageFault,
}

/// Spoils a vector's gate.
fn spoil(subject: &mut Subject, vector: u8, second: Second) {
    let at = IDT + 16 * u64::from(vector);
    let gate = subject.get(at);
    subject.put(TSS + 0x24, NOWHERE);
    subject.put(
        at,
        match second {
            Second::Contributory => gate & !(1 << 47),
            Second::PageFault => gate | 1 << 32,
        },
    );
}

const DIVIDE: Code = |a| a.div(ecx);
const UNDEFINED_OPCODE: Code = |a| a.ud2();
const PROTECTION: Code = |a| a.mov(cr8, rbx);
const PAGE: Code = |a| a.mov(eax, dword_ptr(rdx));

/// Error code of an exception about a gate: the vector, "in the IDT", and EXT, which says "external
/// to the processor" at AMD and "not by the program" at Intel.
fn about_gate(vector: u32, external: u32) -> Option<u32> {
    Some(vector << 3 | 2 | external)
}

#[test]
fn exceptions_are_external_sources_at_intel_and_not_at_amd() {
    for (model, external) in [("zen4", 0), ("sapphire-rapids", 1)] {
        let mut subject = Subject::with(model, Mode::Long, UNDEFINED_OPCODE);
        spoil(&mut subject, 6, Second::Contributory);
        assert_eq!(subject.run(), event(11, about_gate(6, external), 0), "{model}");
    }
}

#[test]
fn two_exceptions_become_a_double_fault_when_their_classes_say_so() {
    let double = event(8, Some(0), 0);
    let page = event(14, Some(2), 0);
    let rows: [(&str, Code, u8, Second, Outcome); 7] = [
        ("contributory, contributory", DIVIDE, 0, Second::Contributory, double),
        ("contributory, page fault", DIVIDE, 0, Second::PageFault, page),
        ("#GP, contributory", PROTECTION, 13, Second::Contributory, double),
        ("page fault, contributory", PAGE, 14, Second::Contributory, double),
        ("page fault, page fault", PAGE, 14, Second::PageFault, double),
        (
            "benign, contributory",
            UNDEFINED_OPCODE,
            6,
            Second::Contributory,
            event(11, about_gate(6, 0), 0),
        ),
        ("benign, page fault", UNDEFINED_OPCODE, 6, Second::PageFault, page),
    ];
    for (rule, code, vector, second, expected) in rows {
        let mut subject = Subject::with("zen4", Mode::Long, code);
        subject.cpu.registers.gpr[2] = NOWHERE;
        subject.cpu.registers.gpr[3] = u64::MAX;
        spoil(&mut subject, vector, second);
        assert_eq!(subject.run(), expected, "{rule}");
    }
}

#[test]
fn an_exception_during_a_double_fault_shuts_the_processor_down() {
    for second in [Second::Contributory, Second::PageFault] {
        let mut subject = Subject::with("zen4", Mode::Long, DIVIDE);
        spoil(&mut subject, 0, Second::Contributory);
        spoil(&mut subject, 8, second);
        assert_eq!(subject.run(), Outcome::Shutdown, "{second:?}");
    }
}

#[test]
fn a_software_interrupt_is_benign_and_its_error_code_says_that_the_program_did_it() {
    let mut subject = Subject::with("zen4", Mode::Long, |a| a.int(0x41));
    spoil(&mut subject, 0x41, Second::Contributory);
    assert_eq!(subject.run(), event(11, Some(0x41 << 3 | 2), 0));
}

#[test]
fn a_vector_beyond_the_table_is_a_protection_fault_that_names_it() {
    let mut subject = Subject::with("zen4", Mode::Long, |a| a.int(0x90));
    subject.cpu.control.idtr.limit = 0x8FF;
    assert_eq!(subject.run(), event(13, Some(0x90 << 3 | 2), 0));
}

#[test]
fn the_stack_pointer_is_restored_when_delivery_faults() {
    let mut subject = Subject::with("zen4", Mode::Long, UNDEFINED_OPCODE);
    spoil(&mut subject, 6, Second::PageFault);
    subject.run();
    // The handler of the page fault runs on the interrupted stack: five words and an error code.
    assert_eq!(subject.cpu.registers.gpr[4], STACK - 48);
    assert_eq!(subject.frame(4), STACK, "the interrupted stack pointer");
}
