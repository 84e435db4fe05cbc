//! What a rule says.

use crate::configuration::change::Change;
use crate::finding::{Answer, Position, Severity};
use crate::inhibit::{Reason, Vendor};
use reading::Kernel;

/// What a rule says of one machine, or of one host's parameters.
pub struct Outcome {
    severity: Severity,
    /// Where to point when nothing is written.
    head: Position,
    pub found: Vec<Found>,
}

/// One violation, or one question that stays open.
pub struct Found {
    pub answer: Answer,
    pub severity: Severity,
    pub position: Position,
    pub message: String,
    pub change: Option<Change>,
    pub vendors: Vec<Vendor>,
    pub inhibit: Option<Reason>,
}

impl Outcome {
    pub fn new(severity: Severity, head: Position) -> Self {
        Self { severity, head, found: Vec::new() }
    }

    fn push(&mut self, answer: Answer, position: Option<Position>, message: String) -> &mut Found {
        let position = position.unwrap_or(self.head);
        let found = Found {
            answer,
            severity: self.severity,
            position,
            message,
            change: None,
            vendors: Vec::new(),
            inhibit: None,
        };
        self.found.push(found);
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Where it is not known whether the rule holds for the kernel, nothing is violated for
    /// certain, and nothing is changed.
    pub fn open_unless(&mut self, applies: Option<bool>, kernel: Option<&Kernel>) {
        if applies.is_some() {
            return;
        }
        let release = kernel.map_or("this kernel", |kernel| kernel.release.as_str());
        for found in &mut self.found {
            if found.answer == Answer::No {
                found.message = format!(
                    "{}; whether that is so on {release} is not known, its number does not tell",
                    found.message
                );
            }
            found.answer = Answer::Unknown;
            found.change = None;
        }
    }

    /// The rule is violated; without a place, at the machine's head.
    pub fn violated(
        &mut self,
        position: Option<Position>,
        message: impl Into<String>,
    ) -> &mut Found {
        self.push(Answer::No, position, message.into())
    }

    /// What decides is not known.
    pub fn undecided(
        &mut self,
        position: Option<Position>,
        message: impl Into<String>,
    ) -> &mut Found {
        self.push(Answer::Unknown, position, message.into())
    }
}

impl Found {
    pub fn repaired_by(&mut self, change: impl Into<Change>) -> &mut Self {
        self.change = Some(change.into());
        self
    }

    /// Only on these of the target's vendors.
    pub fn on(&mut self, vendors: Vec<Vendor>) -> &mut Self {
        self.vendors = vendors;
        self
    }

    pub fn as_note(&mut self) -> &mut Self {
        self.severity = Severity::Note;
        self
    }

    /// KVM sets this inhibit for it.
    pub fn inhibiting(&mut self, reason: Reason) -> &mut Self {
        self.inhibit = Some(reason);
        self
    }
}
