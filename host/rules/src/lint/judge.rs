//! Asks the rules: one loop over all of them for each machine, and for a host's parameters.

use super::diagnostic::{Diagnostic, Remedy, Report, Target};
use super::outcome::Outcome;
use super::rule::Check;
use super::subject::{Options, Subject};
use super::{rules, suppression};
use crate::configuration::Contents;
use crate::configuration::change::Change;
use crate::finding::Position;
use crate::inhibit::Vendor;
use crate::vm::VmConfiguration;
use reading::Kernel;
use reading::version::Version;

/// Diagnostics of one input; a file of a hundred thousand bad machines need not be listed whole.
pub const MAX_DIAGNOSTICS: usize = 100_000;

/// Changes that are worked out for one thing at once: each looks through the whole text, and
/// another round of repairs works out those that are left.
const MAX_CHANGES: usize = 500;

/// Judges what an input holds.
pub fn lint(contents: &Contents<'_>, target: &Target, file: &str) -> Report {
    let silenced = suppression::Suppressions::read(contents.lines.text(), contents.kind);
    let mut report = Report::default();
    for case in Case::all(contents, target, file) {
        for diagnostic in case.diagnostics(target) {
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
    contents: &'a Contents<'a>,
    file: &'a str,
    kernel: Option<&'a Kernel>,
    qemu: Option<Version>,
    /// Where to point for what is not written.
    head: Position,
    what: What<'a>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    /// With its number in the input.
    Machine(usize, &'a VmConfiguration),
    /// A host's parameters, with what its other files give.
    Parameters(&'a Target),
}

impl<'a> Case<'a> {
    /// Every machine of an input, or its parameters.
    fn all(contents: &'a Contents<'_>, target: &'a Target, file: &'a str) -> Vec<Self> {
        let machines = contents.vms.iter().enumerate().map(|(index, vm)| Self {
            contents,
            file: &vm.file,
            kernel: target.kernel.as_ref().or(vm.kernel.as_ref()),
            qemu: target.qemu.or(vm.vmm_version),
            head: vm.head(),
            what: What::Machine(index, vm),
        });
        let parameters = contents.kind.is_of_host().then(|| Self {
            contents,
            file,
            kernel: target.kernel.as_ref(),
            qemu: target.qemu,
            head: contents.lines.position(0, 0),
            what: What::Parameters(target),
        });
        machines.chain(parameters).collect()
    }

    /// Where a machine starts.
    fn first_line(&self) -> Option<u32> {
        match self.what {
            What::Machine(_, vm) => Some(vm.span.line),
            What::Parameters(..) => None,
        }
    }

    fn name(&self) -> Option<&'a String> {
        match self.what {
            What::Machine(_, vm) => vm.name.as_ref(),
            What::Parameters(..) => None,
        }
    }

    fn diagnostics(&self, target: &Target) -> Vec<Diagnostic> {
        let (mut found, mut changes) = (Vec::new(), 0);
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
                remedy: one.change.and_then(|change| {
                    changes += 1;
                    if changes > MAX_CHANGES { None } else { self.remedy(change) }
                }),
            }));
        }
        found
    }

    /// Runs a rule's check where it is about such a thing.
    fn ask(&self, check: Check, vendors: &[Vendor], outcome: &mut Outcome) {
        let (kernel, qemu) = (self.kernel, self.qemu);
        match (check, self.what) {
            (Check::Machine(check), What::Machine(_, vm)) => {
                check(&Subject { vm, kernel, qemu, vendors }, outcome);
            }
            (Check::Options(check), What::Parameters(target)) => {
                let (kind, given) = (self.contents.kind, &self.contents.options);
                let (elsewhere, later) = (&target.elsewhere, &target.later);
                check(&Options { kind, given, kernel, vendors, elsewhere, later }, outcome);
            }
            (Check::Machine(_), What::Parameters(..)) | (Check::Options(_), What::Machine(..)) => {}
        }
    }

    /// A change as a line of advice and as edits; `None` where nothing there does it.
    fn remedy(&self, change: Change) -> Option<Remedy> {
        let (fix, edits) = match (self.what, &change) {
            (What::Machine(index, vm), Change::Machine(change)) => {
                (change.advice(vm)?, self.contents.machine_edits(index, change))
            }
            (What::Parameters(_), Change::Parameter(change)) => {
                (change.advice(self.contents.kind), self.contents.parameter_edits(change))
            }
            (What::Machine(..), Change::Parameter(_))
            | (What::Parameters(_), Change::Machine(_)) => {
                return None;
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
