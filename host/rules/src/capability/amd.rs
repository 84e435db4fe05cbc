//! AMD and Hygon: SVM, AVIC, x2AVIC. What kvm_amd makes of them: [`super::kvm_amd`].
//!
//! [APM2 "AVIC"], [APM3 "Fn8000_000A"]; arch/x86/kvm/svm/avic.c and svm.c of Linux 5.15 to 7.3.

use super::amd_vi;
use super::conclusion::{conclude, every, flag_evidence};
use super::draft::Draft;
use super::kvm_amd::{avic_enabled, ipi_enabled, nested, snp, wakes_in_clusters, x2apic_guests};
use super::parameter::{device_posting_parameter, driver_loaded};
use super::row::Row;
use crate::feature::{AMD_MODULE, Feature};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use reading::cpu::Register;
use reading::{CpuKind, Facts, KernelFeature};

pub fn check(facts: &Facts) -> (Vec<Finding>, Vec<Finding>) {
    let mut findings: Vec<Finding> =
        facts.cpus.iter().flat_map(|cpu| processor(facts, cpu)).collect();
    let driver = driver_loaded(facts, AMD_MODULE, every(&findings, Row::CpuSvm));
    let avic = avic_enabled(facts, &findings, &driver);
    let ipi = ipi_enabled(facts, &findings, avic.answer);
    let x2apic = x2apic_guests(facts, &findings);
    let clusters = wakes_in_clusters(facts, &findings);
    let snp = snp(facts);
    let iommu = amd_vi::rows(facts);
    let vapic = iommu.iter().find(|row| row.is(Row::IommuGuestApicOn)).cloned();
    let can_post = vapic.as_ref().map_or(Answer::Unknown, |row| row.answer);
    let posting = device_posting_parameter(facts, Feature::IommuAvic, avic.answer, can_post);

    let cpu_avic = findings.iter().find(|row| row.is(Row::CpuAvic)).cloned();
    let mut active_rows = vec![&avic];
    // Without the module's word the processor alone can still say no.
    if let Some(row) =
        cpu_avic.as_ref().filter(|row| row.answer == Answer::No && avic.answer == Answer::Unknown)
    {
        active_rows.insert(0, row);
    }
    let active = conclude(
        Row::AnswerActive,
        &active_rows,
        "kvm_amd runs with AVIC: each VM uses it unless its configuration inhibits it",
    );
    let ipis = conclude(
        Row::AnswerIpi,
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
        Row::AnswerDevice,
        &device_rows,
        "the IOMMU posts MSIs with a single destination to vCPUs",
    );

    findings.extend([driver, avic, x2apic, clusters, ipi, nested(facts), snp, posting]);
    findings.extend(iommu);
    (vec![active, ipis, devices], findings)
}

/// The rows of one kind of core.
fn processor(facts: &Facts, cpu: &CpuKind) -> Vec<Finding> {
    let svm = feature(
        cpu,
        Row::CpuSvm,
        "the CPU has SVM",
        (0x8000_0001, Register::Ecx, 2),
        "svm",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    let npt = feature(
        cpu,
        Row::CpuNpt,
        "the CPU has nested paging",
        (0x8000_000A, Register::Edx, 0),
        "npt",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    let avic = feature(
        cpu,
        Row::CpuAvic,
        "the CPU has AVIC",
        (0x8000_000A, Register::Edx, 13),
        "avic",
        Answer::No,
    )
    .severity(Severity::Error)
    .answer_of_feature(cpu);
    // The flag has a name from 6.0 on; before, its absence says nothing.
    let names_x2avic = facts.kernel_has(KernelFeature::X2avic);
    let without_flag = if names_x2avic == Some(true) { Answer::No } else { Answer::Unknown };
    let x2avic = feature(
        cpu,
        Row::CpuX2avic,
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
struct CpuBit {
    draft: Draft,
    bit: (u32, Register, u32),
    flag: &'static str,
    /// What it means that the kernel does not list the flag.
    without_flag: Answer,
}

fn feature(
    cpu: &CpuKind,
    id: Row,
    statement: &str,
    bit: (u32, Register, u32),
    flag: &'static str,
    without_flag: Answer,
) -> CpuBit {
    let source =
        format!("[APM3 \"Fn{:04X}_{:04X} {}\"] bit {}", bit.0 >> 16, bit.0 & 0xFFFF, bit.1, bit.2);
    CpuBit { draft: Draft::new(id, cpu.subject(), statement, source), bit, flag, without_flag }
}

impl CpuBit {
    fn severity(mut self, severity: Severity) -> CpuBit {
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
        let of_list = cpu.flags.get().map(|flags| flags.contains(self.flag));
        let listed = of_list.or_else(|| cpu.told.get(self.flag).copied());
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
            (None, Some(has)) if cpu.told.contains_key(self.flag) => match has {
                true => (Answer::Yes, "the line that was given says so".into()),
                false => (Answer::No, no("the lines that were given say that it is not there")),
            },
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
        Row::CpuSvmEnabled,
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
        Row::CpuAvicConsistent,
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
    let kernel_x2avic = facts.kernel_has(KernelFeature::X2avic);
    let kernel_extended = facts.kernel_has(KernelFeature::X2avicExtended);
    let draft = Draft::new(
        Row::CpuVcpuLimit,
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
        (Answer::Yes, None) => draft.answer(
            Answer::Unknown,
            match extended {
                Some(true) => {
                    "the CPU's table covers 4096; what the kernel uses of it is not known"
                }
                Some(false) => {
                    "the CPU's table covers 512; whether the kernel uses x2AVIC is not known"
                }
                None => "the CPU has x2AVIC; whether the kernel uses it is not known",
            },
        ),
        _ => draft.answer(Answer::Unknown, "x2AVIC is not known"),
    }
}

/// Zen 1, Zen 2 and Hygon may lose an IPI's wake-up.
fn erratum_1235(facts: &Facts, cpu: &CpuKind) -> Finding {
    let affected = cpu.signature.map(|signature| matches!(signature.family, 0x17 | 0x18));
    let has_workaround = facts.kernel_has(KernelFeature::AmdIpiv);
    let draft = Draft::new(
        Row::CpuErratum1235,
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
        Some(true) => {
            let draft = match has_workaround {
                Some(true) if !is_hygon(cpu) => draft,
                _ => draft.fix(
                    "run kernel 6.17 or later, which then leaves IPIs to software",
                    Needs::Reboot,
                ),
            };
            draft.answer(
                Answer::No,
                match has_workaround {
                    Some(true) if !is_hygon(cpu) => "family 17h has it: this kernel therefore does not let AVIC deliver IPIs",
                    Some(true) => "family 18h has it: kernels with 9a12fa5213cf do not let AVIC deliver IPIs, others may lose wake-ups",
                    _ => "families 17h and 18h have it, and kernels before 6.17 let AVIC deliver IPIs all the same: a wake-up may be lost",
                },
            )
        }
        None => draft.answer(Answer::Unknown, "the family is not known"),
    }
}

fn is_hygon(cpu: &CpuKind) -> bool {
    cpu.vendor == Some(reading::Vendor::Hygon)
}
