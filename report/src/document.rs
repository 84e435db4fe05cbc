//! A result as one small model: sentences with how much they matter, tables, and series over time.
//! A result that is put into this has every form.

mod html;
mod markdown;
mod text;

use crate::grid::Grid;
use rules::finding::Answer;
use serde::Serialize;

/// Version of the published form of [`Document`]: docs/schema/report-1.json.
pub const SCHEMA: u32 = 1;

/// How much a sentence matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing; nothing has to be done.
    Note,
    /// What could not be found out.
    Unknown,
    /// May be wrong, or will be.
    Warning,
    /// Something is wrong.
    Problem,
}

impl Severity {
    /// As people and programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl From<Answer> for Severity {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::Good,
            Answer::No => Self::Problem,
            Answer::Unknown => Self::Unknown,
        }
    }
}

/// A sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sentence {
    /// How much it matters.
    pub severity: Severity,
    /// What it says.
    pub text: String,
    /// The line that changes it, as it is to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Series {
    /// What it shows.
    pub title: String,
    /// What a value counts, such as `exits per second`.
    pub unit: String,
    /// Seconds at which each stretch of time begins, and the last one's end.
    pub starts: Vec<f64>,
    /// A name and a value for each stretch.
    pub lines: Vec<(String, Vec<f64>)>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Part {
    /// Something said.
    Sentence(Sentence),
    /// Something counted.
    Table(Grid),
    /// Something that changed.
    Series(Series),
}

/// What belongs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Section {
    /// What it is about.
    pub title: String,
    /// In the order in which they are read.
    pub parts: Vec<Part>,
}

impl Section {
    /// With nothing in it yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// Adds a sentence.
    pub fn say(&mut self, severity: Severity, text: impl Into<String>) {
        self.say_with_fix(severity, text, None);
    }

    /// Adds a sentence with the line that changes what it says.
    pub fn say_with_fix(
        &mut self,
        severity: Severity,
        text: impl Into<String>,
        fix: Option<String>,
    ) {
        self.parts.push(Part::Sentence(Sentence { severity, text: text.into(), fix }));
    }

    /// Adds a table, unless it has no rows.
    pub fn show(&mut self, grid: Grid) {
        if !grid.rows.is_empty() {
            self.parts.push(Part::Table(grid.without_empty_columns()));
        }
    }

    /// Adds a series, unless it has no stretch to compare with another.
    pub fn draw(&mut self, series: Series) {
        if series.lines.iter().any(|line| line.1.len() > 1) {
            self.parts.push(Part::Series(series));
        }
    }
}

/// A whole result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// Name and version of this program.
    pub tool: &'static str,
    /// What it is about.
    pub title: String,
    /// Where from: names and values.
    pub facts: Vec<(String, String)>,
    /// In the order in which they are read.
    pub sections: Vec<Section>,
}

/// Name and version of this program.
pub const TOOL: &str = concat!("avicenna ", env!("CARGO_PKG_VERSION"));

impl Document {
    /// With nothing in it yet.
    pub fn new(title: impl Into<String>) -> Self {
        let (facts, sections) = (Vec::new(), Vec::new());
        Self { schema: SCHEMA, tool: TOOL, title: title.into(), facts, sections }
    }

    /// Adds where it is from, if that is known.
    pub fn fact(&mut self, name: &str, value: Option<impl Into<String>>) {
        self.facts.extend(value.map(|value| (name.to_owned(), value.into())));
    }

    /// Adds a section, unless it has nothing in it.
    pub fn add(&mut self, section: Section) {
        if !section.parts.is_empty() {
            self.sections.push(section);
        }
    }

    /// For a terminal: lines of at most so many columns.
    pub fn to_text_within(&self, most: usize) -> String {
        text::render(self, most)
    }

    /// For tickets and wikis.
    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// A page that needs nothing else.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// Everything, with the version of its schema.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Every table, one after the other, each behind a line with its title.
    pub fn to_csv(&self) -> String {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        let tables = parts.filter_map(|part| match part {
            Part::Table(grid) => Some(grid),
            Part::Sentence(_) | Part::Series(_) => None,
        });
        tables.map(Grid::to_csv).collect::<Vec<_>>().join("\r\n")
    }
}

#[cfg(test)]
mod tests;
