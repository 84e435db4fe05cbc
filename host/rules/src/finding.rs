//! What every rule answers with: a statement, its answer, what was read, why, and the line that
//! changes it.
//!
//! Statements are phrased so that *yes* is the good answer. Known good, known bad and unknown are
//! three answers: an unknown is never shown as good.

use crate::capability::Row;
pub use reading::{Evidence, Position};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The answer to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The statement is true, which is good.
    Yes,
    /// The statement is false.
    No,
    /// What decides could not be read. Never shown as good.
    Unknown,
}

impl Answer {
    /// Three-valued "and": one *no* decides, otherwise one unknown does.
    pub fn and(self, other: Answer) -> Answer {
        match (self, other) {
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            (Answer::Unknown, _) | (_, Answer::Unknown) => Answer::Unknown,
            (Answer::Yes, Answer::Yes) => Answer::Yes,
        }
    }

    /// Three-valued "or": one *yes* decides, otherwise one unknown does.
    pub fn or(self, other: Answer) -> Answer {
        match (self, other) {
            (Answer::Yes, _) | (_, Answer::Yes) => Answer::Yes,
            (Answer::Unknown, _) | (_, Answer::Unknown) => Answer::Unknown,
            (Answer::No, Answer::No) => Answer::No,
        }
    }
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Answer {
        if yes { Answer::Yes } else { Answer::No }
    }
}

/// What could not be read is unknown.
impl From<Option<bool>> for Answer {
    fn from(value: Option<bool>) -> Answer {
        value.map_or(Answer::Unknown, Answer::from)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Unknown => "unknown",
        })
    }
}

/// How much a *no* matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; does not change the exit status.
    Note,
    /// Costs performance.
    Warning,
    /// The feature is off, or the configuration does not start.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// What a change needs before it has effect, in order of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// Has effect at once.
    Live,
    /// The virtual machine's process has to be started again.
    VmRestart,
    /// The KVM module has to be reloaded, which needs every virtual machine stopped.
    ModuleReload,
    /// The host has to be started again.
    Reboot,
    /// A firmware setting or update.
    Firmware,
    /// No setting changes it: another CPU, IOMMU or board.
    Hardware,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Needs::Live => "live",
            Needs::VmRestart => "VM restart",
            Needs::ModuleReload => "module reload, no VM running",
            Needs::Reboot => "reboot",
            Needs::Firmware => "firmware",
            Needs::Hardware => "other hardware",
        })
    }
}

/// The one line that changes the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fix {
    /// A command, a setting or a sentence, as an operator would write it.
    pub line: String,
    /// What it takes until the line has effect.
    pub needs: Needs,
}

impl Fix {
    /// A line with what it needs.
    pub fn new(line: impl Into<String>, needs: Needs) -> Fix {
        Fix { line: line.into(), needs }
    }
}

/// The answer of one rule about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable identifier of the rule: `AV001`, `cpu-avic`.
    pub id: String,
    /// What it is about: "host", "cpu 0-15", "ivhd0", a virtual machine's name, a file.
    pub subject: String,
    /// The statement that is true, false or unknown.
    pub statement: String,
    /// Unknown wherever something that decides could not be read.
    pub answer: Answer,
    /// How much a *no* would matter.
    pub severity: Severity,
    /// Why the answer is what it is, in a sentence.
    pub reason: String,
    /// All that the answer rests on, as it was read.
    pub evidence: Vec<Evidence>,
    /// Where the rule comes from: kernel file and version, or document and section.
    pub source: String,
    /// `None` where the answer is good, or no line changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    /// The row whose answer this one only repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
}

impl Finding {
    /// Whether this is the answer to a row of `check`.
    pub fn is(&self, row: Row) -> bool {
        self.id == row.name()
    }

    /// True if this finding is a reason not to be satisfied.
    pub fn is_problem(&self) -> bool {
        self.answer == Answer::No && self.severity > Severity::Note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_no_decides_a_conjunction_and_unknown_is_never_good() {
        use Answer::{No, Unknown, Yes};
        let rows = [
            (Yes, Yes, Yes, Yes),
            (Yes, No, No, Yes),
            (Yes, Unknown, Unknown, Yes),
            (No, Unknown, No, Unknown),
            (Unknown, Unknown, Unknown, Unknown),
            (No, No, No, No),
        ];
        for (a, b, and, or) in rows {
            assert_eq!((a.and(b), b.and(a)), (and, and), "{a} and {b}");
            assert_eq!((a.or(b), b.or(a)), (or, or), "{a} or {b}");
        }
        assert_eq!(Answer::from(None), Unknown);
    }
}
