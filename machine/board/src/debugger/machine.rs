//! A [`Machine`] as a [`Debuggee`].
//!
//! While there are points, or a processor steps, instructions are executed one at a time. What the
//! machine does is the same as without a debugger, unless one processor steps while others stand,
//! or the debugger writes.

use super::access::{self, instruction_pointer};
use super::back::Search;
use super::history::History;
use super::{Backwards, DebugRegisters, Debuggee, Others, Stop, StopPoint, WatchedAccess};
use crate::Machine;
use crate::outcome::Outcome;
use crate::schedule::Limits;
use crate::turn::Turn;
use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use cpu::{Cpu, Range};

/// Virtual time of one stretch without points.
const STRETCH: Picoseconds = Picoseconds::from_milliseconds(2);
/// Instructions of one stretch with points.
const INSTRUCTIONS: u32 = 20_000;
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
    points: Vec<StopPoint>,
    /// Processors do not know of all points yet.
    is_behind: bool,
    /// The exit status that stands for an outcome.
    status: fn(Outcome) -> u8,
}

impl<'a> DebuggedMachine<'a> {
    /// `status` says what a program that ends in this way would exit with.
    pub fn new(machine: &'a mut Machine, status: fn(Outcome) -> u8) -> Self {
        let (history, points) = (History::default(), Vec::new());
        Self { machine, history, search: None, points, is_behind: false, status }
    }

    fn cpu(&self, cpu: CpuIndex) -> &Cpu {
        &self.machine.state.cpus[usize::from(cpu.0)]
    }

    fn cpu_mut(&mut self, cpu: CpuIndex) -> &mut Cpu {
        &mut self.machine.state.cpus[usize::from(cpu.0)]
    }

    /// The end of the run, if it has come.
    fn ended(&self) -> Option<Stop> {
        self.machine.outcome().map(|outcome| match outcome {
            Outcome::TripleFault(cpu) | Outcome::VmxAbort(cpu, _) => Stop::Shutdown { cpu },
            other => Stop::Off { status: (self.status)(other) },
        })
    }

    /// The processor that is about to execute the instruction at a point, when it is its turn or it
    /// alone runs: a debugger has it alone step over the point, which is what the machine would do.
    pub(super) fn at_point(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        let cpus = self.machine.state.cpus.iter();
        let mut at = cpus.filter(|cpu| {
            let at = StopPoint::Execute(instruction_pointer(cpu));
            self.points.contains(&at) && cpu.is_runnable(&self.machine.memory)
        });
        at.next()?;
        let cpu = only.or_else(|| self.machine.next_cpu())?;
        let at = StopPoint::Execute(instruction_pointer(self.cpu(cpu)));
        self.points.contains(&at).then_some(Stop::Execute { cpu })
    }

    /// An access that the last instruction made.
    fn watched(&mut self) -> Option<Stop> {
        self.machine.state.cpus.iter_mut().find_map(|cpu| {
            let seen = cpu.observation.take()?;
            let access = match (seen.range.reads, seen.range.writes) {
                (true, true) => WatchedAccess::Either,
                (true, false) => WatchedAccess::Read,
                _ => WatchedAccess::Write,
            };
            Some(Stop::Watch { cpu: cpu.index, address: seen.range.start, access })
        })
    }

    /// Whether any processor accessed watched bytes or came to a point, since this was last asked.
    pub(super) fn take_seen(&mut self) -> bool {
        let cpus = self.machine.state.cpus.iter_mut();
        cpus.fold(false, |is_seen, cpu| {
            let is_reached = cpu.observation.take_reached();
            cpu.observation.take().is_some() | is_reached | is_seen
        })
    }

    /// Executes one instruction of the processor whose turn it is, or of `only`.
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
                self.machine.go_on(Turn { cpu, until }, Limits { until, instructions });
                self.machine.state.turn = others.filter(|turn| turn.cpu != cpu);
            }
            None => {
                self.machine.run(Limits { until, instructions });
            }
        }
        self.ended().or_else(|| self.watched())
    }

    /// The same of the processor whose turn it is, not beyond the limits.
    pub(super) fn execute_within(&mut self, limits: Limits) -> Option<Stop> {
        let instructions = self.machine.instructions() + 1;
        self.machine.run(Limits { until: limits.until, instructions });
        self.ended().or_else(|| self.watched())
    }

    /// Has the processors look at all points, and at no others.
    pub(super) fn observe(&mut self) {
        self.is_behind = false;
        let ranges: Vec<Range> = self
            .points
            .iter()
            .filter_map(|point| match *point {
                StopPoint::Watch { start, length, access } => Some(Range {
                    start,
                    length,
                    reads: access != WatchedAccess::Write,
                    writes: access != WatchedAccess::Read,
                }),
                StopPoint::Execute(_) => None,
            })
            .collect();
        let points = self.points.iter().filter_map(|point| match *point {
            StopPoint::Execute(at) => Some(at),
            StopPoint::Watch { .. } => None,
        });
        let points: Vec<Linear> = points.collect();
        for cpu in &mut self.machine.state.cpus {
            cpu.observe(ranges.clone(), &points);
        }
    }

    /// Keeps the past, unless what comes is not what the machine would do by itself.
    fn advance_history(&mut self, others_stand: bool) {
        self.search = None;
        if self.is_behind {
            self.observe();
        }
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
        self.machine.state.cpus.iter_mut().for_each(|cpu| cpu.observe(Vec::new(), &[]));
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
        loop {
            if let Some(stop) = self.execute_one(only) {
                return stop;
            }
            let is_done = self.cpu(cpu).clock.instructions() != before;
            if is_done || only.is_some() || self.machine.state.now >= end {
                return Stop::Stepped { cpu };
            }
            if let Some(stop) = self.at_point(None)
                && stop != (Stop::Execute { cpu })
            {
                return stop;
            }
        }
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
        if self.points.is_empty() && only.is_none() {
            let until = self.machine.state.now.saturating_add(STRETCH);
            self.machine.run(Limits { until, instructions: u64::MAX });
            return self.ended();
        }
        (0..INSTRUCTIONS).find_map(|_| self.at_point(only).or_else(|| self.execute_one(only)))
    }
}
