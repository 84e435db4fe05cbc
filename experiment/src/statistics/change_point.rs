//! Where a series stops warming up: the point that parts it best into two stretches of different
//! level, if two explain it better than one.

/// Shorter series have no beginning to leave out.
const LEAST: usize = 8;

/// How many values at the start belong to the warm-up: at most half of them. A change point further
/// behind is not a warm-up, and nothing is left out then.
///
/// Two levels are believed where they lower the information criterion of Schwarz, with normal
/// errors about each level.
pub fn warm_up(series: &[f64]) -> usize {
    let count = series.len();
    if count < LEAST {
        return 0;
    }
    let n = count as f64;
    let criterion = |squares: f64, parameters: f64| {
        // Values without any spread would have an infinitely good criterion.
        n * (squares / n).max(f64::MIN_POSITIVE).ln() + parameters * n.ln()
    };
    let one_level = criterion(squares(series), 2.0);
    let split = |at: usize| squares(&series[..at]) + squares(&series[at..]);
    let best = (1..count).min_by(|one, other| split(*one).total_cmp(&split(*other))).unwrap_or(0);
    // Two levels, a spread and the place of the change.
    let is_changed = criterion(split(best), 4.0) < one_level;
    if is_changed && best <= count / 2 { best } else { 0 }
}

/// Squared distances from the mean.
fn squares(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    series.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_is_found_and_a_level_series_is_kept_whole() {
        let noise = [0.1, -0.2, 0.0, 0.2, -0.1, 0.1, 0.0, -0.1, 0.2, -0.2, 0.1, 0.0];
        let level: Vec<f64> = noise.iter().map(|one| 10.0 + one).collect();
        assert_eq!(warm_up(&level), 0);
        let mut slow = level.clone();
        (slow[0], slow[1], slow[2]) = (19.0, 15.0, 14.0);
        assert_eq!(warm_up(&slow), 3);
        let mut late = level.clone();
        late[9..].iter_mut().for_each(|value| *value += 5.0);
        assert_eq!(warm_up(&late), 0, "what changes near the end is not a warm-up");
        assert_eq!(warm_up(&[9.0, 1.0, 1.0]), 0, "too short to say");
        assert_eq!(warm_up(&[3.0; 20]), 0);
    }
}
