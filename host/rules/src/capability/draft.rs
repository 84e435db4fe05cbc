//! A finding in the making.

use crate::finding::{Answer, Evidence, Finding, Fix, Needs, Severity};

pub struct Draft(Finding);

impl Draft {
    pub fn new(
        id: impl Into<String>,
        subject: impl Into<String>,
        statement: impl Into<String>,
        source: impl Into<String>,
    ) -> Draft {
        Draft(Finding {
            id: id.into(),
            subject: subject.into(),
            statement: statement.into(),
            answer: Answer::Unknown,
            severity: Severity::Warning,
            reason: String::new(),
            evidence: vec![],
            source: source.into(),
            fix: None,
            follows: None,
        })
    }

    pub fn severity(mut self, severity: Severity) -> Draft {
        self.0.severity = severity;
        self
    }

    pub fn evidence(mut self, evidence: Evidence) -> Draft {
        self.0.evidence.push(evidence);
        self
    }

    pub fn evidence_all(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Draft {
        self.0.evidence.extend(evidence);
        self
    }

    /// Shown unless the answer is yes.
    pub fn fix(mut self, line: impl Into<String>, needs: Needs) -> Draft {
        self.0.fix = Some(Fix::new(line, needs));
        self
    }

    pub fn answer(mut self, answer: Answer, reason: &str) -> Finding {
        self.0.answer = answer;
        self.0.reason = reason.into();
        if answer == Answer::Yes {
            self.0.fix = None;
        }
        self.0
    }
}
