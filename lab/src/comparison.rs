//! Results side by side: the same virtual machine with the feature off and on, and with part of it
//! where there are steps between.

mod agreement;
pub mod between;
pub mod breakdown;
mod exit;
pub mod inhibition;
mod measure;
pub mod per_ipi;
pub(crate) mod prices;
pub(crate) mod spread;

pub use agreement::Agreement;
pub use exit::ExitRow;
pub(crate) use inhibition::history;
pub(crate) use measure::side_by_side;
pub use measure::{Measure, Spreads};
pub use prices::{LEAST_DRAWS, Prices, Within};
pub use spread::Spread;

use crate::drive::counters::{Count, Reason, Tally};
use crate::drive::example::{Choice, Example, Examples, Function};
use crate::drive::observed::Observed;
use crate::plan::Setting;
use crate::protocol::Guest;
use crate::workload::figure::Figure;
use crate::workload::found::{Findings, Run};
use crate::workload::{self, figures};
use bench::Outcome;
use between::{ArmExits, Between};
use breakdown::Breakdown;
use per_ipi::ExitsPerIpi;
use profile::inhibit::Inhibits;
use rules::inhibit::Vendor;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use trace::exit_reason::Isa;

/// A virtual machine that was inhibited for more of its time than this is expected nothing of.
const SHARE_INHIBITED: f64 = 0.005;

/// Events of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counted {
    /// Reason or register, as the tracepoint gives it.
    pub number: u64,
    /// Of the number, where it has one.
    pub name: String,
    /// Events.
    pub count: u64,
}

/// Which part of a virtual machine's life counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All of it, boot included.
    #[default]
    Life,
    /// Between the start and the end of the workload, which the guest marks.
    Workload,
}

impl Scope {
    /// As part of a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Life => "over the virtual machine's whole life",
            Self::Workload => "between the start and the end of the workload",
        }
    }
}

/// One virtual machine, off and on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// xAPIC or x2APIC.
    pub name: String,
    /// What the processor virtualizes interrupts with: AVIC or APICv.
    pub hardware: &'static str,
    /// What `exits`, `left_incomplete` and `left_unaccelerated` cover.
    pub scope: Scope,
    /// By reason, what the feature saves in front.
    pub exits: Vec<ExitRow>,
    /// What the guest measured.
    pub measures: Vec<Measure>,
    /// The arms between off and on, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Between>,
    /// Of each side, where software counted as well.
    pub agreement: Vec<Agreement>,
    /// A typical interrupt of each arm that measured times, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ArmExample>,
    /// Exits by the guest's IPIs, off and on, where it says how many it sent.
    pub exits_per_ipi: Vec<ExitsPerIpi>,
    /// What the workload found of its own, off and on.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "crate::workload::found::Members"))]
    pub found: Findings,
    /// Seconds in which vCPUs could run with the feature on, and those of them during
    /// which KVM inhibited it.
    pub inhibited: Option<(f64, f64)>,
    /// Inhibits as KVM traced them, with the feature on: seconds, text.
    pub inhibits: Vec<(f64, String)>,
    /// The same as a time line.
    pub inhibit_history: Option<Inhibits>,
    /// Events of `kvm_avic_incomplete_ipi` by reason, with the feature on.
    pub incomplete: Vec<Counted>,
    /// Events of `kvm_avic_unaccelerated_access` by register.
    pub unaccelerated: Vec<Counted>,
    /// The machine's own count of IPIs that AVIC could not complete, of this scope.
    pub left_incomplete: Vec<Counted>,
    /// The same of APIC accesses that AVIC left to KVM.
    pub left_unaccelerated: Vec<Counted>,
    /// Doorbells that were rung with the feature on.
    pub doorbells: Option<u64>,
    /// What the module's parameter said with the feature on.
    pub parameter: Option<String>,
    /// What times are made of, where that was asked for.
    pub breakdown: Vec<Breakdown>,
    /// Warnings of the host's kernel, and virtual machines that did not end as they should.
    pub troubles: Vec<String>,
    /// Those of them that are interrupts for which a benchmark waited in vain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// A typical interrupt of an arm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArmExample {
    /// Which arm it was, in a word or two.
    pub arm: String,
    /// Which of its interrupts this is.
    pub choice: Choice,
    /// As it went.
    #[serde(flatten)]
    pub example: Example,
    /// What the host's processors did for such an interrupt, by function, in the mean of all.
    pub functions: Vec<Function>,
}

impl Comparison {
    /// Of all reasons; None where that side was not run.
    pub fn exits_off(&self) -> Option<u64> {
        total(self.exits.iter().map(|row| row.off))
    }

    /// Of all reasons; None where that side was not run.
    pub fn exits_on(&self) -> Option<u64> {
        total(self.exits.iter().map(|row| row.on))
    }

    /// Exits other than HLT: waiting is not work, and AVIC and APICv do not change how often a
    /// guest waits.
    pub fn work(&self) -> (Option<u64>, Option<u64>) {
        let working = || self.exits.iter().filter(|row| !row.is_wait);
        (total(working().map(|row| row.off)), total(working().map(|row| row.on)))
    }

    /// Of the arms between off and on.
    pub(crate) fn between_agreements(&self) -> impl Iterator<Item = &Agreement> {
        self.between.iter().filter_map(|arm| arm.agreement.as_ref())
    }

    /// Change of the number of exits, in percent.
    pub fn change(&self) -> Option<f64> {
        let (off, on) = (self.exits_off()? as f64, self.exits_on()? as f64);
        (off > 0.0).then(|| (on - off) / off * 100.0)
    }
}

fn total(counts: impl Iterator<Item = Option<Count>>) -> Option<u64> {
    let counts: Vec<Count> = counts.flatten().collect();
    (!counts.is_empty()).then(|| counts.iter().map(|count| count.exits).sum())
}

/// Puts what was observed side by side, a comparison per name of steps. `release` is the kernel's.
pub fn compare(observed: &[Observed], release: &str, choice: Choice) -> Vec<Comparison> {
    let mut names: Vec<&str> = Vec::new();
    for one in observed {
        if !names.contains(&one.step.name.as_str()) {
            names.push(&one.step.name);
        }
    }
    names.into_iter().map(|name| comparison(name, observed, release, choice)).collect()
}

fn comparison(name: &str, observed: &[Observed], release: &str, choice: Choice) -> Comparison {
    let of = |setting: Setting, is_traced: bool| {
        observed.iter().find(|one| {
            one.step.name == name
                && one.step.arm.setting == setting
                && one.step.is_traced == is_traced
        })
    };
    let (off, on) = (of(Setting::Off, true), of(Setting::On, true));
    let traced = [off, on].into_iter().flatten();
    let is_marked = traced.clone().all(|one| one.window.is_some());
    let scope = if is_marked && (off.or(on)).is_some() { Scope::Workload } else { Scope::Life };
    let on_points = on.and_then(|one| one.result.tracepoints.clone()).unwrap_or_default();
    let inhibit_history = on.and_then(|_| history(&on_points, release));
    let inhibited = inhibit_history.as_ref().map_or(0.0, |all| all.machines[0].inhibited_seconds);
    let left = on.map(|one| scoped(one, scope).clone()).unwrap_or_default();
    let mine = observed.iter().filter(|one| one.step.name == name);
    let seconds = on_points.ran.map(|(begin, end)| end - begin);
    let is_inhibited = seconds.is_some_and(|seconds| inhibited > SHARE_INHIBITED * seconds);
    let per_ipi = |one: &Observed| {
        let exits = scoped(one, scope).exits.iter().filter(|(reason, _)| !reason.is_wait());
        let exits = exits.map(|(_, count)| count.exits).sum();
        ExitsPerIpi::of(one, exits, one.step.arm.setting.is_on() && is_inhibited)
    };
    let exits_per_ipi: Vec<ExitsPerIpi> = traced.clone().filter_map(per_ipi).collect();
    let middle = mine.clone().filter(|one| one.step.arm.setting == Setting::Between);
    let untraced = |traced: &Observed| {
        let mut same = middle.clone().filter(|one| one.step.arm == traced.step.arm);
        same.find(|one| !one.step.is_traced)
    };
    let between = |one: &Observed| Between {
        arm: one.step.arm.label.clone(),
        exits: arm_exits(scoped(one, scope)),
        measures: figures(untraced(one).unwrap_or(one)),
        agreement: agreement(one),
        exits_per_ipi: per_ipi(one),
    };
    let between: Vec<Between> =
        middle.clone().filter(|one| one.step.is_traced).map(between).collect();
    let found = traced.clone().filter_map(|one| {
        let is_inhibited = one.step.arm.setting.is_on() && is_inhibited;
        let run = Run { observed: one, tally: scoped(one, scope), is_inhibited };
        workload::named(&one.step.workload)?.find(&run)
    });
    let found = Findings(found.collect());
    let in_between = between.iter().filter_map(|arm| arm.exits_per_ipi.as_ref());
    let unmet = exits_per_ipi.iter().chain(in_between).filter(|one| !one.is_as_expected());
    let unmet = unmet.map(ExitsPerIpi::sentence);
    let faults = found.0.iter().flat_map(|one| &one.faults);
    let faults = faults.map(|fault| format!("{name}, {fault}"));
    let lost = once(mine.clone().filter_map(lost));
    let unmet: Vec<String> = unmet.chain(faults).chain(lost.clone()).collect();
    Comparison {
        name: name.into(),
        hardware: off.or(on).or(mine.clone().next()).map_or("", |one| hardware(one.step.arm.isa())),
        scope,
        exits: exit_rows(off, on, scope),
        measures: measure::side_by_side(
            of(Setting::Off, false).or(off).map(|one| all_figures(one, &found, false)),
            of(Setting::On, false).or(on).map(|one| all_figures(one, &found, true)),
        ),
        agreement: traced.filter_map(agreement).collect(),
        between,
        examples: examples(mine.clone(), choice),
        exits_per_ipi,
        found,
        inhibited: seconds.map(|seconds| (seconds, inhibited)),
        inhibit_history,
        inhibits: on_points.inhibits,
        incomplete: counted(&on_points.incomplete, incomplete_name),
        unaccelerated: counted(&on_points.unaccelerated, register_name),
        left_incomplete: counted(&left.incomplete, incomplete_name),
        left_unaccelerated: counted(&left.unaccelerated, register_name),
        doorbells: on.map(|one| scoped(one, scope).doorbells),
        parameter: on.and_then(|one| Some(one.result.parameters.last()?.value.clone())),
        breakdown: Vec::new(),
        troubles: once(unmet.into_iter().chain(mine.flat_map(troubles))),
        lost,
    }
}

/// What the guest measured, and what the workload found in it.
fn all_figures(one: &Observed, found: &Findings, is_on: bool) -> Vec<Figure> {
    let own = found.0.iter().filter(|found| found.is_on == is_on);
    figures(one).into_iter().chain(own.flat_map(|found| found.figures.clone())).collect()
}

/// The interrupt that is shown of each arm that measured times.
fn examples<'a>(observed: impl Iterator<Item = &'a Observed>, choice: Choice) -> Vec<ArmExample> {
    let mut before: Option<&Examples> = None;
    let mut shown = Vec::new();
    let measured = observed.filter(|one| !one.step.is_traced || one.examples.is_some());
    for one in measured {
        // One beside nothing says nothing.
        let Some(examples) = &one.examples else { return Vec::new() };
        let (chosen, example) = examples.chosen(choice, before);
        shown.push(ArmExample {
            arm: one.step.arm.side().to_owned(),
            choice: chosen,
            example: example.clone(),
            functions: examples.functions.clone(),
        });
        before = before.or(Some(examples));
    }
    shown
}

/// What a vendor calls the virtualization of interrupts.
pub(crate) fn hardware(isa: Isa) -> &'static str {
    match isa {
        Isa::Svm => Vendor::Amd.feature(),
        Isa::Vmx => Vendor::Intel.feature(),
    }
}

fn scoped(one: &Observed, scope: Scope) -> &Tally {
    match scope {
        Scope::Life => &one.all,
        Scope::Workload => one.workload(),
    }
}

fn incomplete_name(reason: u32) -> Option<String> {
    Some(profile::name::incomplete_ipi_cause(reason).into())
}

fn register_name(offset: u32) -> Option<String> {
    profile::name::register_name(u16::try_from(offset).ok()?).map(Into::into)
}

/// The most frequent in front.
fn counted(counts: &BTreeMap<u64, u64>, name: impl Fn(u32) -> Option<String>) -> Vec<Counted> {
    let named = |number: u64| {
        let known = u32::try_from(number).ok().and_then(&name);
        known.unwrap_or_else(|| format!("{number:#x}"))
    };
    let counted = counts.iter();
    let mut rows: Vec<Counted> =
        counted.map(|(&number, &count)| Counted { number, name: named(number), count }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

/// Sorted by what the feature saves, or by count where there is one side only.
fn exit_rows(off: Option<&Observed>, on: Option<&Observed>, scope: Scope) -> Vec<ExitRow> {
    let sides = [off, on].into_iter().flatten();
    let reasons: BTreeSet<Reason> =
        sides.flat_map(|one| scoped(one, scope).exits.keys().copied()).collect();
    let count = |one: Option<&Observed>, reason: Reason| {
        one.map(|one| scoped(one, scope).exits.get(&reason).copied().unwrap_or_default())
    };
    let row = |reason: Reason| ExitRow::new(reason, count(off, reason), count(on, reason));
    let mut rows: Vec<ExitRow> = reasons.into_iter().map(row).collect();
    let weight = |row: &ExitRow| row.off.or(row.on).map_or(0, |count| count.exits);
    rows.sort_by(|a, b| weight(b).cmp(&weight(a)).then(a.code.cmp(&b.code)));
    rows
}

/// The most frequent in front.
fn arm_exits(tally: &Tally) -> Vec<ArmExits> {
    let row = |(reason, count): (&Reason, &Count)| ArmExits {
        code: reason.code,
        name: reason.name(),
        count: *count,
    };
    let mut rows: Vec<ArmExits> = tally.exits.iter().map(row).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.count.exits), row.code));
    rows
}

fn agreement(one: &Observed) -> Option<Agreement> {
    let isa = one.step.arm.isa();
    let counted = &one.result.tracepoints.as_ref()?.exits;
    let traced = counted.keys().map(|code| Reason { isa, code: *code });
    let reasons: BTreeSet<Reason> = traced.chain(one.all.exits.keys().copied()).collect();
    let triple = |reason: Reason| {
        let machine = one.all.exits.get(&reason).map_or(0, |count| count.exits);
        (reason.name(), counted.get(&reason.code).copied().unwrap_or(0), machine)
    };
    let triples = reasons.into_iter().map(triple);
    Some(Agreement {
        setting: one.step.arm.setting,
        counted_by: "KVM's tracepoints",
        software: counted.values().sum(),
        machine: one.all.total(),
        differences: triples.filter(|(_, traced, machine)| traced != machine).collect(),
    })
}

/// Each once. What the workload finds comes first: it says more than how its guest ended.
fn once(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// What a benchmark waited for in vain; it then ends.
fn lost(one: &Observed) -> Option<String> {
    let record = workload::found::record(&one.result.console, "lost")?;
    let word = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let what = [word("test"), word("destination")].join(" ");
    let what = if what.trim().is_empty() { record.to_string() } else { what };
    let (name, side) = (&one.step.name, one.step.arm.side());
    Some(format!("{name}, {side}: an interrupt was lost ({})", what.trim()))
}

/// What would make a reader doubt the numbers.
fn troubles(one: &Observed) -> Vec<String> {
    let label = &one.step.arm.label;
    let ended = match &one.result.outcome {
        Outcome::DebugExit(0) | Outcome::PowerOff => None,
        // A benchmark that has lost one ends so, and that is told.
        Outcome::DebugExit(1) if lost(one).is_some() => None,
        Outcome::TimeLimit => Some(format!(
            "the virtual machine did not end within {} s ({label}); --limit allows more",
            one.step.limit
        )),
        other => Some(format!("the virtual machine ended with {other:?} ({label})")),
    };
    let asked = one.step.arm.parameters.iter().zip(&one.result.parameters);
    let refused = asked.filter(|(asked, shown)| is_on(&asked.value) && !is_on(&shown.value));
    let refused = refused.map(|(asked, shown)| {
        let (module, name) = (&asked.module, &asked.name);
        let says = if shown.value.is_empty() { "has no such parameter" } else { &shown.value };
        format!(
            "{module} was asked for {name}={} and says {says}: this processor or this kernel has not \
             what it needs for it",
            asked.value
        )
    });
    let unsaid = matches!(one.step.guest, Guest::Linux(_));
    let unsaid = unsaid && figures(one).is_empty();
    let unsaid = unsaid.then(|| {
        let last = one.result.console.iter().rev().take(3).rev().cloned();
        format!(
            "the guest did not say how its workload ended ({label}); its last lines: {}",
            last.collect::<Vec<_>>().join(" / ")
        )
    });
    let failed = one.result.console.iter().filter_map(|line| workload_failure(line));
    let warnings = one.result.messages.iter().filter(|text| is_warning(text));
    let all = ended.into_iter().chain(refused).chain(unsaid).chain(failed);
    all.chain(warnings.cloned()).collect()
}

/// As parameters of modules are set and shown.
fn is_on(value: &str) -> bool {
    ["Y", "1"].contains(&value)
}

/// Whether a message is the kernel's WARN() or BUG(): what it says of weaknesses of the processor
/// has the word further behind, and is not a fault.
fn is_warning(message: &str) -> bool {
    ["WARNING:", "BUG:"].iter().any(|start| message.starts_with(start))
}

/// A command of the guest that did not succeed.
fn workload_failure(line: &str) -> Option<String> {
    let record: Json = serde_json::from_str(line.strip_prefix('{').map(|_| line)?).ok()?;
    match (record["record"].as_str()?, record["status"].as_i64()) {
        ("command", Some(status)) if status != 0 => {
            Some(format!("the command in the guest ended with status {status}"))
        }
        ("failure", _) => Some(format!("the guest says: {line}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_warns_of_is_told_from_what_it_says_of_the_processor() {
        for (message, is_one) in [
            (
                "WARNING: CPU: 1 PID: 1 at arch/x86/kvm/vmx/vmx.c:1 vmx_exit+0x1/0x2 [kvm_intel]",
                true,
            ),
            ("BUG: kernel NULL pointer dereference, address: 0", true),
            ("RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable", false),
            ("kvm_intel: VMX preemption timer is not used", false),
        ] {
            assert_eq!(is_warning(message), is_one, "{message}");
        }
    }
}
