//! The result as tables, one per way of grouping.

use super::Report;
use crate::grid::{Grid, Value};
use profile::inhibit::{Inhibits, ReasonTime, Setter};
use profile::name::host_vector_name;
use profile::summary::{Extent, Group, Row};
use trace::inhibit::Authority;

/// What a line of the report stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grouping {
    #[default]
    Reason,
    /// What exits were about.
    Detail,
    Vcpu,
    Machine,
    Vector,
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

/// The same for people, who do not read hundreds of lines.
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
            Value::text(&group.top),
        ]);
    }
    grid
}

fn vectors(report: &Report) -> Grid {
    let columns = [
        "vector",
        "ipis",
        "msis",
        "accepted",
        "posted",
        "injected",
        "injected_again",
        "end_of_interrupt",
        "of_them_without_exit",
        "in_linux",
    ];
    let mut grid = Grid::new("Vectors", &columns);
    for vector in &report.summary.interrupts.vectors {
        let mut row = vec![Value::text(format!("{:#04x}", vector.vector))];
        let counts = [
            vector.ipi,
            vector.msi,
            vector.accepted,
            vector.posted,
            vector.injected,
            vector.reinjected,
            vector.end_of_interrupt,
            vector.paravirtual_end,
        ];
        row.extend(counts.map(Value::Count));
        let name = u8::try_from(vector.vector).ok().and_then(host_vector_name);
        row.push(Value::text(name.unwrap_or_default()));
        grid.rows.push(row);
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

/// Inhibits, a line per machine and reason.
pub fn inhibits(inhibits: &Inhibits) -> Grid {
    let columns = [
        "vm",
        "reason",
        "seconds",
        "of time %",
        "set",
        "cleared",
        "most changes/s",
        "state",
        "set by",
        "cause",
    ];
    let basis = match inhibits.authority {
        Authority::Kernel => "named by the kernel",
        Authority::Version => "named by the kernel's version",
        Authority::Assumed => "the kernel is not known, so numbers keep all their meanings",
    };
    let share = match inhibits.machines.as_slice() {
        [machine] => format!(", {:.1} % of the time", machine.inhibited_share * 100.0),
        _ => String::new(),
    };
    let mut grid = Grid::new(format!("Inhibits of AVIC or APICv{share} ({basis})"), &columns);
    for machine in &inhibits.machines {
        for reason in &machine.reasons {
            let state = match (reason.is_set_at_end, reason.is_storm) {
                (true, true) => "set at end, storm",
                (true, false) => "set at end",
                (false, true) => "storm",
                (false, false) => "",
            };
            grid.rows.push(vec![
                if machine.process == 0 {
                    Value::Missing
                } else {
                    Value::Text(machine.process.to_string())
                },
                Value::text(&reason.name),
                Value::Number(reason.seconds, 3),
                Value::Number(reason.share * 100.0, 1),
                Value::Count(reason.times_set),
                Value::Count(reason.times_cleared),
                Value::Count(reason.worst_changes_per_second),
                Value::text(state),
                setters(reason),
                Value::text(reason.cause.unwrap_or(match inhibits.authority {
                    Authority::Assumed => "depends on the kernel: give --kernel RELEASE",
                    _ => "not known to this kernel's numbering",
                })),
            ]);
        }
    }
    grid
}

/// The threads that set a reason, with how often where there are several.
fn setters(reason: &ReasonTime) -> Value {
    const SHOWN: usize = 3;
    let name = |setter: &Setter| {
        setter.name.clone().unwrap_or_else(|| format!("thread {}", setter.thread))
    };
    let text = match reason.setters.as_slice() {
        [] => return Value::Missing,
        [only] => name(only),
        several => {
            let mut shown: Vec<_> = several
                .iter()
                .take(SHOWN)
                .map(|setter| format!("{} ({})", name(setter), setter.times))
                .collect();
            if several.len() > SHOWN {
                shown.push("others".into());
            }
            shown.join(", ")
        }
    };
    Value::Text(text)
}

/// Everything counted beside exits, table by table; empty ones are left out.
pub fn interrupts(report: &Report) -> Vec<Grid> {
    let found = &report.summary.interrupts;
    let mut grids = Vec::new();
    if !found.vectors.is_empty() {
        grids.push(vectors(report));
    }
    let counted = [
        ("IPIs without a vector", &found.other_ipis),
        ("IPIs that AVIC could not complete", &found.incomplete_ipis),
        ("Registers that AVIC left to KVM", &found.unaccelerated),
        ("Guest log of the IOMMU", &found.guest_log),
        ("Doorbells", &found.doorbells),
        ("Posted device interrupts", &found.posted_routes),
        ("Interrupt lines raised", &found.lines),
        ("Returns to the virtual-machine monitor", &found.userspace_exits),
    ];
    for (title, counts) in counted.into_iter().filter(|(_, counts)| !counts.is_empty()) {
        let mut grid = Grid::new(title, &["what", "count"]);
        grid.rows.extend(counts.iter().map(|row| vec![Value::text(&row.0), Value::Count(row.1)]));
        grids.push(grid);
    }
    let mut rest = Grid::new("Also seen", &["what", "count"]);
    for (name, count) in [
        ("wakeups after sleeping", found.slept),
        ("wakeups while polling", found.polled),
        (
            "accepted without a vector: INIT, NMI, wake-ups of waiting spinlocks",
            found.accepted_without_vector,
        ),
        ("ends of interrupt while none was in service", found.stray_ends),
        ("exits of a guest's guest", found.nested_exits),
        ("IPI targets searched for in software", found.kick_slow_path),
    ] {
        if count > 0 {
            rest.rows.push(vec![Value::text(name), Value::Count(count)]);
        }
    }
    grids.extend((!rest.rows.is_empty()).then_some(rest));
    grids
}
