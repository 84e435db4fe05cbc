//! The schedule: which processor runs next and how far, by virtual time alone.
//!
//! Each processor has its own clock. The one that is furthest behind runs, at most until a message
//! that another could send it might arrive: the bound is the shortest message time. Halted
//! processors cost nothing; their clocks jump to the next event.
//!
//! Where a caller's limits end a run changes nothing in what the machine does: a turn that is cut
//! short is part of the state and goes on with the next call.

use crate::delivery::{Delivered, Delivery, Outward, receive};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::turn::Turn;
use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use bus::{Effect, Initiator};
use cpu::{Activity, Bus, RunEnd};
use trace::Event;

/// Virtual time between two looks at [`Machine::recall`]: a host takes it for a thousandth of a
/// second, and where every instruction faults for ten.
const LOOK: Picoseconds = Picoseconds::from_nanoseconds(20_000);

/// How long to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The moment of virtual time at which to return.
    pub until: Picoseconds,
    /// Instructions of all processors since power-on.
    pub instructions: u64,
}

impl Machine {
    /// Runs until the limits, until a call of [`Machine::recall`], or until a processor is about to
    /// execute an instruction that a debugger wants it to stop at; `Some` is the end of the run.
    pub fn run(&mut self, limits: Limits) -> Option<Outcome> {
        self.at_point = None;
        self.refresh_all();
        let outcome = self.run_turns(limits);
        self.leave_waits();
        outcome
    }

    fn run_turns(&mut self, limits: Limits) -> Option<Outcome> {
        while self.outcome.is_none() {
            let is_over = self.instructions_left(limits) == 0 || self.has_awaited_output();
            if is_over || self.recall.take() {
                return None;
            }
            if let Some(turn) = self.state.turn {
                if self.state.cpus[usize::from(turn.cpu.0)].clock.now() >= limits.until {
                    self.state.now = self.state.now.max(limits.until);
                    return None;
                }
                if self.go_on(turn, self.until_look(turn.cpu, limits)) == RunEnd::Point {
                    self.at_point = Some(turn.cpu);
                    return None;
                }
                continue;
            }
            let Some((cpu, at)) = self.furthest_behind() else {
                if !self.advance_devices(limits.until) {
                    let waits = self.next_deadline().is_some();
                    self.outcome = (!waits).then_some(Outcome::Deadlock);
                    self.state.now = self.state.now.max(limits.until);
                    return self.outcome;
                }
                continue;
            };
            let device = self.next_deadline();
            if device.is_some_and(|deadline| deadline <= at) && self.advance_devices(limits.until) {
                continue;
            }
            if at >= limits.until {
                self.state.now = limits.until;
                return None;
            }
            if self.waits.has(cpu) {
                self.pass_waits(device, limits);
                continue;
            }
            if self.step(cpu, at, device, limits) == RunEnd::Point {
                self.at_point = Some(CpuIndex(cpu as u16));
                return None;
            }
        }
        self.outcome
    }

    /// How many instructions the limits leave. Most runs have no such limit and need no sum.
    fn instructions_left(&self, limits: Limits) -> u64 {
        match limits.instructions {
            u64::MAX => u64::MAX,
            limit => limit.saturating_sub(self.instructions()),
        }
    }

    pub(crate) fn refresh_all(&mut self) {
        // Between two runs anybody may have changed a device.
        self.state.wiring.devices_mut();
        self.moments.clear(self.state.cpus.len());
        self.waits.clear(self.state.cpus.len());
        self.moments.shortest_message = self.costs.shortest_message();
        self.moments.refreshed_at = self.memory.watched_writes;
        (0..self.state.cpus.len()).for_each(|index| self.refresh(index));
    }

    /// After something changed that decides when a processor next does something.
    pub(crate) fn refresh(&mut self, index: usize) {
        if self.waits.has(index) {
            return self.moments.set(index, None, false);
        }
        let moment = self.next_moment(index);
        let is_waiting = self.state.cpus[index].pending.activity() == Activity::Waiting;
        self.moments.set(index, moment, is_waiting);
        if is_waiting && self.is_released(index) {
            self.moments.looked_at = None;
        }
    }

    /// The moment at which a processor next does something.
    fn next_moment(&self, index: usize) -> Option<Picoseconds> {
        let cpu = &self.state.cpus[index];
        if cpu.is_runnable(&self.memory) {
            return Some(cpu.clock.now());
        }
        if cpu.pending.activity() == Activity::Shutdown {
            return None;
        }
        let timer = match cpu.pending.activity() {
            Activity::WaitForStartup => None,
            _ => cpu.next_deadline(),
        };
        let next = [timer, self.state.inboxes[index].next()].into_iter().flatten().min()?;
        Some(next.max(cpu.clock.now()))
    }

    /// The processor with the earliest next moment, the lowest index first.
    fn furthest_behind(&mut self) -> Option<(usize, Picoseconds)> {
        // A write to a watched line shows in memory alone.
        let writes = self.memory.watched_writes;
        if std::mem::replace(&mut self.moments.refreshed_at, writes) != writes {
            self.moments.waiting().into_iter().for_each(|index| self.refresh(index));
        }
        let awake = self.moments.earliest();
        match (self.waits.earliest(), awake) {
            (None, _) => awake,
            (waiting, None) => waiting,
            (Some(one), Some(other)) => {
                Some(if (one.1, one.0) < (other.1, other.0) { one } else { other })
            }
        }
    }

    /// The processor whose turn it is, or comes next if no device has something to do before.
    pub(crate) fn next_cpu(&mut self) -> Option<CpuIndex> {
        if let Some(turn) = self.state.turn {
            return Some(turn.cpu);
        }
        self.refresh_all();
        self.furthest_behind().map(|(index, _)| CpuIndex(index as u16))
    }

    /// Gives a processor its turn: it may run as far as nothing can reach it.
    fn step(
        &mut self,
        index: usize,
        at: Picoseconds,
        device: Option<Picoseconds>,
        limits: Limits,
    ) -> RunEnd {
        self.state.now = self.state.now.max(at);
        self.wake(index, at);
        let stores = self.begin_stores(index, at);
        let awake = self.moments.earliest_but(index);
        let others = match self.waits.earliest() {
            None => awake,
            Some((_, at)) => Some(awake.map_or(at, |awake| awake.min(at))),
        };
        let short = stores.filter(|(near, _)| others < Some(*near) && others.is_some());
        let horizon = others.map(|moment| moment.saturating_add(self.moments.shortest_message));
        let inbox = self.state.inboxes[index].next();
        let held = self.state.wiring.recorder.next_hold(index);
        let until = [device, horizon, inbox, held, short.map(|(_, until)| until)]
            .into_iter()
            .flatten()
            .fold(Picoseconds::MAX, Picoseconds::min)
            .max(Picoseconds(at.0 + 1));
        if held.is_some_and(|held| held <= until) {
            self.state.wiring.recorder.bound_turn(index, until);
        }
        let recorder = &self.state.wiring.recorder;
        let joins_turns = recorder.perturbation.is_none() && !self.memory.is_probed();
        let one = &mut self.state.cpus[index];
        one.clock.set_others(others.unwrap_or(Picoseconds::MAX));
        one.is_only = others.is_none() && stores.is_none() && joins_turns && !one.stands_apart;
        one.begin_turn();
        let cpu = CpuIndex(index as u16);
        self.go_on(Turn { cpu, until }, self.until_look(cpu, limits))
    }

    /// The limits of a stretch that is short enough for a person who waits.
    fn until_look(&self, cpu: CpuIndex, limits: Limits) -> Limits {
        let look = self.state.cpus[usize::from(cpu.0)].clock.now().saturating_add(LOOK);
        Limits { until: limits.until.min(look), ..limits }
    }

    /// Runs a processor to the end of its turn or to the limits.
    pub(crate) fn go_on(&mut self, turn: Turn, limits: Limits) -> RunEnd {
        let left = self.instructions_left(limits);
        let begin = self.state.cpus[usize::from(turn.cpu.0)].clock.now();
        let looks = self.wants_look(usize::from(turn.cpu.0), limits);
        self.memory.begin_probe(Initiator::Cpu(turn.cpu), begin);
        self.lend_stores(usize::from(turn.cpu.0));
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.state.wiring };
        let cpu = &mut self.state.cpus[usize::from(turn.cpu.0)];
        let hertz = cpu.clock.core_hertz();
        if cpu.clock.has_changed() {
            cpu.clock.set_costs(self.costs.step_costs_at(hertz));
        }
        let cache = self.clocked.of(cpu, &self.costs, &mut self.cache);
        let until = turn.until.min(limits.until);
        let round = looks.then(|| cpu.look_at_round(cache, &mut bus, until)).flatten();
        let end = cpu.run(cache, &mut bus, until, left);
        self.state.now = self.state.now.max(cpu.turned_at);
        let is_cut = matches!(end, RunEnd::Time | RunEnd::Instructions | RunEnd::Point)
            && cpu.clock.now() < turn.until;
        self.state.turn = is_cut.then_some(turn);
        // What is on its way already would end the wait that began.
        let is_reached = looks && self.state.inboxes[usize::from(turn.cpu.0)].next().is_some();
        if end == RunEnd::Time && !is_cut && !is_reached {
            self.waits.note_turn(cpu, looks, round);
        }
        self.take_stores_back(turn, !is_cut);
        if end == RunEnd::Shutdown {
            let cpu = &self.state.cpus[usize::from(turn.cpu.0)];
            let (at, ip) = (cpu.clock.now(), cpu.registers.ip);
            let event = Event::Shutdown { rip: Linear(ip) };
            self.state.wiring.recorder.note(turn.cpu, at, event);
            let abort = self.state.wiring.recorder.abort.take();
            self.outcome = Some(abort.map_or(Outcome::TripleFault(turn.cpu), |abort| {
                Outcome::VmxAbort(turn.cpu, abort)
            }));
        }
        self.refresh(usize::from(turn.cpu.0));
        // A write to a watched line ends the run.
        if end == RunEnd::Yield {
            let now = self.state.cpus[usize::from(turn.cpu.0)].clock.now();
            self.release_monitors(now);
        }
        if !is_cut {
            self.hold(turn.cpu);
        }
        self.deliver();
        end
    }

    /// Holds a processor up whose turn is over, if a perturbation wants it.
    fn hold(&mut self, cpu: CpuIndex) {
        let index = usize::from(cpu.0);
        let one = &mut self.state.cpus[index];
        let (now, rip) = (one.clock.now(), Linear(one.registers.ip));
        if let Some(delay) = self.state.wiring.recorder.hold(cpu, now, rip) {
            one.clock.move_to(now.saturating_add(delay));
            self.refresh(index);
        }
    }

    /// Processors whose monitored line was written by `now` go on from there, not from when they
    /// began to wait.
    pub(crate) fn release_monitors(&mut self, now: Picoseconds) {
        let writes = Some(self.memory.watched_writes);
        if std::mem::replace(&mut self.moments.looked_at, writes) == writes {
            return;
        }
        for index in self.moments.waiting() {
            if self.is_released(index) {
                // Nothing is monitored from now on, so that this happens once.
                let cpu = &mut self.state.cpus[index];
                cpu.pending.disarm();
                let mut bus = Bus { memory: &mut self.memory, platform: &mut self.state.wiring };
                cpu.idle_until(&mut bus, now);
                self.refresh(index);
            }
        }
    }

    /// Whether a processor waits for a write that has been made.
    fn is_released(&self, index: usize) -> bool {
        let pending = &self.state.cpus[index].pending;
        pending.activity() == Activity::Waiting
            && pending.has_monitor()
            && !pending.monitor_is_armed(&self.memory)
    }

    /// Moves an idle processor's clock to the present, and hands it what has arrived.
    fn wake(&mut self, index: usize, at: Picoseconds) {
        let cpu = &mut self.state.cpus[index];
        // The timer of a processor that has just halted may be due already.
        if cpu.pending.activity() != Activity::Running {
            let mut bus = Bus { memory: &mut self.memory, platform: &mut self.state.wiring };
            cpu.idle_until(&mut bus, at);
        }
        receive(cpu, &mut self.state.inboxes[index], &mut self.state.wiring.recorder, at);
    }

    /// Lets the devices do what is due first; false if that is not before `until`.
    fn advance_devices(&mut self, until: Picoseconds) -> bool {
        let Some(at) = self.next_deadline() else { return false };
        if at >= until {
            return false;
        }
        self.state.now = self.state.now.max(at);
        self.memory.begin_probe(Initiator::Board, at);
        self.state.wiring.with_devices(&mut self.memory, at, |chipset, cx| chipset.advance(cx));
        self.delivery().0.step_postings(at);
        self.release_monitors(at);
        self.deliver();
        true
    }

    /// Takes the effects in the outbox to the processors, the console or the end of the run.
    pub(crate) fn deliver(&mut self) {
        if self.state.wiring.outbox.is_empty() {
            return;
        }
        let (mut delivery, delivered) = self.delivery();
        delivery.run(delivered);
        if self.delivered.outward.is_empty()
            && let [index] = self.delivered.reached[..]
        {
            // Most are one message for one processor.
            self.delivered.reached.clear();
            self.leave_wait(index);
            return self.refresh(index);
        }
        let mut delivered = std::mem::take(&mut self.delivered);
        for Outward { initiator, effect, .. } in delivered.outward.drain(..) {
            match effect {
                Effect::PowerOff => self.end(Outcome::PowerOff),
                Effect::Reset => self.end(Outcome::Reset),
                Effect::DebugExit { value } => self.end(Outcome::DebugExit(value)),
                Effect::Console { port, byte } => self.console.push((port, byte)),
                Effect::ChannelOutput { port } => {
                    let chipset = self.state.wiring.devices_mut();
                    self.channels.collect(chipset, initiator, port);
                }
                _ => {}
            }
        }
        for index in delivered.reached.drain(..) {
            self.leave_wait(index);
            self.refresh(index);
        }
        self.delivered = delivered;
    }

    /// The way of interrupts, and what becomes of them there.
    fn delivery(&mut self) -> (Delivery<'_>, &mut Delivered) {
        let delivery = Delivery {
            wiring: &mut self.state.wiring,
            memory: &mut self.memory,
            cpus: &mut self.state.cpus,
            inboxes: &mut self.state.inboxes,
            postings: &mut self.state.postings,
            topology: &self.state.topology,
            costs: &self.costs,
        };
        (delivery, &mut self.delivered)
    }

    /// The first moment at which a device or a posting has something to do.
    fn next_deadline(&mut self) -> Option<Picoseconds> {
        let device = self.state.wiring.next_deadline();
        device.into_iter().chain(self.state.postings.next()).min()
    }

    fn end(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
    }

    fn has_awaited_output(&self) -> bool {
        self.awaits_output && !self.console.is_empty() || self.state.wiring.has_port_hit()
    }

    /// Why the run is over, if it is.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
}
