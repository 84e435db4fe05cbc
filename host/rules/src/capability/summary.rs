//! The answer of `check` in three sentences: can the hardware, is it on, what would change that and
//! at what cost.
//!
//! And which rows only follow from others: an operator repairs causes.

use super::intel::HAS_BY_MODEL;
use super::report::{Report, Scope};
use super::row::Row;
use crate::feature::Feature;
use crate::finding::{Answer, Finding, Fix, Needs};
use crate::inhibit::Vendor;
use serde::Serialize;

/// An answer as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sentence {
    /// What the sentence says, as a value.
    pub answer: Answer,
    /// For readers.
    pub text: String,
}

/// Every line that has to change, and what they need together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// In the order in which they are to be made, each line once.
    pub fixes: Vec<Fix>,
    /// The greatest of what they need: it is needed once for all of them.
    pub needs: Needs,
}

/// What a reader of `check` needs first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// Whether the hardware is able to.
    pub hardware: Sentence,
    /// Whether the feature is on.
    pub state: Sentence,
    /// `None` where nothing is wrong, or no setting changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// A vendor's rows: what its feature needs of the processor, and of every IOMMU.
struct Needed {
    processor: &'static [(Row, &'static str)],
    iommu: &'static [Row],
}

const AMD: Needed = Needed {
    processor: &[(Row::CpuSvm, "SVM"), (Row::CpuNpt, "nested paging"), (Row::CpuAvic, "AVIC")],
    iommu: &[Row::IommuGuestApic, Row::IommuGuestApicMode],
};

const INTEL: Needed = Needed {
    processor: &[
        (Row::CpuVmx, "VMX"),
        (Row::CpuTprShadow, "TPR shadow"),
        (Row::CpuApicRegister, "APIC-register virtualization"),
        (Row::CpuInterruptDelivery, "virtual-interrupt delivery"),
        (Row::CpuPostedInterrupts, "posted interrupts"),
        // Without the registers, the model of some says so.
        (Row::CpuClientPart, "posted interrupts"),
    ],
    iommu: &[Row::IommuPosting],
};

impl Summary {
    /// Before anything is decided.
    pub(super) fn unknown() -> Summary {
        let open = || Sentence { answer: Answer::Unknown, text: String::new() };
        Summary { hardware: open(), state: open(), change: None }
    }
}

pub(super) fn summary(report: &Report) -> Summary {
    let hardware = hardware(report);
    let state = state(report, &hardware);
    let change = match (report.scope, hardware.answer) {
        (Scope::Hardware, _) | (_, Answer::No) => None,
        _ => change(report),
    };
    Summary { hardware, state, change }
}

fn vendor(report: &Report) -> Option<Vendor> {
    let has = |row| report.findings.iter().any(|finding| finding.is(row));
    match (has(Row::CpuSvm), has(Row::CpuVmx)) {
        (true, _) => Some(Vendor::Amd),
        (_, true) => Some(Vendor::Intel),
        _ => None,
    }
}

fn hardware(report: &Report) -> Sentence {
    let Some(vendor) = vendor(report) else { return without_processor(report) };
    let needed = if vendor == Vendor::Amd { AMD } else { INTEL };
    let subject = match report.answer(Row::CpuPhysical) {
        Some(Answer::No) => "this virtual machine",
        _ => "this hardware",
    };
    let is_virtual = subject != "this hardware";
    let answers = || needed.processor.iter().map(|(row, name)| (report.all(*row), *name));
    let answer = answers().fold(Answer::Yes, |all, (one, _)| all.and(one));
    // The module refuses where it finds no AVIC, unless it is forced.
    let module = if vendor == Vendor::Amd { Row::KvmAvic } else { Row::KvmApicv };
    let disagrees = answer == Answer::No && report.answer(module) == Some(Answer::Yes);
    let text = match answers().find(|(one, _)| *one == answer) {
        Some((_, name)) if disagrees => format!(
            "{subject} does it, though its CPUID shows no {name}: the module says that it is on, forced by force_avic, or the \
             CPUID is that of another host"
        ),
        Some((Answer::No, name)) if is_virtual => {
            format!("{subject} cannot: its hypervisor shows it no {name}")
        }
        Some((Answer::No, name)) => format!("{subject} cannot: the processor has no {name}"),
        Some((Answer::Unknown, _)) if report.all(Row::CpuVmx) == Answer::Yes => format!(
            "whether {subject} can is not known: the VMX capability registers were not read (root may, and vmx flags of \
             /proc/cpuinfo tell too), and the model does not tell"
        ),
        Some((Answer::Unknown, name)) => format!(
            "whether {subject} can is not known: whether the processor has {name} could not be read"
        ),
        _ => format!("{subject} can: {}", capable(report, vendor, needed.iommu)),
    };
    Sentence { answer: if disagrees { Answer::Yes } else { answer }, text }
}

/// What a capable processor has, and what its IOMMUs add.
fn capable(report: &Report, vendor: Vendor, iommu: &[Row]) -> String {
    let mut text = Feature::of_vendor(vendor).name().to_owned();
    match vendor {
        Vendor::Amd => {
            if report.all(Row::CpuX2avic) == Answer::Yes {
                text += &format!(" and {}", Feature::X2avic);
            }
            if report.all(Row::CpuErratum1235) == Answer::No {
                text += ", with IPIs left to software (erratum 1235)";
            }
        }
        Vendor::Intel => match report.all(Row::CpuIpi) {
            _ if report.findings.iter().any(|finding| finding.reason == HAS_BY_MODEL) => {
                text += ", as all published dumps of its model (its own registers were not read)";
            }
            Answer::Yes => text += &format!(" and {}", Feature::IpiVirtualization),
            Answer::No => text += &format!(" without {}", Feature::IpiVirtualization),
            Answer::Unknown => {}
        },
    }
    let posts = iommu.iter().fold(Answer::Yes, |all, row| all.and(report.all(*row)));
    text + match (posts, report.answer(Row::IommuPresent)) {
        (_, Some(Answer::No)) => "; no IOMMU is in use",
        (Answer::Yes, _) => "; the IOMMU can post device interrupts",
        (Answer::No, _) => "; the IOMMU cannot post device interrupts",
        (Answer::Unknown, _) if vendor == Vendor::Amd => {
            "; what the IOMMU can is not in this input (/sys/class/iommu/*/amd-iommu/features tells)"
        }
        (Answer::Unknown, _) => "; what the IOMMU can is not in this input",
    }
}

/// Tables of the firmware tell of IOMMUs alone.
fn without_processor(report: &Report) -> Sentence {
    let units: Vec<Answer> = [Row::IommuGuestApic, Row::IommuGuestApicMode]
        .into_iter()
        .filter(|row| report.answer(*row).is_some())
        .map(|row| report.all(row))
        .collect();
    let nothing = || match &report.foreign {
        Some(machine) => {
            format!("this is {machine} host: AVIC and APICv are x86's")
        }
        None => "no processor is described in this input".to_owned(),
    };
    if report.foreign.is_some() {
        return Sentence { answer: Answer::No, text: nothing() };
    }
    let (answer, text) = match units.iter().fold(Answer::Yes, |all, one| all.and(*one)) {
        _ if units.is_empty() => match report.answer(Row::IommuTableRemapping) {
            Some(Answer::No) => {
                (Answer::No, "the firmware forbids interrupt remapping, and so posting".to_owned())
            }
            Some(Answer::Yes) => (
                Answer::Unknown,
                format!(
                    "the firmware allows interrupt remapping; whether units post is not in its table, and {}",
                    nothing()
                ),
            ),
            _ => (Answer::Unknown, nothing()),
        },
        Answer::Yes => {
            (Answer::Yes, format!("the IOMMUs can post device interrupts; {}", nothing()))
        }
        Answer::No => {
            (Answer::No, format!("the IOMMUs cannot post device interrupts; {}", nothing()))
        }
        Answer::Unknown => (Answer::Unknown, nothing()),
    };
    Sentence { answer, text }
}

fn state(report: &Report, hardware: &Sentence) -> Sentence {
    let [active, ipis, devices] = report.answers.as_slice() else {
        return Sentence { answer: Answer::Unknown, text: "nothing is known of it".into() };
    };
    let feature = vendor(report).map_or("it", Vendor::feature);
    if report.foreign.is_some() {
        let text = "there is nothing to switch on".to_owned();
        return Sentence { answer: Answer::No, text };
    }
    let text = match (active.answer, hardware.answer) {
        (_, Answer::No) if vendor(report).is_some() => format!("{feature} is off, and stays off"),
        _ if report.scope == Scope::Hardware => {
            let ask = match vendor(report) {
                Some(Vendor::Amd) => "; /sys/module/kvm_amd/parameters/avic and /proc/cmdline tell",
                Some(Vendor::Intel) => {
                    "; /sys/module/kvm_intel/parameters/enable_apicv and /proc/cmdline tell"
                }
                None => "",
            };
            format!(
                "whether it is on cannot be seen here: this input describes no running kernel{ask}"
            )
        }
        (Answer::Unknown, _) => format!("whether {feature} is on is not known: {}", active.reason),
        (Answer::No, _) => {
            // Causes that stand beside the first: all of them have to go.
            let mut reasons = vec![active.reason.as_str()];
            reasons
                .extend(causes(report).filter(|row| decides(row)).map(|row| row.reason.as_str()));
            let mut seen: Vec<&str> = vec![];
            for reason in reasons {
                if !seen.contains(&reason) {
                    seen.push(reason);
                }
            }
            format!("{feature} is off, because {}", seen.join("; and "))
        }
        (Answer::Yes, _) => on(feature, ipis, devices),
    };
    let answer = match report.scope {
        Scope::Host => active.answer,
        Scope::Hardware if hardware.answer == Answer::No => Answer::No,
        Scope::Hardware => Answer::Unknown,
    };
    Sentence { answer, text }
}

fn on(feature: &str, ipis: &Finding, devices: &Finding) -> String {
    if (ipis.answer, devices.answer) == (Answer::Yes, Answer::Yes) {
        return format!("{feature} is on, for IPIs and for interrupts of passed-through devices");
    }
    let part = |finding: &Finding, subject: &str, verb: &str| match finding.answer {
        Answer::Yes => format!("{subject} are {verb}"),
        Answer::No => format!("{subject} are not {verb}, because {}", finding.reason),
        Answer::Unknown => {
            format!("whether {subject} are {verb} is not known: {}", finding.reason)
        }
    };
    let (ipis, devices) =
        (part(ipis, "IPIs", "accelerated"), part(devices, "device interrupts", "posted"));
    format!("{feature} is on; {ipis}; {devices}")
}

fn decides(row: &Finding) -> bool {
    Row::named(&row.id).is_some_and(Row::decides)
}

/// Rows that are bad of themselves, and that something repairs.
fn causes(report: &Report) -> impl Iterator<Item = &Finding> {
    let rows = report.findings.iter().filter(|row| row.is_problem() && row.fix.is_some());
    rows.filter(|row| row.follows.is_none())
}

fn change(report: &Report) -> Option<Change> {
    // What only matters once the feature is on waits until it is.
    let is_on = report.answers.first().is_some_and(|active| active.answer == Answer::Yes);
    let rows = causes(report).filter(|row| is_on || decides(row));
    let mut fixes: Vec<Fix> = vec![];
    for fix in rows.filter_map(|row| row.fix.as_ref()) {
        if fix.needs < Needs::Hardware && !fixes.contains(fix) {
            fixes.push(fix.clone());
        }
    }
    let needs = fixes.iter().map(|fix| fix.needs).max()?;
    Some(Change { fixes, needs })
}

/// Marks the rows that only follow from others: `--all` shows them.
pub(super) fn mark_consequences(report: &mut Report) {
    let bad: Vec<(String, Answer)> = report
        .findings
        .iter()
        .filter(|row| row.answer != Answer::Yes)
        .map(|row| (row.id.clone(), row.answer))
        .collect();
    let hardware = vendor(report).and_then(|vendor| {
        let needed = if vendor == Vendor::Amd { AMD } else { INTEL };
        needed.processor.iter().map(|(row, _)| *row).find(|row| report.all(*row) == Answer::No)
    });
    let mut reasons: Vec<(String, String)> = vec![];
    for finding in &mut report.findings {
        if finding.answer == Answer::Yes {
            continue;
        }
        let Some(row) = Row::named(&finding.id) else { continue };
        // A plain "not known" is never the cause of a "no".
        let rests = row.rests_on().iter().find(|cause| {
            bad.iter().any(|(id, answer)| {
                id == cause.name() && (*answer == Answer::No || finding.answer == Answer::Unknown)
            })
        });
        // Of hardware alone nobody asked what a kernel makes of it.
        let is_of_kernel =
            ["kvm-", "guest-", "iommu-"].iter().any(|group| finding.id.starts_with(group));
        if report.scope == Scope::Hardware && is_of_kernel && finding.answer == Answer::Unknown {
            finding.follows = Some(Row::AnswerActive.into());
            continue;
        }
        let of_hardware = hardware.filter(|cause| *cause != row && row != Row::CpuPhysical);
        finding.follows = of_hardware.or(rests.copied()).map(String::from);
        // One thing that could not be read leaves many rows open.
        if finding.follows.is_none() && finding.answer == Answer::Unknown {
            match reasons.iter().find(|(reason, _)| *reason == finding.reason) {
                Some((_, first)) => finding.follows = Some(first.clone()),
                None => reasons.push((finding.reason.clone(), finding.id.clone())),
            }
        }
    }
}
