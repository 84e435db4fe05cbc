//! Looking before the end: each look spends a part of the error that the whole experiment may make.
//!
//! How much is spent by which share of the blocks is the function of Lan and DeMets that behaves as
//! the bounds of O'Brien and Fleming do: hardly any at first. A look is tested at what it adds to
//! the sum, which keeps the level whatever the looks have to do with each other, at the price of a
//! little power: no joint distribution has to be assumed for the permutation test.

use super::normal::{cumulative, quantile};

/// What is spent at this share of the blocks.
pub fn spent(level: f64, share: f64) -> f64 {
    if share <= 0.0 {
        return 0.0;
    }
    let z = quantile(1.0 - level / 2.0) / share.min(1.0).sqrt();
    2.0 * (1.0 - cumulative(z))
}

/// The level of each look; `looks` are numbers of blocks, rising, the last being all.
pub fn levels(level: f64, looks: &[usize]) -> Vec<f64> {
    let all = looks.last().copied().unwrap_or(1) as f64;
    let mut before = 0.0;
    let of = |blocks: &usize| {
        let total = spent(level, *blocks as f64 / all);
        let own = total - before;
        before = total;
        own
    };
    looks.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed once with SciPy 1.17.1: `2 * (1 - norm.cdf(norm.ppf(0.975) / sqrt(t)))`.
    #[test]
    fn what_is_spent_is_what_a_reference_says() {
        for (share, expected) in [
            (0.25, 8.857543832130332e-5),
            (0.5, 0.005574596680784305),
            (0.75, 0.023625121317601305),
            (1.0, 0.05),
        ] {
            assert!((spent(0.05, share) - expected).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn all_looks_together_spend_the_level_and_no_more() {
        let levels = levels(0.05, &[8, 12, 16, 24]);
        assert_eq!(levels.len(), 4);
        assert!((levels.iter().sum::<f64>() - 0.05).abs() < 1e-12);
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
    }
}
