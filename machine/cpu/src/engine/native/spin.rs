//! When a loop of translated code seems to wait.

use crate::Cpu;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use translate::{General, State};

/// PAUSEs with the same registers, one after the other, before a round is looked at.
const ALIKE: u32 = 4;
/// The same, where looking has been in vain again and again.
const MOST_ALIKE: u32 = 1 << 16;
/// Rounds that must fit into what is left of the turn, to repay the look.
const WORTH: u64 = 32;
/// PAUSEs of translated code, of late.
#[derive(Default)]
pub(super) struct Spin {
    last: Option<Last>,
    /// PAUSEs since then with the same registers.
    alike: u32,
    /// How many of them are wanted.
    wanted: u32,
    /// A round is to be looked at, which code has been left for.
    pub is_due: bool,
    /// Instructions that were skipped.
    skipped: u64,
}

struct Last {
    cpu: CpuIndex,
    /// The number of the handler's call.
    call: u32,
    registers: General,
    clock: Picoseconds,
}

impl Spin {
    /// A processor does a PAUSE with `left` picoseconds to go; whether a round is to be looked at.
    pub fn pauses(&mut self, cpu: &Cpu, call: u32, state: &State, left: u64) -> bool {
        let now = cpu.clock.now();
        let Some(last) = self.last.as_mut().filter(|last| {
            last.cpu == cpu.index && last.call == call && last.registers == state.registers
        }) else {
            self.wanted = ALIKE;
            self.alike = 0;
            let registers = state.registers;
            self.last = Some(Last { cpu: cpu.index, call, registers, clock: now });
            return false;
        };
        let round = now.0.saturating_sub(last.clock.0);
        last.clock = now;
        self.alike += 1;
        if self.alike < self.wanted || left / WORTH < round {
            return false;
        }
        self.alike = 0;
        self.is_due = true;
        true
    }

    /// Whether code was left for a loop that seems to wait.
    pub fn takes_waiting_loop(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// A round was looked at, and so many instructions were skipped for it.
    pub fn looked(&mut self, skipped: u64) {
        self.skipped += skipped;
        self.wanted = if skipped == 0 { (4 * self.wanted).clamp(1, MOST_ALIKE) } else { 1 };
    }

    /// Instructions of loops that wait which were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}
