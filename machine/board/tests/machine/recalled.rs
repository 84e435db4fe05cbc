//! A run that is called back from outside.

use crate::program::{MAIN, assemble, image, started};
use arch::time::Picoseconds;
use board::{Limits, Machine};
use iced_x86::code_asm::*;
use std::time::Duration;

const FOR_EVER: Limits = Limits { until: Picoseconds::MAX, instructions: u64::MAX };

/// A processor that counts and writes what it counted to a port, for ever.
fn counting() -> Machine {
    let main = assemble(MAIN, &|a| {
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.inc(eax)?;
        a.test(eax, 0x3FF)?;
        a.jne(again)?;
        a.out(0x80, eax)?;
        a.jmp(again)
    });
    started(&image(&[(MAIN, main)]))
}

#[test]
fn a_run_without_an_end_returns_when_it_is_recalled() {
    let mut machine = counting();
    let recall = machine.recall.clone();
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        recall.ring();
    });
    assert_eq!(machine.run(FOR_EVER), None);
    ringer.join().expect("the thread rings and ends");
    assert!(machine.instructions() > 0);
}

#[test]
fn a_recalled_run_goes_on_as_if_nothing_had_happened() {
    let until = Picoseconds::from_milliseconds(2);
    let limits = Limits { until, instructions: u64::MAX };
    let mut whole = counting();
    assert_eq!(whole.run(limits), None);
    let mut recalled = counting();
    let mut turns = 0;
    while recalled.state.now < until {
        // Rung before the run, so that each turn of it is as short as a turn can be.
        let recall = recalled.recall.clone();
        let ringer = std::thread::spawn(move || recall.ring());
        recalled.run(limits);
        ringer.join().expect("the thread rings and ends");
        turns += 1;
    }
    assert!(turns >= 1);
    let end = |machine: &Machine| (machine.instructions(), machine.state.wiring.recorder.hash);
    assert_eq!(end(&recalled), end(&whole));
}
