//! A processor's time, and what it has done in it.

use crate::CpuModel;
use crate::costs::{Step, StepCosts};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// Picoseconds of a second.
const SECOND: u64 = 1_000_000_000_000;

/// Virtual time of one processor, the instructions completed in it, and its time-stamp counter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// The start of the running block.
    now: Picoseconds,
    /// Completed since power-on.
    instructions: u64,
    /// Core cycles that the running instruction takes beyond its class's cost.
    extra_cycles: u64,
    /// Where the clock stands that is furthest behind of all others.
    others: Picoseconds,
    /// What WRMSR and IA32_TSC_ADJUST have added to the counter, without a guest's offset.
    tsc_offset: u64,
    tsc_hertz: u64,
    core_hertz: u64,
    /// What steps take.
    costs: StepCosts,
    /// At which clock of the core that is so.
    priced_hertz: u64,
    /// What of the time the processor had nothing to do in, modulo 2^64.
    idle: Picoseconds,
    /// IA32_APERF at the last change of the core's clock.
    core_count: u64,
    /// The time with something to do at that change.
    counted_at: Picoseconds,
    /// What software has added to IA32_MPERF.
    reference_offset: u64,
    /// What the time consists of beside instructions, since the processor was made or restored.
    #[serde(skip)]
    spent: Spent,
}

/// What a clock's advance consists of, but for its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spent {
    /// Steps made, by kind.
    pub steps: [u64; Step::COUNT],
    /// What string instructions took for their elements, at a core cycle each.
    pub elements: Picoseconds,
    /// What passed while the processor had nothing to do: what the clock was moved by, modulo 2^64
    /// if it was moved back.
    pub waited: Picoseconds,
}

impl Clock {
    /// At power-on.
    pub(crate) fn new(model: &CpuModel) -> Self {
        Self {
            now: Picoseconds::ZERO,
            instructions: 0,
            extra_cycles: 0,
            others: Picoseconds::MAX,
            tsc_offset: 0,
            tsc_hertz: model.tsc_hertz(),
            core_hertz: model.core_hertz(),
            costs: StepCosts::default(),
            priced_hertz: model.core_hertz(),
            idle: Picoseconds::ZERO,
            core_count: 0,
            counted_at: Picoseconds::ZERO,
            reference_offset: 0,
            spent: Spent::default(),
        }
    }

    /// A processor that was reset goes on at `at`, where the one before it ended. Its time-stamp
    /// counter begins at zero. [SDM3 "Time-Stamp Counter"]
    pub fn go_on_after(&mut self, before: &Self, at: Picoseconds) {
        self.move_to(at);
        self.instructions = before.instructions;
        self.spent = before.spent;
        self.tsc_offset = at.ticks(self.tsc_hertz).wrapping_neg();
    }

    /// From now on steps take so long, at the present clock of the core.
    pub fn set_costs(&mut self, costs: StepCosts) {
        self.costs = costs;
        self.priced_hertz = self.core_hertz;
    }

    /// Whether the core's clock has changed since the board said what steps take.
    #[inline(always)]
    pub fn has_changed(&self) -> bool {
        self.priced_hertz != self.core_hertz
    }

    /// What the core is clocked at.
    #[inline(always)]
    pub fn core_hertz(&self) -> u64 {
        self.core_hertz
    }

    /// What time was spent on beside instructions, since the processor was made or restored.
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Virtual time: the start of the running block.
    #[inline(always)]
    pub fn now(&self) -> Picoseconds {
        self.now
    }

    /// Moves it there, back as well.
    #[inline(always)]
    pub fn move_to(&mut self, at: Picoseconds) {
        let waited = at.0.wrapping_sub(self.now.0);
        self.spent.waited.0 = self.spent.waited.0.wrapping_add(waited);
        self.idle.0 = self.idle.0.wrapping_add(waited);
        self.now = at;
    }

    /// A step is made, and takes what steps of its kind do.
    #[inline(always)]
    pub(crate) fn take(&mut self, step: Step) {
        self.spent.steps[step as usize] += 1;
        self.now.0 += self.costs.of(step).0;
    }

    /// Instructions take so much.
    #[inline(always)]
    pub(crate) fn spend(&mut self, time: Picoseconds) {
        self.now.0 += time.0;
    }

    /// Instructions completed since power-on.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// So many instructions have completed.
    #[inline(always)]
    pub(crate) fn count(&mut self, instructions: u64) {
        self.instructions += instructions;
    }

    /// Time and count as translated code has kept them.
    #[inline(always)]
    pub(crate) fn take_over(&mut self, now: Picoseconds, instructions: u64) {
        self.now = now;
        self.instructions = instructions;
    }

    /// The running instruction takes so many core cycles more than its class says.
    #[inline(always)]
    pub(crate) fn spend_cycles(&mut self, cycles: u64) {
        self.extra_cycles += cycles;
    }

    /// Whether some of them have not been charged.
    #[inline(always)]
    pub(crate) fn has_extra(&self) -> bool {
        self.extra_cycles != 0
    }

    /// Instructions that took more than their class says.
    #[inline(always)]
    pub(crate) fn charge_extra(&mut self) {
        if self.has_extra() {
            // An element of a string instruction takes about one core cycle.
            let cycles = std::mem::take(&mut self.extra_cycles);
            let time = cycles * SECOND / self.core_hertz;
            self.spent.elements.0 += time;
            self.now.0 += time;
        }
    }

    /// Where the clock of the processor stands that is furthest behind of all others.
    #[inline(always)]
    pub fn others(&self) -> Picoseconds {
        self.others
    }

    /// The board says so at the start of a turn.
    pub fn set_others(&mut self, at: Picoseconds) {
        self.others = at;
    }

    /// The time-stamp counter, without a guest's offset.
    pub fn tsc(&self) -> u64 {
        self.now.ticks(self.tsc_hertz).wrapping_add(self.tsc_offset)
    }

    /// What software has added to it.
    pub(crate) fn tsc_offset(&self) -> u64 {
        self.tsc_offset
    }

    /// Software adds to it.
    pub(crate) fn adjust_tsc(&mut self, change: u64) {
        self.tsc_offset = self.tsc_offset.wrapping_add(change);
    }

    /// The core runs at another clock from here on.
    pub(crate) fn set_core_hertz(&mut self, hertz: u64) {
        self.set_core_count(self.core_count());
        self.core_hertz = hertz;
    }

    /// The time in which the processor had something to do.
    fn active(&self) -> Picoseconds {
        Picoseconds(self.now.0.wrapping_sub(self.idle.0))
    }

    /// IA32_MPERF: ticks at the time-stamp counter's rate while there is something to do.
    pub(crate) fn reference_count(&self) -> u64 {
        self.active().ticks(self.tsc_hertz).wrapping_add(self.reference_offset)
    }

    /// IA32_APERF: cycles of the core meanwhile.
    pub(crate) fn core_count(&self) -> u64 {
        let since = self.active().saturating_sub(self.counted_at);
        self.core_count.wrapping_add(since.ticks(self.core_hertz))
    }

    /// Software sets IA32_MPERF.
    pub(crate) fn set_reference_count(&mut self, value: u64) {
        self.reference_offset = value.wrapping_sub(self.active().ticks(self.tsc_hertz));
    }

    /// Software sets IA32_APERF.
    pub(crate) fn set_core_count(&mut self, value: u64) {
        self.core_count = value;
        self.counted_at = self.active();
    }

    /// When the counter reaches `value`.
    pub(crate) fn time_of_tsc(&self, value: u64) -> Picoseconds {
        Picoseconds::at_tick(value.wrapping_sub(self.tsc_offset), self.tsc_hertz)
    }
}
