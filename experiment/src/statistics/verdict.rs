//! What the differences of the blocks come to.

use super::location::{Interval, hodges_lehmann, interval, median};
use super::normal::quantile;
use super::permutation::{Test, least_blocks, sign_flips};
use serde::{Deserialize, Serialize};

/// The power with which the blocks that are still to come would decide.
const POWER: f64 = 0.8;
/// What the median absolute deviation of normal values is to be divided by to give their spread.
const NORMAL_DEVIATION: f64 = 0.674_489_750_196_081_7;
/// Nobody is told to run more blocks than this: what needs more is not to be had this way.
const MOST_BLOCKS: usize = 10_000;

/// How far two arms may be apart without it mattering.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Margin {
    /// Percent of the first arm.
    Percent(f64),
    /// In the metric's own unit, where the first arm may be zero.
    Absolute(f64),
}

/// The difference between two arms, over all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Effect {
    /// Of the second arm against the first: percent, or the metric's unit if a value was zero or
    /// negative.
    pub estimate: f64,
    /// None where the blocks are too few for such a confidence, or where nothing varies that an
    /// interval could be about.
    pub interval: Option<Interval>,
    /// Whether `estimate` and `interval` are percent.
    pub is_percent: bool,
    /// None where counts are exact.
    pub test: Option<Test>,
    /// The p-value after Holm's correction for all questions that were asked at once.
    pub adjusted_p: Option<f64>,
    /// Blocks that had both arms.
    pub blocks: usize,
    /// The smallest effect that so many blocks with such a spread would show, in the unit of
    /// `estimate`.
    pub smallest: Option<f64>,
}

/// The answer for one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The second arm is better.
    Better,
    /// The second arm is worse.
    Worse,
    /// It differs, and neither way is better by itself.
    Different,
    /// A difference that would matter is ruled out.
    NoDifference,
    /// Neither; so many more blocks would probably decide, unless the number is beyond reach.
    Undecided {
        /// None: more than anybody would run.
        more_blocks: Option<usize>,
    },
}

/// The effect over pairs of (first arm, second arm), a pair a block. Ratios are compared where all
/// values are positive, differences otherwise.
pub fn effect(pairs: &[(f64, f64)], confidence: f64, seed: u64) -> Option<Effect> {
    let is_percent = pairs.iter().all(|(before, after)| *before > 0.0 && *after > 0.0);
    let difference = |(before, after): &(f64, f64)| {
        if is_percent { (after / before).ln() } else { after - before }
    };
    let differences: Vec<f64> = pairs.iter().map(difference).collect();
    let shown = |value: f64| if is_percent { value.exp_m1() * 100.0 } else { value };
    let found = interval(&differences, confidence);
    Some(Effect {
        estimate: shown(hodges_lehmann(&differences)?),
        interval: found.map(|found| Interval {
            low: shown(found.low),
            high: shown(found.high),
            ..found
        }),
        is_percent,
        test: Some(sign_flips(&differences, seed)),
        adjusted_p: None,
        blocks: pairs.len(),
        smallest: smallest(&differences, 1.0 - confidence).map(shown),
    })
}

/// What would be found with the power above, given this spread.
fn smallest(differences: &[f64], level: f64) -> Option<f64> {
    let spread = spread(differences)?;
    let z = quantile(1.0 - level / 2.0) + quantile(POWER);
    Some(z * spread / (differences.len() as f64).sqrt())
}

/// The standard deviation of differences, by the median absolute deviation, so that one disturbed
/// block does not decide it; by squares where more than half are alike.
fn spread(differences: &[f64]) -> Option<f64> {
    let centre = median(differences)?;
    let distances: Vec<f64> = differences.iter().map(|one| (one - centre).abs()).collect();
    let robust = median(&distances)? / NORMAL_DEVIATION;
    if robust > 0.0 {
        return Some(robust);
    }
    let squares: f64 = distances.iter().map(|one| one * one).sum();
    (differences.len() > 1).then(|| (squares / (differences.len() - 1) as f64).sqrt())
}

/// Decides: a difference within the margin is not a difference however certain it is; one beyond it
/// must be so unlikely by chance as the level asks, and its interval must exclude zero.
/// `less_is_better` is None for what is good or bad by nothing but itself.
pub fn decide(
    effect: &Effect,
    margin: Margin,
    level: f64,
    less_is_better: Option<bool>,
) -> Verdict {
    let margin = match (margin, effect.is_percent) {
        (Margin::Percent(percent), true) => percent,
        (Margin::Absolute(size), false) => size,
        // A margin in percent says nothing where a side is zero, and the other way round: then any
        // difference counts.
        _ => 0.0,
    };
    if let Some(found) = &effect.interval
        && found.low >= -margin
        && found.high <= margin
    {
        return Verdict::NoDifference;
    }
    let p = effect.adjusted_p.or(effect.test.map(|test| test.p)).unwrap_or(1.0);
    let excludes_zero = effect.interval.is_some_and(|one| one.low > 0.0 || one.high < 0.0);
    if p <= level && excludes_zero {
        return match less_is_better {
            None => Verdict::Different,
            Some(less) if (effect.estimate < 0.0) == less => Verdict::Better,
            Some(_) => Verdict::Worse,
        };
    }
    Verdict::Undecided { more_blocks: more_blocks(effect, margin, level) }
}

/// How many blocks would make the interval as narrow as it must be: to lie within the margin, or
/// to leave zero out, whichever is nearer.
fn more_blocks(effect: &Effect, margin: f64, level: f64) -> Option<usize> {
    let least = least_blocks(level);
    let missing = least.saturating_sub(effect.blocks).max(1);
    let needed = effect.smallest.and_then(|smallest| {
        let outside = effect.estimate.abs();
        let inside = margin - outside;
        let target = outside.max(inside);
        (target > 0.0).then(|| effect.blocks as f64 * (smallest / target).powi(2))
    })?;
    if !needed.is_finite() || needed > MOST_BLOCKS as f64 {
        return None;
    }
    Some((needed.ceil() as usize).saturating_sub(effect.blocks).max(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(changes: &[f64]) -> Vec<(f64, f64)> {
        changes.iter().map(|percent| (100.0, 100.0 + percent)).collect()
    }

    fn verdict(changes: &[f64], margin: f64) -> Verdict {
        let effect = effect(&pairs(changes), 0.95, 1).expect("pairs");
        decide(&effect, Margin::Percent(margin), 0.05, Some(true))
    }

    #[test]
    fn each_verdict_is_reached() {
        let faster = [-3.1, -2.9, -3.3, -2.7, -3.0, -3.2, -2.8, -3.0];
        assert_eq!(verdict(&faster, 1.0), Verdict::Better);
        let slower: Vec<f64> = faster.iter().map(|one| -one).collect();
        assert_eq!(verdict(&slower, 1.0), Verdict::Worse);
        let same = [0.1, -0.2, 0.0, 0.2, -0.1, 0.1, -0.1, 0.05];
        assert_eq!(verdict(&same, 1.0), Verdict::NoDifference);
        assert_eq!(verdict(&faster, 5.0), Verdict::NoDifference, "too small to matter");
        let wild = [9.0, -8.0, 7.0, -9.0, 8.0, -6.0, 7.5, -7.0];
        assert!(matches!(verdict(&wild, 1.0), Verdict::Undecided { more_blocks: Some(1..) }));
        assert_eq!(verdict(&faster[..4], 1.0), Verdict::Undecided { more_blocks: Some(2) });
    }

    #[test]
    fn what_may_be_zero_is_compared_in_its_own_unit() {
        let zeros: Vec<(f64, f64)> = (0..6).map(|block| (100.0 + f64::from(block), 0.0)).collect();
        let effect = effect(&zeros, 0.95, 1).expect("pairs");
        assert!(!effect.is_percent);
        assert_eq!(effect.estimate, -102.5);
        assert_eq!(decide(&effect, Margin::Percent(1.0), 0.05, None), Verdict::Different);
    }

    #[test]
    fn the_number_of_blocks_that_is_promised_decides() {
        // An effect of a fifth of the spread needs about 25 times as many blocks as one of all.
        let changes = [1.2, -0.8, 1.4, -1.0, 0.9, -0.6, 1.1, -0.7];
        let effect = effect(&pairs(&changes), 0.95, 1).expect("pairs");
        let more = more_blocks(&effect, 0.0, 0.05).expect("a number");
        assert!((60..2000).contains(&more), "{more}");
    }
}
