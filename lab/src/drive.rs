//! Runs the emulated machine a slice of time at once: counts what it does, keeps what it prints,
//! and looks up in between, since someone may want it to stop.

use crate::counters::Counters;
use crate::recording::Recording;
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Virtual time between two looks at the machine.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);
/// Lines of a console that explain an end.
const LAST_LINES: usize = 15;
/// Lines shown of a fault of its kernel.
const MOST_FAULT_LINES: usize = 60;
/// What kernels say first of a fault.
const FAULTS: [&str; 4] =
    ["Kernel panic - not syncing", "BUG: ", "Oops: ", "general protection fault"];
/// Bytes of a console that are kept.
const MOST_CONSOLE: usize = 1 << 20;

/// Why a machine is not run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error("interrupted")]
    /// Whoever waits has asked for it.
    Interrupted,
    #[error("no end within {} s of virtual time", .0.0 / 1_000_000_000_000)]
    /// The limit of virtual time was reached.
    VirtualTime(Picoseconds),
    #[error("no end within {} s of this machine's time; --host-limit allows more", .0.as_secs())]
    /// The host took longer than whoever waits has patience for.
    HostTime(Duration),
}

/// What a run tells whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Something happens in it.
    Line(&'a str),
    /// Time passes.
    Tick,
}

/// Whoever waits for a run: may stop it, loses patience, and is told how it goes.
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    /// Host time that a stage may take.
    patience: Duration,
    tell: &'a mut dyn FnMut(Told<'_>),
    began: Instant,
}

impl<'a> Watch<'a> {
    /// Patience begins now.
    pub fn new(
        stop: &'a AtomicBool,
        patience: Duration,
        tell: &'a mut dyn FnMut(Told<'_>),
    ) -> Self {
        Self { stop, patience, tell, began: Instant::now() }
    }

    /// The next stage begins, and with it patience.
    pub fn stage(&mut self, name: &str) {
        self.began = Instant::now();
        (self.tell)(Told::Stage(name));
    }

    /// Something happens in the stage.
    pub fn line(&mut self, text: &str) {
        (self.tell)(Told::Line(text));
    }

    /// Whether to go on.
    pub fn check(&mut self) -> Result<(), Halt> {
        (self.tell)(Told::Tick);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Halt::Interrupted);
        }
        if self.began.elapsed() > self.patience {
            return Err(Halt::HostTime(self.patience));
        }
        Ok(())
    }
}

/// A machine that is run.
pub(crate) struct Drive {
    pub(crate) machine: Machine,
    pub(crate) counters: Counters,
    console: Vec<u8>,
    /// The trace file of the run, if one is written.
    pub(crate) recording: Option<Recording>,
}

impl Drive {
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, counters: Counters::default(), console: Vec::new(), recording: None }
    }

    /// Counts from here on.
    pub(crate) fn count(&mut self) {
        self.machine.state.wiring.records = Some(Vec::new());
        self.counters.clear();
    }

    /// Runs on for a slice, if the watch lets it; the outcome if the machine came to an end.
    pub(crate) fn slice(
        &mut self,
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Outcome>, Halt> {
        let now = self.machine.state.now;
        watch.check()?;
        if now >= limit {
            return Err(Halt::VirtualTime(limit));
        }
        let until = now.saturating_add(SLICE);
        let outcome = self.machine.run(Limits { until, instructions: u64::MAX });
        self.drain();
        Ok(outcome)
    }

    /// Takes what the machine recorded and printed.
    pub(crate) fn drain(&mut self) {
        let records = self.machine.state.wiring.records.as_mut().map(std::mem::take);
        let records = records.unwrap_or_default();
        records.iter().for_each(|record| self.counters.take(record));
        if let Some(recording) = &mut self.recording {
            recording.take(&records);
        }
        let serial = self.machine.take_console();
        self.console.extend(serial.into_iter().filter(|(port, _)| *port == 0).map(|(_, b)| b));
        let excess = self.console.len().saturating_sub(MOST_CONSOLE);
        self.console.drain(..excess);
    }

    /// What the first serial port printed.
    pub(crate) fn console(&self) -> String {
        String::from_utf8_lossy(&self.console).into_owned()
    }

    /// What of it tells why the machine ended, for error messages.
    pub(crate) fn last_lines(&self) -> String {
        last_lines(&self.console())
    }
}

/// From the kernel's first word of a fault on, since what follows it is longer than an end that one
/// would show; without one, the end.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.len().saturating_sub(LAST_LINES);
    let is_fault = |line: &&str| FAULTS.iter().any(|words| line.contains(words));
    let start = lines.iter().position(is_fault).map_or(end, |fault| fault.min(end));
    lines[start..].iter().take(MOST_FAULT_LINES).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use cpu::CpuModel;

    fn idle() -> Drive {
        let model = CpuModel::named("zen4").expect("a model that comes with the machine");
        let host = Host {
            model,
            iommu: None,
            has_pulse: false,
            wires: Vec::new(),
            cpus: 1,
            memory: 64 << 20,
            append: String::new(),
        };
        Drive::new(host.power_on().expect("a machine"))
    }

    #[test]
    fn of_a_kernel_that_panics_the_reason_is_shown_and_not_the_end_alone() {
        let trace = "[    1.0]  ? some_function+0x1/0x2\n".repeat(40);
        let text = format!("before\n[    1.0] Kernel panic - not syncing: a reason\n{trace}");
        assert!(last_lines(&text).starts_with("[    1.0] Kernel panic - not syncing: a reason"));
        assert_eq!(last_lines(&trace.repeat(9)).lines().count(), LAST_LINES);
        let long = format!("BUG: one\n{}", trace.repeat(9));
        assert_eq!(last_lines(&long).lines().count(), MOST_FAULT_LINES);
        assert_eq!(last_lines("few\nlines\n"), "few\nlines");
    }

    #[test]
    fn a_run_ends_when_it_is_stopped_or_took_too_long_in_either_time() {
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        let late = Picoseconds::from_milliseconds(1000);
        for (stop, patience, limit, halt) in [
            (&stop, 60, late, Halt::Interrupted),
            (&go, 0, late, Halt::HostTime(Duration::ZERO)),
            (&go, 60, Picoseconds::ZERO, Halt::VirtualTime(Picoseconds::ZERO)),
        ] {
            let mut ignore = |_: Told<'_>| {};
            let mut watch = Watch::new(stop, Duration::from_secs(patience), &mut ignore);
            assert_eq!(idle().slice(limit, &mut watch), Err(halt));
        }
    }
}
