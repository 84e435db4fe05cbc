//! How a machine ended, in words.

use board::Outcome;

/// How a machine ended, for readers.
pub fn describe(outcome: Outcome) -> String {
    match outcome {
        Outcome::PowerOff => "power-off".into(),
        Outcome::Reset => "reset".into(),
        Outcome::DebugExit(value) => format!("debug exit {value:#x}"),
        Outcome::TripleFault(cpu) => format!("triple fault on processor {cpu}"),
        Outcome::VmxAbort(cpu, abort) => format!("processor {cpu} stopped by {abort}"),
        Outcome::Deadlock => "every processor waits for ever".into(),
    }
}
