//! What kvm_amd makes of AVIC: its parameters, and why they read as they do.
//!
//! arch/x86/kvm/svm/avic.c and svm.c of Linux 5.15 to 7.3.

use super::conclusion::every;
use super::draft::Draft;
use super::initial_disk;
use super::parameter::{self, asked, parameter, parameter_of, reload, unread, without_cause};
use super::row::Row;
use crate::feature::{AMD_MODULE, Feature};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use reading::cpu::Register;
use reading::{CpuKind, Facts, KernelFeature, boolean};

/// What the module made of its parameter, and why.
pub fn avic_enabled(facts: &Facts, cpus: &[Finding], driver: &Finding) -> Finding {
    let (value, fact) = parameter_of(facts, Feature::Avic);
    let draft = Draft::new(
        Row::KvmAvic,
        "host",
        "kvm_amd has AVIC enabled",
        "arch/x86/kvm/svm/avic.c avic_want_avic_enabled, 6.18 to 7.3; svm.c svm_hardware_setup before",
    )
    .severity(Severity::Error)
    .evidence(fact.evidence("parameter avic", String::clone));
    if value == Some(true) {
        return draft.answer(
            Answer::Yes,
            "the parameter reads Y, which the module sets only if all it needs is there",
        );
    }
    let cause = why_off(facts, cpus);
    let draft = draft.evidence_all(cause.evidence);
    let draft = match cause.fix {
        Some((line, needs)) => draft.fix(line, needs),
        None => draft,
    };
    let was_on = facts.log_line("AVIC enabled").filter(|line| line.contains("kvm_amd"));
    match value {
        Some(_) if was_on.is_some() && !cause.is_hard => draft
            .evidence_all(was_on.map(|line| Evidence::new("kernel log", "dmesg", line)))
            .answer(
                Answer::No,
                &format!(
                    "{}; the kernel log says that it was on when the module was loaded before",
                    cause.reason
                ),
            ),
        Some(_) => draft.answer(Answer::No, &cause.reason),
        None if driver.answer == Answer::No => draft.answer(Answer::No, &driver.reason),
        None if fact.get().is_some() => {
            draft.answer(Answer::Unknown, "the parameter's value is neither Y nor N")
        }
        None if cause.is_hard => draft.answer(Answer::No, &cause.reason),
        None => draft.answer(Answer::Unknown, &unread("avic", &fact)),
    }
}

/// Why AVIC is off although asked for, or not asked for.
struct Cause {
    reason: String,
    evidence: Vec<Evidence>,
    fix: Option<(String, Needs)>,
    /// True if no parameter could change it.
    is_hard: bool,
}

fn why_off(facts: &Facts, cpus: &[Finding]) -> Cause {
    let cause =
        |reason: &str| Cause { reason: reason.into(), evidence: vec![], fix: None, is_hard: false };
    if every(cpus, Row::CpuAvic) == Answer::No {
        return Cause { is_hard: true, ..cause("the CPU does not report AVIC") };
    }
    if every(cpus, Row::CpuNpt) == Answer::No {
        return Cause { is_hard: true, ..cause("the CPU does not report nested paging") };
    }
    if let Some(line) = facts.log_line("missing HvInUseWrAllowed") {
        return Cause {
            evidence: vec![Evidence::new("kernel log", "dmesg", line)],
            fix: Some(("kvm_amd.sev_snp=0, or a CPU with HvInUseWrAllowed".into(), Needs::Reboot)),
            ..cause("SEV-SNP is on and the CPU lacks HvInUseWrAllowed")
        };
    }
    if let Some(cause) = options_off(facts) {
        return cause;
    }
    let (loaded, not_loaded) = (
        parameter::loaded_otherwise(facts, Feature::Avic),
        parameter::asked_for_and_not_loaded(facts, Feature::Avic),
    );
    if let Some((reason, evidence, fix)) = loaded.or(not_loaded) {
        return Cause { reason, evidence, fix: Some(fix), is_hard: false };
    }
    let kernel = facts.kernel.evidence("kernel", |kernel| kernel.release.clone());
    let fix = Some(switch_on(facts, "avic=1"));
    match facts.kernel_has(KernelFeature::AvicByDefault) {
        Some(false) => {
            Cause { evidence: vec![kernel], fix, ..cause("off is the default before 6.18") }
        }
        Some(true) => match initial_disk::gives(facts, Feature::Avic) {
            Some((value, given)) if boolean(&value) == Some(false) => {
                let disk = &facts.initial_disk.place;
                let reason = format!(
                    "the module was loaded from the initial RAM disk {disk}, which has an older copy and gives it avic={value}"
                );
                let fix = Some(initial_disk::renewal(facts));
                Cause { reason, evidence: vec![kernel, given], fix, is_hard: false }
            }
            _ => Cause { evidence: vec![kernel], fix, ..cause(automatic(facts, cpus)) },
        },
        None => Cause {
            evidence: vec![kernel],
            fix,
            ..cause("no option asks for it, and this kernel does not switch it on by itself")
        },
    }
}

/// What options forbid; all of it at once, so that one reload is enough.
fn options_off(facts: &Facts) -> Option<Cause> {
    let (npt, npt_fact) = parameter(facts, AMD_MODULE, "npt");
    let has_no_npt = npt == Some(false);
    let given = asked(facts, AMD_MODULE, Feature::Avic.parameter().name)
        .filter(|(value, _)| boolean(value) != Some(true) && value != "auto");
    let mut evidence = vec![];
    if has_no_npt {
        evidence.push(npt_fact.evidence("parameter npt", String::clone));
    }
    if let Some((value, place)) = &given {
        evidence.push(Evidence::new("option avic", place.clone(), value.clone()));
    }
    let without_npt = "nested paging is off, which AVIC needs";
    let (reason, fix) = match (has_no_npt, given) {
        (false, None) => return None,
        (true, None) => (without_npt.to_owned(), switch_on(facts, "npt=1")),
        (has_no_npt, Some((value, place))) => {
            let (and, line) = match has_no_npt {
                true => (format!("{without_npt}, and "), "npt=1, and "),
                false => (String::new(), ""),
            };
            (
                format!("{and}the option avic is given as off"),
                (
                    format!("{line}avic=1 instead of avic={value} in {place}"),
                    reload(facts, AMD_MODULE),
                ),
            )
        }
    };
    Some(Cause { reason, evidence, fix: Some(fix), is_hard: false })
}

/// The automatic choice of 6.18 and later.
fn automatic(facts: &Facts, cpus: &[Finding]) -> &'static str {
    let cpu = facts.cpus.first();
    let family = cpu.and_then(|cpu| cpu.signature).map(|signature| signature.family);
    let is_new = family.map(|family| family > 0x19 || cpu.and_then(CpuKind::is_zen4) == Some(true));
    match (every(cpus, Row::CpuX2avic), is_new) {
        (Answer::No, _) => "the automatic default needs x2AVIC, which the CPU does not report",
        (_, Some(false)) => "the automatic default takes Zen 4 and later only",
        _ => {
            "something overrode the automatic default, which takes this CPU: avic=0 was given when the module was loaded, or the kernel log says why not"
        }
    }
}

fn switch_on(facts: &Facts, option: &str) -> (String, Needs) {
    let is_builtin = facts.module(AMD_MODULE).get().is_some_and(|module| module.is_builtin);
    if is_builtin {
        (format!("kvm_amd.{option} on the kernel command line"), Needs::Reboot)
    } else {
        (
            format!("echo 'options kvm_amd {option}' >>/etc/modprobe.d/avicenna.conf"),
            Needs::ModuleReload,
        )
    }
}

/// Guests in x2APIC mode: most of them.
pub fn x2apic_guests(facts: &Facts, cpus: &[Finding]) -> Finding {
    let kernel = facts.kernel_has(KernelFeature::X2avic);
    let draft = Draft::new(
        Row::KvmX2apic,
        "host",
        "guests in x2APIC mode are accelerated fully",
        "arch/x86/kvm/svm/avic.c, x2AVIC from 6.0; inhibit X2APIC from 5.7 to 5.19",
    )
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(Evidence::new("x2AVIC", "row cpu-x2avic", every(cpus, Row::CpuX2avic).to_string()))
    .fix("-cpu …,-x2apic for guests of at most 255 vCPUs", Needs::VmRestart);
    if every(cpus, Row::CpuAvic) == Answer::No {
        // What there is none of x2APIC cannot take away: nothing would be gained without it.
        let mut finding =
            draft.answer(Answer::No, "the CPU has no AVIC, in whatever mode the guest is");
        finding.fix = None;
        return finding;
    }
    match (kernel, every(cpus, Row::CpuX2avic)) {
        (Some(false), _) => draft.answer(Answer::No, "kernels before 6.0 do not use x2AVIC: a guest that sees x2APIC runs without AVIC"),
        (_, Answer::No) => draft.answer(Answer::No, "the CPU has no x2AVIC: in x2APIC mode every register write exits, and only the doorbell is used"),
        (Some(true), Answer::Yes) => draft.answer(Answer::Yes, "x2AVIC is there and this kernel uses it"),
        _ => draft.answer(Answer::Unknown, "the kernel or x2AVIC is not known"),
    }
}

/// Linux 6.0 to 6.2 wakes nobody for a logical IPI in x2APIC mode to the first cluster: the vCPUs 0
/// to 15.
pub fn wakes_in_clusters(facts: &Facts, cpus: &[Finding]) -> Finding {
    let draft = Draft::new(
        Row::KvmX2apicCluster,
        "host",
        "guests in x2APIC cluster mode lose no wake-up",
        "arch/x86/kvm/svm/avic.c avic_kick_target_vcpus_fast, 6.0 to 6.2 and all of 6.1's stable kernels; da3fb46d226a (6.3)",
    )
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(Evidence::new("x2AVIC", "row cpu-x2avic", every(cpus, Row::CpuX2avic).to_string()))
    .fix("run kernel 6.3 or later; until then no virtual IOMMU, or x2apic_phys in the guest", Needs::Reboot);
    // Without AVIC the kernel uses no x2AVIC either.
    let x2avic = match every(cpus, Row::CpuAvic) {
        Answer::No => Answer::No,
        _ => every(cpus, Row::CpuX2avic),
    };
    let has = |feature| facts.kernel_has(feature);
    match (x2avic, has(KernelFeature::X2avic), has(KernelFeature::ClusterWakeUp)) {
        (Answer::No, _, _) => draft.answer(Answer::Yes, "without x2AVIC the kernel sends these IPIs itself"),
        (_, _, Some(true)) => draft.answer(Answer::Yes, "6.3 and later find the target"),
        (_, Some(false), _) => draft.answer(Answer::Yes, "kernels before 6.0 do not use x2AVIC"),
        (Answer::Yes, Some(true), Some(false)) => draft.answer(
            Answer::No,
            "6.0 to 6.2 take the wrong half of a logical destination: an IPI to a halted vCPU of 0 to 15 does not wake it (guests with a virtual IOMMU that remaps to x2APIC)",
        ),
        _ => draft.answer(Answer::Unknown, "the kernel or x2AVIC is not known"),
    }
}

pub fn ipi_enabled(facts: &Facts, cpus: &[Finding], avic: Answer) -> Finding {
    let (value, fact) = parameter_of(facts, Feature::AvicIpi);
    let erratum = cpus.iter().any(|row| row.is(Row::CpuErratum1235) && row.answer == Answer::No);
    let draft = Draft::new(
        Row::KvmIpi,
        "host",
        "kvm_amd lets AVIC deliver IPIs",
        "arch/x86/kvm/svm/avic.c, parameter enable_ipiv from 6.17 (d921665e01ba, 8de4a1c8164e)",
    )
    .evidence(fact.evidence("parameter enable_ipiv", String::clone));
    match value {
        Some(true) => draft.answer(Answer::Yes, "the parameter reads Y"),
        Some(false) if erratum => draft
            .answer(Answer::No, "erratum 1235: the kernel leaves IPIs to software on this family"),
        Some(false) => without_cause(facts, draft, Feature::AvicIpi, avic),
        None if fact.is_absent() => draft
            .answer(Answer::Yes, "this kernel has no such parameter: AVIC always delivers IPIs"),
        None => match facts.kernel_has(KernelFeature::AmdIpiv) {
            Some(false) => {
                draft.answer(Answer::Yes, "kernels before 6.17 always let AVIC deliver IPIs")
            }
            Some(true) if erratum => draft.answer(
                Answer::No,
                "erratum 1235: this kernel leaves IPIs to software on this family",
            ),
            _ => draft.answer(Answer::Unknown, &unread("enable_ipiv", &fact)),
        },
    }
}

/// Up to 5.18 a VM that is offered SVM loses AVIC for good.
pub fn nested(facts: &Facts) -> Finding {
    let (nested, fact) = parameter(facts, AMD_MODULE, "nested");
    let draft = Draft::new(
        Row::KvmNested,
        "host",
        "offering SVM to guests does not cost them AVIC",
        "arch/x86/kvm/svm/svm.c: inhibit NESTED for the whole VM up to 5.18, while L2 runs from 5.19 (f44509f849fe)",
    )
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(fact.evidence("parameter nested", String::clone));
    match (facts.kernel_has(KernelFeature::NestedPerVcpu), nested) {
        (Some(true), _) => draft
            .answer(Answer::Yes, "from 5.19 on only a vCPU that runs a nested guest goes without"),
        (_, Some(false)) => draft.answer(Answer::Yes, "guests are offered no SVM"),
        (Some(false), Some(true)) => {
            let (line, needs) = switch_on(facts, "nested=0");
            draft
                .fix(line, needs)
                .answer(Answer::No, "up to 5.18 a guest that sees SVM runs without AVIC")
        }
        _ => draft.answer(Answer::Unknown, "the kernel or the parameter is not known"),
    }
}

/// SEV-SNP on the host takes AVIC from CPUs without HvInUseWrAllowed.
pub fn snp(facts: &Facts) -> Finding {
    let on = snp_is_on(facts);
    let allowed = facts
        .cpus
        .first()
        .and_then(|cpu| cpu.cpuid.get())
        .and_then(|cpuid| cpuid.bit(0x8000_001F, Register::Eax, 30));
    let draft = Draft::new(
        Row::KvmSnp,
        "host",
        "SEV-SNP on the host leaves AVIC allowed",
        "arch/x86/kvm/svm/avic.c, 7.3: HvInUseWrAllowed, CPUID 8000001Fh EAX bit 30",
    )
    .evidence(facts.parameter(AMD_MODULE, "sev_snp").evidence("parameter sev_snp", String::clone))
    .evidence(Evidence::new(
        "HvInUseWrAllowed",
        "CPUID 8000001Fh EAX bit 30",
        allowed.map_or("not recorded", |bit| if bit { "1" } else { "0" }),
    ))
    .fix("kvm_amd.sev_snp=0 on the kernel command line, if no SNP guest is needed", Needs::Reboot);
    match (on, allowed) {
        (Some(false), _) => draft.answer(Answer::Yes, "SEV-SNP is off"),
        (Some(true), Some(true)) => draft.answer(Answer::Yes, "the CPU has HvInUseWrAllowed"),
        (Some(true), Some(false)) => draft.answer(
            Answer::No,
            "SEV-SNP is on and the CPU lacks HvInUseWrAllowed: the kernel refuses AVIC",
        ),
        _ => draft
            .answer(Answer::Unknown, "whether SEV-SNP is on, or what the CPU has, is not known"),
    }
}

/// True if the host runs with SNP; false if it certainly does not.
pub fn snp_is_on(facts: &Facts) -> Option<bool> {
    if facts.log_line("SEV-SNP enabled").is_some()
        || facts.log_line("Virtual APIC due to SNP").is_some()
        || facts.log_line("missing HvInUseWrAllowed").is_some()
    {
        return Some(true);
    }
    if let Some(value) = parameter(facts, AMD_MODULE, "sev_snp").0 {
        return Some(value);
    }
    let has_snp = facts
        .cpus
        .first()
        .and_then(|cpu| cpu.cpuid.get())
        .and_then(|cpuid| cpuid.bit(0x8000_001F, Register::Eax, 4));
    let kernel_has_snp = facts.kernel_has(KernelFeature::SnpHost);
    // SNP host support came with 6.9 (drivers/iommu/amd/init.c, arch/x86/virt/svm/sev.c).
    (has_snp == Some(false) || kernel_has_snp == Some(false)).then_some(false)
}
