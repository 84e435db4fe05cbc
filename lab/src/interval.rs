//! Intervals in which one more value like some others lies.

/// The likely value and the interval in which one more run lies nine times of ten.
pub type Interval = [f64; 3];

/// The interval for one more value like those of some draws, with a deviation of its own on top:
/// the few draws tell their deviation as well as they do (Student's t).
pub(crate) fn interval(values: &[f64], more: f64) -> Interval {
    let count = values.len().max(2) as f64;
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let square = values.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let own = student(count - 1.0) * (square * (1.0 + 1.0 / count)).sqrt();
    let wide = own.hypot(NORMAL * more);
    [mean, mean - wide, mean + wide]
}

/// The same for what a value is multiplied with, none of it zero or less, and a deviation of its
/// own on top as a share: found of the logarithms, so that no end is below zero.
pub(crate) fn interval_of_factors(values: &[f64], more: f64) -> Interval {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    interval(&logarithms, more).map(f64::exp)
}

/// What a normally distributed value exceeds once in twenty.
pub(crate) const NORMAL: f64 = 1.644_854;

/// The same of Student's t with so many degrees of freedom, by Fisher's expansion.
fn student(freedom: f64) -> f64 {
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_draws_the_wider_is_what_they_promise() {
        // Tables of Student's distribution.
        for (freedom, expected) in [(4.0, 2.132), (9.0, 1.833), (19.0, 1.729), (59.0, 1.671)] {
            assert!((student(freedom) - expected).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
        let [middle, low, high] = interval(&[9.0, 10.0, 11.0, 10.0, 10.0], 0.0);
        assert_eq!(middle, 10.0);
        // 2.132 times 0.7071 times the root of 1.2.
        assert!((high - low - 2.0 * 1.651).abs() < 0.02, "{low} {high}");
        let [_, low, high] = interval(&[10.0; 5], 1.0);
        assert!((high - low - 2.0 * 1.645).abs() < 0.01, "{low} {high}");
    }

    #[test]
    fn of_factors_no_end_is_below_zero() {
        let [_, low, high] = interval_of_factors(&[0.5, 2.0, 0.5, 2.0, 1.0], 0.0);
        assert!(low > 0.0 && (low * high - 1.0).abs() < 1e-9, "{low} {high}");
    }

    /// Draws of a seed's own.
    fn drawn(seed: u64, count: usize) -> Vec<f64> {
        let mut random = bus::Random(seed);
        let mut uniform = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        // Nearly normal: twelve of these have a variance of one.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        (0..count).map(|_| (0.2 * normal()).exp()).collect()
    }

    #[test]
    fn one_more_factor_lies_within_nine_times_of_ten() {
        for count in [4, 7, 8, 10, 20] {
            let holds = |seed: u64| {
                let all = drawn(seed, count + 1);
                let [_, low, high] = interval_of_factors(&all[..count], 0.0);
                (low..=high).contains(&all[count])
            };
            let held = (0..4_000).filter(|seed| holds(*seed)).count();
            assert!((3_520..=3_740).contains(&held), "{count} draws: {held} of 4,000");
        }
    }
}
