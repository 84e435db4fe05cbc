//! Letting time pass, up to what a request says.

use crate::Host;
use crate::answer::Service;
use crate::collected::event;
use crate::error::{Code, Refusal};
use crate::goal::{Goal, running};
use crate::request::{Access, Run, Watch};
use arch::address::Linear;
use arch::time::Picoseconds;
use board::debugger::{Stop, StopPoint, WatchedAccess};
use board::{Limits, Machine, Outcome, Sought};
use serde_json::{Value, json};

/// Virtual time of a run that says no limit.
const USUAL: Picoseconds = Picoseconds::from_milliseconds(10_000);
/// Virtual time between two looks whether anybody still waits.
const STRETCH: Picoseconds = Picoseconds::from_milliseconds(2);
/// Breakpoints and watchpoints of one run.
const MOST_POINTS: usize = 128;
/// Bytes of one watchpoint.
const MOST_WATCHED: u64 = 4096;

/// Why a run is over.
pub enum Stopped {
    Instructions,
    Time,
    Point(Stop),
    Event(Value),
    Halted,
    /// The machine's outcome says how.
    Ended,
    /// Nobody waits for it.
    Interrupted,
}

impl Service<'_> {
    /// Runs, and says why it stopped.
    pub(crate) fn run(&mut self, run: Run, host: &mut dyn Host) -> Result<Value, Refusal> {
        if let Some(outcome) = self.machine.outcome() {
            let text = format!("the machine has ended: {outcome:?}; restore a mark");
            return Err(Refusal::new(Code::Ended, text));
        }
        let limits = limits(self.machine, &run);
        let has_points = !run.breakpoints.is_empty() || !run.watch.is_empty();
        let has_record = run.event.is_some() || run.halted;
        if has_points && has_record || run.event.is_some() && run.halted {
            let text = "one of: breakpoints and watch; event; halted";
            return Err(Refusal::new(Code::Request, text));
        }
        let stopped = match (run.event, run.halted) {
            (Some(goal), _) => self.run_to(&mut Goal::of_event(goal)?, limits, host),
            (None, true) => self.run_to_halt(limits, host),
            (None, false) if has_points => {
                let points = points(&run.breakpoints, &run.watch)?;
                self.run_to_points(&points, limits, host)
            }
            (None, false) => self.run_plainly(limits, host),
        };
        self.collect();
        Ok(self.shown(&stopped))
    }

    fn run_plainly(&mut self, limits: Limits, host: &mut dyn Host) -> Stopped {
        loop {
            let until = limits.until.min(self.machine.state.now.saturating_add(STRETCH));
            let outcome = self.machine.run(Limits { until, ..limits });
            self.collect();
            if let Some(over) = self.is_over(outcome, limits, host) {
                return over;
            }
        }
    }

    fn run_to_points(
        &mut self,
        points: &[StopPoint],
        limits: Limits,
        host: &mut dyn Host,
    ) -> Stopped {
        let stop = self.machine.run_to_points(points, limits, || host.is_over());
        match (stop, self.machine.outcome()) {
            (_, Some(_)) => Stopped::Ended,
            (Some(stop), _) => Stopped::Point(stop),
            (None, None) => self.is_over(None, limits, host).unwrap_or(Stopped::Interrupted),
        }
    }

    fn run_to(&mut self, goal: &mut Goal, limits: Limits, host: &mut dyn Host) -> Stopped {
        let mut running = running(self.machine);
        let Self { marks, machine, collected, .. } = self;
        let Sought { outcome, record } = marks.run_to_record(
            machine,
            limits,
            &mut |record| goal.is_met(record, &mut running),
            &mut |records| collected.add(records),
            &mut || host.is_over(),
        );
        match record {
            Some(record) => Stopped::Event(event(&record)),
            None => self.is_over(outcome, limits, host).unwrap_or(Stopped::Interrupted),
        }
    }

    fn run_to_halt(&mut self, limits: Limits, host: &mut dyn Host) -> Stopped {
        loop {
            if running(self.machine).iter().all(|runs| !runs) {
                return Stopped::Halted;
            }
            match self.run_to(&mut Goal::Halted, limits, host) {
                // A processor that waited for its startup may run by now.
                Stopped::Event(_) => {}
                other => return other,
            }
        }
    }

    fn is_over(
        &self,
        outcome: Option<Outcome>,
        limits: Limits,
        host: &mut dyn Host,
    ) -> Option<Stopped> {
        if outcome.is_some() {
            return Some(Stopped::Ended);
        }
        if self.machine.instructions() >= limits.instructions {
            return Some(Stopped::Instructions);
        }
        if self.machine.state.now >= limits.until {
            return Some(Stopped::Time);
        }
        host.is_over().then_some(Stopped::Interrupted)
    }

    fn shown(&self, stopped: &Stopped) -> Value {
        let mut shown = self.place();
        let word = match stopped {
            Stopped::Instructions => "instructions",
            Stopped::Time => "time",
            Stopped::Event(event) => {
                shown["event"] = event.clone();
                "event"
            }
            Stopped::Halted => "halted",
            Stopped::Ended => "ended",
            Stopped::Interrupted => "interrupted",
            Stopped::Point(Stop::Execute { cpu }) => {
                shown["cpu"] = cpu.0.into();
                "breakpoint"
            }
            Stopped::Point(Stop::Watch { cpu, address, .. }) => {
                shown["cpu"] = cpu.0.into();
                shown["address"] = address.0.into();
                "watchpoint"
            }
            // Of these none comes without the machine's end.
            Stopped::Point(_) => "ended",
        };
        shown["stopped"] = word.into();
        shown
    }

    /// Where the machine stands.
    pub(crate) fn place(&self) -> Value {
        let outcome = self.machine.outcome().map(|outcome| match outcome {
            Outcome::PowerOff => json!({ "kind": "power-off" }),
            Outcome::Reset => json!({ "kind": "reset" }),
            Outcome::DebugExit(value) => json!({ "kind": "debug-exit", "value": value }),
            Outcome::TripleFault(cpu) => json!({ "kind": "triple-fault", "cpu": cpu.0 }),
            Outcome::VmxAbort(cpu, abort) => {
                json!({ "kind": "vmx-abort", "cpu": cpu.0, "text": abort.to_string() })
            }
            Outcome::Deadlock => json!({ "kind": "deadlock" }),
        });
        json!({
            "picoseconds": self.machine.state.now.0,
            "instructions": self.machine.instructions(),
            "outcome": outcome,
        })
    }

    /// Takes what the machine has recorded and shown.
    pub(crate) fn collect(&mut self) {
        let records = self.machine.state.wiring.recorder.records.replace(Vec::new());
        self.collected.add(records.unwrap_or_default());
        self.collected.show(self.machine.take_console());
    }
}

fn limits(machine: &Machine, run: &Run) -> Limits {
    let now = machine.state.now;
    let usual = run.instructions.is_none().then_some(USUAL);
    let time = run.picoseconds.map(Picoseconds).or(usual);
    Limits {
        until: time.map_or(Picoseconds::MAX, |time| now.saturating_add(time)),
        instructions: run
            .instructions
            .map_or(u64::MAX, |more| machine.instructions().saturating_add(more)),
    }
}

fn points(
    breakpoints: &[crate::request::Number],
    watch: &[Watch],
) -> Result<Vec<StopPoint>, Refusal> {
    let count = breakpoints.len() + watch.len();
    if count > MOST_POINTS {
        let text = format!("{count} breakpoints and watchpoints, must be at most {MOST_POINTS}");
        return Err(Refusal::new(Code::Limit, text));
    }
    let mut points = Vec::new();
    for at in breakpoints {
        points.push(StopPoint::Execute(Linear(at.word("a breakpoint")?)));
    }
    for Watch { at, length, access } in watch {
        if !(1..=MOST_WATCHED).contains(length) {
            let text = format!("a watchpoint of {length} bytes, must have 1 to {MOST_WATCHED}");
            return Err(Refusal::new(Code::Limit, text));
        }
        let access = match access {
            Access::Read => WatchedAccess::Read,
            Access::Write => WatchedAccess::Write,
            Access::Any => WatchedAccess::Either,
        };
        let start = Linear(at.word("a watchpoint")?);
        points.push(StopPoint::Watch { start, length: *length, access });
    }
    Ok(points)
}
