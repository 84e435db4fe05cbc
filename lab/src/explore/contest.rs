//! Strategies measured against each other: each alone, from the same moments, until a window shows
//! what is looked for, on a host that is known to have it.
//!
//! A trial that does not see it in its windows counts as one that would take longer than any that
//! does: it has no figure, and a median among such has none either.

use super::choice::Strategy;
use super::finding::cause;
use super::search::Search;
use super::sight::{Sight, sight};
use super::stage::Stage;
use crate::watch::Watch;
use arch::time::Picoseconds;
use report::grid::{Grid, Value};
use std::time::Duration;

/// Between the moments from which two trials begin.
const APART: Picoseconds = Picoseconds::from_nanoseconds(17_000_000);

/// What is tried.
#[derive(Clone, Debug)]
pub struct Contest {
    /// What is looked for: the beginning of its name, such as `asleep`.
    pub cause: String,
    /// Trials of each strategy, each from a moment and with numbers of its own.
    pub trials: u64,
    /// Those that try.
    pub strategies: Vec<Strategy>,
    /// Windows of a trial at most.
    pub windows: Option<u64>,
    /// Processor time of a trial at most, with the way to its moments.
    pub spent: Option<Duration>,
}

/// What came of it.
pub struct Ranking {
    release: String,
    contest: Contest,
    rows: Vec<(Strategy, Vec<Sight>)>,
}

/// Has each strategy try.
pub fn contest(
    mut stage: Stage,
    contest: &Contest,
    search: &Search,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Ranking> {
    stage.learn();
    let (kept, release) = (stage.keep()?, stage.release.clone());
    drop(stage);
    let sought = |key: &_| cause(key).starts_with(&contest.cause);
    let mut rows: Vec<(Strategy, Vec<Sight>)> =
        contest.strategies.iter().map(|strategy| (*strategy, Vec::new())).collect();
    for trial in 0..contest.trials {
        for (strategy, sights) in &mut rows {
            let mut stage = kept.stage()?;
            stage.advance(Picoseconds(APART.0.saturating_mul(trial)));
            let seed = search.seed.wrapping_add(trial.wrapping_mul(0x9E37_79B9));
            let (windows, budget) = (contest.windows, contest.spent);
            let own = Search { seed, windows, budget, ..search.clone() };
            sights.push(sight(&mut stage, &own, (&sought, Some(*strategy)), watch)?);
        }
    }
    Ok(Ranking { release, contest: contest.clone(), rows })
}

impl Ranking {
    /// For a terminal.
    pub fn to_text(&self, columns: usize) -> String {
        let Contest { cause, trials, windows, spent, .. } = &self.contest;
        let windows = windows.map(|windows| format!("{windows} windows"));
        let spent = spent.map(|spent| format!("{} s of CPU time", spent.as_secs_f64()));
        let within = windows.into_iter().chain(spent).collect::<Vec<_>>().join(" and ");
        format!(
            "{}: {cause} within {within}, {trials} trials of each strategy\n\n{}",
            self.release,
            self.grid().to_text_within(columns)
        )
    }

    fn grid(&self) -> Grid {
        const COLUMNS: [&str; 6] =
            ["strategy", "found", "median_windows", "median_CPU_s", "all_windows", "all_CPU_s"];
        let mut grid = Grid::new("By strategy", &COLUMNS);
        for (strategy, sights) in &self.rows {
            let found = |sight: &Sight| sight.strategy.is_some();
            let windows = |sight: &Sight| found(sight).then_some(sight.windows as f64);
            let spent = |sight: &Sight| found(sight).then_some(sight.spent.as_secs_f64());
            let shown = |value: Option<f64>, digits| match value {
                Some(value) => Value::text(format!("{value:.digits$}")),
                None => Value::text("not found"),
            };
            grid.rows.push(vec![
                Value::text(strategy.name()),
                Value::text(format!(
                    "{} of {}",
                    sights.iter().filter(|one| found(one)).count(),
                    sights.len()
                )),
                shown(median(sights.iter().map(windows).collect()), 0),
                shown(median(sights.iter().map(spent).collect()), 2),
                Value::Count(sights.iter().map(|sight| sight.windows).sum()),
                Value::Number(sights.iter().map(|sight| sight.spent.as_secs_f64()).sum(), 1),
            ]);
        }
        grid
    }
}

/// The middle one, of two the greater; none stands behind every figure.
fn median(mut values: Vec<Option<f64>>) -> Option<f64> {
    let key = |value: &Option<f64>| value.unwrap_or(f64::INFINITY);
    values.sort_by(|one, other| key(one).total_cmp(&key(other)));
    values.get(values.len() / 2).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_took_longer_than_all_that_was() {
        assert_eq!(median(vec![Some(3.0), None, Some(1.0)]), Some(3.0));
        assert_eq!(median(vec![None, None, Some(1.0)]), None);
        assert_eq!(median(vec![Some(1.0), None]), None, "no better than it is");
        assert_eq!(median(Vec::new()), None);
    }
}
