//! A profile of VM exits for readers and programs.

mod beside;
#[cfg(feature = "parquet")]
mod columns;
pub mod compare;
mod folded;
mod grids;
mod html;
pub mod machine;
pub mod metrics;
mod recording;
mod text;

pub use beside::inhibits;
#[cfg(feature = "parquet")]
pub use columns::parquet;
pub use grids::{Grouping, groups};
pub use html::{html, inhibit_plot};
pub use recording::Report;
pub use text::{answer, facts};

use crate::grid::{Grid, marked_down};
use serde::Serialize;

impl Report {
    /// For a terminal: the table of `perf kvm stat` with percentiles, and what it means.
    pub fn to_text(&self, grouping: Grouping) -> String {
        self.to_text_within(grouping, usize::MAX)
    }

    /// The same with tables of at most so many columns: what is further right goes on below.
    pub fn to_text_within(&self, grouping: Grouping, most: usize) -> String {
        text::render(self, grouping, most)
    }

    /// Everything as tables of Markdown.
    pub fn to_markdown(&self, grouping: Grouping) -> String {
        let mut text =
            format!("## {}\n\n{}\n", marked_down(&self.file), markdown(&text::facts(self)));
        for answer in [text::answer(&self.summary), text::processors(self)].into_iter().flatten() {
            text.push_str(&format!("\n{}\n\n", markdown(&answer)));
        }
        if grouping == Grouping::Reason {
            grids::all(self).iter().for_each(|grid| text.push_str(&grid.to_markdown()));
        } else {
            text.push_str(&grids::shown_groups(self, grouping).to_markdown());
        }
        text
    }

    /// Every table there is to show, without those that have no rows.
    pub fn grids(&self) -> Vec<Grid> {
        grids::all(self)
    }

    /// `vm;vcpu;reason;detail microseconds`, which flame-graph tools read.
    pub fn to_folded(&self) -> String {
        folded::render(self)
    }
}

/// Lines that mean themselves in Markdown.
fn markdown(text: &str) -> String {
    text.lines().map(marked_down).collect::<Vec<_>>().join("\n")
}

/// The published form of what recordings hold: docs/schema/exits-1.json.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Reports<'a> {
    /// The version of this form.
    schema: u32,
    /// Name and version of this program.
    tool: &'static str,
    /// A recording each.
    reports: &'a [Report],
}

/// Everything, with the version of its schema.
pub fn json(reports: &[Report]) -> serde_json::Result<String> {
    let tool = concat!("avicenna ", env!("CARGO_PKG_VERSION"));
    let document = Reports { schema: profile::summary::SCHEMA, tool, reports };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The tables of all reports as one, with the file in front.
fn one_grid(reports: &[Report], grouping: Grouping) -> Grid {
    let mut whole = Grid::new("", &[]);
    for report in reports {
        let grid = groups(report, grouping);
        whole.columns = grid.columns;
        whole.columns.insert(0, "file");
        whole.rows.extend(grid.rows.into_iter().map(|mut row| {
            row.insert(0, crate::grid::Value::text(&report.file));
            row
        }));
    }
    whole
}

/// Every line of the table, those of several recordings below each other with the file in front.
pub fn csv(reports: &[Report], grouping: Grouping) -> String {
    one_grid(reports, grouping).to_csv()
}

/// One object per line of the table.
pub fn ndjson(reports: &[Report], grouping: Grouping) -> serde_json::Result<String> {
    let grid = one_grid(reports, grouping);
    let mut text = String::new();
    for row in &grid.rows {
        let object: serde_json::Map<String, serde_json::Value> = grid
            .columns
            .iter()
            .zip(row)
            .map(|(name, value)| Ok(((*name).to_owned(), serde_json::to_value(value)?)))
            .collect::<serde_json::Result<_>>()?;
        text.push_str(&serde_json::to_string(&object)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::Reports;
    use profile::compare::{self, Comparison};

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let version = profile::summary::SCHEMA;
        let mut reports = schema::of::<Reports<'_>>("avicenna exits report --format json", version);
        reports["$defs"]["Summary"]["properties"]["schema"] =
            serde_json::json!({ "const": version });
        schema::assert_published("exits-1.json", &reports);
        let version = compare::SCHEMA;
        let mut all =
            schema::plain::<Vec<Comparison>>("avicenna exits compare --format json", version);
        all["$defs"]["Comparison"]["properties"]["schema"] =
            serde_json::json!({ "const": version });
        schema::assert_published("compare-1.json", &all);
    }
}
