//! A [`Machine`] as a [`Debuggee`].
//!
//! What the machine does is the same as without a debugger, unless one processor steps while others
//! stand, or the debugger writes.

use super::access;
use super::back::Search;
use super::history::History;
use super::looks::Looks;
use super::{Backwards, DebugRegisters, Debuggee, Others, Stop, StopPoint};
use crate::Machine;
use crate::outcome::Outcome;
use crate::schedule::Limits;
use crate::turn::Turn;
use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use cpu::{Cpu, RunEnd};

/// A step of a processor that waits is given up after this much virtual time.
const LONGEST_STEP: Picoseconds = Picoseconds::from_milliseconds(100);
/// Points that can be set.
const MAXIMUM_POINTS: usize = 256;

/// A machine under a debugger's control, with its breakpoints and watchpoints.
pub struct DebuggedMachine<'a> {
    /// What is debugged.
    pub machine: &'a mut Machine,
    pub(super) history: History,
    pub(super) search: Option<Search>,
    pub(super) points: Vec<StopPoint>,
    pub(super) looks: Looks,
    /// Processors do not know of all points yet.
    pub(super) is_behind: bool,
    /// The exit status that stands for an outcome.
    status: fn(Outcome) -> u8,
}

impl<'a> DebuggedMachine<'a> {
    /// `status` says what a program that ends in this way would exit with.
    pub fn new(machine: &'a mut Machine, status: fn(Outcome) -> u8) -> Self {
        let (history, points, looks) = (History::default(), Vec::new(), Looks::default());
        let mut debugged =
            Self { machine, history, search: None, points, looks, is_behind: false, status };
        debugged.hear_from(debugged.records());
        debugged
    }

    fn cpu(&self, cpu: CpuIndex) -> &Cpu {
        &self.machine.state.cpus[usize::from(cpu.0)]
    }

    fn cpu_mut(&mut self, cpu: CpuIndex) -> &mut Cpu {
        &mut self.machine.state.cpus[usize::from(cpu.0)]
    }

    /// The end of the run, if it has come.
    pub(super) fn ended(&self) -> Option<Stop> {
        self.machine.outcome().map(|outcome| match outcome {
            Outcome::TripleFault(cpu) | Outcome::VmxAbort(cpu, _) => Stop::Shutdown { cpu },
            other => Stop::Off { status: (self.status)(other) },
        })
    }

    /// Whether runs end before points.
    pub(super) fn set_stops(&mut self, stops: bool) {
        self.machine.state.cpus.iter_mut().for_each(|cpu| cpu.stop_at_points(stops));
    }

    /// The processor that stands at a point, and alone ends the last run.
    pub(super) fn at_point(&self) -> Option<Stop> {
        self.machine.at_point.map(|cpu| Stop::Execute { cpu })
    }

    /// Executes one instruction of the processor whose turn it is, or of `only`; none if it comes
    /// to a point and is to stop there.
    pub(super) fn execute_one(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        let until = self.machine.state.now.saturating_add(LONGEST_STEP);
        let instructions = self.machine.instructions() + 1;
        match only {
            Some(cpu) => {
                let until = self.cpu(cpu).clock.now().saturating_add(LONGEST_STEP);
                let others = self.machine.state.turn.take();
                self.cpu_mut(cpu).clock.set_others(Picoseconds::MAX);
                self.cpu_mut(cpu).begin_turn();
                self.machine.refresh_all();
                let end = self.machine.go_on(Turn { cpu, until }, Limits { until, instructions });
                self.machine.at_point = (end == RunEnd::Point).then_some(cpu);
                self.machine.state.turn = others.filter(|turn| turn.cpu != cpu);
            }
            None => {
                self.machine.run(Limits { until, instructions });
            }
        }
        self.ended().or_else(|| self.noticed()).or_else(|| self.at_point())
    }

    /// Keeps the past, unless what comes is not what the machine would do by itself.
    fn advance_history(&mut self, others_stand: bool) {
        self.search = None;
        self.drop_records();
        if self.is_behind {
            self.observe();
        }
        self.probe();
        // Not what the debugger wrote itself.
        self.machine.memory.take_probed();
        match others_stand {
            true => self.history.clear(self.machine),
            false => self.history.note(self.machine),
        }
    }
}

impl Drop for DebuggedMachine<'_> {
    /// Who goes on without a debugger needs no past, and stops nowhere.
    fn drop(&mut self) {
        self.history.clear(self.machine);
        self.machine.memory.probe(&[]);
        self.machine.state.cpus.iter_mut().for_each(|cpu| cpu.observe(Vec::new(), &[]));
        if self.looks.owns_records {
            self.machine.state.wiring.recorder.records = None;
        }
    }
}

impl Debuggee for DebuggedMachine<'_> {
    fn cpu_count(&self) -> u16 {
        self.machine.state.cpus.len() as u16
    }

    fn describe(&self, cpu: CpuIndex) -> String {
        access::describe(self.cpu(cpu))
    }

    fn registers(&self, cpu: CpuIndex) -> DebugRegisters {
        access::registers(self.cpu(cpu))
    }

    fn set_registers(&mut self, cpu: CpuIndex, registers: &DebugRegisters) -> bool {
        self.history.clear(self.machine);
        access::set_registers(self.cpu_mut(cpu), registers)
    }

    fn read_memory(&mut self, cpu: CpuIndex, start: Linear, into: &mut [u8]) -> usize {
        self.machine.read_linear(cpu, start, into)
    }

    fn write_memory(&mut self, cpu: CpuIndex, start: Linear, from: &[u8]) -> bool {
        self.history.clear(self.machine);
        self.machine.write_linear(cpu, start, from) == from.len()
    }

    fn insert(&mut self, point: StopPoint) -> bool {
        if self.points.len() >= MAXIMUM_POINTS {
            return false;
        }
        self.points.push(point);
        self.is_behind = true;
        true
    }

    fn remove(&mut self, point: StopPoint) -> bool {
        let Some(place) = self.points.iter().position(|other| *other == point) else {
            return false;
        };
        self.points.swap_remove(place);
        self.is_behind = true;
        true
    }

    /// A step that takes an event ends behind the first instruction of its handler.
    fn step(&mut self, cpu: CpuIndex, others: Others) -> Stop {
        let stands = others == Others::Stand && self.machine.next_cpu() != Some(cpu);
        self.advance_history(stands);
        let only = stands.then_some(cpu);
        let before = self.cpu(cpu).clock.instructions();
        let end = self.machine.state.now.saturating_add(LONGEST_STEP);
        // The others stop at points.
        self.set_stops(only.is_none());
        self.cpu_mut(cpu).stop_at_points(false);
        let stop = loop {
            if let Some(stop) = self.execute_one(only) {
                break stop;
            }
            let is_done = self.cpu(cpu).clock.instructions() != before;
            if is_done || only.is_some() || self.machine.state.now >= end {
                break Stop::Stepped { cpu };
            }
        };
        self.set_stops(false);
        stop
    }

    fn goes_back(&self) -> bool {
        true
    }

    fn run_back(&mut self, how: Backwards) -> Option<Stop> {
        self.search(how)
    }

    fn run(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        self.advance_history(only.is_some());
        if let Some(stop) = self.ended() {
            return Some(stop);
        }
        self.set_stops(true);
        let stop = self.run_stretch(only);
        self.set_stops(false);
        stop
    }

    fn take_words(&mut self) -> String {
        std::mem::take(&mut self.looks.words)
    }

    fn command(&mut self, command: &str) -> String {
        self.obey(command).unwrap_or_else(|why| format!("error: {why}\n"))
    }
}
