//! Runs the emulated machine a slice of time at once: counts what it does, keeps what it prints,
//! and looks up in between, since someone may want it to stop.

pub mod counters;
pub mod example;
pub mod expected;
pub mod observed;
pub mod recording;
mod sampling;
pub mod session;
pub mod under;

use crate::watch::{Halt, Watch};
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome};
use counters::Counters;
use example::MOST_RECORDS;
use recording::Recording;
use sampling::Sampling;
use trace::Record;

/// Virtual time between two looks at the machine.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);
/// The same where what a guest prints is to be known soon.
const FINE: Picoseconds = Picoseconds::from_nanoseconds(200_000);
/// Lines of a console that explain an end.
const LAST_LINES: usize = 15;
/// Lines shown of a fault of its kernel.
const MOST_FAULT_LINES: usize = 60;
/// What kernels say first of a fault.
const FAULTS: [&str; 4] =
    ["Kernel panic - not syncing", "BUG: ", "Oops: ", "general protection fault"];
/// Bytes of a console that are kept.
const MOST_CONSOLE: usize = 1 << 20;

/// A machine that is run.
pub(crate) struct Drive {
    pub(crate) machine: Machine,
    pub(crate) counters: Counters,
    console: Vec<u8>,
    /// The trace file of the run, if one is written.
    pub(crate) recording: Option<Recording>,
    /// Records of the step, where one of its interrupts is to be looked at.
    pub(crate) kept: Option<Vec<Record>>,
    /// Looks where the host's processors are meanwhile.
    sampling: Option<Sampling>,
    slice: Picoseconds,
}

/// What is kept of a run outside of the machine.
struct Outside {
    counters: Counters,
    console: Vec<u8>,
    recording: Option<Recording>,
    kept: Option<Vec<Record>>,
    sampling: Option<Sampling>,
}

impl Drive {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            counters: Counters::default(),
            console: Vec::new(),
            recording: None,
            kept: None,
            sampling: None,
            slice: SLICE,
        }
    }

    /// Whether what a guest prints is to be known soon.
    fn look_often(&mut self, is_often: bool) {
        self.slice = if is_often { FINE } else { SLICE };
    }

    /// Counts from here on.
    pub(crate) fn count(&mut self) {
        self.machine.state.wiring.recorder.records = Some(Vec::new());
        self.counters.clear();
    }

    /// Counts from here on, and has printed nothing.
    fn begin_again(&mut self) {
        self.count();
        self.console.clear();
        self.recording = None;
        self.kept = None;
        self.sampling = None;
        self.slice = SLICE;
    }

    /// What is kept of the run outside of the machine, which goes on for a while as if nobody
    /// looked.
    fn set_aside(&mut self) -> Outside {
        Outside {
            counters: self.counters.clone(),
            console: self.console.clone(),
            recording: self.recording.take(),
            kept: self.kept.take(),
            sampling: self.sampling.take(),
        }
    }

    /// The machine is where it was when that was set aside.
    fn take_up(&mut self, outside: Outside) {
        self.drain();
        let Outside { counters, console, recording, kept, sampling } = outside;
        (self.counters, self.console, self.recording) = (counters, console, recording);
        (self.kept, self.sampling) = (kept, sampling);
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
        let until = now.saturating_add(self.slice);
        let outcome = match &mut self.sampling {
            Some(sampling) => sampling.run(&mut self.machine, until),
            None => self.machine.run(Limits { until, instructions: u64::MAX }),
        };
        self.drain();
        Ok(outcome)
    }

    /// Takes what the machine recorded and printed.
    pub(crate) fn drain(&mut self) {
        let records = self.machine.state.wiring.recorder.records.as_mut().map(std::mem::take);
        let records = records.unwrap_or_default();
        records.iter().for_each(|record| self.counters.take(record));
        if let Some(kept) = &mut self.kept {
            let room = MOST_RECORDS.saturating_sub(kept.len()).min(records.len());
            kept.extend_from_slice(&records[..room]);
        }
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
    use crate::watch::Told;
    use cpu::CpuModel;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn idle() -> Drive {
        let model = CpuModel::named("zen4").expect("a model that comes with the machine");
        let host = Host {
            model,
            costs: None,
            iommu: None,
            has_pulse: false,
            wires: Vec::new(),
            devices: Vec::new(),
            folders: Vec::new(),
            topology: board::topology::Topology::of_cores(1).expect("one core"),
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
