//! What came of a search in the forms that people and CI systems read.

use super::oracle::Rule;
use super::report::Found;
use report::grid::{Grid, folded};
use report::suite::{Tested, junit};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::time::Duration;

/// What has all forms.
pub trait Forms: Serialize {
    /// The first lines, which say all that matters.
    fn head(&self) -> String;

    /// What was counted.
    fn tables(&self) -> Vec<Grid>;

    /// What is to be known of the tables.
    fn remarks(&self) -> String;

    /// What the forms of others are made of.
    fn told(&self) -> Told<'_>;

    /// For a terminal.
    fn to_text(&self, columns: usize) -> String {
        let mut text = format!("{}\n\n", self.head());
        for table in self.tables() {
            text += &format!("{}\n", table.to_text_within(columns));
        }
        text += &folded(&self.remarks(), columns, 0);
        for (found, number) in self.told().findings.iter().zip(1..) {
            text += &format!("\n{number}. {} ({}.json)\n", found.story.join("\n   "), found.cause);
            found.lanes.iter().for_each(|row| text += &format!("   {row}\n"));
        }
        text
    }

    /// For a mailing list or a ticket.
    fn to_markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.head());
        for table in self.tables() {
            text += &format!("{}\n", table.to_markdown());
        }
        text += &self.remarks();
        for found in self.told().findings {
            let told = report::grid::marked_down(&found.story.join("; "));
            text += &format!("\n### {}\n\n{told}\n\n", found.cause);
            found.lanes.iter().for_each(|row| text += &format!("    {row}\n"));
        }
        text
    }

    /// For CI systems: a test of each rule, which fails with what breaks it. Findings are in
    /// `folder`.
    fn to_junit(&self, folder: &Path) -> String {
        self.told().junit(folder)
    }

    /// For code scanning. Findings are in `folder`.
    fn to_sarif(&self, folder: &Path) -> Json {
        self.told().sarif(folder)
    }

    /// For programs.
    fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// So many findings, in words.
pub(super) fn findings(count: usize) -> String {
    match count {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    }
}

/// What programs of others are told.
pub struct Told<'a> {
    /// Of the host's kernel.
    pub release: &'a str,
    /// What it took of this machine's processors.
    pub spent: Duration,
    /// How a guest ended.
    pub end: Option<&'a str>,
    /// Each cause once.
    pub findings: Vec<&'a Found>,
}

impl Told<'_> {
    fn junit(&self, folder: &Path) -> String {
        let share = 1.0 / Rule::ALL.len() as f64;
        let tested = Rule::ALL.map(|rule| {
            let own = || self.findings.iter().filter(|found| found.rule == rule);
            let end = self.end.filter(|_| rule == Rule::Ended).map(str::to_owned);
            Tested {
                name: format!("{} ({})", rule.name(), self.release),
                failure: own().next().map(|found| found.story.join("; ")).or(end),
                skipped: None,
                seconds: self.spent.mul_f64(share).as_secs_f64(),
                output: own().map(|found| told(found, folder)).collect(),
            }
        });
        junit("explore", &tested)
    }

    fn sarif(&self, folder: &Path) -> Json {
        let rules = Rule::ALL.map(|rule| {
            json!({
                "id": rule.name(),
                "shortDescription": { "text": format!("{}.", rule.title()) },
                "defaultConfiguration": { "level": "error" },
            })
        });
        let end = self.end.iter().map(|end| {
            json!({
                "ruleId": Rule::Ended.name(),
                "ruleIndex": Rule::Ended as usize,
                "level": "error",
                "message": { "text": format!("{}: the guest ended: {end}", self.release) },
                "partialFingerprints": { "cause/v1": "the-end" },
            })
        });
        let results = self.findings.iter().map(|found| {
            json!({
                "ruleId": found.rule.name(),
                "ruleIndex": found.rule as usize,
                "level": "error",
                "message": { "text": format!("{}: {}", self.release, found.story.join("; ")) },
                "partialFingerprints": { "cause/v1": found.cause },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": report::sarif::uri(&file(found, folder)) },
                    "region": { "startLine": 1 },
                }}],
            })
        });
        report::sarif::log(
            "avicenna lab explore",
            rules.to_vec(),
            results.chain(end).collect(),
            Vec::new(),
        )
    }
}

/// Where its file is, from the folder in which the search began.
fn file(found: &Found, folder: &Path) -> String {
    folder.join(format!("{}.json", found.cause)).display().to_string()
}

fn told(found: &Found, folder: &Path) -> String {
    let (story, lanes) = (found.story.join("\n"), found.lanes.join("\n"));
    format!("{story}\n{lanes}\navicenna lab explore replay {}\n", file(found, folder))
}
