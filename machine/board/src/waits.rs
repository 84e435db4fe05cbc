//! Processors that wait in a loop, each with turns as short as others make them: what such a turn
//! does follows from one round of the loop, so none is executed until something can end the wait.
//!
//! All comes out as if each turn had been executed: the same moments, in the same order. What is
//! kept here follows from the machine's state and does not belong to it.

use crate::machine::Machine;
use crate::schedule::Limits;
use arch::time::Picoseconds;
use bus::GuestMemory;
use cpu::{Cpu, Round, Waiting};
use std::collections::VecDeque;

/// Turns at whose ends a processor stands close by with the same registers, one after the other,
/// before it is looked at whether it waits.
const ALIKE: u32 = 6;
/// The same, where looking has been in vain again and again.
const MOST_ALIKE: u32 = 1 << 14;
/// Bytes of code that are close by.
const CLOSE: u64 = 96;
/// Bits of a processor's index.
const INDEX_BITS: u32 = 16;
/// Turns of each before something else is looked at, such as a call to return.
const SWEEPS: usize = 16;

/// What is known of each processor's waiting.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    histories: Vec<History>,
    /// The loops, where the processors' turns are not executed.
    parked: Vec<Option<Parked>>,
    /// When each of those has its next turn, the earliest first, of equals the lowest index.
    turns: VecDeque<Turn>,
    /// Empty between sweeps.
    swept: Vec<Turn>,
    /// The same.
    keys: Vec<u64>,
    /// `GuestMemory::watched_writes` when their code was last looked at.
    looked_at: u64,
    /// Turns that were not executed.
    passed: u64,
    executes_all: bool,
}

/// The moment of a processor's next turn, and its index.
type Turn = (Picoseconds, usize);

/// Up to where turns are passed.
struct Bounds {
    /// At this moment something else is to be looked at.
    end: Picoseconds,
    /// No turn may end later than this.
    limit: Picoseconds,
    /// The next turn that is executed.
    awake: Option<Turn>,
    device: Option<Picoseconds>,
    /// The shortest message.
    message: Picoseconds,
}

/// Where a processor's turns have ended of late.
#[derive(Debug)]
struct History {
    /// Where the last turn ended.
    ip: u64,
    registers: [u64; 16],
    /// Turns since then that ended close by with the same registers.
    alike: u32,
    /// How many of them are wanted.
    wanted: u32,
}

/// A processor whose turns are not executed.
#[derive(Debug)]
struct Parked {
    waiting: Waiting,
    /// How far the others' clocks were at the last turn.
    others: Picoseconds,
}

impl Default for History {
    fn default() -> Self {
        Self { ip: 0, registers: [0; 16], alike: 0, wanted: ALIKE }
    }
}

impl History {
    /// A turn is over that began without a look.
    fn note_turn(&mut self, cpu: &Cpu) {
        let (ip, registers) = (cpu.registers.ip, &cpu.registers.gpr[..16]);
        let is_close = ip.abs_diff(self.ip) < CLOSE;
        if is_close && self.registers == registers {
            self.alike += 1;
            return;
        }
        self.alike = 0;
        // Few turns end close to the one before.
        match is_close {
            true => self.registers.copy_from_slice(registers),
            false => self.ip = ip,
        }
    }
}

impl Waits {
    pub fn clear(&mut self, processors: usize) {
        self.histories.resize_with(processors, History::default);
        self.parked.resize_with(processors, || None);
    }

    /// Whether a processor waits.
    pub fn has(&self, index: usize) -> bool {
        !self.turns.is_empty() && self.parked.get(index).is_some_and(Option::is_some)
    }

    /// A processor's turn ended as it had to; `round` is what a look at its begin found, if there
    /// was one.
    pub fn note_turn(&mut self, cpu: &mut Cpu, looked: bool, round: Option<Round>) {
        let index = usize::from(cpu.index.0);
        let (Some(history), Some(parked)) =
            (self.histories.get_mut(index), self.parked.get_mut(index))
        else {
            return;
        };
        if !looked {
            return history.note_turn(cpu);
        }
        let now = cpu.clock.now();
        let waiting = round.and_then(|round| cpu.waits_in(round));
        history.alike = 0;
        history.wanted =
            if waiting.is_some() { ALIKE } else { (4 * history.wanted).min(MOST_ALIKE) };
        if let Some(waiting) = waiting {
            *parked = Some(Parked { waiting, others: cpu.clock.others() });
            let place = self.turns.partition_point(|turn| *turn < (now, index));
            self.turns.insert(place, (now, index));
        }
    }

    /// The waiting processor that is furthest behind.
    #[inline(always)]
    pub fn earliest(&self) -> Option<(usize, Picoseconds)> {
        self.turns.front().map(|(at, index)| (*index, *at))
    }

    /// A turn of each waiting processor, in their order, as far as nobody else comes before. What
    /// one turn does follows from the next one's moment and not from what that does, so the host
    /// works on several at a time. Answers the processor whose turn has to be executed, if one
    /// has, and when the last began that was passed.
    fn sweep(
        &mut self,
        memory: &GuestMemory,
        bounds: &Bounds,
    ) -> (Option<usize>, Option<Picoseconds>) {
        let mut earliest = (Picoseconds::MAX, usize::MAX);
        let mut executed = None;
        let awake = bounds.awake.unwrap_or(earliest);
        for (place, turn) in self.turns.iter().enumerate() {
            if turn.0 >= bounds.end || *turn > earliest.min(awake) {
                break;
            }
            let next = self.turns.get(place + 1).map_or(Picoseconds::MAX, |next| next.0);
            let others = next.min(earliest.0).min(awake.0);
            let now = match &mut self.parked[turn.1] {
                Some(parked) => parked.pass_turn(memory, turn.0, others, bounds),
                None => None,
            };
            let Some(now) = now else {
                executed = Some(turn.1);
                break;
            };
            earliest = earliest.min((now, turn.1));
            self.swept.push((now, turn.1));
        }
        let passed = self.swept.len();
        self.passed += passed as u64;
        let last = passed.checked_sub(1).and_then(|last| Some(self.turns.get(last)?.0));
        self.turns.drain(..passed);
        self.put_back(earliest);
        (executed, last)
    }

    /// The processors that were swept come back; most have their next turns behind all others',
    /// the first has it at `earliest`.
    fn put_back(&mut self, earliest: Turn) {
        while let Some(last) = self.turns.pop_back_if(|last| *last > earliest) {
            self.swept.push(last);
        }
        let base = earliest.0.0;
        // A number sorts faster than a pair.
        let far = |turn: &Turn| (turn.0.0 - base) >> (64 - INDEX_BITS) != 0;
        if self.swept.iter().any(far) {
            self.swept.sort_unstable();
            return self.turns.extend(self.swept.drain(..));
        }
        let keys = self.swept.drain(..);
        self.keys.extend(keys.map(|turn| (turn.0.0 - base) << INDEX_BITS | turn.1 as u64));
        self.keys.sort_unstable();
        self.turns.extend(self.keys.drain(..).map(|key| {
            let index = key & ((1 << INDEX_BITS) - 1);
            (Picoseconds(base + (key >> INDEX_BITS)), index as usize)
        }));
    }

    /// When the next turn of a processor is that waits no longer.
    fn take(&mut self, index: usize) -> Option<(Parked, Picoseconds)> {
        let parked = self.parked.get_mut(index)?.take()?;
        let place = self.turns.iter().position(|turn| turn.1 == index)?;
        Some((parked, self.turns.remove(place)?.0))
    }
}

impl Parked {
    /// Where a turn that begins at `at` leaves the clock; `None` if it has to be executed.
    #[inline(always)]
    fn pass_turn(
        &mut self,
        memory: &GuestMemory,
        at: Picoseconds,
        others: Picoseconds,
        bounds: &Bounds,
    ) -> Option<Picoseconds> {
        let horizon = others.saturating_add(bounds.message);
        let until = horizon.min(bounds.device.unwrap_or(Picoseconds::MAX));
        let until = until.max(Picoseconds(at.0 + 1));
        if until > bounds.limit || !self.waiting.reads_the_same(memory) {
            return None;
        }
        let now = self.waiting.boundary(until)?;
        self.others = others;
        Some(now)
    }
}

impl Machine {
    /// While the processor that is furthest behind waits in a loop: its turns, without executing
    /// them. Ends with one whose turn is to be executed, or at `device`, the moment at which a
    /// device has something to do.
    pub(crate) fn pass_waits(&mut self, device: Option<Picoseconds>, limits: Limits) {
        self.leave_changed_code();
        let bounds = Bounds {
            end: device.unwrap_or(Picoseconds::MAX).min(limits.until),
            limit: limits.until,
            awake: self.moments.earliest().map(|(index, at)| (at, index)),
            device,
            message: self.moments.shortest_message,
        };
        for _ in 0..SWEEPS {
            let (executed, last) = self.waits.sweep(&self.memory, &bounds);
            self.state.now = self.state.now.max(last.unwrap_or(Picoseconds::ZERO));
            if let Some(index) = executed {
                return self.leave_wait(index);
            }
            if last.is_none() {
                return;
            }
        }
    }

    /// Ends the waits of processors whose loops were written to.
    fn leave_changed_code(&mut self) {
        let writes = self.memory.watched_writes;
        if std::mem::replace(&mut self.waits.looked_at, writes) == writes {
            return;
        }
        for index in 0..self.waits.parked.len() {
            if let Some(Some(parked)) = self.waits.parked.get(index)
                && !parked.waiting.has_its_code(&self.memory)
            {
                self.leave_wait(index);
            }
        }
    }

    /// The processor is where it would be if its turns had been executed.
    pub(crate) fn leave_wait(&mut self, index: usize) {
        let Some((parked, now)) = self.waits.take(index) else { return };
        let cpu = &mut self.state.cpus[index];
        let cache = self.clocked.of(cpu, &self.costs, &mut self.cache);
        cpu.leave_waiting(cache, &parked.waiting, now);
        cpu.clock.set_others(parked.others);
        cpu.begin_turn();
        self.refresh(index);
    }

    /// The same of all, before others than the schedule look at them.
    pub(crate) fn leave_waits(&mut self) {
        if self.waits.earliest().is_some() {
            (0..self.state.cpus.len()).for_each(|index| self.leave_wait(index));
        }
    }

    /// From now on every turn is executed. Nothing but the host's time shows it.
    pub fn execute_waits(&mut self) {
        self.waits.executes_all = true;
    }

    /// Turns of waiting processors that were not executed.
    pub fn passed_turns(&self) -> u64 {
        self.waits.passed
    }

    /// Whether a processor's next turn begins with a look at the loop that it seems to wait in.
    pub(crate) fn wants_look(&self, index: usize, limits: Limits) -> bool {
        // Something else counts, cuts or delays turns.
        let is_watched = limits.instructions != u64::MAX
            || self.waits.executes_all
            || self.state.wiring.recorder.perturbation.is_some();
        !is_watched && self.waits.histories.get(index).is_some_and(|it| it.alike >= it.wanted)
    }
}
