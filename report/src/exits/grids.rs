//! The result as tables, one per way of grouping.

use super::Report;
use super::beside::{self, inhibits, vectors};
use crate::grid::{Grid, Value};
use profile::summary::{Extent, Group, Row};

/// What a line of the report stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Why the guest left.
    #[default]
    Reason,
    /// What exits were about.
    Detail,
    /// A vCPU.
    Vcpu,
    /// A virtual machine, that is the process that runs it.
    Machine,
    /// An interrupt's vector.
    Vector,
    /// A stretch of the recording.
    Time,
}

/// Columns of the main table, in the words other programs get them by.
const ROW_COLUMNS: [&str; 16] = [
    "name",
    "about",
    "count",
    "count_percent",
    "time_us",
    "time_percent",
    "work_time_percent",
    "min_us",
    "mean_us",
    "max_us",
    "error_percent",
    "p50_us",
    "p99_us",
    "p999_us",
    "per_second",
    "verdict",
];

/// The table a grouping asks for.
pub fn groups(report: &Report, grouping: Grouping) -> Grid {
    let summary = &report.summary;
    match grouping {
        Grouping::Reason => rows(summary.table.view.title(), &summary.table.rows),
        Grouping::Detail => judged(&summary.detailed.rows),
        Grouping::Vcpu => lines("vCPUs", "vcpu", &summary.by_vcpu),
        Grouping::Machine => lines("Virtual machines", "vm", &summary.machines),
        Grouping::Time => {
            let title = "Over time (in seconds of the recording's clock, as --from and --to are)";
            times(title, &summary.by_time)
        }
        Grouping::Vector => vectors(report),
    }
}

/// The same for readers, who do not read hundreds of lines.
pub fn shown_groups(report: &Report, grouping: Grouping) -> Grid {
    let summary = &report.summary;
    if grouping == Grouping::Detail {
        return details(summary.detailed.rows.iter());
    }
    let (fine, coarse) = (summary.by_time.len(), summary.by_longer_time.len());
    if grouping != Grouping::Time || fine <= coarse {
        return groups(report, grouping);
    }
    let title = format!(
        "Over time (in seconds of the recording's clock, as --from and --to are; {fine} shorter \
         stretches are in --format csv)"
    );
    times(&title, &summary.by_longer_time)
}

fn times(title: &str, groups: &[Group]) -> Grid {
    let mut grid = lines(title, "from_s", groups);
    for (row, group) in grid.rows.iter_mut().zip(groups) {
        row[0] = group.name.parse().map_or(Value::Missing, |from| Value::Number(from, 3));
    }
    grid
}

fn us(ns: f64) -> Value {
    Value::Number(ns / 1e3, 2)
}

fn quantile(ns: Option<f64>) -> Value {
    ns.map_or(Value::Missing, us)
}

/// Rows of statistics.
pub fn rows(title: &str, rows: &[Row]) -> Grid {
    let mut grid = Grid::new(title, &ROW_COLUMNS);
    for row in rows {
        grid.rows.push(vec![
            Value::text(&row.name),
            Value::text(&row.about),
            Value::Count(row.count),
            Value::Number(row.count_share, 2),
            us(row.time_ns as f64),
            Value::Number(row.time_share, 2),
            if row.is_idle { Value::Missing } else { Value::Number(row.work_share, 2) },
            us(row.min_ns as f64),
            us(row.mean_ns),
            us(row.max_ns as f64),
            Value::Number(row.relative_error, 2),
            quantile(row.p50_ns),
            quantile(row.p99_ns),
            quantile(row.p999_ns),
            Value::Number(row.per_second, 1),
            match (row.verdict, row.is_idle) {
                (_, true) => Value::text("idle"),
                (Some(verdict), _) => Value::text(verdict.name()),
                (None, _) => Value::Missing,
            },
        ]);
    }
    grid
}

/// Rows of statistics with why they are judged so.
fn judged(details: &[Row]) -> Grid {
    let mut grid = rows(DETAILS, details);
    grid.columns.extend(["feature", "rule"]);
    for (row, detail) in grid.rows.iter_mut().zip(details) {
        row.extend([Value::text(&detail.feature), Value::text(&detail.rule)]);
    }
    grid
}

fn lines(title: &str, first: &'static str, groups: &[Group]) -> Grid {
    let columns = [
        first,
        "exits",
        "per_second",
        "work_exits",
        "work_ms",
        "idle_ms",
        "avoidable_exits",
        "avoidable_ms",
        "most_frequent",
    ];
    let mut grid = Grid::new(title, &columns);
    for group in groups {
        grid.rows.push(vec![
            Value::text(&group.name),
            Value::Count(group.count),
            Value::Number(group.per_second, 1),
            Value::Count(group.work_count),
            Value::Number(group.work_ns as f64 / 1e6, 1),
            Value::Number(group.idle_ns as f64 / 1e6, 1),
            Value::Count(group.avoidable),
            Value::Number(group.avoidable_ns as f64 / 1e6, 1),
            Value::text(&group.top),
        ]);
    }
    grid
}

/// What interrupt virtualization would take away, by verdict and feature.
pub fn ceiling(report: &Report) -> Grid {
    let ceiling = &report.summary.ceiling;
    let columns = ["exits that do work", "count", "of them %", "time ms", "of it %"];
    let mut grid = Grid::new("What hardware interrupt virtualization can save", &columns);
    let mut push = |name: String, extent: &Extent| {
        grid.rows.push(vec![
            Value::Text(name),
            Value::Count(extent.count),
            Value::Number(extent.count_share, 1),
            Value::Number(extent.time_ns as f64 / 1e6, 1),
            Value::Number(extent.time_share, 1),
        ]);
    };
    push("avoidable, at most".into(), &ceiling.avoidable);
    for (feature, extent) in &ceiling.by_feature {
        push(format!("  by {feature}"), extent);
    }
    push("not avoidable".into(), &ceiling.not_avoidable);
    push("unknown".into(), &ceiling.unknown);
    grid
}

/// The exits split by what they were about, with verdict and rule; the rare ones left out.
pub fn detailed(report: &Report, most: usize) -> Grid {
    details(report.summary.detailed.rows.iter().filter(|row| !row.is_idle).take(most))
}

const DETAILS: &str = "What the exits were about";

fn details<'a>(rows: impl Iterator<Item = &'a Row>) -> Grid {
    let columns = ["exit", "about", "count", "mean us", "p99 us", "verdict", "why"];
    let mut grid = Grid::new(DETAILS, &columns);
    for row in rows {
        let verdict = match row.verdict {
            _ if row.is_idle => "idle".to_owned(),
            Some(verdict) if row.feature.is_empty() => verdict.name().to_owned(),
            Some(verdict) => format!("{} by {}", verdict.name(), row.feature),
            None => "-".into(),
        };
        grid.rows.push(vec![
            Value::text(&row.name),
            Value::text(&row.about),
            Value::Count(row.count),
            us(row.mean_ns),
            quantile(row.p99_ns),
            Value::Text(verdict),
            Value::text(&row.rule),
        ]);
    }
    grid
}

/// Every table there is to show of a report.
pub fn all(report: &Report) -> Vec<Grid> {
    let mut all = vec![
        groups(report, Grouping::Reason),
        ceiling(report),
        detailed(report, usize::MAX),
        groups(report, Grouping::Vcpu),
    ];
    if report.summary.machines.len() > 1 {
        all.push(groups(report, Grouping::Machine));
    }
    all.extend(report.summary.inhibits.as_ref().map(inhibits));
    all.extend(beside::interrupts(report));
    all.retain(|grid| !grid.rows.is_empty());
    all.into_iter().map(Grid::without_empty_columns).collect()
}
