//! What the timer has counted, apart from the registers that say how.
//!
//! The count is never stored: it follows from the moment it was loaded. Expiry times are counted
//! from that same moment, so that a periodic timer does not drift however many periods pass.

use arch::apic::TimerMode;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

const PICOSECONDS_PER_SECOND: u128 = 1_000_000_000_000;

/// The state behind the timer's registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Timer {
    /// When `loaded` was the count.
    anchor: Picoseconds,
    /// The count at `anchor`; 0 is a stopped timer.
    pub loaded: u32,
    /// Expiries since `anchor` that are dealt with.
    pub expired: u64,
    /// IA32_TSC_DEADLINE.
    pub deadline: u64,
    /// When the TSC reaches `deadline`; `None` if it never does.
    pub deadline_at: Option<Picoseconds>,
    /// The next expiry that has to be noticed.
    pub next: Option<Picoseconds>,
}

/// What the registers say about counting.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub hertz: u64,
    pub divisor: u32,
    pub initial: u32,
    pub mode: TimerMode,
}

impl Count {
    fn ticks(self, elapsed: Picoseconds) -> u64 {
        let scaled = u128::from(elapsed.0) * u128::from(self.hertz);
        (scaled / (PICOSECONDS_PER_SECOND * u128::from(self.divisor))) as u64
    }

    /// The shortest time in which `ticks` pass. `None` if no clock here lives that long.
    fn duration(self, ticks: u128) -> Option<Picoseconds> {
        let scaled = ticks.checked_mul(PICOSECONDS_PER_SECOND * u128::from(self.divisor))?;
        let elapsed = scaled.div_ceil(u128::from(self.hertz.max(1)));
        u64::try_from(elapsed).ok().map(Picoseconds)
    }
}

impl Timer {
    pub fn elapsed_ticks(&self, count: Count, now: Picoseconds) -> u64 {
        count.ticks(now.saturating_sub(self.anchor))
    }

    pub fn expiries(&self, count: Count, now: Picoseconds) -> u64 {
        let ticks = self.elapsed_ticks(count, now);
        match count.mode {
            _ if self.loaded == 0 || ticks < u64::from(self.loaded) => 0,
            TimerMode::Periodic => {
                1 + (ticks - u64::from(self.loaded)) / u64::from(count.initial.max(1))
            }
            _ => 1,
        }
    }

    pub fn current(&self, count: Count, now: Picoseconds) -> u32 {
        let ticks = self.elapsed_ticks(count, now);
        if ticks < u64::from(self.loaded) {
            return self.loaded - ticks as u32;
        }
        match count.mode {
            TimerMode::Periodic if self.loaded != 0 => {
                let period = u64::from(count.initial.max(1));
                (period - (ticks - u64::from(self.loaded)) % period) as u32
            }
            _ => 0,
        }
    }

    pub fn next_expiry(&self, count: Count) -> Option<Picoseconds> {
        if self.loaded == 0 {
            return None;
        }
        let ticks = u128::from(self.loaded) + u128::from(self.expired) * u128::from(count.initial);
        self.anchor.0.checked_add(count.duration(ticks)?.0).map(Picoseconds)
    }

    pub fn load(&mut self, count: u32, now: Picoseconds) {
        self.anchor = now;
        self.loaded = count;
        self.expired = 0;
    }
}
