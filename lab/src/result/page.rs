//! A result as a page: self-contained, with plots.

use super::LabResult;
use super::gloss::Glossary;
use super::grids::{self, exits};
use super::remarks;
use crate::comparison::{Comparison, ExitRow, Measure};
use report::grid::{Grid, escaped, grouped};
use report::page::{self, page};
use report::plot::{self, Pair};

/// Text that is looked through, not shown: a page has its own width.
const UNFOLDED: usize = usize::MAX;
/// Reasons with a bar; all are in the tables.
const MOST_REASONS: usize = 8;

impl LabResult {
    /// The verdict comes first.
    pub fn to_html(&self) -> String {
        let mut body = format!("<p class=\"answer\">{}</p>\n", escaped(&self.verdict.text));
        body += &format!(
            "<h1>Where the VM exits go: {}</h1>\n<p class=\"facts\">{}\n{}</p>\n",
            escaped(&self.workload),
            escaped(&self.title()),
            escaped(&self.costs_sentence())
        );
        if let Some(arm) = self.arms.first() {
            let feature = arm.label.rsplit_once(' ').map_or("", |(feature, _)| feature);
            body += &page::legend(&format!("{feature} off"), &format!("{feature} on"));
        }
        let mut glossary = Glossary::default();
        for comparison in &self.comparisons {
            body += &section(comparison, &mut glossary);
        }
        if let Some(grid) = grids::predictions(&self.predictions) {
            body += &table(&grid, &mut glossary);
        }
        for remark in remarks::of_predictions(self) {
            body += &format!("<p>{}</p>\n", escaped(&remark));
        }
        body += &format!("<p class=\"facts\">{}</p>\n", escaped(&self.run_line()));
        page(&format!("avicenna lab: {}", self.workload), &body)
    }
}

/// A table, and what its words mean.
fn table(grid: &Grid, glossary: &mut Glossary) -> String {
    let words = glossary.explain(&grid.to_text_within(UNFOLDED));
    let words: Vec<String> = words.iter().map(|line| escaped(line)).collect();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!("<p class=\"facts\">{}</p>\n", words.join("\n"))
    };
    format!("<div class=\"scroll\">{}</div>\n{words}", grid.to_html())
}

fn section(comparison: &Comparison, glossary: &mut Glossary) -> String {
    let name = escaped(&comparison.name);
    let mut html = format!("<h2>{name}</h2>\n");
    for trouble in &comparison.troubles {
        html += &format!("<p class=\"warning\">{}</p>\n", escaped(trouble));
    }
    html += "<ul>\n";
    for remark in remarks::of_comparison(comparison) {
        html += &format!("<li>{}</li>\n", escaped(&remark));
    }
    html += &format!("</ul>\n<h3>{name}: VM exits {}</h3>\n", comparison.scope.words());
    html += &plot::pairs("VM exits by reason, off and on", &exit_pairs(comparison));
    html += &halts(comparison);
    let mut units: Vec<&str> = comparison.measures.iter().map(|measure| measure.unit).collect();
    units.dedup();
    for unit in units {
        let title = format!("{name}: what the guest measured, {}", escaped(unit));
        html += &format!("<h3>{title}</h3>\n");
        html += &plot::pairs(&title, &measure_pairs(comparison, unit));
    }
    for machine in comparison.inhibit_history.iter().flat_map(|history| &history.machines) {
        html += &format!("<h3>{name}: when KVM inhibited {}</h3>\n", comparison.hardware);
        html += &report::exits::inhibit_plot(machine);
    }
    for grid in grids::of_comparison(comparison) {
        html += &table(&grid, glossary);
    }
    html
}

/// All measures in one unit, to one scale.
fn measure_pairs(comparison: &Comparison, unit: &str) -> Vec<Pair> {
    let side = |value: Option<f64>| {
        value.map(|value| {
            let digits = if value < 10.0 { 3 } else { 0 };
            (value, format!("{value:.digits$}"))
        })
    };
    let measures = comparison.measures.iter().filter(|measure| measure.unit == unit);
    let pair = |one: &Measure| Pair {
        name: one.name.clone(),
        note: one.change().map_or(String::new(), |change| format!("{change:+.1} %")),
        before: side(one.off),
        after: side(one.on),
    };
    measures.map(pair).collect()
}

/// The reasons that matter: not HLT, which is not work and would hide the rest.
fn exit_pairs(comparison: &Comparison) -> Vec<Pair> {
    let weight = |row: &&ExitRow| exits(row.off).unwrap_or(0).max(exits(row.on).unwrap_or(0));
    let mut rows: Vec<&ExitRow> = comparison.exits.iter().filter(|row| !row.is_wait).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    let side = |count: Option<u64>| count.map(|count| (count as f64, grouped(count)));
    let pair = |row: &ExitRow| Pair {
        name: row.name.clone(),
        note: String::new(),
        before: side(exits(row.off)),
        after: side(exits(row.on)),
    };
    rows.into_iter().take(MOST_REASONS).map(pair).collect()
}

/// Waiting, beside the scale.
fn halts(comparison: &Comparison) -> String {
    let rows = comparison.exits.iter().filter(|row| row.is_wait);
    let shown = |count: Option<u64>| count.map_or_else(|| "not run".to_owned(), grouped);
    rows.map(|row| {
        let (off, on) = (shown(exits(row.off)), shown(exits(row.on)));
        format!("<p>{}, waiting, beside the scale: off {off}, on {on}</p>\n", escaped(&row.name))
    })
    .collect()
}
