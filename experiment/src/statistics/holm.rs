//! Several questions at once: Holm's way keeps the chance of any wrong *yes* at the level asked
//! for.

/// The p-values, each raised so that it can be held against the level by itself.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut adjusted = vec![0.0; values.len()];
    let mut most: f64 = 0.0;
    for (place, index) in order.into_iter().enumerate() {
        most = most.max(values[index] * (values.len() - place) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, never falling; the example is that
    /// of the usual textbooks.
    #[test]
    fn values_are_those_of_the_textbook() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        let is_equal =
            adjusted.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12);
        assert!(is_equal, "{adjusted:?}");
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
