//! AMD and Hygon: SVM, AVIC, x2AVIC, and what kvm_amd makes of them.
//!
//! [APM2 "AVIC"], [APM3 "Fn8000_000A"]; arch/x86/kvm/svm/avic.c and svm.c of Linux 5.15 to 7.3.

use super::draft::Draft;
use super::{
    amd_vi, conclude, device_posting_parameter, driver_loaded, every, flag_evidence, is_hygon,
    parameter, unread,
};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use crate::host::cpu::Register;
use crate::host::{CpuKind, Facts};

pub fn check(facts: &Facts) -> (Vec<Finding>, Vec<Finding>) {
    let mut findings: Vec<Finding> =
        facts.cpus.iter().flat_map(|cpu| processor(facts, cpu)).collect();
    let driver = driver_loaded(facts, "kvm_amd", every(&findings, "cpu-svm"));
    let avic = avic_enabled(facts, &findings, &driver);
    let ipi = ipi_enabled(facts, &findings);
    let x2apic = x2apic_guests(facts, &findings);
    let posting = device_posting_parameter(facts, "kvm_amd");
    let snp = snp(facts);
    let iommu = amd_vi::rows(facts);
    let vapic = iommu.iter().find(|row| row.id == "iommu-guest-apic-on").cloned();

    let cpu_avic = findings.iter().find(|row| row.id == "cpu-avic").cloned();
    let mut active_rows = vec![&avic];
    // Without the module's word the processor alone can still say no.
    if let Some(row) =
        cpu_avic.as_ref().filter(|row| row.answer == Answer::No && avic.answer == Answer::Unknown)
    {
        active_rows.insert(0, row);
    }
    let active = conclude(
        "answer-active",
        &active_rows,
        "kvm_amd runs with AVIC: each VM uses it unless its configuration inhibits it",
    );
    let ipis = conclude(
        "answer-ipi",
        &[&active, &ipi],
        match x2apic.answer {
            Answer::Yes => "AVIC delivers IPIs to running vCPUs, in xAPIC and x2APIC mode",
            _ => {
                "AVIC delivers IPIs to running vCPUs of guests in xAPIC mode; in x2APIC mode see kvm-x2apic"
            }
        },
    );
    let device_rows: Vec<&Finding> =
        [&active, &posting].into_iter().chain(vapic.as_ref()).collect();
    let devices = conclude(
        "answer-device",
        &device_rows,
        "the IOMMU posts MSIs with a single destination to vCPUs",
    );

    findings.extend([driver, avic, x2apic, ipi, nested(facts), snp, posting]);
    findings.extend(iommu);
    (vec![active, ipis, devices], findings)
}

/// The rows of one kind of core.
fn processor(facts: &Facts, cpu: &CpuKind) -> Vec<Finding> {
    let svm = feature(
        cpu,
        "cpu-svm",
        "the CPU has SVM",
        (0x8000_0001, Register::Ecx, 2),
        "svm",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    let npt = feature(
        cpu,
        "cpu-npt",
        "the CPU has nested paging",
        (0x8000_000A, Register::Edx, 0),
        "npt",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    let avic = feature(
        cpu,
        "cpu-avic",
        "the CPU has AVIC",
        (0x8000_000A, Register::Edx, 13),
        "avic",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    // The flag has a name from 6.0 on; before, its absence says nothing.
    let names_x2avic = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 0));
    let without_flag = if names_x2avic == Some(true) { Answer::No } else { Answer::Unknown };
    let x2avic = feature(
        cpu,
        "cpu-x2avic",
        "the CPU has x2AVIC",
        (0x8000_000A, Register::Edx, 18),
        "x2avic",
        without_flag,
    )
    .answer_of_feature(cpu);
    let mut rows = vec![svm, svm_enabled(cpu), npt];
    rows.extend(firmware_bug(cpu, avic.answer, x2avic.answer));
    rows.extend([vcpu_limit(facts, cpu, avic.answer, x2avic.answer), erratum_1235(facts, cpu)]);
    rows.insert(3, avic);
    rows.insert(4, x2avic);
    rows
}

/// A row about a CPUID bit that the kernel also lists as a flag.
struct Feature {
    draft: Draft,
    bit: (u32, Register, u32),
    flag: &'static str,
    /// What it means that the kernel does not list the flag.
    without_flag: Answer,
}

fn feature(
    cpu: &CpuKind,
    id: &str,
    statement: &str,
    bit: (u32, Register, u32),
    flag: &'static str,
    without_flag: Answer,
) -> Feature {
    let source =
        format!("[APM3 \"Fn{:04X}_{:04X} {}\"] bit {}", bit.0 >> 16, bit.0 & 0xFFFF, bit.1, bit.2);
    Feature { draft: Draft::new(id, cpu.subject(), statement, source), bit, flag, without_flag }
}

impl Feature {
    fn severity(mut self, severity: Severity) -> Feature {
        self.draft = self.draft.severity(severity);
        self
    }

    fn answer_of_feature(self, cpu: &CpuKind) -> Finding {
        let (leaf, register, bit) = self.bit;
        let in_cpuid = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(leaf, register, bit));
        let shown = match in_cpuid {
            Some(true) => "1",
            Some(false) => "0",
            None => "not recorded",
        };
        let listed = cpu.flags.get().map(|flags| flags.contains(self.flag));
        let draft = self
            .draft
            .evidence(
                cpu.cpuid.evidence(format!("CPUID {leaf:08X}h {register} bit {bit}"), |_| shown),
            )
            .evidence(flag_evidence(cpu, self.flag));
        let hidden = cpu.is_virtual() == Some(true);
        let no = |reason: &str| {
            if hidden {
                format!("{reason}; the hypervisor below hides or lacks it")
            } else {
                reason.to_string()
            }
        };
        let (answer, reason) = match (in_cpuid, listed) {
            (Some(true), Some(false)) if self.without_flag == Answer::No => {
                (Answer::Yes, "CPUID reports it; the kernel masked it, which the rows on firmware and KVM explain".into())
            }
            (Some(true), _) => (Answer::Yes, "CPUID reports it".into()),
            (Some(false), _) => (Answer::No, no("CPUID does not report it")),
            (None, Some(true)) => (Answer::Yes, "the kernel lists its flag".into()),
            (None, Some(false)) if self.without_flag == Answer::No => {
                (Answer::No, no("the kernel does not list its flag"))
            }
            (None, _) => (Answer::Unknown, "neither CPUID nor a flag of this kernel tells".into()),
        };
        match answer {
            Answer::No if hidden => draft
                .fix(
                    "none from inside: the hypervisor below decides what it shows",
                    Needs::Hardware,
                )
                .answer(answer, &reason),
            Answer::No => draft
                .fix("none: another processor, or firmware that shows the feature", Needs::Hardware)
                .answer(answer, &reason),
            _ => draft.answer(answer, &reason),
        }
    }
}

/// VM_CR.SVMDIS: firmware can switch SVM off and lock it.
fn svm_enabled(cpu: &CpuKind) -> Finding {
    let vm_cr = cpu.msr(0xC001_0114);
    let has_svm = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(0x8000_0001, Register::Ecx, 2));
    let listed = cpu.flags.get().map(|flags| flags.contains("svm"));
    let draft = Draft::new(
        "cpu-svm-enabled",
        cpu.subject(),
        "firmware leaves SVM enabled",
        "[APM2 \"VM_CR MSR (C001_0114h)\"] bit 4 SVMDIS; arch/x86/kernel/cpu/amd.c clears the flag",
    )
    .severity(Severity::Error)
    .evidence(vm_cr.evidence("VM_CR", |value| format!("{value:#x}")))
    .evidence(flag_evidence(cpu, "svm"))
    .fix("enable SVM (AMD-V) in the firmware setup", Needs::Firmware);
    match (vm_cr.get().map(|value| value >> 4 & 1 == 1), has_svm, listed) {
        (Some(true), _, _) => draft.answer(Answer::No, "SVMDIS is set"),
        (Some(false), _, _) => draft.answer(Answer::Yes, "SVMDIS is clear"),
        (None, _, Some(true)) => {
            draft.answer(Answer::Yes, "the kernel lists svm, which it does not when SVMDIS is set")
        }
        (None, Some(true), Some(false)) => draft
            .answer(Answer::No, "CPUID reports SVM and the kernel does not list it: SVMDIS is set"),
        _ => draft.answer(Answer::Unknown, "VM_CR was not read and nothing else tells"),
    }
}

/// x2AVIC without AVIC is a firmware bug, and the kernel then uses neither.
fn firmware_bug(cpu: &CpuKind, avic: Answer, x2avic: Answer) -> Option<Finding> {
    if avic == Answer::Unknown || x2avic == Answer::Unknown {
        return None;
    }
    let is_bug = avic == Answer::No && x2avic == Answer::Yes;
    let draft = Draft::new(
        "cpu-avic-consistent",
        cpu.subject(),
        "firmware reports AVIC and x2AVIC consistently",
        "arch/x86/kvm/svm/avic.c, 6.0 to 7.3: 'Cannot enable x2AVIC, AVIC is unsupported'",
    )
    .evidence(Evidence::new("AVIC", "row cpu-avic", avic.to_string()))
    .evidence(Evidence::new("x2AVIC", "row cpu-x2avic", x2avic.to_string()))
    .fix(
        "update the firmware; kvm_amd.force_avic=1 overrides, and taints the kernel",
        Needs::Firmware,
    );
    Some(match is_bug {
        true => draft.answer(Answer::No, "x2AVIC is reported and AVIC is not: the kernel calls it a firmware bug and enables neither"),
        false => draft.answer(Answer::Yes, "x2AVIC is not reported without AVIC"),
    })
}

fn vcpu_limit(facts: &Facts, cpu: &CpuKind, avic: Answer, x2avic: Answer) -> Finding {
    let extended = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(0x8000_000A, Register::Ecx, 6));
    let kernel_x2avic = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 0));
    let kernel_extended = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 19));
    let draft = Draft::new(
        "cpu-vcpu-limit",
        cpu.subject(),
        "AVIC covers VMs of more than 255 vCPUs",
        "[APM2 \"AVIC Physical APIC ID Table\"]; arch/x86/include/asm/svm.h: 0FEh, 1FFh (6.0), 0FFFh (6.19)",
    )
    .severity(Severity::Note)
    .evidence(cpu.cpuid.evidence("CPUID 8000000Ah ECX bit 6, x2AVIC_EXT", |_| extended.map_or("not recorded", |bit| if bit { "1" } else { "0" })))
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()));
    if avic == Answer::No {
        return draft.answer(Answer::No, "at most none: the CPU has no AVIC");
    }
    match (x2avic, kernel_x2avic) {
        (Answer::No, _) => draft.answer(Answer::No, "at most 255: the CPU has no x2AVIC"),
        (_, Some(false)) => {
            draft.answer(Answer::No, "at most 255: kernels before 6.0 do not use x2AVIC")
        }
        (Answer::Yes, Some(true)) => match (extended, kernel_extended) {
            (Some(true), Some(true)) => {
                draft.answer(Answer::Yes, "at most 4096, with x2AVIC's extended table")
            }
            (Some(true), _) => draft.answer(
                Answer::Yes,
                "at most 512; kernel 6.19 and later use the CPU's table of 4096",
            ),
            (Some(false), _) => draft.answer(Answer::Yes, "at most 512, with x2AVIC"),
            (None, _) => draft.answer(Answer::Yes, "at least 512, with x2AVIC"),
        },
        _ => draft.answer(Answer::Unknown, "x2AVIC or the kernel is not known"),
    }
}

/// Zen 1, Zen 2 and Hygon may lose an IPI's wake-up.
fn erratum_1235(facts: &Facts, cpu: &CpuKind) -> Finding {
    let affected = cpu.signature.map(|signature| matches!(signature.family, 0x17 | 0x18));
    let has_workaround = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 17));
    let draft = Draft::new(
        "cpu-erratum-1235",
        cpu.subject(),
        "the CPU is free of erratum 1235 (lost IPI wake-ups)",
        "AMD revision guide for family 17h, #1235; arch/x86/kvm/svm/avic.c: 8de4a1c8164e (6.17), 9a12fa5213cf (Hygon)",
    )
    .evidence(Evidence::new(
        "family",
        "CPUID 00000001h EAX",
        cpu.signature.map_or("not known".into(), |signature| signature.to_string()),
    ));
    match affected {
        Some(false) => draft.answer(Answer::Yes, "only families 17h and 18h have it"),
        Some(true) => draft
            .fix("run kernel 6.17 or later, which then leaves IPIs to software", Needs::Reboot)
            .answer(
                Answer::No,
                match has_workaround {
                    Some(true) if !is_hygon(cpu) => "family 17h has it: this kernel therefore does not let AVIC deliver IPIs",
                    Some(true) => "family 18h has it: kernels with 9a12fa5213cf do not let AVIC deliver IPIs, others may lose wake-ups",
                    _ => "families 17h and 18h have it, and kernels before 6.17 let AVIC deliver IPIs all the same: a wake-up may be lost",
                },
            ),
        None => draft.answer(Answer::Unknown, "the family is not known"),
    }
}

/// What the module made of its parameter, and why.
fn avic_enabled(facts: &Facts, cpus: &[Finding], driver: &Finding) -> Finding {
    let (value, fact) = parameter(facts, "kvm_amd", "avic");
    let draft = Draft::new(
        "kvm-avic",
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
    match value {
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
    if every(cpus, "cpu-avic") == Answer::No {
        return Cause { is_hard: true, ..cause("the CPU does not report AVIC") };
    }
    if every(cpus, "cpu-npt") == Answer::No {
        return Cause { is_hard: true, ..cause("the CPU does not report nested paging") };
    }
    if let Some(line) = facts.log_line("missing HvInUseWrAllowed") {
        return Cause {
            evidence: vec![Evidence::new("kernel log", "dmesg", line)],
            fix: Some(("kvm_amd.sev_snp=0, or a CPU with HvInUseWrAllowed".into(), Needs::Reboot)),
            ..cause("SEV-SNP is on and the CPU lacks HvInUseWrAllowed")
        };
    }
    let (npt, npt_fact) = parameter(facts, "kvm_amd", "npt");
    if npt == Some(false) {
        return Cause {
            evidence: vec![npt_fact.evidence("parameter npt", String::clone)],
            fix: Some(switch_on(facts, "npt=1")),
            ..cause("nested paging is off, which AVIC needs")
        };
    }
    if let Some((value, place)) = asked(facts, "avic")
        && !matches!(crate::host::boolean(&value), Some(true))
        && value != "auto"
    {
        return Cause {
            evidence: vec![Evidence::new("option avic", place.clone(), value.clone())],
            fix: Some((
                format!("avic=1 instead of avic={value} in {place}"),
                switch_on(facts, "").1,
            )),
            ..cause("the option avic is given as off")
        };
    }
    let kernel = facts.kernel.evidence("kernel", |kernel| kernel.release.clone());
    let fix = Some(switch_on(facts, "avic=1"));
    match facts.kernel.get().and_then(|kernel| kernel.has_since(6, 18)) {
        Some(false) => {
            Cause { evidence: vec![kernel], fix, ..cause("off is the default before 6.18") }
        }
        Some(true) => Cause { evidence: vec![kernel], fix, ..cause(automatic(facts, cpus)) },
        None => Cause {
            evidence: vec![kernel],
            fix,
            ..cause("not asked for; whether this kernel's default is off or automatic is not known")
        },
    }
}

/// The automatic choice of 6.18 and later.
fn automatic(facts: &Facts, cpus: &[Finding]) -> &'static str {
    let cpu = facts.cpus.first();
    let family = cpu.and_then(|cpu| cpu.signature).map(|signature| signature.family);
    let is_new = family.map(|family| family > 0x19 || cpu.and_then(CpuKind::is_zen4) == Some(true));
    match (every(cpus, "cpu-x2avic"), is_new) {
        (Answer::No, _) => "the automatic default needs x2AVIC, which the CPU does not report",
        (_, Some(false)) => "the automatic default takes Zen 4 and later only",
        _ => "the automatic default should have switched it on; the kernel log may say why not",
    }
}

/// The option as given to the module, on the kernel command line or in modprobe.d.
fn asked(facts: &Facts, option: &str) -> Option<(String, String)> {
    facts
        .kernel_argument(&format!("kvm_amd.{option}"))
        .map(|value| (value.to_string(), facts.command_line.place.clone()))
        .or_else(|| facts.modprobe_option("kvm_amd", option))
}

fn switch_on(facts: &Facts, option: &str) -> (String, Needs) {
    let is_builtin = facts.module("kvm_amd").get().is_some_and(|module| module.is_builtin);
    if is_builtin {
        (format!("kvm_amd.{option} on the kernel command line"), Needs::Reboot)
    } else {
        (
            format!("echo 'options kvm_amd {option}' >/etc/modprobe.d/avicenna.conf"),
            Needs::ModuleReload,
        )
    }
}

/// Guests in x2APIC mode: most of them.
fn x2apic_guests(facts: &Facts, cpus: &[Finding]) -> Finding {
    let kernel = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 0));
    let draft = Draft::new(
        "kvm-x2apic",
        "host",
        "guests in x2APIC mode are accelerated fully",
        "arch/x86/kvm/svm/avic.c, x2AVIC from 6.0; inhibit X2APIC from 5.7 to 5.19",
    )
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(Evidence::new("x2AVIC", "row cpu-x2avic", every(cpus, "cpu-x2avic").to_string()))
    .fix("-cpu …,-x2apic for guests of at most 255 vCPUs", Needs::VmRestart);
    match (kernel, every(cpus, "cpu-x2avic")) {
        (Some(false), _) => draft.answer(Answer::No, "kernels before 6.0 do not use x2AVIC: a guest that sees x2APIC runs without AVIC"),
        (_, Answer::No) => draft.answer(Answer::No, "the CPU has no x2AVIC: in x2APIC mode every register write exits, and only the doorbell is used"),
        (Some(true), Answer::Yes) => draft.answer(Answer::Yes, "x2AVIC is there and this kernel uses it"),
        _ => draft.answer(Answer::Unknown, "the kernel or x2AVIC is not known"),
    }
}

fn ipi_enabled(facts: &Facts, cpus: &[Finding]) -> Finding {
    let (value, fact) = parameter(facts, "kvm_amd", "enable_ipiv");
    let erratum = cpus.iter().any(|row| row.id == "cpu-erratum-1235" && row.answer == Answer::No);
    let draft = Draft::new(
        "kvm-ipi",
        "host",
        "kvm_amd lets AVIC deliver IPIs",
        "arch/x86/kvm/svm/avic.c, parameter enable_ipiv from 6.17 (8de4a1c8164e)",
    )
    .evidence(fact.evidence("parameter enable_ipiv", String::clone));
    match value {
        Some(true) => draft.answer(Answer::Yes, "the parameter reads Y"),
        Some(false) if erratum => draft
            .answer(Answer::No, "erratum 1235: the kernel leaves IPIs to software on this family"),
        Some(false) => {
            let (line, needs) = switch_on(facts, "enable_ipiv=1");
            draft.fix(line, needs).answer(Answer::No, "the parameter reads N")
        }
        None if fact.is_absent() => draft
            .answer(Answer::Yes, "this kernel has no such parameter: AVIC always delivers IPIs"),
        None => match facts.kernel.get().and_then(|kernel| kernel.has_since(6, 17)) {
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
fn nested(facts: &Facts) -> Finding {
    let (nested, fact) = parameter(facts, "kvm_amd", "nested");
    let draft = Draft::new(
        "kvm-nested",
        "host",
        "offering SVM to guests does not cost them AVIC",
        "arch/x86/kvm/svm/svm.c: inhibit NESTED for the whole VM up to 5.18, while L2 runs from 5.19 (f44509f849fe)",
    )
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(fact.evidence("parameter nested", String::clone));
    match (facts.kernel.get().and_then(|kernel| kernel.has_since(5, 19)), nested) {
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
fn snp(facts: &Facts) -> Finding {
    let on = snp_is_on(facts);
    let allowed = facts
        .cpus
        .first()
        .and_then(|cpu| cpu.cpuid.get())
        .and_then(|cpuid| cpuid.bit(0x8000_001F, Register::Eax, 30));
    let draft = Draft::new(
        "kvm-snp",
        "host",
        "SEV-SNP on the host leaves AVIC allowed",
        "arch/x86/kvm/svm/avic.c, 7.3: HvInUseWrAllowed, CPUID 8000001Fh EAX bit 30",
    )
    .evidence(facts.parameter("kvm_amd", "sev_snp").evidence("parameter sev_snp", String::clone))
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
    if let Some(value) = parameter(facts, "kvm_amd", "sev_snp").0 {
        return Some(value);
    }
    let has_snp = facts
        .cpus
        .first()
        .and_then(|cpu| cpu.cpuid.get())
        .and_then(|cpuid| cpuid.bit(0x8000_001F, Register::Eax, 4));
    let kernel_has_snp = facts.kernel.get().and_then(|kernel| kernel.has_since(6, 9));
    // SNP host support came with 6.9 (drivers/iommu/amd/init.c, arch/x86/virt/svm/sev.c).
    (has_snp == Some(false) || kernel_has_snp == Some(false)).then_some(false)
}
