//! Units of time.

use core::ops::{Add, AddAssign, Sub};
use serde::{Deserialize, Serialize};

/// Virtual time since power-on. 2^64 ps are 213 days.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// Power-on.
    pub const ZERO: Self = Self(0);
    /// For what never happens.
    pub const MAX: Self = Self(u64::MAX);

    /// At most 2^64 / 1000 of them fit.
    pub const fn from_nanoseconds(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// At most 213 days' worth fits.
    pub const fn from_microseconds(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// At most 213 days' worth fits.
    pub const fn from_milliseconds(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// Ticks of a clock of `hertz` since power-on, rounded down.
    pub const fn ticks(self, hertz: u64) -> u64 {
        (self.0 as u128 * hertz as u128 / 1_000_000_000_000) as u64
    }

    /// The first moment at which a clock of `hertz` shows at least `ticks`.
    pub const fn at_tick(ticks: u64, hertz: u64) -> Self {
        let ps = (ticks as u128 * 1_000_000_000_000).div_ceil(hertz as u128);
        if ps > u64::MAX as u128 { Self::MAX } else { Self(ps as u64) }
    }

    /// [`Self::ZERO`] where `other` is later.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// [`Self::MAX`] instead of an overflow.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for Picoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Picoseconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// Cycles of a processor's core or time-stamp clock.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Cycles(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_tick_is_the_first_moment_that_shows_the_tick() {
        for hertz in [1, 1_193_182, 3_579_545, 14_318_180, 2_400_000_000, 3_700_000_000] {
            for tick in [0, 1, 2, 999, 1_000_003] {
                let at = Picoseconds::at_tick(tick, hertz);
                assert_eq!(at.ticks(hertz), tick, "{tick} at {hertz} Hz");
                assert!(at.0 == 0 || Picoseconds(at.0 - 1).ticks(hertz) < tick);
            }
        }
    }
}
