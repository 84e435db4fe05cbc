//! Is each function that a machine was given posted, to whom, and if not, why not.
//!
//! The kernel shows nowhere but in debugfs whether a remapping entry is in posted form. What shows
//! it besides: the host takes none of the function's interrupts while they arrive
//! (`/proc/interrupts`), and KVM tells each change of an entry (`kvm_pi_irte_update`).

use crate::capability::Report;
use crate::finding::{Answer, Evidence, Finding, Fix, Needs, Severity};
use crate::vm::VmConfiguration;
use reading::{Facts, KernelFeature, RunningVm, Signalling, VfioInterrupt};
use reading::{Observation, Route};
use serde::Serialize;
use std::collections::BTreeMap;

/// One interrupt of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionInterrupt {
    /// As `/proc/interrupts` has it.
    #[serde(flatten)]
    pub row: VfioInterrupt,
    /// Times that the host took it while it was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_meanwhile: Option<u64>,
    /// The last change that was seen while it was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

/// One function that a machine has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Function {
    /// Such as `0000:3b:00.1`.
    pub address: String,
    /// Are its interrupts posted?
    pub posted: Finding,
    /// Those that the guest has enabled, by vector.
    pub interrupts: Vec<FunctionInterrupt>,
}

/// What a function's answer rests on besides its own interrupts.
pub(super) struct Circumstances<'a> {
    pub(super) facts: &'a Facts,
    pub(super) report: &'a Report,
    pub(super) configuration: Option<&'a VmConfiguration>,
    pub(super) active: &'a Finding,
    pub(super) observation: Option<&'a Observation>,
}

/// The functions of a machine, in the order of their addresses.
pub(super) fn functions(vm: &RunningVm, about: &Circumstances<'_>) -> Vec<Function> {
    let addresses = vm.functions.get().into_iter().flatten();
    addresses.map(|address| about.function(address)).collect()
}

/// An answer, why, and what would change it.
type Judgement = (Answer, String, Option<Fix>);

impl Circumstances<'_> {
    fn function(&self, address: &str) -> Function {
        let interrupts = self.interrupts(address);
        let (answer, reason, fix) = self.judge(address, &interrupts);
        let posted = Finding {
            id: "vm-function".into(),
            subject: address.into(),
            statement: "this function's interrupts are posted".into(),
            answer,
            severity: Severity::Warning,
            reason,
            evidence: self.evidence(address, &interrupts),
            source: "arch/x86/kvm: pi_update_irte of both vendors; virt/lib/irqbypass.c".into(),
            fix,
            follows: None,
        };
        Function { address: address.into(), posted, interrupts }
    }

    /// As they are at the end of watching, if it was watched.
    fn interrupts(&self, address: &str) -> Vec<FunctionInterrupt> {
        let after = self.observation.map(|seen| &seen.interrupts).filter(|rows| !rows.is_empty());
        let rows = after.or(self.facts.interrupts.get());
        let own = rows.into_iter().flatten().filter_map(VfioInterrupt::of);
        let mut own: Vec<FunctionInterrupt> = own
            .filter(|row| row.address == address)
            .map(|row| FunctionInterrupt {
                taken_meanwhile: self
                    .observation
                    .filter(|seen| !seen.interrupts.is_empty())
                    .map(|seen| seen.taken.get(&row.host_irq).copied().unwrap_or(0)),
                route: self.observation.and_then(|seen| seen.routes.get(&row.host_irq).copied()),
                row,
            })
            .collect();
        own.sort_by_key(|one| one.row.vector);
        own
    }

    fn judge(&self, address: &str, interrupts: &[FunctionInterrupt]) -> Judgement {
        if interrupts.is_empty() {
            let reason = match self.facts.interrupts.get() {
                Some(_) => "the guest has enabled none of its interrupts",
                None => "/proc/interrupts was not read",
            };
            return (Answer::Unknown, reason.into(), None);
        }
        if interrupts.iter().any(|one| one.row.signalling == Signalling::Intx) {
            let fix = "a driver in the guest that uses MSI-X or MSI";
            let fix = Some(Fix::new(fix, Needs::VmRestart));
            return (Answer::No, "it interrupts by INTx, which is never posted".into(), fix);
        }
        let (by_tables, seen) = (self.by_tables(address), self.seen(interrupts));
        by_tables.or(seen).unwrap_or_else(|| self.predicted(interrupts))
    }

    /// By the remapping tables themselves.
    fn by_tables(&self, address: &str) -> Option<Judgement> {
        let entries = self.facts.remapping_entries.get()?;
        let own: Vec<_> = entries.iter().filter(|entry| entry.is_of(address)).collect();
        if own.is_empty() {
            return None;
        }
        let posted = own.iter().filter(|entry| entry.is_posted);
        let vectors: Vec<String> = posted.map(|one| format!("{:02x}h", one.vector)).collect();
        if vectors.len() == own.len() {
            let vectors = vectors.join(", ");
            let reason = format!("its remapping entries are in posted form, to vector {vectors}");
            return Some((Answer::Yes, reason, None));
        }
        let (all, rest) = (own.len(), own.len() - vectors.len());
        let what = format!("{rest} of its {all} remapping entries are not in posted form");
        Some(self.not_posted(&what, false))
    }

    /// By what happened while it was watched.
    fn seen(&self, interrupts: &[FunctionInterrupt]) -> Option<Judgement> {
        let seconds = self.observation?.seconds;
        let taken = interrupts.iter().map(|one| one.taken_meanwhile).sum::<Option<u64>>()?;
        let took = |taken| match taken {
            0 => format!("the host took none of its interrupts in {seconds:.1} s"),
            taken => format!("the host took {taken} of its interrupts in {seconds:.1} s"),
        };
        let routes: Option<Vec<Route>> = interrupts.iter().map(|one| one.route).collect();
        if let Some(routes) = routes.filter(|routes| routes.iter().all(|one| one.is_posted)) {
            let to = routes.iter().map(Route::to_string).collect::<Vec<_>>().join(", ");
            return Some((
                Answer::Yes,
                format!("KVM has them posted to {to}; {}", took(taken)),
                None,
            ));
        }
        let is_taken_back =
            interrupts.iter().any(|one| one.route.is_some_and(|route| !route.is_posted));
        if taken > 0 || is_taken_back {
            return Some(self.not_posted(&took(taken), is_taken_back));
        }
        let (answer, reason, fix) = self.settings_say()?;
        let woken = self.observation.map_or(0, |seen| seen.woken);
        if answer == Answer::Unknown && woken > 0 && self.is_the_only_one() {
            let reason = format!("{}, and KVM woke a vCPU for {woken} that were posted", took(0));
            return Some((Answer::Yes, reason, None));
        }
        Some((answer, format!("{}; {reason}", took(0)), fix))
    }

    /// No other machine of the host has a function whose interrupts could have been posted.
    fn is_the_only_one(&self) -> bool {
        let machines = self.facts.vms.get().into_iter().flatten();
        let functions = machines.flat_map(|vm| vm.functions.get().into_iter().flatten());
        functions.count() == 1
    }

    /// By what the host and the machine are set to, and what the host has taken so far.
    fn predicted(&self, interrupts: &[FunctionInterrupt]) -> Judgement {
        let taken: u64 = interrupts.iter().map(|one| one.row.taken).sum();
        match self.settings_say() {
            Some((Answer::Yes, reason, _)) if taken > 0 => {
                let reason = format!(
                    "{reason}, but the host has taken {taken} of its interrupts: --watch tells \
                     whether it still does"
                );
                (Answer::Unknown, reason, None)
            }
            Some((Answer::Yes, reason, _)) => {
                (Answer::Yes, format!("{reason}, and the host has taken none of them"), None)
            }
            Some(judgement) => judgement,
            None => (Answer::Unknown, "what the host can do is not known".into(), None),
        }
    }

    /// By settings alone.
    fn settings_say(&self) -> Option<Judgement> {
        if let Some(cause) = self.forbids() {
            return Some(cause);
        }
        let host = self.report.answers.get(2)?;
        let answer = host.answer.and(self.active.answer);
        let reason = match (host.answer, self.active.answer) {
            (Answer::Yes, Answer::Yes) => "host and VM are set to have them posted".into(),
            (Answer::Yes, _) => "whether this VM uses AVIC or APICv is not known".into(),
            _ => host.reason.clone(),
        };
        Some((answer, reason, None))
    }

    /// What rules posting out, whatever the function does: the nearest to the function first.
    fn forbids(&self) -> Option<Judgement> {
        let devices = self.configuration.into_iter().flat_map(|one| &one.passthrough);
        if devices.clone().count() > 0 && devices.clone().all(|one| !one.bypasses.is_empty()) {
            let reason = "the monitor takes its interrupts itself (x-no-kvm-msi, x-no-kvm-msix)";
            let fix = Fix::new("remove x-no-kvm-… from -device vfio-pci", Needs::VmRestart);
            return Some((Answer::No, reason.into(), Some(fix)));
        }
        let host = self.report.answers.get(2).filter(|host| host.answer == Answer::No);
        if let Some(host) = host {
            return Some((Answer::No, host.reason.clone(), host.fix.clone()));
        }
        let active = Some(self.active).filter(|active| active.answer == Answer::No)?;
        let reason = format!("this VM does not use AVIC or APICv: {}", active.reason);
        Some((Answer::No, reason, active.fix.clone()))
    }

    /// The one cause of what was seen not to be posted.
    fn not_posted(&self, seen: &str, is_taken_back: bool) -> Judgement {
        let (cause, fix) = match self.forbids() {
            Some((_, reason, fix)) => (reason, fix),
            None if self.decides_once() && !is_taken_back => (
                "kernels before 6.17 decide as the guest enables an interrupt, and AVIC was \
                 inhibited then; or its message goes to several vCPUs"
                    .into(),
                Some(Fix::new("unload and load the device's driver in the guest", Needs::Live)),
            ),
            None => (
                "the guest's message is not fixed or lowest-priority to one vCPU".into(),
                Some(Fix::new(
                    "one CPU for each interrupt in the guest's /proc/irq/*/smp_affinity",
                    Needs::Live,
                )),
            ),
        };
        (Answer::No, format!("{seen}: {cause}"), fix)
    }

    fn decides_once(&self) -> bool {
        self.facts.kernel_has(KernelFeature::PostingLooksAgain) == Some(false)
    }

    fn evidence(&self, address: &str, interrupts: &[FunctionInterrupt]) -> Vec<Evidence> {
        let place = &self.facts.interrupts.place;
        let rows = interrupts.iter().map(|one| {
            let what = format!("vector {}, host IRQ {}", one.row.vector, one.row.host_irq);
            Evidence::new(what, place, format!("taken by the host {} times", one.row.taken))
        });
        let tables = self.facts.remapping_entries.get().map(|entries| {
            let own = entries.iter().filter(|entry| entry.is_of(address));
            let (posted, rest): (Vec<_>, Vec<_>) = own.partition(|entry| entry.is_posted);
            let value = format!("{} posted, {} remapped", posted.len(), rest.len());
            Evidence::new("remapping entries", &self.facts.remapping_entries.place, value)
        });
        rows.chain(tables).collect()
    }
}

/// The machine's answer, of all its functions: `None` where none is known.
pub(super) fn together(functions: &[Function], active: &Finding) -> Option<Finding> {
    let first = functions.first()?;
    let answer = functions.iter().fold(Answer::Yes, |all, one| all.and(one.posted.answer));
    let of = |answer| functions.iter().find(|one| one.posted.answer == answer);
    let decisive = of(answer).unwrap_or(first);
    let mut counts: BTreeMap<Answer, usize> = BTreeMap::new();
    functions.iter().for_each(|one| *counts.entry(one.posted.answer).or_default() += 1);
    let posted = counts.get(&Answer::Yes).copied().unwrap_or(0);
    Some(Finding {
        id: "vm-devices".into(),
        subject: active.subject.clone(),
        statement: "interrupts of its passed-through devices are posted".into(),
        reason: format!(
            "{posted} of {} functions; {}: {}",
            functions.len(),
            decisive.address,
            decisive.posted.reason
        ),
        answer,
        ..decisive.posted.clone()
    })
}
