//! Where differences lie: the estimate of Hodges and Lehmann, the median of all pairwise means, and
//! the interval that belongs to it, by the distribution of Wilcoxon's signed ranks.

use super::normal::quantile;
use serde::{Deserialize, Serialize};

/// Up to so many differences the distribution of signed ranks is computed; beyond, it is normal.
const MOST_EXACT: usize = 50;

/// An interval with the confidence that it really has, which is at least what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Such as 0.95.
    pub confidence: f64,
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get((sorted.len().max(1) - 1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some(0.5 * (low + high))
}

/// The median of the means of all pairs, each difference paired with itself, too.
pub fn hodges_lehmann(differences: &[f64]) -> Option<f64> {
    median(&pairwise(differences))
}

/// The interval around it; None where there are too few differences for such a confidence.
pub fn interval(differences: &[f64], confidence: f64) -> Option<Interval> {
    let walsh = pairwise(differences);
    let left_out = (1.0 - confidence) / 2.0;
    let (outside, tail) = critical(differences.len(), left_out)?;
    let low = *walsh.get(outside)?;
    let high = *walsh.get(walsh.len().checked_sub(outside + 1)?)?;
    Some(Interval { low, high, confidence: 1.0 - 2.0 * tail })
}

/// Sorted.
fn pairwise(differences: &[f64]) -> Vec<f64> {
    let pairs = (0..differences.len()).flat_map(|one| {
        differences[one..].iter().map(move |other| 0.5 * (differences[one] + other))
    });
    let mut means: Vec<f64> = pairs.collect();
    means.sort_by(f64::total_cmp);
    means
}

/// How many of the pairwise means are left out at either end, and the probability of that.
fn critical(count: usize, tail: f64) -> Option<(usize, f64)> {
    if count > MOST_EXACT {
        let n = count as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let outside = (mean + quantile(tail) * deviation - 0.5).floor().max(0.0);
        return Some((outside as usize, tail));
    }
    let mut below = 0.0;
    let mut last = None;
    for (sum, share) in signed_ranks(count).into_iter().enumerate() {
        below += share;
        if below > tail {
            break;
        }
        last = Some((sum, below));
    }
    last
}

/// The probabilities of all sums of positive ranks, by adding one rank after the other.
fn signed_ranks(count: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for rank in 1..=count {
        let mut next = vec![0.0; shares.len() + rank];
        for (sum, share) in shares.iter().enumerate() {
            next[sum] += 0.5 * share;
            next[sum + rank] += 0.5 * share;
        }
        shares = next;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: [f64; 10] = [1.2, -0.4, 0.9, 2.1, 0.3, -0.1, 1.7, 0.8, -0.6, 1.1];

    /// Estimates and ends computed once with NumPy from all pairwise means; the critical values
    /// are those of published tables of the signed-rank test (n = 6: 0, 8: 3, 10: 8, 20: 52 at
    /// 5 % two-sided), which SciPy 1.17.1 confirms (`scipy.stats._wilcoxon.WilcoxonDistribution`).
    #[test]
    fn estimates_and_intervals_are_those_of_a_reference() {
        let close = |one: f64, other: f64| (one - other).abs() < 1e-12;
        assert!(close(hodges_lehmann(&SERIES).expect("some"), 0.75));
        let found = interval(&SERIES, 0.95).expect("enough");
        assert!(close(found.low, 0.1) && close(found.high, 1.4), "{found:?}");
        assert!(close(found.confidence, 0.951171875), "{found:?}");
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (count, largest_sum) in [(6, 0), (8, 3), (10, 8), (12, 13), (20, 52), (30, 137)] {
            let (outside, tail) = critical(count, 0.025).expect("enough");
            assert_eq!(outside, largest_sum, "{count}");
            assert!(tail <= 0.025);
        }
        assert_eq!(critical(5, 0.025), None, "five differences give no interval of 95 %");
        // The normal approximation takes over without a jump.
        let (exact, _) = critical(50, 0.025).expect("enough");
        let (normal, _) = critical(51, 0.025).expect("enough");
        assert!(normal >= exact && normal - exact < 30, "{exact} {normal}");
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
