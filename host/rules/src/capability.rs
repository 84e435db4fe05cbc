//! Can this host accelerate interrupts, and does it? One finding for each thing that decides.
//!
//! Three answers that are often taken for one are kept apart: is AVIC or APICv active, are IPIs
//! accelerated, are device interrupts posted. The rules are those of Linux's kvm_amd, kvm_intel,
//! AMD-Vi and VT-d drivers; each names its source. A configuration's inhibits are another question:
//! [`crate::inhibit`] and [`crate::why`].

mod amd;
mod amd_vi;
mod conclusion;
mod draft;
mod guest;
pub mod initial_disk;
mod intel;
mod kvm_amd;
mod parameter;
mod report;
mod row;
mod summary;
mod vt_d;

pub(crate) use parameter::reload_line;
pub use report::{Report, SCHEMA, Scope};
pub use row::Row;
pub use summary::{Change, Sentence, Summary};

use crate::finding::{Answer, Finding, Severity};
use conclusion::{ANSWERS, answer, conclude, flag_evidence};
use draft::Draft;
use reading::{CpuKind, Facts, Iommu, IommuKind};

/// Applies every rule.
pub fn check(facts: &Facts) -> Report {
    let foreign = facts.foreign.filter(|_| facts.cpus.iter().all(|cpu| cpu.vendor.is_none()));
    let vendor = facts.cpus.iter().find_map(|cpu| cpu.vendor.as_ref());
    let (answers, findings) = match (vendor, foreign) {
        (Some(vendor), _) if vendor.has_svm() => amd::check(facts),
        (Some(vendor), _) if vendor.has_vmx() => intel::check(facts),
        (Some(other), _) => without_rules(&format!(
            "the processor is made by {other}, for which there are no rules"
        )),
        (None, Some(machine)) => without_x86(machine),
        (None, None) => of_tables(facts),
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
        foreign,
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

fn without_x86(machine: &str) -> (Vec<Finding>, Vec<Finding>) {
    let reason = format!("this is {machine} host: AVIC and APICv are x86's");
    (ANSWERS.iter().map(|id| answer(*id, Answer::No, &reason, vec![])).collect(), vec![])
}

fn without_rules(reason: &str) -> (Vec<Finding>, Vec<Finding>) {
    (ANSWERS.iter().map(|id| answer(*id, Answer::Unknown, reason, vec![])).collect(), vec![])
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

/// Whether an Intel host's kernel leaves its IOMMU unused because nothing asks for it.
pub fn vt_d_is_off_by_default(facts: &Facts) -> bool {
    vt_d::is_off_by_default(facts)
}
