//! What is asked of an input, and what is answered.

use super::rule::Rule;
use crate::configuration::ModuleOption;
use crate::configuration::change::Change;
use crate::configuration::edit::Edit;
use crate::finding::{Answer, Evidence, Finding, Fix, Position, Severity};
use crate::inhibit::{Reason, Vendor};
use reading::Kernel;
use reading::version::Version;

/// What the configuration is to run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Both, unless one was chosen.
    pub vendors: Vec<Vendor>,
    /// `None` means the newest that the rules know.
    pub kernel: Option<Kernel>,
    /// `None` means the newest that the rules know.
    pub qemu: Option<Version>,
    /// What other files of the same host give modules and the kernel.
    pub elsewhere: Vec<ModuleOption>,
    /// What of it counts more than this input.
    pub later: Vec<ModuleOption>,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            vendors: vec![Vendor::Amd, Vendor::Intel],
            kernel: None,
            qemu: None,
            elsewhere: Vec::new(),
            later: Vec::new(),
        }
    }
}

/// What repairs a violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// The line to write and what it takes until it has effect.
    pub fix: Fix,
    /// The change itself.
    pub change: Change,
    /// Edits of this input; empty where it cannot be changed here.
    pub edits: Vec<Edit>,
}

/// A rule that an input violates, or that could not be decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// The page behind `--explain`.
    pub rule: &'static Rule,
    /// The rule's own, or a note where this case costs less.
    pub severity: Severity,
    /// `No` for a violation, `Unknown` where the rule could not be decided.
    pub answer: Answer,
    /// As the caller named it.
    pub file: String,
    /// The setting that violates the rule; where nothing is written, the machine.
    pub position: Position,
    /// The virtual machine's name, where it has one.
    pub subject: Option<String>,
    /// What is wrong here, in a sentence.
    pub message: String,
    /// Vendors of the target on which it matters.
    pub vendors: Vec<Vendor>,
    /// The inhibit KVM sets for it.
    pub inhibit: Option<Reason>,
    /// `None` where no setting changes it.
    pub remedy: Option<Remedy>,
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Finding {
        let rule = diagnostic.rule;
        let place =
            Evidence::new("configuration", diagnostic.file.as_str(), "").at(diagnostic.position);
        Finding {
            id: rule.id.to_owned(),
            subject: diagnostic.subject.clone().unwrap_or_else(|| diagnostic.file.clone()),
            statement: rule.summary.to_owned(),
            answer: diagnostic.answer,
            severity: diagnostic.severity,
            reason: diagnostic.message.clone(),
            evidence: vec![place],
            source: rule.sources.join("; "),
            fix: diagnostic.remedy.as_ref().map(|remedy| remedy.fix.clone()),
            follows: None,
        }
    }
}

/// The judgement of one input.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// How many were silenced by comments.
    pub suppressed: usize,
}
