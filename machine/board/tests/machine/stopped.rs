//! What is said of processors that stopped for good.

use crate::program::{LOAD, MAIN, assemble, image, started};
use arch::time::Picoseconds;
use board::{Limits, Outcome};
use iced_x86::code_asm::*;

const LIMITS: Limits = Limits { until: Picoseconds::from_milliseconds(10), instructions: u64::MAX };

#[test]
fn a_triple_fault_is_told_with_its_cause_and_instruction() {
    // Without an interrupt table, #UD becomes a double fault and that a triple one.
    let main = assemble(MAIN, &|a| {
        a.mov(ebx, 0x1234_5678)?;
        a.ud2()
    });
    let mut machine = started(&image(&[(MAIN, main)]));
    machine.state.cpus[0].control.idtr.limit = 0;
    assert!(matches!(machine.run(LIMITS), Some(Outcome::TripleFault(_))));
    let text = machine.post_mortem().expect("a triple fault calls for words");
    let at = LOAD as usize + MAIN + 5;
    for part in [
        "processor 0: Shutdown, protected mode".to_owned(),
        format!("last exception: vector 0x6, error code 0x0, at rip 0x{at:x}"),
        "at rip: 0f 0b  Ud2".to_owned(),
        "rbx=0000000012345678".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in:\n{text}");
    }
    assert_eq!(text.matches("processor ").count(), 1, "of the one that stopped alone");
}

#[test]
fn an_end_that_the_guest_asked_for_needs_no_words() {
    let main = assemble(MAIN, &|a| {
        a.mov(eax, 7)?;
        a.out(0xF4, eax)?;
        a.hlt()
    });
    let mut machine = started(&image(&[(MAIN, main)]));
    assert_eq!(machine.run(LIMITS), Some(Outcome::DebugExit(7)));
    assert_eq!(machine.post_mortem(), None);
}
