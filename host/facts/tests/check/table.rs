//! One row for each rule and each of its answers.

use crate::fixture::{Change, Host, dmar, ivrs, madt};
use rules::Answer::{self, No, Unknown, Yes};
use rules::capability::Row;
use std::collections::BTreeSet;

enum Base {
    Amd,
    Intel,
}
use Base::{Amd, Intel};

const CPUID: &str = "cpuid.txt";
const CPUINFO: &str = "proc/cpuinfo";
const CMDLINE: &str = "proc/cmdline";
const RELEASE: &str = "proc/sys/kernel/osrelease";
const LOG: &str = "avicenna/dmesg.txt";
const NO_CPU: &[Change] =
    &[(CPUID, None), (CPUINFO, Some("processor\t: 0\nvendor_id\t: AuthenticAMD\n"))];
const NO_INTEL: &[Change] =
    &[(CPUID, None), (CPUINFO, Some("processor\t: 0\nvendor_id\t: GenuineIntel\n"))];
const AMD_FLAGS: &str =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\nflags\t\t: fpu\n";
const HYPERVISOR: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: hypervisor\n";
const PHOENIX: &str = "\
CPU 0:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x00000001 0x00: eax=0x00a70f41 ebx=0x00100800 ecx=0x7ef8320b edx=0x178bfbff
   0x80000000 0x00: eax=0x80000028 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x80000001 0x00: eax=0x00a70f41 ebx=0x00000000 ecx=0x75c237ff edx=0x2fd3fbff
   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x1ebf9bff
";
const CEZANNE: &str = "\
CPU 0:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x00000001 0x00: eax=0x00a50f00 ebx=0x00100800 ecx=0x7ef8320b edx=0x178bfbff
   0x80000000 0x00: eax=0x80000023 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x80000001 0x00: eax=0x00a50f00 ebx=0x00000000 ecx=0x75c237ff edx=0x2fd3fbff
   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x101bbcff
";
const HYBRID_MODEL: &str = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\nCPUID 00000001: 000906EA-0-7FFAFBFF-BFEBFBFF\n";
const COMET_LAKE_S: &str = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\nCPUID 00000001: 000A0655-0-7FFAFBFF-BFEBFBFF\n";
const HASWELL: &str = "CPUID 00000000: 0000000D-756E6547-6C65746E-49656E69\nCPUID 00000001: 000306C3-0-7FFAFBFF-BFEBFBFF\n";
const ZHAOXIN: &str = "CPUID 00000000: 0000000D-746E6543-736C7561-48727561\nCPUID 00000001: 000306C3-0-7FFAFBFF-BFEBFBFF\n";
const NO_TPR: &str = "CPUID 00000000: 00000020-756E6547-6C65746E-49656E69\n\
    CPUID 00000001: 000806F8-00100800-7FFEFBFF-BFEBFBFF\nMSR 00000481: 0000-007F-0000-0016\n\
    MSR 00000482: FF99-FFFE-0401-E172\nMSR 0000048B: 0000-00EF-0000-0000\nMSR 00000492: < FAILED >\n";
const LOCKED: &str = "CPUID 00000000: 00000020-756E6547-6C65746E-49656E69\n\
    CPUID 00000001: 000806F8-00100800-7FFEFBFF-BFEBFBFF\nMSR 0000003A: 0000-0000-0000-0001\n";
const NO_VMX: &str = "CPUID 00000000: 00000020-756E6547-6C65746E-49656E69\nCPUID 00000001: 000806F8-0-7FFEFBDF-BFEBFBFF\n";
const SVM_LOCKED: &str = "CPU 0:\n0x00000000 0x00: eax=0x10 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\nMSR 0xc0010114: 0x18\n";
const EXTENDED: &str = "\
CPU 0:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000040 edx=0x119fbfff
   0x8000001f 0x00: eax=0x0101fd3f ebx=0x0 ecx=0x0 edx=0x0
";

const X2AVIC_ALONE: &str = "processor: 0\nvendor_id: AuthenticAMD\ncpu family: 25\nmodel: 117\nstepping: 1\nflags: svm npt x2avic cx16\n";

/// Changes to the fully working host of the base, and what one rule then answers.
const ROWS: &[(&str, Base, Answer, &[Change])] = &[
    ("answer-active", Amd, Yes, &[]),
    ("answer-active", Amd, No, &[("sys/module/kvm_amd/parameters/avic", Some("N"))]),
    ("answer-active", Amd, Unknown, &[("sys/module", None)]),
    ("answer-ipi", Amd, Yes, &[]),
    ("answer-ipi", Amd, No, &[("sys/module/kvm_amd/parameters/enable_ipiv", Some("N"))]),
    ("answer-ipi", Amd, Unknown, &[("sys/module", None)]),
    ("answer-device", Amd, Yes, &[]),
    ("answer-device", Amd, No, &[(CMDLINE, Some("amd_iommu_intr=legacy"))]),
    (
        "answer-device",
        Amd,
        Unknown,
        &[("sys/class/iommu", None), ("sys/firmware", None), (LOG, None)],
    ),
    ("cpu-physical", Amd, Yes, &[]),
    ("cpu-physical", Amd, No, &[(CPUID, None), (CPUINFO, Some(HYPERVISOR))]),
    ("cpu-physical", Amd, Unknown, NO_CPU),
    // AMD processors.
    ("cpu-svm", Amd, Yes, &[]),
    ("cpu-svm", Amd, No, &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS))]),
    ("cpu-svm", Amd, Unknown, NO_CPU),
    ("cpu-svm-enabled", Amd, Yes, &[]),
    ("cpu-svm-enabled", Amd, No, &[(CPUINFO, Some(AMD_FLAGS))]),
    ("cpu-svm-enabled", Amd, No, &[(CPUID, Some(SVM_LOCKED))]),
    ("cpu-svm-enabled", Amd, Unknown, NO_CPU),
    ("cpu-npt", Amd, Yes, &[]),
    ("cpu-npt", Amd, No, &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS))]),
    ("cpu-npt", Amd, Unknown, NO_CPU),
    ("cpu-avic", Amd, Yes, &[]),
    ("cpu-avic", Amd, Yes, &[(CPUID, None)]),
    ("cpu-avic", Amd, No, &[(CPUID, Some(PHOENIX))]),
    ("cpu-avic", Amd, No, &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS))]),
    ("cpu-avic", Amd, Unknown, NO_CPU),
    ("cpu-x2avic", Amd, Yes, &[]),
    ("cpu-x2avic", Amd, No, &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS))]),
    (
        "cpu-x2avic",
        Amd,
        Unknown,
        &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS)), (RELEASE, Some("5.15.10"))],
    ),
    ("cpu-avic-consistent", Amd, Yes, &[]),
    ("cpu-avic-consistent", Amd, No, &[(CPUID, Some(PHOENIX))]),
    ("cpu-vcpu-limit", Amd, Yes, &[]),
    ("cpu-vcpu-limit", Amd, Yes, &[(CPUID, Some(EXTENDED)), (RELEASE, Some("6.19.1"))]),
    ("cpu-vcpu-limit", Amd, No, &[(RELEASE, Some("5.15.100"))]),
    ("cpu-vcpu-limit", Amd, Unknown, &[(RELEASE, None)]),
    ("cpu-erratum-1235", Amd, Yes, &[]),
    ("cpu-erratum-1235", Amd, No, &[(CPUID, None), (CPUINFO, Some(AMD_FLAGS))]),
    ("cpu-erratum-1235", Amd, Unknown, NO_CPU),
    // kvm_amd.
    ("kvm-driver", Amd, Yes, &[]),
    ("kvm-driver", Amd, No, &[("sys/module/kvm_amd", None)]),
    ("kvm-driver", Amd, Unknown, &[("sys/module", None)]),
    ("kvm-avic", Amd, Yes, &[]),
    ("kvm-avic", Amd, No, &[("sys/module/kvm_amd/parameters/avic", Some("N"))]),
    ("kvm-avic", Amd, No, &[("sys/module/kvm_amd", None)]),
    ("kvm-avic", Amd, No, &[("sys/module", None), (CPUID, Some(PHOENIX))]),
    ("kvm-avic", Amd, Unknown, &[("sys/module", None)]),
    ("kvm-avic", Amd, Unknown, &[("sys/module/kvm_amd/parameters/avic", Some("-1"))]),
    ("kvm-x2apic", Amd, Yes, &[]),
    ("kvm-x2apic", Amd, No, &[(RELEASE, Some("5.19.17"))]),
    // x2AVIC that the firmware shows without AVIC accelerates nothing.
    ("kvm-x2apic", Amd, No, &[(CPUID, None), (CPUINFO, Some(X2AVIC_ALONE))]),
    ("kvm-x2apic", Amd, Unknown, &[(RELEASE, Some("5.14.21-150500.55.19-default"))]),
    ("kvm-x2apic-cluster", Amd, Yes, &[]),
    ("kvm-x2apic-cluster", Amd, Yes, &[(RELEASE, Some("5.19.17"))]),
    ("kvm-x2apic-cluster", Amd, Yes, &[(RELEASE, Some("6.1.192")), (CPUID, Some(CEZANNE))]),
    ("kvm-x2apic-cluster", Amd, Yes, &[(RELEASE, Some("6.1.192")), (CPUID, Some(PHOENIX))]),
    ("kvm-x2apic-cluster", Amd, No, &[(RELEASE, Some("6.0.1"))]),
    ("kvm-x2apic-cluster", Amd, No, &[(RELEASE, Some("6.1.192"))]),
    ("kvm-x2apic-cluster", Amd, No, &[(RELEASE, Some("6.2.16"))]),
    ("kvm-x2apic-cluster", Amd, Unknown, &[(RELEASE, Some("5.14.21-150500.55.19-default"))]),
    ("kvm-x2apic-cluster", Amd, Unknown, &[(RELEASE, None)]),
    ("kvm-ipi", Amd, Yes, &[]),
    ("kvm-ipi", Amd, Yes, &[("sys/module", None), (RELEASE, Some("6.8.0"))]),
    ("kvm-ipi", Amd, No, &[("sys/module/kvm_amd/parameters/enable_ipiv", Some("N"))]),
    ("kvm-ipi", Amd, Unknown, &[("sys/module", None)]),
    ("kvm-nested", Amd, Yes, &[]),
    (
        "kvm-nested",
        Amd,
        Yes,
        &[(RELEASE, Some("5.18.0")), ("sys/module/kvm_amd/parameters/nested", Some("0"))],
    ),
    ("kvm-nested", Amd, No, &[(RELEASE, Some("5.18.0"))]),
    ("kvm-nested", Amd, Unknown, &[(RELEASE, None)]),
    ("kvm-snp", Amd, Yes, &[]),
    ("kvm-snp", Amd, Yes, &[("sys/module", None), (RELEASE, Some("6.1.5"))]),
    ("kvm-snp", Amd, No, &[("sys/module/kvm_amd/parameters/sev_snp", Some("Y"))]),
    ("kvm-snp", Amd, Unknown, &[("sys/module", None)]),
    ("kvm-device-posting", Amd, Yes, &[]),
    (
        "kvm-device-posting",
        Amd,
        No,
        &[("sys/module/kvm_amd/parameters/enable_device_posted_irqs", Some("N"))],
    ),
    ("kvm-device-posting", Amd, Unknown, &[("sys/module", None)]),
    // AMD-Vi.
    ("iommu-present", Amd, Yes, &[]),
    ("iommu-present", Amd, No, &[("sys/class/iommu", None), (CMDLINE, Some("amd_iommu=off"))]),
    ("iommu-present", Amd, Unknown, &[("sys/class/iommu", None)]),
    ("iommu-guest-apic", Amd, Yes, &[]),
    (
        "iommu-guest-apic",
        Amd,
        No,
        &[("sys/class/iommu/ivhd0/amd-iommu/features", Some("58f77ef22294a5a"))],
    ),
    (
        "iommu-guest-apic",
        Amd,
        Unknown,
        &[("sys/class/iommu/ivhd0/amd-iommu/features", Some("garbage"))],
    ),
    ("iommu-guest-apic-mode", Amd, Yes, &[]),
    (
        "iommu-guest-apic-mode",
        Amd,
        No,
        &[("sys/class/iommu/ivhd0/amd-iommu/features", Some("841f77e022094ace:0"))],
    ),
    (
        "iommu-guest-apic-mode",
        Amd,
        Unknown,
        &[("sys/class/iommu/ivhd0/amd-iommu/features", Some(""))],
    ),
    ("iommu-x2apic", Amd, Yes, &[]),
    (
        "iommu-x2apic",
        Amd,
        No,
        &[("sys/class/iommu/ivhd0/amd-iommu/features", Some("246577efa2254afa:0"))],
    ),
    ("iommu-x2apic", Amd, Unknown, &[("sys/class/iommu/ivhd0/amd-iommu/features", Some("1:2:3"))]),
    ("iommu-guest-apic-on", Amd, Yes, &[]),
    ("iommu-guest-apic-on", Amd, Yes, &[(LOG, None)]),
    ("iommu-guest-apic-on", Amd, No, &[(CMDLINE, Some("amd_iommu_intr=legacy"))]),
    ("iommu-guest-apic-on", Amd, No, &[(CMDLINE, Some("intremap=off"))]),
    (
        "iommu-guest-apic-on",
        Amd,
        No,
        &[(LOG, Some("AMD-Vi: Force to disable Virtual APIC due to SNP"))],
    ),
    ("iommu-guest-apic-on", Amd, Unknown, &[(LOG, None), (CMDLINE, None)]),
    ("iommu-entry-cache", Amd, Yes, &[]),
    ("iommu-entry-cache", Amd, No, &[(CMDLINE, Some("amd_iommu=pgtbl_v1,irtcachedis"))]),
    ("iommu-entry-cache", Amd, Unknown, &[(CMDLINE, None)]),
    ("iommu-entry-flush", Amd, Yes, &[(RELEASE, Some("6.8.0"))]),
    (
        "iommu-entry-flush",
        Amd,
        Yes,
        &[(RELEASE, Some("6.5.3")), (CMDLINE, Some("amd_iommu=irtcachedis"))],
    ),
    ("iommu-entry-flush", Amd, No, &[(RELEASE, Some("6.7.12"))]),
    (
        "iommu-entry-flush",
        Amd,
        No,
        &[(RELEASE, Some("6.1.192")), (CMDLINE, Some("amd_iommu=irtcachedis"))],
    ),
    ("iommu-entry-flush", Amd, Unknown, &[(RELEASE, Some("5.14.21-150500.55.19-default"))]),
    ("iommu-entry-flush", Amd, Unknown, &[(RELEASE, None)]),
    ("iommu-entry-flush", Amd, Unknown, &[(RELEASE, Some("6.6.30")), (CMDLINE, None)]),
    // Intel processors.
    ("cpu-vmx", Intel, Yes, &[]),
    ("cpu-vmx", Intel, No, &[(CPUID, Some(NO_VMX))]),
    ("cpu-vmx", Intel, Unknown, NO_INTEL),
    ("cpu-vmx-enabled", Intel, Yes, &[]),
    ("cpu-vmx-enabled", Intel, No, &[(CPUID, Some(LOCKED))]),
    ("cpu-vmx-enabled", Intel, Unknown, NO_INTEL),
    ("cpu-tpr-shadow", Intel, Yes, &[]),
    ("cpu-tpr-shadow", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-tpr-shadow", Intel, Unknown, NO_INTEL),
    ("cpu-apic-register", Intel, Yes, &[(CPUID, None)]),
    ("cpu-apic-register", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-apic-register", Intel, Unknown, NO_INTEL),
    ("cpu-interrupt-delivery", Intel, Yes, &[(CPUID, None)]),
    ("cpu-interrupt-delivery", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-interrupt-delivery", Intel, Unknown, NO_INTEL),
    ("cpu-posted-interrupts", Intel, Yes, &[]),
    ("cpu-posted-interrupts", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-posted-interrupts", Intel, Unknown, NO_INTEL),
    ("cpu-x2apic-mode", Intel, Yes, &[]),
    ("cpu-x2apic-mode", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-x2apic-mode", Intel, Unknown, &[(CPUID, None)]),
    ("cpu-ipi", Intel, Yes, &[]),
    ("cpu-ipi", Intel, No, &[(CPUID, Some(NO_TPR))]),
    ("cpu-ipi", Intel, Unknown, NO_INTEL),
    ("cpu-client-part", Intel, Yes, &[]),
    ("cpu-client-part", Intel, No, &[(CPUID, Some(HYBRID_MODEL)), (CPUINFO, None)]),
    ("cpu-client-part", Intel, Yes, &[(CPUID, Some(COMET_LAKE_S)), (CPUINFO, None)]),
    ("cpu-client-part", Intel, No, &[(CPUID, Some(HASWELL)), (CPUINFO, None)]),
    ("cpu-client-part", Intel, Yes, &[(CPUID, Some(ZHAOXIN)), (CPUINFO, None)]),
    ("cpu-client-part", Intel, Unknown, NO_INTEL),
    // kvm_intel.
    ("kvm-apicv", Intel, Yes, &[]),
    ("kvm-apicv", Intel, No, &[("sys/module/kvm_intel/parameters/enable_apicv", Some("N"))]),
    ("kvm-apicv", Intel, No, &[("sys/module", None), (CPUID, Some(NO_TPR))]),
    ("kvm-apicv", Intel, No, &[("sys/module", None), (CMDLINE, Some("kvm-intel.enable_apicv=0"))]),
    ("kvm-apicv", Intel, Unknown, &[("sys/module", None)]),
    // VT-d.
    ("iommu-table-remapping", Intel, Yes, &[]),
    ("iommu-table-remapping", Intel, Unknown, &[("sys/firmware", None)]),
    ("iommu-x2apic-opt-out", Intel, Yes, &[]),
    ("iommu-x2apic-opt-out", Intel, Unknown, &[("sys/firmware", None)]),
    ("iommu-remapping", Intel, Yes, &[]),
    ("iommu-remapping", Intel, No, &[("sys/class/iommu/dmar0/intel-iommu/ecap", Some("f00052"))]),
    ("iommu-remapping", Intel, Unknown, &[("sys/class/iommu/dmar0/intel-iommu/ecap", Some("x"))]),
    ("iommu-extended-mode", Intel, Yes, &[]),
    (
        "iommu-extended-mode",
        Intel,
        No,
        &[("sys/class/iommu/dmar0/intel-iommu/ecap", Some("f0004a"))],
    ),
    (
        "iommu-extended-mode",
        Intel,
        Unknown,
        &[("sys/class/iommu/dmar0/intel-iommu/cap", Some("x"))],
    ),
    ("iommu-posting", Intel, Yes, &[]),
    (
        "iommu-posting",
        Intel,
        No,
        &[("sys/class/iommu/dmar0/intel-iommu/cap", Some("d2008c40660462"))],
    ),
    ("iommu-posting", Intel, Unknown, &[("sys/class/iommu/dmar0/intel-iommu/cap", Some(""))]),
    ("iommu-remapping-on", Intel, Yes, &[]),
    ("iommu-remapping-on", Intel, Yes, &[(LOG, None)]),
    ("iommu-remapping-on", Intel, No, &[(CMDLINE, Some("intremap=off"))]),
    ("iommu-remapping-on", Intel, Unknown, &[(LOG, None), (CMDLINE, None)]),
    ("iommu-posting-on", Intel, Yes, &[]),
    ("iommu-posting-on", Intel, No, &[(CMDLINE, Some("intremap=nosid,nopost"))]),
    ("iommu-posting-on", Intel, Unknown, &[("sys/class/iommu", None)]),
    // Guest kernel.
    ("guest-wrmsr-fence", Amd, Yes, &[]),
    ("guest-wrmsr-fence", Amd, No, &[(RELEASE, Some("6.7.3"))]),
    ("guest-wrmsr-fence", Intel, No, &[]),
    ("guest-wrmsr-fence", Amd, Unknown, &[(RELEASE, None)]),
];

fn host(base: &Base) -> Host {
    match base {
        Amd => Host::amd(),
        Intel => Host::intel(),
    }
}

#[test]
fn every_rule_answers_as_its_row_says() {
    for (id, base, expected, changes) in ROWS {
        let report = host(base).with(changes).report();
        let changed: Vec<&str> = changes.iter().map(|(path, _)| *path).collect();
        let finding = report
            .finding(Row::named(id).unwrap())
            .unwrap_or_else(|| panic!("{id}: no such row with {changed:?}"));
        assert_eq!(finding.answer, *expected, "{id} with {changed:?}: {}", finding.reason);
    }
}

/// Rules with fewer answers, or whose tables are binary and tested below.
const OTHERWISE: &[(&str, &[Answer])] = &[
    // With either bit unknown there is nothing to be consistent, and no row.
    ("cpu-avic-consistent", &[Unknown]),
    ("iommu-table-remapping", &[No]),
    ("iommu-x2apic-opt-out", &[No]),
    ("iommu-io-apic-scope", &[Yes, No, Unknown]),
];

#[test]
fn every_rule_has_a_row_for_each_answer() {
    let mut ids = BTreeSet::new();
    for host in [Host::amd(), Host::intel()] {
        let report = host.report();
        ids.extend(report.answers.into_iter().chain(report.findings).map(|finding| finding.id));
    }
    for id in ids {
        for answer in [Yes, No, Unknown] {
            let is_tested = ROWS.iter().any(|row| row.0 == id && row.2 == answer)
                || OTHERWISE.iter().any(|row| row.0 == id && row.1.contains(&answer));
            assert!(is_tested, "{id} has no row that answers {answer}");
        }
    }
}

#[test]
fn tables_decide_about_remapping_opt_out_and_scopes() {
    type Put = (&'static str, fn() -> Vec<u8>);
    const DMAR: &str = "sys/firmware/acpi/tables/DMAR";
    const IVRS: &str = "sys/firmware/acpi/tables/IVRS";
    const MADT: &str = "sys/firmware/acpi/tables/APIC";
    let rows: &[(&str, Base, Put, Answer)] = &[
        ("iommu-table-remapping", Intel, (DMAR, || dmar(0, 2)), No),
        ("iommu-table-remapping", Intel, (DMAR, || b"DMARcut".to_vec()), Unknown),
        ("iommu-x2apic-opt-out", Intel, (DMAR, || dmar(3, 2)), No),
        ("iommu-io-apic-scope", Intel, (DMAR, || dmar(1, 2)), Yes),
        ("iommu-io-apic-scope", Intel, (DMAR, || dmar(1, 3)), No),
        ("iommu-io-apic-scope", Amd, (IVRS, || ivrs(0x21)), No),
        ("iommu-io-apic-scope", Amd, (MADT, || madt(0x20)), Yes),
        ("iommu-io-apic-scope", Amd, (MADT, Vec::new), Unknown),
    ];
    for (id, base, (path, bytes), expected) in rows {
        let mut host = host(base);
        host.put(path, bytes());
        assert_eq!(
            host.report().finding(Row::named(id).unwrap()).map(|row| row.answer),
            Some(*expected),
            "{id} {path}"
        );
    }
    let mut overridden = Host::intel().with(&[(CMDLINE, Some("intremap=no_x2apic_optout"))]);
    overridden.put(DMAR, dmar(3, 2));
    assert_eq!(
        overridden
            .report()
            .finding(Row::named("iommu-x2apic-opt-out").unwrap())
            .map(|row| row.answer),
        Some(Yes)
    );
}

#[test]
fn reason_for_avic_being_off_is_the_right_one_of_many() {
    const OFF: Change = ("sys/module/kvm_amd/parameters/avic", Some("N"));
    let rows: &[(&str, &[Change])] = &[
        ("the CPU does not report AVIC", &[OFF, (CPUID, Some(PHOENIX))]),
        ("nested paging is off", &[OFF, ("sys/module/kvm_amd/parameters/npt", Some("N"))]),
        (
            "HvInUseWrAllowed",
            &[
                OFF,
                (
                    LOG,
                    Some("kvm_amd: AVIC disabled: missing HvInUseWrAllowed on SNP-enabled system"),
                ),
            ],
        ),
        ("given as off", &[OFF, (CMDLINE, Some("kvm-amd.avic=0"))]),
        (
            "given as off",
            &[OFF, ("etc/modprobe.d/kvm.conf", Some("options kvm_amd nested=1 avic=0\n"))],
        ),
        ("the default before 6.18", &[OFF, (RELEASE, Some("6.12.9"))]),
        (
            "needs x2AVIC",
            &[
                OFF,
                (CPUID, None),
                (
                    CPUINFO,
                    Some(
                        "processor: 0\nvendor_id: AuthenticAMD\ncpu family: 25\nmodel: 33\nflags: svm npt avic\n",
                    ),
                ),
            ],
        ),
        (
            "Zen 4 and later",
            &[
                OFF,
                (CPUID, None),
                (
                    CPUINFO,
                    Some(
                        "processor: 0\nvendor_id: AuthenticAMD\ncpu family: 25\nmodel: 33\nflags: svm npt avic x2avic\n",
                    ),
                ),
            ],
        ),
        (
            "does not switch it on by itself",
            &[OFF, (RELEASE, Some("5.14.21-150500.55.19-default"))],
        ),
    ];
    for (reason, changes) in rows {
        let report = Host::amd().with(changes).report();
        let found = &report.finding(Row::named("kvm-avic").unwrap()).unwrap().reason;
        assert!(found.contains(reason), "expected '{reason}', got '{found}'");
    }
}

#[test]
fn every_problem_names_its_place_rule_and_change() {
    for (id, base, answer, changes) in ROWS {
        let report = host(base).with(changes).report();
        let finding = report.finding(Row::named(id).unwrap()).unwrap();
        assert!(!finding.source.is_empty() && !finding.reason.is_empty(), "{id}");
        assert!(!finding.evidence.is_empty(), "{id} shows nothing that was read");
        assert!(*answer != Yes || finding.fix.is_none(), "{id} offers a change for a yes");
    }
}
