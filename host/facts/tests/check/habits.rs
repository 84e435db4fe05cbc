//! Hosts as people keep them: what they wrote, where, and what is then said of it.

use crate::fixture::{Change, Host};
use rules::capability::{Report, Row};
use rules::enable::{Action, Plan, plan_of};
use rules::{Answer, Needs};

fn plan(host: Host) -> Plan {
    plan_of(&facts::facts(&host.inputs()))
}

fn written<'p>(plan: &'p Plan, wanted: &str) -> Option<&'p str> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::Write { path, after, .. } if path == wanted => Some(after.as_str()),
        _ => None,
    })
}

fn told(plan: &Plan) -> Vec<&str> {
    let told = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Tell { instruction } => Some(instruction.as_str()),
        _ => None,
    });
    told.collect()
}

fn row(report: &Report, row: Row) -> (Answer, String, Option<(String, Needs)>) {
    let finding = report.finding(row).unwrap();
    let fix = finding.fix.as_ref().map(|fix| (fix.line.clone(), fix.needs));
    (finding.answer, finding.reason.clone(), fix)
}

const GRUB: &str = "etc/default/grub";
const UPDATE_GRUB: Change = ("avicenna/programs.txt", Some("update-grub"));
const LEGACY: Change = ("proc/cmdline", Some("root=/dev/sda1 quiet amd_iommu_intr=legacy"));

#[test]
fn values_of_grub_over_several_lines_change_as_the_shell_reads_them() {
    for (before, after) in [
        (
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  amd_iommu_intr=legacy\"\n",
            Some("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n \"\n"),
        ),
        (
            "EXTRA=amd_iommu_intr=legacy\nGRUB_CMDLINE_LINUX=\"quiet $EXTRA\"\n",
            Some("EXTRA=\nGRUB_CMDLINE_LINUX=\"quiet $EXTRA\"\n"),
        ),
        ("if true; then\n  GRUB_CMDLINE_LINUX=\"amd_iommu_intr=legacy\"\nfi\n", None),
        ("GRUB_CMDLINE_LINUX=\"amd_iommu_intr=legacy\"\r\n", None),
    ] {
        let host = Host::amd().with(&[LEGACY, UPDATE_GRUB]);
        let mut host = host;
        host.put(GRUB, before.as_bytes().to_vec());
        let plan = plan(host);
        assert_eq!(written(&plan, "/etc/default/grub"), after, "{before}");
        if after.is_none() {
            let told = told(&plan);
            let by_hand =
                |text: &&str| text.contains("by hand") && text.contains("amd_iommu_intr=legacy");
            assert!(told.iter().any(by_hand), "{before}: {told:?}");
        }
    }
}

#[test]
fn very_word_that_takes_something_away_is_named_and_taken_out() {
    let rows: [(Host, &str, Row, &str); 10] = [
        (Host::amd(), "iommu=off", Row::IommuPresent, "remove iommu=off"),
        (Host::amd(), "iommu=soft", Row::IommuPresent, "remove iommu=soft"),
        (Host::amd(), "amd_iommu=off", Row::IommuPresent, "remove amd_iommu=off"),
        (Host::amd(), "nointremap", Row::IommuGuestApicOn, "remove nointremap"),
        (Host::amd(), "noapic", Row::IommuGuestApicOn, "remove noapic"),
        (Host::amd(), "pci=nomsi", Row::IommuGuestApicOn, "remove pci=nomsi"),
        (Host::intel(), "intel_iommu=off", Row::IommuPresent, "remove intel_iommu=off"),
        (Host::intel(), "nolapic", Row::IommuRemappingOn, "remove nolapic"),
        (Host::intel(), "pci=nomsi", Row::IommuPostingOn, "remove pci=nomsi"),
        (Host::intel(), "nox2apic", Row::IommuX2apicOptOut, "remove nox2apic"),
    ];
    for (host, word, id, fix) in rows {
        let mut host = host.with(&[UPDATE_GRUB]);
        host.put("proc/cmdline", format!("root=/dev/sda1 {word} quiet").into_bytes());
        host.put(GRUB, format!("GRUB_CMDLINE_LINUX=\"{word} quiet\"\n").into_bytes());
        if word.contains("iommu=") {
            let inputs = host.with(&[("sys/class/iommu/", None)]);
            host = inputs;
        }
        let mut inputs = host.inputs();
        inputs.mark_searched("sys/class/iommu");
        let facts = facts::facts(&inputs);
        let report = rules::capability::check(&facts);
        let (answer, reason, line) = row(&report, id);
        let (line, needs) = line.unwrap_or_else(|| panic!("{word}: {answer} {reason}"));
        assert_eq!((answer, needs), (Answer::No, Needs::Reboot), "{word}: {reason}");
        assert!(line.starts_with(fix) && reason.contains(word), "{word}: {line}: {reason}");
        let plan = plan_of(&facts);
        assert_eq!(
            written(&plan, "/etc/default/grub"),
            Some("GRUB_CMDLINE_LINUX=\"quiet\"\n"),
            "{word}: {:?}",
            plan.steps
        );
    }
}

#[test]
fn an_unused_vt_d_is_asked_for_and_not_blamed_on_firmware() {
    let host = Host::intel().with(&[
        ("proc/cmdline", Some("root=/dev/sda1 quiet")),
        ("sys/class/iommu/", None),
        ("proc/sys/kernel/osrelease", Some("5.14.0-503.11.1.el9_5.x86_64")),
        ("avicenna/programs.txt", Some("grubby")),
        (
            "boot/loader/entries/a.conf",
            Some("title a\nlinux /vmlinuz\noptions root=/dev/sda1 quiet\n"),
        ),
    ]);
    let mut inputs = host.inputs();
    inputs.mark_searched("sys/class/iommu");
    let facts = facts::facts(&inputs);
    let report = rules::capability::check(&facts);
    let (answer, _, fix) = row(&report, Row::IommuPresent);
    let (line, needs) = fix.unwrap();
    assert_eq!((answer, needs), (Answer::No, Needs::Reboot), "{line}");
    assert!(line.contains("intel_iommu=on"), "{line}");
    let plan = plan_of(&facts);
    let grubby = |step: &rules::enable::Step| match &step.action {
        Action::Run { command, .. } => command.contains(&"--args=intel_iommu=on".to_owned()),
        _ => false,
    };
    assert!(plan.steps.iter().any(grubby), "{:?}", plan.steps);
}

#[test]
fn an_option_that_is_asked_for_and_not_loaded_wants_a_reload_alone() {
    let rows = [
        (Host::amd(), "kvm_amd", "avic", Row::KvmAvic),
        (Host::intel(), "kvm_intel", "enable_apicv", Row::KvmApicv),
    ];
    for (mut host, module, option, id) in rows {
        host.put(&format!("sys/module/{module}/parameters/{option}"), b"N".to_vec());
        host.put("etc/modprobe.d/kvm.conf", format!("options {module} {option}=1\n").into_bytes());
        host.put("sys/module/kvm/refcnt", b"1".to_vec());
        let host = host.with(&[("proc/sys/kernel/osrelease", Some("6.12.4"))]);
        let (answer, reason, fix) = row(&host.report(), id);
        assert_eq!(answer, Answer::No);
        assert!(reason.contains("asked for in /etc/modprobe.d/kvm.conf"), "{reason}");
        assert!(reason.contains("initial RAM disk"), "{reason}");
        assert!(fix.unwrap().0.starts_with("modprobe -r"), "{module}");
        let plan = plan(host);
        assert_eq!(written(&plan, "/etc/modprobe.d/avicenna.conf"), None, "{:?}", plan.steps);
        assert!(told(&plan).iter().any(|text| text.contains("modprobe -r")), "{:?}", plan.steps);
    }
}

#[test]
fn advice_never_empties_a_file_that_is_there() {
    let off = [
        ("sys/module/kvm_amd/parameters/avic", Some("N")),
        ("proc/sys/kernel/osrelease", Some("6.12.4")),
    ];
    let (_, _, fix) = row(&Host::amd().with(&off).report(), Row::KvmAvic);
    let (line, _) = fix.unwrap();
    assert!(line.contains(" >>/etc/modprobe.d/"), "{line}");
}

#[test]
fn module_that_runs_what_cpuid_hides_is_believed_and_both_are_named() {
    let hidden = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nflags\t\t: svm npt cx16\n";
    let host = Host::amd().with(&[("cpuid.txt", None), ("proc/cpuinfo", Some(hidden))]);
    let summary = host.report().summary;
    assert_eq!(summary.hardware.answer, Answer::Yes, "{}", summary.hardware.text);
    assert!(summary.hardware.text.contains("shows no AVIC"), "{}", summary.hardware.text);
    assert!(summary.state.text.starts_with("AVIC is on"), "{}", summary.state.text);
}

#[test]
fn log_of_an_earlier_load_is_told() {
    let host = Host::amd().with(&[
        ("sys/module/kvm_amd/parameters/avic", Some("N")),
        ("proc/sys/kernel/osrelease", Some("6.12.4")),
    ]);
    let (answer, reason, _) = row(&host.report(), Row::KvmAvic);
    assert_eq!(answer, Answer::No);
    assert!(reason.contains("it was on when the module was loaded before"), "{reason}");
}

#[test]
fn another_architecture_is_named() {
    let mut host = Host::empty();
    let cpuinfo =
        "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n";
    host.put("proc/cpuinfo", cpuinfo.as_bytes().to_vec());
    host.put("proc/sys/kernel/osrelease", b"6.1.0-21-arm64".to_vec());
    let summary = host.report().summary;
    assert_eq!(summary.hardware.text, "this is an arm64 host: AVIC and APICv are x86's");
    assert_eq!(summary.hardware.answer, Answer::No);
}

#[test]
fn line_that_installs_a_module_counts_more_than_its_options() {
    let host = Host::amd().with(&[
        ("sys/module/kvm_amd/parameters/avic", Some("N")),
        ("etc/modprobe.d/a.conf", Some("options kvm_amd avic=1\n")),
        (
            "etc/modprobe.d/b.conf",
            Some("install kvm_amd /sbin/modprobe --ignore-install kvm_amd avic=0\n"),
        ),
    ]);
    let facts = facts::facts(&host.inputs());
    let found = rules::configuration::given::by_modprobe(&facts, "kvm_amd", "avic");
    assert_eq!(found, Some(("0".into(), "/etc/modprobe.d/b.conf".into())));
    let plan = plan(host);
    let told = told(&plan);
    assert!(
        told.iter().any(|text| text.contains("install kvm_amd of /etc/modprobe.d/b.conf")),
        "{told:?}"
    );
    assert_eq!(written(&plan, "/etc/modprobe.d/avicenna.conf"), None);
}

/// A guest of 380 vCPUs on the kernel of the published measurement.
const BIG: &str =
    "args: -cpu host\ncores: 95\nsockets: 4\nmachine: q35\nostype: l26\nscsihw: virtio-scsi-pci\n";

#[test]
fn kernel_with_backports_never_leads_to_an_edit_of_a_big_guest() {
    for release in [
        "5.15.0-204.146.1.el8uek.x86_64",
        "5.14.0-503.11.1.el9_5.x86_64",
        "4.18.0-553.el8_10.x86_64",
        "5.14.21-150500.55.19-default",
        "5.10.0-136.12.0.86.oe2203sp1.x86_64",
        "5.10.134-16.an8.x86_64",
        "5.15.0-1050-aws",
        "5.13.19-6-pve",
    ] {
        let mut host = Host::amd();
        host.put("proc/sys/kernel/osrelease", release.as_bytes().to_vec());
        host.put("etc/pve/qemu-server/101.conf", BIG.as_bytes().to_vec());
        let plan = plan(host);
        let after = written(&plan, "/etc/pve/qemu-server/101.conf").unwrap_or(BIG);
        assert!(!after.contains("x2apic") && !after.contains("svm="), "{release}: {after}");
    }
}

#[test]
fn single_lines_that_people_pick_out_are_answered_for_what_they_tell() {
    let folder = std::env::temp_dir().join(format!("avicenna-habits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let both = "      AVIC: AMD virtual interrupt controller = true\n      X2AVIC: virtualized X2APIC             = true\n";
    for (text, answer, part) in [
        (both, Answer::Yes, "this hardware can: AVIC and x2AVIC"),
        (
            "      AVIC: AMD virtual interrupt controller = false\n",
            Answer::No,
            "the processor has no AVIC",
        ),
        ("avic\nx2avic\n", Answer::Yes, "this hardware can: AVIC and x2AVIC"),
        ("x2avic\n", Answer::No, "the processor has no AVIC"),
        ("25bf732fa2295afe:1d\n", Answer::Yes, "the IOMMUs can post device interrupts"),
        (
            "25bf732fa2295afe:1d\n25bf732fa2295afe:1d\n",
            Answer::Yes,
            "the IOMMUs can post device interrupts",
        ),
        ("58f77ef22294a5a\n", Answer::No, "the IOMMUs cannot post device interrupts"),
    ] {
        let path = folder.join("answer.txt");
        std::fs::write(&path, text).unwrap();
        let facts = facts::facts(&facts::recorded(&path).unwrap());
        let hardware = rules::capability::check(&facts).summary.hardware;
        assert_eq!(hardware.answer, answer, "{text}: {}", hardware.text);
        assert!(hardware.text.contains(part), "{text}: {}", hardware.text);
    }
    for text in ["avic=1\n", "hello\n", "dead:beef:cafe\n", "AVIC: x = maybe\n"] {
        let path = folder.join("answer.txt");
        std::fs::write(&path, text).unwrap();
        assert!(facts::recorded(&path).is_err(), "{text}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
