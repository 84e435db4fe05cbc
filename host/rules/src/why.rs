//! Why is AVIC or APICv off for this virtual machine, and which one line changes it.
//!
//! What the host can do ([`crate::capability`]), what the machine's configuration inhibits
//! ([`crate::inhibit`]) and what was seen of the running machine are put together; what was seen
//! outweighs what was predicted. Left out: inhibits that a guest causes on its own, unless they
//! were seen.

mod function;
mod line;
mod name;
#[cfg(test)]
mod tests;

pub use function::{Function, FunctionInterrupt};
pub use line::change;
pub use name::{is_called, names};

use crate::capability::{Report, Row};
use crate::configuration::{self, Hints, Kind};
use crate::finding::{Answer, Evidence, Finding, Fix, Severity};
use crate::inhibit::{self, PredictedInhibit, Vendor};
use crate::vm::{Accelerator, Manager, VmConfiguration};
use function::Circumstances;
use reading::{Facts, KernelFeature, Observation, RunningVm};
use serde::Serialize;
use trace::inhibit::Reason;

/// Version of the published form of [`Why`]: docs/schema/why-1.json.
pub const SCHEMA: u32 = 1;

/// One predicted inhibit with the line that avoids it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cause {
    /// Reason, certainty and duration.
    #[serde(flatten)]
    pub inhibit: PredictedInhibit,
    /// It keeps the feature off in the running guest, and not for an instant.
    pub lasts: bool,
    /// `None` for one that does not last, or that no setting avoids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Of the process that runs it.
    pub pid: u32,
    /// The name its command line gives it.
    pub name: Option<String>,
    /// The program that runs it; `None` where its command line could not be read.
    pub vmm: Option<&'static str>,
    /// Where the fix has to be written.
    pub manager: Manager,
    /// Is the feature used by this machine?
    pub active: Finding,
    /// Are its devices' interrupts posted? Only for machines with passed-through devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Finding>,
    /// The functions that it has, as far as they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// Predicted inhibits, lasting ones first.
    pub causes: Vec<Cause>,
    /// What was seen; outweighs what was predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    /// Why nothing, or not everything, could be seen.
    pub unseen: Vec<String>,
}

/// The answer of `why`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Why {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// Where the facts of the host come from.
    pub origin: String,
    /// AVIC or APICv, by the host's vendor.
    pub feature: &'static str,
    /// The host's three answers.
    pub host: Vec<Finding>,
    /// In the order in which they were asked for.
    pub machines: Vec<Machine>,
}

impl Why {
    /// Yes if every machine and its devices are served by hardware, no if one is not.
    pub fn verdict(&self) -> Answer {
        self.machines
            .iter()
            .flat_map(|machine| {
                [Some(machine.active.answer), machine.devices.as_ref().map(|row| row.answer)]
            })
            .flatten()
            .fold(Answer::Yes, Answer::and)
    }
}

/// The answer for each chosen machine. `observations` go with `machines` by position.
pub fn why(
    facts: &Facts,
    report: &Report,
    machines: &[&RunningVm],
    mut observe: impl FnMut(&RunningVm) -> Result<Observation, String>,
) -> Why {
    let vendor = vendor(facts);
    Why {
        schema: SCHEMA,
        origin: facts.origin.clone(),
        feature: vendor.map_or("AVIC or APICv", Vendor::feature),
        host: report.answers.clone(),
        machines: machines
            .iter()
            .map(|vm| machine(facts, report, vendor, vm, observe(vm)))
            .collect(),
    }
}

fn vendor(facts: &Facts) -> Option<Vendor> {
    let vendor = facts.cpus.iter().find_map(|cpu| cpu.vendor.as_ref())?;
    match (vendor.has_svm(), vendor.has_vmx()) {
        (true, _) => Some(Vendor::Amd),
        (_, true) => Some(Vendor::Intel),
        _ => None,
    }
}

fn machine(
    facts: &Facts,
    report: &Report,
    vendor: Option<Vendor>,
    vm: &RunningVm,
    observed: Result<Observation, String>,
) -> Machine {
    let mut unseen = vec![];
    let place = format!("/proc/{}/cmdline", vm.pid);
    let words = vm.arguments.join("\0");
    let configuration =
        configuration::read(&place, &words, Some(Kind::ProcessCommandLine), &Hints::default());
    let mut configuration = match configuration {
        Ok(contents) => contents.vms.into_iter().next(),
        // Of a program that nobody knows the command line is not kept.
        Err(_) if vm.arguments.len() == 1 => {
            unseen.push(format!("its program, {}, is none that is known here", vm.arguments[0]));
            None
        }
        Err(error) => {
            unseen.push(format!("its command line: {error}"));
            None
        }
    };
    if let Some(configuration) = &mut configuration {
        configuration.manager = manager(vm, configuration.manager);
    }
    let observation = observed.map_err(|why| unseen.push(why)).ok();
    unseen.extend(posted_counters(facts).err());
    let causes = match (vendor, &configuration) {
        (Some(vendor), Some(configuration)) => causes(facts, report, vendor, configuration, vm),
        _ => vec![],
    };
    let active = active(facts, report, &causes, observation.as_ref(), configuration.as_ref(), vm);
    let about = Circumstances {
        facts,
        report,
        configuration: configuration.as_ref(),
        active: &active,
        observation: observation.as_ref(),
    };
    let functions = function::functions(vm, &about);
    Machine {
        pid: vm.pid,
        name: vm.name.clone(),
        vmm: configuration.as_ref().map(|configuration| configuration.vmm.name()),
        manager: configuration
            .as_ref()
            .map_or(Manager::None, |configuration| configuration.manager),
        devices: function::together(&functions, &active)
            .or_else(|| devices(report, configuration.as_ref()?, &active)),
        functions,
        active,
        causes,
        observation,
        unseen,
    }
}

/// Who owns the configuration: the command line alone does not always tell.
fn manager(vm: &RunningVm, found: Manager) -> Manager {
    if found != Manager::None {
        return found;
    }
    let mentions = |text: &str| vm.arguments.iter().any(|word| word.contains(text));
    if mentions("/var/run/qemu-server/") || mentions("/etc/pve/") {
        Manager::Proxmox
    } else if mentions("/var/run/kubevirt") || mentions("/run/kubevirt") {
        Manager::KubeVirt
    } else if vm.xml.is_some() || mentions("/libvirt/qemu/") {
        Manager::Libvirt
    } else {
        Manager::None
    }
}

fn causes(
    facts: &Facts,
    report: &Report,
    vendor: Vendor,
    configuration: &VmConfiguration,
    vm: &RunningVm,
) -> Vec<Cause> {
    let kernel = facts.running_kernel();
    let mut causes: Vec<Cause> = inhibit::predict(vendor, kernel.as_ref(), None, configuration)
        .into_iter()
        .filter(|inhibit| !is_reached(facts, report, configuration, inhibit.reason))
        .map(|inhibit| Cause {
            lasts: inhibit.is_lasting(),
            fix: inhibit
                .duration
                .is_lasting()
                .then(|| line::change(inhibit.reason, configuration, vm, &facts.definitions))
                .flatten(),
            inhibit,
        })
        .collect();
    // Of an encrypted guest nothing else can be repaired: AVIC stays off with it.
    if causes.iter().any(|cause| cause.lasts && cause.inhibit.reason == Reason::Sev) {
        causes.iter_mut().for_each(|cause| cause.fix = None);
    }
    causes.sort_by_key(|cause| (!cause.lasts, !cause.inhibit.duration.is_lasting()));
    causes
}

/// Whether x2AVIC of this processor and kernel reaches all APIC IDs of a machine, so that its size
/// inhibits nothing. [APM2 "AVIC Physical APIC ID Table"]
fn is_reached(
    facts: &Facts,
    report: &Report,
    configuration: &VmConfiguration,
    reason: Reason,
) -> bool {
    reason == Reason::PhysicalIdTooBig
        && configuration.max_apic_id.value <= 511
        && report.all(Row::CpuX2avic) == Answer::Yes
        && facts.kernel_has(KernelFeature::X2avic) == Some(true)
}

fn active(
    facts: &Facts,
    report: &Report,
    causes: &[Cause],
    observation: Option<&Observation>,
    configuration: Option<&VmConfiguration>,
    vm: &RunningVm,
) -> Finding {
    let mut finding = Finding {
        id: "vm-active".into(),
        subject: vm.name.clone().unwrap_or_else(|| format!("pid {}", vm.pid)),
        statement: "this VM uses the hardware interrupt controller".into(),
        answer: Answer::Unknown,
        severity: Severity::Error,
        reason: String::new(),
        evidence: evidence(facts, causes, observation, vm),
        source: "arch/x86/kvm: kvm_vcpu_apicv_active, the vendor's required inhibits".into(),
        fix: causes.iter().find(|cause| cause.lasts).and_then(|cause| cause.fix.clone()),
        follows: None,
    };
    let host = report.answers.first();
    let (answer, reason) = decide(host, causes, observation, configuration);
    finding.answer = answer;
    finding.reason = reason;
    // What the host lacks no setting of the machine can give.
    if let Some(host) = host.filter(|host| host.answer == Answer::No && answer == Answer::No) {
        finding.fix = host.fix.clone().or(finding.fix);
    }
    if answer == Answer::Yes {
        finding.fix = None;
    }
    finding
}

fn decide(
    host: Option<&Finding>,
    causes: &[Cause],
    observation: Option<&Observation>,
    configuration: Option<&VmConfiguration>,
) -> (Answer, String) {
    if let Some(accelerator) = configuration
        .map(|configuration| configuration.accelerator.value)
        .filter(|accelerator| matches!(accelerator, Accelerator::Tcg | Accelerator::Other))
    {
        return (
            Answer::No,
            format!("it does not run under KVM: its accelerator is {}", accelerator.name()),
        );
    }
    if let Some(share) = observation.and_then(Observation::active_share) {
        let percent = share * 100.0;
        let names: Vec<&str> = observation
            .into_iter()
            .flat_map(|seen| &seen.reasons)
            .map(|(reason, _)| reason.name())
            .collect();
        let by = if names.is_empty() {
            String::new()
        } else {
            format!(", inhibited by {}", names.join(" and "))
        };
        return match share {
            share if share >= 0.99 => {
                (Answer::Yes, format!("seen active {percent:.1} % of the time"))
            }
            _ => (Answer::No, format!("seen active {percent:.1} % of the time{by}")),
        };
    }
    if let Some(host) = host.filter(|host| host.answer == Answer::No) {
        return (Answer::No, format!("the host does not offer it: {}", host.reason));
    }
    if let Some(cause) = causes.iter().find(|cause| cause.lasts) {
        return (
            Answer::No,
            format!(
                "{} {}: {}",
                cause.inhibit.reason, cause.inhibit.duration, cause.inhibit.because
            ),
        );
    }
    let Some(configuration) = configuration else {
        let reason =
            "KVM runs it, but its program is not one whose command line is understood here";
        return (Answer::Unknown, reason.into());
    };
    if let Some(cause) = causes.iter().find(|cause| cause.inhibit.duration.is_lasting()) {
        return (
            Answer::Unknown,
            format!("{} is possible: {}", cause.inhibit.reason, cause.inhibit.because),
        );
    }
    if let Some(part) = configuration.unresolved.first() {
        return (
            Answer::Unknown,
            format!("a part of its command line is not resolved: {}", part.what),
        );
    }
    match host.map(|host| host.answer) {
        Some(Answer::Yes) => (
            Answer::Yes,
            "the host offers it and nothing in the configuration inhibits it for long".into(),
        ),
        _ => (
            Answer::Unknown,
            "nothing in the configuration inhibits it, but whether the host offers it is not known"
                .into(),
        ),
    }
}

fn evidence(
    facts: &Facts,
    causes: &[Cause],
    observation: Option<&Observation>,
    vm: &RunningVm,
) -> Vec<Evidence> {
    let mut evidence = vec![];
    for cause in causes.iter().filter(|cause| cause.inhibit.duration.is_lasting()) {
        let what = format!("predicted {}", cause.inhibit.reason);
        let item =
            Evidence::new(what, format!("/proc/{}/cmdline", vm.pid), cause.inhibit.because.clone());
        evidence.push(match cause.inhibit.position {
            Some(position) => item.at(position),
            None => item,
        });
    }
    if let Some(seen) = observation {
        let reasons: Vec<String> = seen
            .reasons
            .iter()
            .map(|(reason, seconds)| format!("{reason} {seconds:.2} s"))
            .collect();
        evidence.push(Evidence::new(
            "inhibits seen",
            seen.source.clone(),
            format!(
                "{} changes; {}; {} interrupts accelerated, {} injected",
                seen.changes,
                if reasons.is_empty() { "no reason seen set".into() } else { reasons.join(", ") },
                seen.accelerated,
                seen.injected
            ),
        ));
        if seen.woken > 0 {
            evidence.push(Evidence::new(
                "posted interrupts that woke a vCPU, whole host",
                seen.source.clone(),
                seen.woken.to_string(),
            ));
        }
    }
    if let Some(statistics) = vm.statistics.get() {
        let shown: Vec<String> =
            ["exits", "irq_exits", "irq_window_exits", "irq_injections", "halt_exits"]
                .iter()
                .filter_map(|name| Some(format!("{name} {}", statistics.get(*name)?)))
                .collect();
        evidence.push(Evidence::new(
            "KVM statistics",
            vm.statistics.place.clone(),
            shown.join(", "),
        ));
    }
    evidence.extend(posted_counters(facts).ok());
    evidence
}

/// Counters of posted interrupts, of the whole host.
fn posted_counters(facts: &Facts) -> Result<Evidence, String> {
    let Some(counters) = facts.interrupts.get() else {
        let why = facts.interrupts.evidence("posted interrupts", |_| "").value;
        let why = why.strip_prefix("not known: ").unwrap_or(&why);
        return Err(format!("posted interrupts at /proc/interrupts: {why}"));
    };
    let shown: Vec<String> = counters
        .iter()
        .filter(|row| {
            matches!(row.label.as_str(), "PIN" | "NPI" | "PIW") || row.description.contains("-GA")
        })
        .map(|row| {
            format!(
                "{} {}",
                if row.description.contains("-GA") { &row.description } else { &row.label },
                row.total
            )
        })
        .collect();
    if shown.is_empty() {
        return Err("/proc/interrupts has no row of posted interrupts (PIN, AMD-Vi…-GA)".into());
    }
    Ok(Evidence::new("posted interrupts, whole host", &facts.interrupts.place, shown.join(", ")))
}

/// Posting of the machine's own devices, where it is not known which they are.
fn devices(report: &Report, configuration: &VmConfiguration, active: &Finding) -> Option<Finding> {
    let first = configuration.passthrough.first()?;
    let host = report.answers.get(2)?;
    let answer = host.answer.and(active.answer);
    Some(Finding {
        id: "vm-devices".into(),
        subject: active.subject.clone(),
        statement: "interrupts of its passed-through devices are posted".into(),
        answer,
        severity: Severity::Warning,
        reason: match (host.answer, active.answer) {
            (Answer::Yes, Answer::Yes) => {
                "the host posts, and this VM uses the hardware interrupt controller".into()
            }
            (Answer::Yes, _) => {
                "the host posts, but only to VMs that use the hardware interrupt controller".into()
            }
            _ => host.reason.clone(),
        },
        evidence: vec![
            Evidence::new(
                "passed-through device",
                configuration.file.clone(),
                first.driver.clone(),
            )
            .at(first.at),
        ],
        source: host.source.clone(),
        fix: if answer == Answer::Yes { None } else { host.fix.clone().or(active.fix.clone()) },
        follows: None,
    })
}
