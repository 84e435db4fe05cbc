//! The answer of `check` in three sentences, and which rows are shown for it.

use crate::fixture::{Change, Host};
use rules::Answer::{self, No, Unknown, Yes};
use rules::Needs;
use rules::capability::{Report, Row, Scope};

const OFF: Change = ("sys/module/kvm_amd/parameters/avic", Some("N"));

/// Rows that are neither good nor mere consequences.
fn causes(report: &Report) -> Vec<&str> {
    let is_cause = |row: &&rules::Finding| {
        row.answer != Yes && row.follows.is_none() && row.severity > rules::Severity::Note
    };
    report.findings.iter().filter(is_cause).map(|row| row.id.as_str()).collect()
}

#[test]
fn every_line_that_has_to_change_is_named_at_once() {
    let host = Host::amd().with(&[
        OFF,
        ("etc/modprobe.d/kvm.conf", Some("options kvm_amd avic=0")),
        ("proc/cmdline", Some("root=/dev/sda1 amd_iommu_intr=legacy")),
        ("sys/module/kvm_amd/parameters/enable_device_posted_irqs", Some("N")),
        ("sys/module/kvm_amd/parameters/enable_ipiv", Some("N")),
    ]);
    let summary = host.report().summary;
    assert_eq!(summary.hardware.answer, Yes);
    assert!(summary.hardware.text.starts_with("this hardware can: AVIC and x2AVIC"), "{summary:?}");
    assert_eq!(summary.state.answer, No);
    assert!(summary.state.text.contains("avic is given as off"), "{summary:?}");
    assert!(summary.state.text.contains("amd_iommu_intr=legacy"), "{summary:?}");
    let change = summary.change.unwrap();
    assert_eq!(change.needs, Needs::Reboot, "once for all of it");
    assert_eq!(change.fixes.len(), 2, "{change:?}");
    assert_eq!(causes(&host.report()), ["kvm-avic", "iommu-guest-apic-on"]);
}

#[test]
fn virtual_machine_without_the_feature_has_one_cause() {
    let flags = |flags: &str| {
        format!(
            "processor: 0\nvendor_id: GenuineIntel\ncpu family: 6\nmodel: 143\nflags: hypervisor {flags}\n"
        )
    };
    let mut host = Host::intel().with(&[
        ("cpuid.txt", None),
        ("sys/class/iommu", None),
        ("sys/firmware", None),
        ("sys/module/kvm_intel", None),
    ]);
    host.put("proc/cpuinfo", flags("cx16").into_bytes());
    let report = host.report();
    assert_eq!(causes(&report), ["cpu-vmx"]);
    assert_eq!(
        report.summary.hardware.text,
        "this virtual machine cannot: its hypervisor shows it no VMX"
    );
    assert_eq!((report.summary.change.is_none(), report.verdict()), (true, No));
}

#[test]
fn processor_without_avic_is_offered_nothing_that_would_not_help() {
    let milan =
        "processor: 0\nvendor_id: AuthenticAMD\ncpu family: 25\nmodel: 1\nflags: svm npt cx16\n";
    let report =
        Host::amd().with(&[("cpuid.txt", None), ("proc/cpuinfo", Some(milan)), OFF]).report();
    let x2apic = report.finding(Row::KvmX2apic).unwrap();
    assert_eq!((x2apic.answer, &x2apic.fix), (No, &None), "hiding x2APIC would gain nothing");
    assert_eq!(causes(&report), ["cpu-avic"]);
    assert_eq!(report.summary.hardware.text, "this hardware cannot: the processor has no AVIC");
    assert_eq!(report.summary.change, None);
}

#[test]
fn hardware_alone_is_answered_with_what_it_can() {
    let rows: &[(Host, Scope, Answer, &str)] = &[
        (
            Host::amd().with(&[("proc", None), ("sys", None), ("avicenna", None)]),
            Scope::Hardware,
            Yes,
            "this hardware can: AVIC and x2AVIC",
        ),
        (
            Host::intel().with(&[("proc", None), ("sys", None), ("avicenna", None)]),
            Scope::Hardware,
            Yes,
            "this hardware can: APICv and IPI virtualization",
        ),
        (Host::amd(), Scope::Host, Yes, "this hardware can: AVIC and x2AVIC; the IOMMU can post"),
        (Host::empty(), Scope::Hardware, Unknown, "no processor is described"),
    ];
    for (host, scope, answer, text) in rows {
        let report = host.report();
        assert_eq!((report.scope, report.verdict()), (*scope, *answer), "{:?}", report.summary);
        assert!(report.summary.hardware.text.starts_with(text), "{:?}", report.summary);
    }
}

#[test]
fn unit_that_cannot_post_decides_whatever_the_processor_is() {
    let without_gasup = "25bf732fa2295a7e:1d";
    let units = [
        ("sys/class/iommu/ivhd0/amd-iommu/features", Some(without_gasup)),
        ("sys/class/iommu/ivhd1/amd-iommu/features", Some(without_gasup)),
    ];
    let alone = Host::amd().with(&[
        ("proc", None),
        ("cpuid.txt", None),
        ("sys/module", None),
        ("avicenna", None),
    ]);
    let answer = |host: Host| host.report().finding(Row::AnswerDevice).unwrap().answer;
    assert_eq!(answer(alone.with(&units)), No);
}

#[test]
fn one_thing_that_cannot_be_read_is_one_row() {
    let report = Host::intel()
        .with(&[("proc/cpuinfo", None), ("cpuid.txt", Some("CPUID 00000000: 00000020-756E6547-6C65746E-49656E69\nCPUID 00000001: 000306E4-00100800-7FFEFBFF-BFEBFBFF\n"))])
        .report();
    let open = report.findings.iter().filter(|row| row.answer == Unknown).count();
    let shown = causes(&report).len();
    assert!(open > 5 && shown <= 3, "{open} open, shown: {:?}", causes(&report));
}

#[test]
fn model_that_is_known_to_lack_posted_interrupts_needs_no_registers() {
    let skylake = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n\
                   CPUID 00000001: 000506E3-00100800-7FFAFBFF-BFEBFBFF\n";
    let alone = Host::empty().with(&[("cpuid.txt", Some(skylake))]).report();
    assert_eq!(alone.verdict(), No, "{:?}", alone.summary);
    assert_eq!(
        alone.summary.hardware.text,
        "this hardware cannot: the processor has no APIC-register virtualization"
    );
    for (signature, verdict, said) in [
        ("000806F8", Yes, "as all published dumps of its model"),
        // Servers of this model have it, desktops have not.
        ("000306E4", Unknown, "capability registers"),
    ] {
        let mut host = Host::empty();
        host.put("cpuid.txt", skylake.replace("000506E3", signature).into_bytes());
        let report = host.report();
        assert_eq!(report.verdict(), verdict);
        assert!(report.summary.hardware.text.contains(said), "{:?}", report.summary);
    }
}
