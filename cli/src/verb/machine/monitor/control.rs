//! The machine under a monitor: whether it stands, what it is to run to, what happened last.

use super::command::{Command, Goal, help};
use crate::verb::machine::ending::describe;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::debugger::{DebuggedMachine, Debuggee, Others, Stop};
use board::inspection::View;
use board::{Limits, Machine, Outcome};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use trace::{EventGoal, Record};

/// Records that are kept for `events`.
const KEPT: usize = 1_000;
/// Virtual time of one stretch in which an event is looked for.
const STRETCH: Picoseconds = Picoseconds::from_milliseconds(1);
/// Virtual time between two looks at who is held up.
const BETWEEN_HOLDS: Picoseconds = Picoseconds::from_nanoseconds(1_000);
/// Instructions that are looked at one by one for the event of a stretch.
const MOST_SINGLE: usize = 10_000;

/// What a command leads to, besides its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Stay,
    /// The machine goes on.
    Go,
    /// The run ends.
    Quit,
}

/// A command was obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    pub next: Next,
}

/// The machine under a monitor.
pub struct Control {
    /// The machine stands.
    pub is_stopped: bool,
    /// What `info` and `step` mean.
    pub cpu: CpuIndex,
    goal: Option<Goal>,
    events: VecDeque<Record>,
    /// Of the machine's end, if it has come.
    status: fn(Outcome) -> u8,
    interrupt: &'static AtomicBool,
}

impl Control {
    pub fn new(
        is_stopped: bool,
        status: fn(Outcome) -> u8,
        interrupt: &'static AtomicBool,
    ) -> Self {
        let events = VecDeque::new();
        Self { is_stopped, cpu: CpuIndex(0), goal: None, events, status, interrupt }
    }

    /// Keeps the last of what happened, which is still the machine's.
    pub fn note(&mut self, machine: &Machine) {
        let records = machine.state.wiring.recorder.records.as_deref().unwrap_or_default();
        let last = &records[records.len().saturating_sub(KEPT)..];
        self.events.extend(last);
        let surplus = self.events.len().saturating_sub(KEPT);
        self.events.drain(..surplus);
    }

    /// Does what a command says.
    pub fn obey(&mut self, machine: &mut Machine, command: Command) -> Result<Reply, String> {
        let mut next = Next::Stay;
        let text = match command {
            Command::Info { query, form } => {
                let view = View { state: &machine.state, memory: &machine.memory };
                let sheets = view.look(query).map_err(|absent| absent.to_string())?;
                form.of(&sheets)
            }
            Command::Choose(cpu) => {
                let count = machine.state.cpus.len();
                if usize::from(cpu.0) >= count {
                    return Err(format!("no processor {cpu}, must be below {count}"));
                }
                self.cpu = cpu;
                String::new()
            }
            Command::Stop => {
                self.is_stopped = true;
                self.goal = None;
                self.place(machine)
            }
            Command::Go => {
                self.ensure_alive(machine)?;
                self.is_stopped = false;
                next = Next::Go;
                String::new()
            }
            Command::Step(count) => {
                self.ensure_alive(machine)?;
                self.is_stopped = true;
                self.step(machine, count)
            }
            Command::Until(goal) => {
                self.ensure_alive(machine)?;
                self.ensure_ahead(machine, &goal)?;
                self.goal = Some(goal);
                self.is_stopped = false;
                next = Next::Go;
                String::new()
            }
            Command::Next => {
                self.ensure_alive(machine)?;
                let holds = machine.holds().ok_or(
                    "no processor is held up in this run, must be one of lab explore replay --step",
                )?;
                self.goal = Some(Goal::Hold(holds.len()));
                self.is_stopped = false;
                next = Next::Go;
                String::new()
            }
            Command::Events(count) => {
                let first = self.events.len().saturating_sub(count as usize);
                let lines = self.events.range(first..).map(|record| format!("{record}\n"));
                lines.collect()
            }
            Command::Type(text) => {
                let line = text + "\r";
                let taken = machine.type_at_console(0, line.as_bytes());
                if taken < line.len() {
                    return Err(format!(
                        "the serial port took {taken} bytes of {}: the guest reads no faster",
                        line.len()
                    ));
                }
                String::new()
            }
            Command::Quit => {
                next = Next::Quit;
                String::new()
            }
            Command::Help => help(),
        };
        Ok(Reply { text, next })
    }

    fn ensure_alive(&self, machine: &Machine) -> Result<(), String> {
        match machine.outcome() {
            Some(outcome) => Err(format!("the machine has ended: {}", describe(outcome))),
            None => Ok(()),
        }
    }

    fn ensure_ahead(&self, machine: &Machine, goal: &Goal) -> Result<(), String> {
        let (now, done) = (machine.state.now, machine.instructions());
        match goal {
            Goal::Time(at) if *at <= now => {
                Err(format!("it is {:.9} s since power-on already", seconds(now)))
            }
            Goal::Instructions(count) if *count <= done => {
                Err(format!("{done} instructions are executed already"))
            }
            _ => Ok(()),
        }
    }

    fn step(&mut self, machine: &mut Machine, count: u64) -> String {
        for _ in 0..count {
            let stop = DebuggedMachine::new(machine, self.status).step(self.cpu, Others::Run);
            let is_over = stop != (Stop::Stepped { cpu: self.cpu });
            if is_over || self.interrupt.load(Ordering::Relaxed) {
                break;
            }
        }
        self.place(machine)
    }

    /// Where the chosen processor stands.
    pub fn place(&self, machine: &Machine) -> String {
        let Some(cpu) = machine.state.cpus.get(usize::from(self.cpu.0)) else {
            return String::new();
        };
        let ip = cpu.registers.ip;
        let (now, done) = (seconds(machine.state.now), machine.instructions());
        let activity = cpu.pending.activity();
        format!(
            "processor {}: {activity:?} at rip {ip:#x}, {now:.9} s, {done} instructions\n",
            self.cpu
        )
    }

    /// Runs, at most to the limits. The second is what has come of `until`, if it has.
    pub fn run(
        &mut self,
        machine: &mut Machine,
        limits: Limits,
    ) -> (Option<Outcome>, Option<String>) {
        let (outcome, met) = match self.goal.clone() {
            None => (machine.run(limits), None),
            Some(Goal::Time(at)) => {
                let outcome = machine.run(Limits { until: limits.until.min(at), ..limits });
                let is_met = machine.state.now >= at;
                (outcome, is_met.then(String::new))
            }
            Some(Goal::Instructions(count)) => {
                let instructions = limits.instructions.min(count);
                let outcome = machine.run(Limits { instructions, ..limits });
                (outcome, (machine.instructions() >= count).then(String::new))
            }
            Some(Goal::Hold(before)) => {
                let outcome = run_to_hold(machine, before, limits);
                (outcome, has_hold(machine, before).then(String::new))
            }
            Some(Goal::Event(mut event)) => {
                let (outcome, record) = seek(machine, &mut event, limits);
                self.goal = Some(Goal::Event(event));
                (outcome, record.map(|record| format!("{record}\n")))
            }
        };
        let Some(met) = met.filter(|_| outcome.is_none()) else { return (outcome, None) };
        self.goal = None;
        self.is_stopped = true;
        let place = self.place(machine);
        (outcome, Some(met + &place))
    }
}

fn seconds(at: Picoseconds) -> f64 {
    at.0 as f64 / 1e12
}

/// Runs a stretch. If the event is in it, the machine goes back to the stretch's beginning, and on
/// to the instruction that the event comes from.
fn seek(
    machine: &mut Machine,
    event: &mut EventGoal,
    limits: Limits,
) -> (Option<Outcome>, Option<Record>) {
    let before = records(machine).len();
    let mut found = |machine: &Machine| {
        records(machine)[before..].iter().find(|record| event.is(record)).copied()
    };
    let until = limits.until.min(machine.state.now.saturating_add(STRETCH));
    let mark = machine.mark();
    let outcome = machine.run(Limits { until, ..limits });
    let Some(first) = found(machine) else {
        machine.forget_mark();
        return (outcome, None);
    };
    machine.return_to(&mark);
    machine.forget_mark();
    let mut outcome = machine.run(Limits { until: first.at, ..limits });
    for _ in 0..MOST_SINGLE {
        if outcome.is_some() || found(machine).is_some() {
            break;
        }
        let instructions = machine.instructions() + 1;
        outcome = machine.run(Limits { until, instructions });
    }
    (outcome, Some(found(machine).unwrap_or(first)))
}

/// Runs until more processors have been held up than so many.
fn run_to_hold(machine: &mut Machine, before: usize, limits: Limits) -> Option<Outcome> {
    let mut outcome = None;
    while outcome.is_none() && !has_hold(machine, before) && machine.state.now < limits.until {
        let until = limits.until.min(machine.state.now.saturating_add(BETWEEN_HOLDS));
        outcome = machine.run(Limits { until, ..limits });
    }
    outcome
}

fn has_hold(machine: &Machine, before: usize) -> bool {
    machine.holds().is_some_and(|holds| holds.len() > before)
}

fn records(machine: &Machine) -> &[Record] {
    machine.state.wiring.recorder.records.as_deref().unwrap_or_default()
}
