//! The tables that all forms of the answer have.

use crate::answer::sentence::{change, shown};
use crate::answer::{Answer, CellAnswer, MetricAnswer};
use crate::place::COMMAND;
use crate::plan::words;
use crate::statistics::Verdict;
use report::grid::{Grid, Value};
use std::collections::BTreeMap;

/// A cell's name; of the only one, nothing.
pub(super) fn name(cell: &CellAnswer) -> String {
    if cell.cell.is_empty() { String::new() } else { format!(": {}", words(&cell.cell)) }
}

/// A verdict in words.
pub(super) fn verdict(metric: &MetricAnswer) -> String {
    match metric.verdict {
        None => "-".into(),
        Some(Verdict::Better) => "better".into(),
        Some(Verdict::Worse) => "worse".into(),
        Some(Verdict::Different) => "different".into(),
        Some(Verdict::NoDifference) => "no difference that matters".into(),
        Some(Verdict::Undecided { more_blocks: Some(more) }) => {
            format!("undecided: {more} more blocks would decide")
        }
        Some(Verdict::Undecided { .. }) if metric.steps.is_some() => {
            "undecided: printed too coarsely".into()
        }
        Some(Verdict::Undecided { more_blocks: None }) => "undecided, beyond reach".into(),
    }
}

fn shown_or(value: Option<f64>) -> Value {
    Value::text(value.map_or_else(|| "-".to_owned(), shown))
}

/// A row a metric.
pub(super) fn metrics(answer: &Answer, cell: &CellAnswer) -> Grid {
    let columns = [
        "metric",
        "unit",
        "first arm",
        "second arm",
        "change",
        "interval",
        "p",
        "blocks",
        "verdict",
    ];
    let title = format!(
        "{}{}: first arm {}, second arm {}",
        answer.compare,
        name(cell),
        answer.arms[0],
        answer.arms[1]
    );
    let mut grid = Grid::new(title, &columns);
    for metric in &cell.metrics {
        let effect = metric.effect.as_ref();
        let interval = match effect.and_then(|one| one.interval) {
            Some(one) => format!("{:+.2} to {:+.2}", one.low, one.high),
            None if metric.is_exact && metric.is_predicted => "no spread".into(),
            None if metric.is_exact => "exact".into(),
            None => "-".into(),
        };
        let p = effect.and_then(|one| one.adjusted_p.or(one.test.map(|test| test.p)));
        grid.rows.push(vec![
            Value::text(&metric.name),
            Value::text(&metric.unit),
            shown_or(metric.before.as_ref().map(|one| one.median)),
            shown_or(metric.after.as_ref().map(|one| one.median)),
            Value::text(effect.map_or("-".into(), |one| change(one, metric))),
            Value::text(interval),
            Value::text(p.map_or("-".into(), |p| format!("{p:.2e}"))),
            Value::Count(effect.map_or(0, |one| one.blocks as u64)),
            Value::text(verdict(metric)),
        ]);
    }
    grid
}

/// Both arms' exits.
pub(super) fn exits(cell: &CellAnswer) -> Option<Grid> {
    if cell.exits.is_empty() {
        return None;
    }
    let columns = ["VM_exit", "first_arm", "second_arm", "ns_each_first", "ns_each_second"];
    let title = format!("exits a trial{}", name(cell));
    let mut grid = Grid::new(title, &columns);
    for row in &cell.exits {
        grid.rows.push(vec![
            Value::text(&row.reason),
            shown_or(row.counts[0]),
            shown_or(row.counts[1]),
            shown_or(row.nanoseconds[0]),
            shown_or(row.nanoseconds[1]),
        ]);
    }

    Some(grid)
}

/// What the trials of each arm were.
pub(super) fn evidence(cell: &CellAnswer) -> Option<Grid> {
    if cell.evidence.is_empty() {
        return None;
    }
    let columns = ["evidence", "first arm", "second arm"];
    let mut grid = Grid::new(format!("what trials were{}", name(cell)), &columns);
    for (name, [before, after]) in &cell.evidence {
        grid.rows.push(vec![Value::text(name), Value::text(before), Value::text(after)]);
    }
    Some(grid)
}

/// Trials that do not count, by reason.
pub(super) fn voids(answer: &Answer) -> Option<Grid> {
    let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for trial in &answer.trials {
        if let Some(why) = &trial.void {
            *reasons.entry((&answer.arms[trial.arm], why)).or_default() += 1;
        }
    }
    if reasons.is_empty() {
        return None;
    }
    let mut grid = Grid::new("void trials", &["arm", "trials", "why"]);
    for ((arm, why), count) in reasons {
        grid.rows.push(vec![Value::text(arm), Value::Count(count), Value::text(why)]);
    }
    Some(grid)
}

/// Published figures beside ours.
pub(super) fn published(answer: &Answer) -> Option<Grid> {
    let columns = [
        "metric",
        "cell",
        "published",
        "ours",
        "published change",
        "our change",
        "error",
        "reason known",
    ];
    let mut grid = Grid::new("beside published figures", &columns);
    for cell in &answer.cells {
        for metric in &cell.metrics {
            for one in &metric.published {
                let pair = |before: Option<f64>, after: Option<f64>| {
                    let side = |one: Option<f64>| one.map_or("-".into(), shown);
                    match before.or(after) {
                        Some(_) => format!("{} to {}", side(before), side(after)),
                        None => "-".into(),
                    }
                };
                let medians =
                    |one: &Option<crate::answer::Summary>| one.as_ref().map(|one| one.median);
                let range = match (one.change, one.most_change) {
                    (Some(low), Some(high)) => format!("{low:+.2} to {high:+.2} %"),
                    (Some(change), None) => format!("{change:+.2} %"),
                    _ => "-".into(),
                };
                let sign = if one.has_sign == Some(false) { ", other sign" } else { "" };
                grid.rows.push(vec![
                    Value::text(&metric.name),
                    Value::text(words(&cell.cell)),
                    Value::text(pair(one.before, one.after)),
                    Value::text(pair(medians(&metric.before), medians(&metric.after))),
                    Value::text(range),
                    Value::text(one.own_change.map_or("-".into(), |own| format!("{own:+.2} %"))),
                    Value::text(
                        one.error_points
                            .map_or("-".into(), |points| format!("{points:+.2} points{sign}")),
                    ),
                    Value::text(one.reason.clone().unwrap_or_default()),
                ]);
            }
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// How the figures were had, in a line or two each.
pub(super) fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if answer.provenance.contains_key(COMMAND) {
        notes.push(
            "a trial is a run of the plan's command on this machine, which has the levels in its \
             environment: how exact figures are is for it to say"
                .to_owned(),
        );
    } else if answer.place == "lab" {
        notes.push(
            "in the lab counts are measurements of real software and exact; times are predicted by \
             a cost model, and trials differ in the moment at which they begin"
                .to_owned(),
        );
    }
    if !answer.scale.is_empty() {
        notes.push(format!("scale: {}", answer.scale));
    }
    let metrics = || answer.cells.iter().flat_map(|cell| &cell.metrics);
    let test = metrics().filter_map(|one| one.effect.as_ref()?.test).next();
    if let Some(test) = test {
        notes.push(format!(
            "randomised complete blocks, order drawn from seed {}; sign-flip test of the paired \
             differences ({}), Hodges-Lehmann estimate with the signed-rank interval; p is Holm's \
             over {} answers; level {}",
            answer.seed, test.kind, answer.questions, answer.level
        ));
    }
    if answer.is_same {
        let smallest = metrics().filter_map(|one| {
            let effect = one.effect.as_ref()?;
            let unit = if effect.is_percent { "%" } else { one.unit.as_str() };
            Some(format!("{} {} {unit}", one.name, shown(effect.smallest?)))
        });
        let smallest: Vec<String> = smallest.collect();
        notes.push(format!(
            "both arms were the same: with {} blocks, changes smaller than these would probably \
             not be seen here: {}",
            answer.blocks,
            smallest.join(", ")
        ));
    }
    notes
}
