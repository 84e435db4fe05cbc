//! The permutation test on paired differences: if the switch did nothing, each difference could as
//! well have had the other sign.

use crate::random::Random;
use serde::{Deserialize, Serialize};

/// Up to so many differences all sign-flips are tried.
pub const MOST_EXACT: usize = 20;
/// Beyond, so many are drawn.
const DRAWS: u64 = 100_000;
/// Sums that differ by less than this share of all differences are equal but for rounding.
const ROUNDING: f64 = 1e-12;

/// How a p-value was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// All sign-flips were tried.
    Exact {
        /// How many there are.
        flips: u64,
    },
    /// Some were drawn; the observed one counts among them.
    MonteCarlo {
        /// How many were drawn.
        draws: u64,
    },
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact { flips } => write!(f, "exact, all {flips} sign-flips"),
            Self::MonteCarlo { draws } => write!(f, "Monte Carlo, {draws} sign-flips drawn"),
        }
    }
}

/// A two-sided test of the mean difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Test {
    /// The share of sign-flips whose mean is as far from zero as the observed one.
    pub p: f64,
    /// Of which sign-flips.
    pub kind: Kind,
}

/// Tests differences. `seed` matters only where sign-flips are drawn.
pub fn sign_flips(differences: &[f64], seed: u64) -> Test {
    if differences.len() <= MOST_EXACT { exact(differences) } else { drawn(differences, seed) }
}

/// The fewest blocks with which a difference can be found at all at this level: of `2^n` sign-flips
/// two are as extreme as it gets.
pub fn least_blocks(level: f64) -> usize {
    (1..=63).find(|n| 2.0 / 2f64.powi(*n) <= level).map_or(64, |n| n as usize)
}

fn threshold(differences: &[f64]) -> f64 {
    let all: f64 = differences.iter().map(|one| one.abs()).sum();
    differences.iter().sum::<f64>().abs() - ROUNDING * all
}

/// Gray code: from one sign-flip to the next a single sign changes.
fn exact(differences: &[f64]) -> Test {
    let flips = 1u64 << differences.len();
    let least = threshold(differences);
    let mut signed = differences.to_vec();
    let mut sum: f64 = signed.iter().sum();
    let mut extreme = u64::from(sum.abs() >= least);
    for step in 1..flips {
        let which = step.trailing_zeros() as usize;
        signed[which] = -signed[which];
        // Added up again now and then, so that rounding does not pile up.
        sum = if step % 1024 == 0 { signed.iter().sum() } else { sum + 2.0 * signed[which] };
        extreme += u64::from(sum.abs() >= least);
    }
    Test { p: extreme as f64 / flips as f64, kind: Kind::Exact { flips } }
}

fn drawn(differences: &[f64], seed: u64) -> Test {
    let least = threshold(differences);
    let mut random = Random::new(seed);
    let is_extreme = |_: &u64| {
        let (mut bits, mut left) = (0, 0);
        let sum = differences.iter().fold(0.0, |sum, one| {
            if left == 0 {
                (bits, left) = (random.bits(), 64);
            }
            let is_flipped = bits & 1 == 1;
            (bits, left) = (bits >> 1, left - 1);
            if is_flipped { sum - one } else { sum + one }
        });
        sum.abs() >= least
    };
    let extreme = (0..DRAWS).filter(is_extreme).count() as f64;
    Test { p: (extreme + 1.0) / (DRAWS as f64 + 1.0), kind: Kind::MonteCarlo { draws: DRAWS } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: [f64; 10] = [1.2, -0.4, 0.9, 2.1, 0.3, -0.1, 1.7, 0.8, -0.6, 1.1];

    /// Computed once with SciPy 1.17.1: `permutation_test((d,), np.mean, permutation_type="samples",
    /// n_resamples=np.inf)`.
    #[test]
    fn exact_values_are_those_of_a_reference() {
        for (differences, p) in [
            (&SERIES[..], 0.0390625),
            (&SERIES[..6], 0.1875),
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..], 0.03125),
            (&[1.0, -1.0][..], 1.0),
            (&[0.0, 0.0, 0.0][..], 1.0),
        ] {
            let test = sign_flips(differences, 0);
            assert!((test.p - p).abs() < 1e-12, "{} for {p}", test.p);
            assert_eq!(test.kind, Kind::Exact { flips: 1 << differences.len() });
        }
    }

    #[test]
    fn drawn_values_are_near_the_exact_ones_and_depend_on_the_seed_alone() {
        let (all, some) = (exact(&SERIES), drawn(&SERIES, 1));
        // Four standard errors of a share of 100,000.
        let error = 4.0 * (all.p * (1.0 - all.p) / 1e5).sqrt();
        assert!((all.p - some.p).abs() < error, "{all:?} {some:?}");
        assert_eq!(some, drawn(&SERIES, 1));
        let many: Vec<f64> = SERIES.iter().chain(&SERIES).chain(&SERIES).copied().collect();
        assert!(matches!(sign_flips(&many, 3).kind, Kind::MonteCarlo { .. }));
    }

    #[test]
    fn with_too_few_blocks_nothing_can_be_found() {
        for (level, least) in [(0.05, 6), (0.025, 7), (0.01, 8), (1.0, 1)] {
            assert_eq!(least_blocks(level), least, "{level}");
        }
        assert!(sign_flips(&[9.0; 5], 0).p > 0.05);
        assert!(sign_flips(&[9.0; 6], 0).p < 0.05);
    }
}
