//! Will this configuration let interrupts be accelerated? Rules with stable identifiers, judged on
//! what an input means, not on its text.
//!
//! [`lint`] judges [`Contents`]; every [`Diagnostic`] names its rule, its place and, where one
//! exists, the change that mends it. [`fix::fixed`] applies the changes to the text. A rule that
//! cannot be decided says so.

mod boot;
pub mod change;
pub mod fix;
mod hyperv;
mod interrupt_controller;
mod machine;
mod module;
pub mod rule;
mod suppression;
#[cfg(test)]
mod tests;

use crate::configuration::{Contents, ModuleOption};
use crate::finding::{Answer, Evidence, Finding, Fix, Position, Severity};
use crate::host::Kernel;
use crate::inhibit::{Reason, Vendor};
use crate::position::Lines;
use crate::version::Version;
use crate::vm::VmConfiguration;
use change::Change;
use rule::{Check, Rule};
use serde::Serialize;

/// What the configuration is to run on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Target {
    /// Both, unless one was chosen.
    pub vendors: Vec<Vendor>,
    /// `None` means the newest that the rules know.
    pub kernel: Option<Kernel>,
    /// `None` means the newest that the rules know.
    pub qemu: Option<Version>,
    /// What other files of the same host give modules and the kernel.
    pub elsewhere: Vec<ModuleOption>,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            vendors: vec![Vendor::Amd, Vendor::Intel],
            kernel: None,
            qemu: None,
            elsewhere: Vec::new(),
        }
    }
}

/// Replaces `start..end` (bytes) of the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Edit {
    /// First byte that goes.
    pub start: usize,
    /// One past the last byte that goes.
    pub end: usize,
    /// What comes instead; empty to delete.
    pub replacement: String,
}

/// What mends a violation.
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

/// Diagnostics of one input; a file of a hundred thousand bad machines need not be listed whole.
pub const MAX_DIAGNOSTICS: usize = 100_000;

/// Judges what an input holds.
pub fn lint(contents: &Contents, text: &str, target: &Target, file: &str) -> Report {
    let lines = Lines::new(text);
    let editor = fix::Editor::new(contents.kind, &lines);
    let silenced = suppression::Suppressions::read(text, contents.kind);
    let mut suppressed = 0;
    let mut found = Vec::new();
    let mut keep = |diagnostics: Vec<Diagnostic>, machine_line: Option<u32>| {
        for diagnostic in diagnostics {
            if silenced.silence(diagnostic.rule.id, diagnostic.position.line, machine_line) {
                suppressed += 1;
            } else if found.len() < MAX_DIAGNOSTICS {
                found.push(diagnostic);
            }
        }
    };
    for vm in &contents.vms {
        keep(vm_diagnostics(vm, &editor, target), Some(vm.span.line));
    }
    keep(option_diagnostics(contents, &lines, target, file), None);
    found.sort_by(|a, b| {
        (a.position.start, a.rule.id, &a.message).cmp(&(b.position.start, b.rule.id, &b.message))
    });
    found.dedup();
    Report { diagnostics: found, suppressed }
}

/// Diagnostics of one machine on its own, without its text: no edits, no suppression.
pub fn machine_diagnostics(vm: &VmConfiguration, target: &Target) -> Vec<Diagnostic> {
    let subject = Subject::new(vm, target);
    let mut found = Vec::new();
    for rule in rule::all() {
        let Check::Machine(check) = rule.check else { continue };
        let vendors = rule.vendors_of(&target.vendors);
        let applies = rule.applies(subject.kernel, subject.qemu);
        if vendors.is_empty() || applies == Some(false) {
            continue;
        }
        let mut outcome = Outcome::new(rule, vm.head());
        check(&Subject { vendors: &vendors, ..subject }, &mut outcome);
        outcome.open_unless(applies, subject.kernel);
        found.extend(outcome.found.into_iter().map(|one| {
            let remedy = one.change.and_then(|change| {
                let fix = change.advice(vm)?;
                Some(Remedy { fix, change, edits: Vec::new() })
            });
            Diagnostic {
                rule,
                severity: one.severity,
                answer: one.answer,
                file: vm.file.clone(),
                position: one.position,
                subject: vm.name.clone(),
                message: one.message,
                vendors: if one.vendors.is_empty() { vendors.clone() } else { one.vendors },
                inhibit: one.inhibit,
                remedy,
            }
        }));
    }
    found
}

fn vm_diagnostics(
    vm: &VmConfiguration,
    editor: &fix::Editor<'_, '_>,
    target: &Target,
) -> Vec<Diagnostic> {
    let mut found = machine_diagnostics(vm, target);
    for remedy in found.iter_mut().filter_map(|diagnostic| diagnostic.remedy.as_mut()) {
        remedy.edits = editor.edits(vm, &remedy.change).unwrap_or_default();
    }
    found
}

fn option_diagnostics(
    contents: &Contents,
    lines: &Lines<'_>,
    target: &Target,
    file: &str,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if !contents.kind.is_of_host() {
        return found;
    }
    for rule in rule::all() {
        let Check::Options(check) = rule.check else { continue };
        let vendors = rule.vendors_of(&target.vendors);
        let kernel = target.kernel.as_ref();
        let applies = rule.applies(kernel, target.qemu);
        if vendors.is_empty() || applies == Some(false) {
            continue;
        }
        let mut outcome = Outcome::new(rule, lines.position(0, 0));
        let elsewhere = &target.elsewhere;
        let options = Options { contents, kernel, vendors: &vendors, elsewhere };
        check(&options, &mut outcome);
        outcome.open_unless(applies, kernel);
        found.extend(outcome.found.into_iter().map(|one| {
            let remedy = one.change.and_then(|change| {
                let fix = change.option_advice(contents.kind)?;
                let edits = fix::option_edits(contents, lines, &change);
                Some(Remedy { fix, change, edits })
            });
            Diagnostic {
                rule,
                severity: one.severity,
                answer: one.answer,
                file: file.to_owned(),
                position: one.position,
                subject: None,
                message: one.message,
                vendors: if one.vendors.is_empty() { vendors.clone() } else { one.vendors },
                inhibit: one.inhibit,
                remedy,
            }
        }));
    }
    found
}

/// One machine on one target, as rules see it.
#[derive(Clone, Copy)]
struct Subject<'a> {
    vm: &'a VmConfiguration,
    kernel: Option<&'a Kernel>,
    qemu: Option<Version>,
    vendors: &'a [Vendor],
}

impl<'a> Subject<'a> {
    fn new(vm: &'a VmConfiguration, target: &'a Target) -> Self {
        Self {
            vm,
            kernel: target.kernel.as_ref().or(vm.kernel.as_ref()),
            qemu: target.qemu.or(vm.vmm_version),
            vendors: &target.vendors,
        }
    }

    /// The predicted inhibits of a reason, with the vendors they hit.
    fn inhibits(&self, reason: Reason) -> Vec<(Vendor, crate::inhibit::PredictedInhibit)> {
        let mut found = Vec::new();
        for &vendor in self.vendors {
            let predicted = crate::inhibit::predict(vendor, self.kernel, self.qemu, self.vm);
            let matching = predicted.into_iter().filter(|one| one.reason == reason);
            found.extend(matching.map(|one| (vendor, one)));
        }
        found
    }
}

/// The options of a host on one target, as rules see them.
struct Options<'a> {
    contents: &'a Contents,
    kernel: Option<&'a Kernel>,
    vendors: &'a [Vendor],
    /// What other files of the same host give.
    elsewhere: &'a [ModuleOption],
}

/// What a rule says.
struct Outcome {
    rule: &'static Rule,
    /// Where to point when nothing is written.
    head: Position,
    found: Vec<Found>,
}

struct Found {
    answer: Answer,
    severity: Severity,
    position: Position,
    message: String,
    change: Option<Change>,
    vendors: Vec<Vendor>,
    inhibit: Option<Reason>,
}

impl Outcome {
    fn new(rule: &'static Rule, head: Position) -> Self {
        Self { rule, head, found: Vec::new() }
    }

    fn push(&mut self, answer: Answer, position: Option<Position>, message: String) -> &mut Found {
        let position = position.unwrap_or(self.head);
        let found = Found {
            answer,
            severity: self.rule.severity,
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
    fn open_unless(&mut self, applies: Option<bool>, kernel: Option<&Kernel>) {
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

    fn violated(&mut self, position: Option<Position>, message: impl Into<String>) -> &mut Found {
        self.push(Answer::No, position, message.into())
    }

    fn undecided(&mut self, position: Option<Position>, message: impl Into<String>) -> &mut Found {
        self.push(Answer::Unknown, position, message.into())
    }
}

impl Found {
    fn mended_by(&mut self, change: Change) -> &mut Self {
        self.change = Some(change);
        self
    }

    fn on(&mut self, vendors: Vec<Vendor>) -> &mut Self {
        self.vendors = vendors;
        self
    }

    fn as_note(&mut self) -> &mut Self {
        self.severity = Severity::Note;
        self
    }

    fn inhibiting(&mut self, reason: Reason) -> &mut Self {
        self.inhibit = Some(reason);
        self
    }
}

impl VmConfiguration {
    /// Where to point for what is not written: the machine type, the accelerator, or the first
    /// line.
    fn head(&self) -> Position {
        self.machine
            .position()
            .or(self.accelerator.position())
            .filter(|at| at.end > at.start)
            .unwrap_or(Position { end: self.span.start, ..self.span })
    }
}
