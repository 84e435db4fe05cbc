//! Samples and what is said of them.

use core::fmt::{Display, Formatter, Result};
use runtime::lock::Lock;
use runtime::print;

pub const MOST_SAMPLES: usize = 10_000;

/// The samples of one measurement. There is no heap, and stacks are small: each series has a place.
pub struct Series(Lock<Samples>);

struct Samples {
    values: [u64; MOST_SAMPLES],
    count: usize,
}

/// Two, since one experiment can tell two things.
pub static FIRST: Series = Series::new();
pub static SECOND: Series = Series::new();

impl Series {
    const fn new() -> Self {
        Self(Lock::new(Samples { values: [0; MOST_SAMPLES], count: 0 }))
    }

    pub fn clear(&self) {
        self.0.with(|samples| samples.count = 0);
    }

    /// Adds a sample; beyond [`MOST_SAMPLES`] they are dropped.
    pub fn add(&self, value: u64) {
        self.0.with(|samples| {
            if let Some(place) = samples.values.get_mut(samples.count) {
                *place = value;
                samples.count += 1;
            }
        });
    }

    /// Prints the record of this series; `what` names the test and its conditions, as JSON members.
    pub fn report(&self, what: impl Display) {
        self.report_as("latency", "cycles", what);
    }

    /// The same in a record of another kind, of samples in another unit.
    pub fn report_as(&self, record: &str, unit: &str, what: impl Display) {
        self.0.with(|samples| {
            let values = &mut samples.values[..samples.count];
            values.sort_unstable();
            print!("{{\"record\":\"{record}\",{what},\"unit\":\"{unit}\",{}}}", Summary(values));
        });
    }
}

/// Sorted samples, as JSON members.
struct Summary<'a>(&'a [u64]);

impl Summary<'_> {
    /// The smallest sample that `percent` of all do not exceed.
    fn percentile(&self, percent: usize) -> u64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(0)
    }
}

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mean = self.0.iter().sum::<u64>() / self.0.len().max(1) as u64;
        write!(
            f,
            "\"samples\":{},\"min\":{},\"p50\":{},\"p90\":{},\"p99\":{},\"max\":{},\"mean\":{mean}",
            self.0.len(),
            self.percentile(0),
            self.percentile(50),
            self.percentile(90),
            self.percentile(99),
            self.percentile(100),
        )
    }
}
