//! A machine at the terminal, with nothing else to look after.

use super::console::{Console, Request};
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Virtual time between two looks at the keyboard.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);

/// Runs a machine with the first serial port at the terminal until it ends or the user leaves.
pub fn interact(machine: &mut Machine, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let mut console = Console::open(machine.recall.clone());
    loop {
        let until = machine.state.now.saturating_add(SLICE);
        let outcome = machine.run(Limits { until, instructions: u64::MAX });
        let output = machine.take_console();
        let text: Vec<u8> =
            output.into_iter().filter(|(port, _)| *port == 0).map(|(_, byte)| byte).collect();
        console.write(&text);
        match outcome {
            Some(Outcome::PowerOff) => return Ok(ExitCode::SUCCESS),
            Some(outcome) => anyhow::bail!("the machine ended: {outcome:?}"),
            None => {}
        }
        if console.poll() == Some(Request::Leave) || stop.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        let pending = console.pending();
        if !pending.is_empty() {
            let taken = machine.type_at_console(0, pending);
            pending.drain(..taken.min(pending.len()));
        }
    }
}
