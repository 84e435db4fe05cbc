//! Asks the rules: one loop over all of them for each machine, and for a host's parameters.

use super::change::Change;
use super::diagnostic::{Diagnostic, Remedy, Report, Target};
use super::outcome::Outcome;
use super::rule::Check;
use super::subject::{Options, Subject};
use super::{fix, rules, suppression};
use crate::configuration::Contents;
use crate::finding::Position;
use crate::host::Kernel;
use crate::inhibit::Vendor;
use crate::position::Lines;
use crate::version::Version;
use crate::vm::VmConfiguration;

/// Diagnostics of one input; a file of a hundred thousand bad machines need not be listed whole.
pub const MAX_DIAGNOSTICS: usize = 100_000;

/// Judges what an input holds.
pub fn lint(contents: &Contents, text: &str, target: &Target, file: &str) -> Report {
    let lines = Lines::new(text);
    let editor = fix::Editor::new(contents.kind, &lines);
    let silenced = suppression::Suppressions::read(text, contents.kind);
    let mut report = Report::default();
    for case in Case::all(contents, &lines, target, file) {
        for diagnostic in case.diagnostics(target, &editor) {
            let line = diagnostic.position.line;
            if silenced.silence(diagnostic.rule.id, line, case.first_line()) {
                report.suppressed += 1;
            } else if report.diagnostics.len() < MAX_DIAGNOSTICS {
                report.diagnostics.push(diagnostic);
            }
        }
    }
    report.diagnostics.sort_by(|a, b| {
        (a.position.start, a.rule.id, &a.message).cmp(&(b.position.start, b.rule.id, &b.message))
    });
    report.diagnostics.dedup();
    report
}

/// One thing that is judged.
struct Case<'a> {
    file: &'a str,
    kernel: Option<&'a Kernel>,
    qemu: Option<Version>,
    /// Where to point for what is not written.
    head: Position,
    what: What<'a>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Machine(&'a VmConfiguration),
    /// A host's parameters, with what its other files give.
    Parameters(&'a Contents, &'a Target),
}

impl<'a> Case<'a> {
    /// Every machine of an input, or its parameters.
    fn all(
        contents: &'a Contents,
        lines: &Lines<'_>,
        target: &'a Target,
        file: &'a str,
    ) -> Vec<Self> {
        let machines = contents.vms.iter().map(|vm| Self {
            file: &vm.file,
            kernel: target.kernel.as_ref().or(vm.kernel.as_ref()),
            qemu: target.qemu.or(vm.vmm_version),
            head: vm.head(),
            what: What::Machine(vm),
        });
        let parameters = contents.kind.is_of_host().then(|| Self {
            file,
            kernel: target.kernel.as_ref(),
            qemu: target.qemu,
            head: lines.position(0, 0),
            what: What::Parameters(contents, target),
        });
        machines.chain(parameters).collect()
    }

    /// Where a machine starts.
    fn first_line(&self) -> Option<u32> {
        match self.what {
            What::Machine(vm) => Some(vm.span.line),
            What::Parameters(..) => None,
        }
    }

    fn name(&self) -> Option<&'a String> {
        match self.what {
            What::Machine(vm) => vm.name.as_ref(),
            What::Parameters(..) => None,
        }
    }

    fn diagnostics(&self, target: &Target, editor: &fix::Editor<'_, '_>) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for rule in rules::all() {
            let vendors = rule.vendors_of(&target.vendors);
            let applies = rule.applies(self.kernel, self.qemu);
            if vendors.is_empty() || applies == Some(false) {
                continue;
            }
            let mut outcome = Outcome::new(rule.severity, self.head);
            self.ask(rule.check, &vendors, &mut outcome);
            outcome.open_unless(applies, self.kernel);
            found.extend(outcome.found.into_iter().map(|one| Diagnostic {
                rule,
                severity: one.severity,
                answer: one.answer,
                file: self.file.to_owned(),
                position: one.position,
                subject: self.name().cloned(),
                message: one.message,
                vendors: if one.vendors.is_empty() { vendors.clone() } else { one.vendors },
                inhibit: one.inhibit,
                remedy: one.change.and_then(|change| self.remedy(change, editor)),
            }));
        }
        found
    }

    /// Runs a rule's check where it is about such a thing.
    fn ask(&self, check: Check, vendors: &[Vendor], outcome: &mut Outcome) {
        let (kernel, qemu) = (self.kernel, self.qemu);
        match (check, self.what) {
            (Check::Machine(check), What::Machine(vm)) => {
                check(&Subject { vm, kernel, qemu, vendors }, outcome);
            }
            (Check::Options(check), What::Parameters(contents, target)) => {
                let (given, elsewhere) = (&contents.options, &target.elsewhere);
                let kind = contents.kind;
                check(&Options { kind, given, kernel, vendors, elsewhere }, outcome);
            }
            (Check::Machine(_), What::Parameters(..)) | (Check::Options(_), What::Machine(_)) => {}
        }
    }

    fn remedy(&self, change: Change, editor: &fix::Editor<'_, '_>) -> Option<Remedy> {
        let (fix, edits) = match self.what {
            What::Machine(vm) => {
                (change.advice(vm)?, editor.edits(vm, &change).unwrap_or_default())
            }
            What::Parameters(contents, _) => {
                (change.option_advice(contents.kind)?, editor.option_edits(&change))
            }
        };
        Some(Remedy { fix, change, edits })
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
