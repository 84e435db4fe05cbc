//! What `check` answers: rows, and three answers that rest on them.

use super::conclusion::every;
use super::row::Row;
use super::summary::Summary;
use crate::finding::{Answer, Finding};
use serde::Serialize;

/// Version of the published form of [`Report`]: docs/schema/check-1.json.
pub const SCHEMA: u32 = 1;

/// The rows of `avicenna check`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// What was read.
    pub origin: String,
    /// Release of the running kernel, as `uname -r` prints it; `None` where it was not read.
    pub kernel: Option<String>,
    /// One line for each kind of core: its numbers, brand and signature.
    pub processors: Vec<String>,
    /// A host of another architecture: "an arm64".
    #[serde(skip)]
    pub foreign: Option<&'static str>,
    /// What the input describes, and so what is answered.
    pub scope: Scope,
    /// The answer in three sentences.
    pub summary: Summary,
    /// AVIC or APICv active; IPIs accelerated; device interrupts posted.
    pub answers: Vec<Finding>,
    /// Every row behind the answers, in the order in which `check` shows them.
    pub findings: Vec<Finding>,
}

/// A host with its kernel, or hardware alone: a CPUID listing, a firmware table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A host with its kernel: what is on and off can be answered.
    Host,
    /// Hardware alone, such as a CPUID dump or ACPI tables: only what it is able to do.
    Hardware,
}

impl Report {
    /// Of hardware alone: whether it can. Of a host: no if anything is wrong, otherwise unknown if
    /// one of the three answers is.
    pub fn verdict(&self) -> Answer {
        if self.scope == Scope::Hardware {
            return self.summary.hardware.answer;
        }
        if self.answers.iter().chain(&self.findings).any(Finding::is_problem) {
            return Answer::No;
        }
        self.answers.iter().fold(Answer::Yes, |all, finding| all.and(finding.answer))
    }

    /// The first finding of a row; `None` where the row does not apply.
    pub fn finding(&self, row: Row) -> Option<&Finding> {
        self.answers.iter().chain(&self.findings).find(|finding| finding.is(row))
    }

    /// The first answer to a row; `None` where the row does not apply.
    pub fn answer(&self, row: Row) -> Option<Answer> {
        self.finding(row).map(|finding| finding.answer)
    }

    /// The answer for every processor or unit together; unknown where there is none.
    pub fn all(&self, row: Row) -> Answer {
        every(&self.findings, row)
    }
}
