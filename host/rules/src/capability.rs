//! Can this host accelerate interrupts, and does it? One finding for each thing that decides.
//!
//! Three answers that are often taken for one are kept apart: is AVIC or APICv active, are IPIs
//! accelerated, are device interrupts posted. The rules are those of Linux's kvm_amd, kvm_intel,
//! AMD-Vi and VT-d drivers; each names its source. A configuration's inhibits are another question:
//! [`crate::inhibit`] and [`crate::why`].

mod amd;
mod amd_vi;
mod draft;
mod guest;
mod intel;
mod kvm_amd;
mod row;
mod summary;
mod vt_d;

pub use row::Row;
pub use summary::{Change, Sentence, Summary};

use crate::boot_word::{BootWord, Takes};
use crate::feature::{COMMON_MODULE, Feature, Parameter};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use crate::host::{CpuKind, Fact, Facts, Iommu, IommuKind, Reading, Vendor, boolean};
use draft::Draft;
use serde::Serialize;

/// Version of the published form of [`Report`]: docs/schema/check-1.json.
pub const SCHEMA: u32 = 1;

/// The rows of `avicenna check`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// What was read.
    pub origin: String,
    /// Release of the running kernel, as `uname -r` prints it; `None` where it was not read.
    pub kernel: Option<String>,
    /// One line for each kind of core: its numbers, brand and signature.
    pub processors: Vec<String>,
    /// A host of another architecture: "an arm64".
    #[serde(skip)]
    pub foreign: Option<&'static str>,
    /// What the input describes, and so what is answered.
    pub scope: Scope,
    /// The answer in three sentences.
    pub summary: Summary,
    /// AVIC or APICv active; IPIs accelerated; device interrupts posted.
    pub answers: Vec<Finding>,
    /// Every row behind the answers, in the order in which `check` shows them.
    pub findings: Vec<Finding>,
}

/// A host with its kernel, or hardware alone: a CPUID listing, a firmware table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A host with its kernel: what is on and off can be answered.
    Host,
    /// Hardware alone, such as a CPUID dump or ACPI tables: only what it is able to do.
    Hardware,
}

impl Report {
    /// Of hardware alone: whether it can. Of a host: no if anything is wrong, otherwise unknown if
    /// one of the three answers is.
    pub fn verdict(&self) -> Answer {
        if self.scope == Scope::Hardware {
            return self.summary.hardware.answer;
        }
        if self.answers.iter().chain(&self.findings).any(Finding::is_problem) {
            return Answer::No;
        }
        self.answers.iter().fold(Answer::Yes, |all, finding| all.and(finding.answer))
    }

    /// The first finding of a row; `None` where the row does not apply.
    pub fn finding(&self, row: Row) -> Option<&Finding> {
        self.answers.iter().chain(&self.findings).find(|finding| finding.is(row))
    }

    /// The first answer to a row; `None` where the row does not apply.
    pub fn answer(&self, row: Row) -> Option<Answer> {
        self.finding(row).map(|finding| finding.answer)
    }

    /// The answer for every processor or unit together; unknown where there is none.
    pub fn all(&self, row: Row) -> Answer {
        every(&self.findings, row)
    }
}

/// Applies every rule.
pub fn check(facts: &Facts) -> Report {
    let (answers, findings) = match facts.cpus.iter().find_map(|cpu| cpu.vendor.as_ref()) {
        Some(vendor) if vendor.has_svm() => amd::check(facts),
        Some(vendor) if vendor.has_vmx() => intel::check(facts),
        Some(other) => without_rules(&format!(
            "the processor is made by {other}, for which there are no rules"
        )),
        None => of_tables(facts),
    };
    let findings = virtual_machine(facts)
        .into_iter()
        .chain(findings)
        .chain([guest::wrmsr_fence(facts)])
        .collect();
    let mut report = Report {
        schema: SCHEMA,
        origin: facts.origin.clone(),
        kernel: facts.kernel.get().map(|kernel| kernel.release.clone()),
        processors: facts.cpus.iter().map(describe).collect(),
        foreign: facts.foreign.filter(|_| facts.cpus.iter().all(|cpu| cpu.vendor.is_none())),
        scope: if facts.has_kernel() { Scope::Host } else { Scope::Hardware },
        summary: Summary::unknown(),
        answers,
        findings,
    };
    summary::mark_consequences(&mut report);
    report.summary = summary::summary(&report);
    report
}

fn describe(cpu: &CpuKind) -> String {
    let mut text = format!("cpu {}", cpu.cpus);
    if let Some(brand) = &cpu.brand {
        text.push_str(&format!(": {brand}"));
    }
    if let Some(signature) = cpu.signature {
        text.push_str(&format!(" ({signature})"));
    }
    text
}

/// Without a processor the IOMMU's tables still say what they say.
fn of_tables(facts: &Facts) -> (Vec<Finding>, Vec<Finding>) {
    let (mut answers, _) = without_rules("no processor is described in this input");
    let mut findings = vec![];
    let is_amd = |unit: &Iommu| unit.kind == IommuKind::AmdVi;
    if facts.ivrs.get().is_some()
        || facts.iommus.get().is_some_and(|units| units.iter().any(is_amd))
    {
        findings.extend(amd_vi::units(facts));
    }
    if facts.dmar.get().is_some() {
        findings.extend(vt_d::rows(facts));
    }
    // Whatever the processor is: a unit that cannot post decides.
    let needed = [Row::IommuGuestApic, Row::IommuGuestApicMode, Row::IommuTableRemapping];
    let lacking = findings
        .iter()
        .find(|row| row.answer == Answer::No && needed.iter().any(|one| row.is(*one)));
    if let (Some(row), Some(devices)) = (lacking, answers.get_mut(2)) {
        *devices = conclude(Row::AnswerDevice, &[row], "");
    }
    (answers, findings)
}

fn without_rules(reason: &str) -> (Vec<Finding>, Vec<Finding>) {
    (ANSWERS.iter().map(|id| answer(*id, Answer::Unknown, reason, vec![])).collect(), vec![])
}

const ANSWERS: [Row; 3] = [Row::AnswerActive, Row::AnswerIpi, Row::AnswerDevice];

/// One of the three answers.
fn answer(id: Row, answer: Answer, reason: &str, evidence: Vec<Evidence>) -> Finding {
    let statement = match id {
        Row::AnswerActive => "the hardware interrupt controller is used (AVIC, APICv)",
        Row::AnswerIpi => "IPIs between vCPUs are delivered without an exit",
        _ => "interrupts of passed-through devices are posted to vCPUs",
    };
    Draft::new(id, "host", statement, "conjunction of the rows below")
        .severity(Severity::Error)
        .evidence_all(evidence)
        .answer(answer, reason)
}

/// What the given rows say together: the first that is not a yes gives the reason.
fn conclude(id: Row, rows: &[&Finding], good: &str) -> Finding {
    let all = rows.iter().fold(Answer::Yes, |all, row| all.and(row.answer));
    let decisive = rows.iter().find(|row| row.answer == all && all != Answer::Yes);
    let mut finding = match decisive {
        Some(row) => answer(id, all, &row.reason, vec![]),
        None => answer(id, all, good, vec![]),
    };
    finding.evidence = rows
        .iter()
        .map(|row| {
            Evidence::new(
                row.statement.clone(),
                format!("row {} ({})", row.id, row.subject),
                row.answer.to_string(),
            )
        })
        .collect();
    finding.fix = decisive.and_then(|row| row.fix.clone());
    finding
}

/// CPUID of a virtual machine describes what its hypervisor shows.
fn virtual_machine(facts: &Facts) -> Option<Finding> {
    let cpu = facts.cpus.first()?;
    let is_virtual = cpu.is_virtual();
    Some(
        Draft::new(
            Row::CpuPhysical,
            cpu.subject(),
            "this is a physical host, not a virtual machine",
            "[APM3 \"Fn0000_0001 ECX bit 31\"], [SDM2 \"CPUID\"]",
        )
        .severity(Severity::Note)
        .evidence(cpu.cpuid.evidence("CPUID 1 ECX bit 31, hypervisor", |_| {
            is_virtual.map_or("?", |bit| if bit { "1" } else { "0" })
        }))
        .evidence(flag_evidence(cpu, "hypervisor"))
        .answer(
            Answer::from(is_virtual.map(|is_virtual| !is_virtual)),
            match is_virtual {
                Some(true) => "a hypervisor runs below: what it hides cannot be seen from here, whatever the silicon has",
                Some(false) => "no hypervisor announces itself",
                None => "neither CPUID nor the kernel's flags were recorded",
            },
        ),
    )
}

fn flag_evidence(cpu: &CpuKind, flag: &str) -> Evidence {
    cpu.flags.evidence(format!("flag {flag}"), |flags| {
        if flags.contains(flag) { "listed" } else { "not listed" }
    })
}

/// What switches a feature, and its evidence.
fn parameter_of(facts: &Facts, feature: Feature) -> (Option<bool>, Fact<String>) {
    let Parameter { module, name, .. } = feature.parameter();
    parameter(facts, module, name)
}

/// A boolean module parameter and its evidence.
fn parameter(facts: &Facts, module: &str, name: &str) -> (Option<bool>, Fact<String>) {
    let fact = facts.parameter(module, name);
    (fact.get().and_then(|text| boolean(text)), fact)
}

/// The vendor's module is loaded.
fn driver_loaded(facts: &Facts, module: &str, can_load: Answer) -> Finding {
    let fact = facts.module(module);
    let others: Vec<&str> = facts
        .modules
        .iter()
        .filter(|(name, fact)| name.starts_with("kvm_") && *name != module && fact.get().is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    let draft = Draft::new(
        Row::KvmDriver,
        "host",
        format!("{module} is loaded"),
        "arch/x86/kvm, /sys/module",
    )
    .severity(Severity::Error)
    .evidence(fact.evidence(format!("module {module}"), |module| {
        match (module.is_builtin, module.users) {
            (true, _) => "built in".to_string(),
            (false, Some(users)) => format!("loaded, {users} users"),
            (false, None) => "loaded".to_string(),
        }
    }));
    if fact.get().is_some() {
        return draft.answer(Answer::Yes, "the module is there");
    }
    if fact.is_unreadable() {
        return draft.answer(Answer::Unknown, "the loaded modules were not recorded");
    }
    match (can_load, others.first()) {
        (Answer::No, Some(other)) => draft.answer(
            Answer::No,
            &format!("the processor shows no virtualization, and KVM runs on {other} instead"),
        ),
        (Answer::No, None) => {
            draft.answer(Answer::No, "the processor shows no virtualization to drive")
        }
        (_, Some(other)) => draft.answer(Answer::No, &format!("KVM runs on {other} instead")),
        (_, None) => draft
            .fix(format!("modprobe {module}"), Needs::Live)
            .answer(Answer::No, "the module is not loaded"),
    }
}

/// The parameter that allows posting of device interrupts, whichever module of this kernel has it.
fn device_posting_parameter(
    facts: &Facts,
    feature: Feature,
    active: Answer,
    iommu: Answer,
) -> Finding {
    let Parameter { module, name, since } = feature.parameter();
    let draft = Draft::new(
        Row::KvmDevicePosting,
        "host",
        "KVM may post device interrupts",
        format!(
            "arch/x86/kvm/x86.c, svm/svm.c, vmx/vmx.c, parameter {name}, {} and later",
            since.map_or("any", |_| "6.16")
        ),
    );
    let facts_of = [parameter(facts, module, name), parameter(facts, COMMON_MODULE, name)];
    if let Some((value, fact)) = facts_of.iter().find(|(value, _)| value.is_some()) {
        let draft = draft.evidence(fact.evidence(format!("parameter {name}"), String::clone));
        return match value {
            Some(false) if iommu == Answer::No => draft.answer(
                Answer::No,
                "the parameter reads N, as it does where the IOMMU cannot post",
            ),
            Some(false) => without_cause(facts, draft, feature, active),
            _ => draft.answer(
                Answer::Yes,
                "the parameter reads Y, which the kernel grants only if the IOMMU can post",
            ),
        };
    }
    let fact = &facts_of[0].1;
    let draft = draft.evidence(fact.evidence(format!("parameter {name}"), String::clone));
    if fact.is_absent() {
        return draft
            .answer(Answer::Yes, "this kernel has no such parameter: it always posts when it can");
    }
    match since.and_then(|since| facts.kernel_has(since)) {
        Some(false) => draft.answer(
            Answer::Yes,
            "kernels before 6.16 have no such parameter: they post when they can",
        ),
        _ => draft.answer(Answer::Unknown, &unread(name, fact)),
    }
}

/// What a word of the kernel command line takes away, as a reason.
fn taken(word: &BootWord) -> String {
    let what = match word.takes {
        Takes::Iommu => "it switches the IOMMU off",
        Takes::Remapping => "it switches interrupt remapping off",
        Takes::Posting => "it keeps the IOMMU from posting interrupts",
        Takes::Apic => "without the host's APICs there is no interrupt remapping",
        Takes::X2apic => "the host stays in xAPIC mode",
        Takes::Messages => "only messages can be posted, and devices may send none",
    };
    format!("{} is given: {what}", word.text())
}

/// What undoes it.
fn removed(word: &BootWord) -> String {
    format!("remove {} from the kernel command line", word.text())
}

/// Whether an Intel host's kernel leaves its IOMMU unused because nothing asks for it.
pub fn vt_d_is_off_by_default(facts: &Facts) -> bool {
    vt_d::is_off_by_default(facts)
}

/// A parameter that reads N although the hardware has what it stands for. The variable is kvm's,
/// the parameter its vendor half's: loading that half with APIC virtualization off clears it, and
/// loading it again does not set it, unless the option is given. (arch/x86/kvm/x86.c, svm/svm.c,
/// vmx/vmx.c: enable_apicv, enable_ipiv, enable_device_posted_irqs)
fn without_cause(facts: &Facts, draft: Draft, feature: Feature, active: Answer) -> Finding {
    let Parameter { module, name: option, .. } = feature.parameter();
    if let Some((text, place)) =
        asked(facts, module, option).filter(|(text, _)| boolean(text) == Some(false))
    {
        return draft
            .evidence(Evidence::new(format!("option {option}"), place.clone(), text.clone()))
            .fix(format!("{option}=1 instead of {option}={text} in {place}"), reload(facts, module))
            .answer(Answer::No, &format!("the option {option} is given as off"));
    }
    if active == Answer::No {
        return draft.answer(
            Answer::No,
            "the parameter reads N, as it does while APIC virtualization is off",
        );
    }
    let (line, needs) = match facts.module(COMMON_MODULE).get().is_some_and(|kvm| kvm.is_builtin) {
        true => (
            format!("echo 'options {module} {option}=1' >>/etc/modprobe.d/avicenna.conf"),
            reload(facts, module),
        ),
        false => (format!("modprobe -r {module} kvm && modprobe {module}"), Needs::ModuleReload),
    };
    draft.fix(line, needs).answer(
        Answer::No,
        &format!("the parameter reads N and no option asks for it: it was given by hand, or kvm keeps the N of an earlier load of {module} without APIC virtualization until kvm itself is loaded again"),
    )
}

/// The option as given to the module, on the kernel command line or in modprobe.d.
fn asked(facts: &Facts, module: &str, option: &str) -> Option<(String, String)> {
    facts.given_option(module, option)
}

/// The parameter reads N although files of modprobe.d or the kernel command line ask for it: the
/// module was loaded before they did, or from an initial RAM disk that has older ones. With the
/// reason, what was read, and what repairs it.
fn asked_for_and_not_loaded(
    facts: &Facts,
    feature: Feature,
) -> Option<(String, Evidence, (String, Needs))> {
    let Parameter { module, name, .. } = feature.parameter();
    let (value, place) =
        asked(facts, module, name).filter(|(text, _)| boolean(text) == Some(true))?;
    if parameter(facts, module, name).0 != Some(false) {
        return None;
    }
    let evidence = Evidence::new(format!("option {name}"), place.clone(), value);
    let reason = format!(
        "{name} is asked for in {place}, but the module was loaded without it: before the file said so, or from an \
         initial RAM disk that has an older copy"
    );
    let is_builtin = reload(facts, module) == Needs::Reboot;
    let fix = match is_builtin {
        true => "reboot".to_owned(),
        false => format!("modprobe -r {module} {COMMON_MODULE} && modprobe {module}"),
    };
    Some((reason, evidence, (fix, reload(facts, module))))
}

/// What it takes to give a module other options.
fn reload(facts: &Facts, module: &str) -> Needs {
    match facts.module(module).get().is_some_and(|module| module.is_builtin) {
        true => Needs::Reboot,
        false => Needs::ModuleReload,
    }
}

/// Why a parameter is not known.
fn unread(name: &str, fact: &Fact<String>) -> String {
    match &fact.reading {
        Reading::Unreadable(why) => format!("parameter {name}: {why}"),
        Reading::Absent => format!("the module has no parameter {name}"),
        Reading::Value(value) => {
            format!("parameter {name} reads '{value}', which is neither Y nor N")
        }
    }
}

/// A vendor's CPU capability that a row rests on: the answer of every kind of core together.
fn every(findings: &[Finding], id: Row) -> Answer {
    let rows: Vec<Answer> =
        findings.iter().filter(|finding| finding.is(id)).map(|finding| finding.answer).collect();
    if rows.is_empty() { Answer::Unknown } else { rows.into_iter().fold(Answer::Yes, Answer::and) }
}

fn is_hygon(cpu: &CpuKind) -> bool {
    cpu.vendor == Some(Vendor::Hygon)
}
