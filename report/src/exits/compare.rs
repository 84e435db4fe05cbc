//! A comparison of two recordings for readers and programs.

use crate::grid::{Grid, Value, escaped, grouped, marked_down};
use crate::page::{legend, page};
use crate::plot::{self, Pair};
use profile::compare::{Change, Comparison, Finding};
use std::fmt::Write;

/// The changes, the whole first.
pub fn grid(comparison: &Comparison) -> Grid {
    let columns = [
        "reason",
        "change %",
        "finding",
        "95 % from",
        "95 % to",
        "rate A",
        "rate B",
        "count A",
        "count B",
        "points",
        "mean A us",
        "mean B us",
    ];
    let title = format!("Exits {}", comparison.basis.name());
    let mut grid = Grid::new(title, &columns);
    // A line of its own where it says more than the first.
    let has_idle = comparison.working.count_a != comparison.total.count_a
        || comparison.working.count_b != comparison.total.count_b;
    let wholes = [Some(&comparison.total), has_idle.then_some(&comparison.working)];
    for change in wholes.into_iter().flatten().chain(&comparison.changes) {
        let optional = |value: Option<f64>| value.map_or(Value::Missing, |v| Value::Number(v, 1));
        grid.rows.push(vec![
            Value::text(&change.name),
            change.percent.map_or(Value::text("new"), |percent| Value::Number(percent, 1)),
            Value::text(change.finding.name()),
            optional(change.interval.map(|interval| interval.0)),
            optional(change.interval.map(|interval| interval.1)),
            rate(change.rate_a),
            rate(change.rate_b),
            Value::Count(change.count_a),
            Value::Count(change.count_b),
            Value::Number(change.contribution, 2),
            Value::Number(change.mean_a_ns / 1e3, 2),
            Value::Number(change.mean_b_ns / 1e3, 2),
        ]);
    }
    grid
}

fn rate(value: f64) -> Value {
    Value::Number(value, if value.abs() < 100.0 { 2 } else { 0 })
}

/// The answer first: by how much the whole changed and how large that is.
pub fn headline(comparison: &Comparison) -> String {
    format!("{}\n{}", answer(comparison), sides(comparison))
}

fn sides(comparison: &Comparison) -> String {
    let total = &comparison.total;
    format!(
        "A {} ({} exits)\nB {} ({} exits)\n",
        comparison.name_a,
        grouped(total.count_a),
        comparison.name_b,
        grouped(total.count_b)
    )
}

/// The sentence a reader came for.
pub fn answer(comparison: &Comparison) -> String {
    let total = &comparison.total;
    let Some(percent) = total.percent else { return "A has no exits to compare with".into() };
    let interval = total.interval.map_or_else(String::new, |(low, high)| {
        format!(" (95 % of draws between {low:+.1} and {high:+.1} %)")
    });
    let finding = match total.finding {
        Finding::NoDifferenceShown => ": no difference shown",
        Finding::NoConfidence => {
            ": printed totals or a short recording, so how sure that is is not known"
        }
        Finding::Fewer | Finding::More => "",
    };
    let basis = comparison.basis.name();
    format!("{percent:+.1} % exits {basis}{interval}{}{finding}", magnitude(total))
}

fn magnitude(total: &Change) -> String {
    let factor = match (total.rate_a > 0.0, total.rate_b > 0.0) {
        (true, true) => total.rate_a / total.rate_b,
        _ => return String::new(),
    };
    match factor {
        f if f >= 2.0 => format!(", {f:.1} times fewer"),
        f if f <= 0.5 => format!(", {:.1} times more", 1.0 / f),
        _ => String::new(),
    }
}

/// What the columns mean that do not say it themselves.
const LEGEND: &str = "points: what a reason adds to the change of all exits; 95 %: of draws from blocks of \
                      time; rates: exits divided as the title says";

/// For a terminal: the finding, the table, and what its columns mean.
pub fn text(comparison: &Comparison) -> String {
    let grid = grid(comparison).without_empty_columns();
    format!("{}\n{}{LEGEND}\n", headline(comparison), grid.to_text())
}

/// The same as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let grid = grid(comparison).without_empty_columns();
    let lines: Vec<String> = headline(comparison).split('\n').map(marked_down).collect();
    format!("{}\n{}{LEGEND}\n", lines.join("  \n"), grid.to_markdown())
}

/// Rows drawn; the rest are in the table.
const MOST_BARS: usize = 10;

fn pair(change: &Change) -> Pair {
    let percent = change.percent.map_or("new".into(), |percent| format!("{percent:+.1} %"));
    Pair {
        name: change.name.clone(),
        note: format!("{percent}, {}", change.finding.name()),
        before: Some((change.rate_a, plot::short(change.rate_a))),
        after: Some((change.rate_b, plot::short(change.rate_b))),
    }
}

/// A page with the rates side by side.
pub fn html(comparisons: &[Comparison]) -> String {
    let mut body = String::new();
    for comparison in comparisons {
        let _ = writeln!(
            body,
            "<h1>{} against {}</h1>\n<p class=\"answer\">{}</p>\n<p class=\"facts\">{}</p>",
            escaped(&comparison.name_b),
            escaped(&comparison.name_a),
            escaped(&answer(comparison)),
            escaped(&sides(comparison))
        );
        let rows = std::iter::once(&comparison.total).chain(&comparison.changes).take(MOST_BARS);
        let pairs: Vec<Pair> = rows.map(pair).collect();
        let _ = writeln!(body, "<h2>Exits {}</h2>", comparison.basis.name());
        body.push_str(&legend(&comparison.name_a, &comparison.name_b));
        body.push_str(&plot::pairs("Exits of A and B by reason", &pairs));
        let grid = grid(comparison).without_empty_columns();
        let _ = writeln!(body, "<div class=\"scroll\">{}</div><p>{LEGEND}.</p>", grid.to_html());
    }
    page("VM exits compared", &body)
}
