//! A result as a page: self-contained, with plots.

use crate::comparison::{Comparison, ExitRow};
use crate::counters::Count;
use crate::grids::{self, exits};
use crate::remarks;
use crate::result::LabResult;
use report::grid::{escaped, grouped};
use report::page::{self, AFTER as ON, BEFORE as OFF, page};
use report::plot;

impl LabResult {
    pub fn to_html(&self) -> String {
        let mut body = format!(
            "<h1>Where the VM exits go: {}</h1>\n<p class=\"facts\">{}</p>\n",
            escaped(&self.workload),
            escaped(&self.title())
        );
        self.comparisons.iter().for_each(|comparison| body += &answer(comparison));
        body += &page::legend("AVIC off", "AVIC on");
        for comparison in &self.comparisons {
            body += &section(comparison);
        }
        if let Some(grid) = grids::predictions(&self.predictions) {
            body += &format!("<div class=\"scroll\">{}</div>\n", grid.to_html());
        }
        for reason in remarks::not_predicted(&self.predictions) {
            body += &format!("<p>{}</p>\n", escaped(&reason));
        }
        body += &format!("<p class=\"facts\">{}</p>\n", escaped(&self.run_line()));
        page(&format!("avicenna lab: {}", self.workload), &body)
    }
}

/// The sentence that a reader came for.
fn answer(comparison: &Comparison) -> String {
    let sides = (comparison.exits_off(), comparison.exits_on(), comparison.change());
    let (Some(off), Some(on), Some(change)) = sides else { return String::new() };
    format!(
        "<p class=\"answer\">{}: {} VM exits without AVIC, {} with it: <b>{change:+.1} %</b></p>\n",
        escaped(&comparison.name),
        grouped(off),
        grouped(on)
    )
}

fn section(comparison: &Comparison) -> String {
    let name = escaped(&comparison.name);
    let mut html = format!("<h2>{name}</h2>\n");
    for trouble in &comparison.troubles {
        html += &format!("<p class=\"warning\">{}</p>\n", escaped(trouble));
    }
    html += "<ul>\n";
    for remark in remarks::of_comparison(comparison) {
        html += &format!("<li>{}</li>\n", escaped(&remark));
    }
    html += &format!("</ul>\n<h3>{name}: VM exits by reason</h3>\n");
    html += &plot::bars("VM exits by reason, off and on", &exit_bars(comparison));
    let mut units: Vec<&str> = comparison.measures.iter().map(|measure| measure.unit).collect();
    units.dedup();
    for unit in units {
        let title = format!("{name}: what the guest measured, {}", escaped(unit));
        html += &format!("<h3>{title}</h3>\n");
        html += &plot::bars(&title, &measure_bars(comparison, unit));
    }
    for machine in comparison.inhibit_history.iter().flat_map(|history| &history.machines) {
        html += &format!("<h3>{name}: when KVM inhibited AVIC</h3>\n");
        html += &report::exits::inhibit_plot(machine);
    }
    for grid in grids::of_comparison(comparison) {
        html += &format!("<div class=\"scroll\">{}</div>\n", grid.to_html());
    }
    html
}

/// Name, value, text behind the bar, colour.
type Bar = (String, f64, String, &'static str);

/// Both settings of all measures in one unit, to one scale.
fn measure_bars(comparison: &Comparison, unit: &str) -> Vec<Bar> {
    let measures = comparison.measures.iter().filter(|measure| measure.unit == unit);
    let bar = |name: &str, setting: &str, value: Option<f64>, colour: &'static str| {
        let digits = if value.is_some_and(|value| value < 10.0) { 3 } else { 0 };
        value.map(|value| (format!("{name} {setting}"), value, format!("{value:.digits$}"), colour))
    };
    measures
        .flat_map(|one| [bar(&one.name, "off", one.off, OFF), bar(&one.name, "on", one.on, ON)])
        .flatten()
        .collect()
}

/// The reasons that matter, each with both settings.
fn exit_bars(comparison: &Comparison) -> Vec<Bar> {
    let weight = |row: &ExitRow| exits(row.off).unwrap_or(0).max(exits(row.on).unwrap_or(0));
    let mut rows: Vec<&ExitRow> = comparison.exits.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    let bar = |row: &ExitRow, setting: &str, count: Option<Count>, colour: &'static str| {
        exits(count).map(|exits| {
            let name = format!("{} {setting}", row.name);
            (name, exits as f64, grouped(exits), colour)
        })
    };
    rows.into_iter()
        .take(8)
        .flat_map(|row| [bar(row, "off", row.off, OFF), bar(row, "on", row.on, ON)])
        .flatten()
        .collect()
}
