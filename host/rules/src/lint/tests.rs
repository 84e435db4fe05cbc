//! Every rule against its own examples, and fixes against what they promise.

use super::fix::fixed;
use super::{Report, Target, lint, rules};
use crate::configuration::{self, Hints, Kind};
use crate::finding::{Answer, Finding, Severity};
use crate::inhibit::{Reason, Vendor};
use reading::Kernel;
use reading::version::Version;

fn target(kernel: &str, qemu: &str) -> Target {
    Target { kernel: Kernel::parse(kernel, None), qemu: Version::parse(qemu), ..Target::default() }
}

fn judge(text: &str, target: &Target) -> Report {
    let hints = Hints { qemu: target.qemu };
    let contents =
        configuration::read("test", text, None, &hints).unwrap_or_else(|e| panic!("{text}: {e}"));
    lint(&contents, target, "test")
}

fn ids(report: &Report, answer: Answer) -> Vec<&'static str> {
    let mut ids: Vec<_> =
        report.diagnostics.iter().filter(|d| d.answer == answer).map(|d| d.rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn every_rule_is_violated_kept_and_left_open_by_its_examples() {
    for rule in rules::all() {
        let target = target(rule.example_kernel, rule.example_qemu);
        let bad = judge(rule.bad, &target);
        assert!(ids(&bad, Answer::No).contains(&rule.id), "{} bad: {:?}", rule.id, bad.diagnostics);
        let good = judge(rule.good, &target);
        assert!(
            good.diagnostics.iter().all(|d| d.rule.id != rule.id),
            "{} good: {:?}",
            rule.id,
            good.diagnostics
        );
        let unknown = judge(rule.unknown, &target);
        assert!(
            ids(&unknown, Answer::Unknown).contains(&rule.id)
                && !ids(&unknown, Answer::No).contains(&rule.id),
            "{} unknown: {:?}",
            rule.id,
            unknown.diagnostics
        );
    }
}

#[test]
fn every_rule_says_what_it_is() {
    let mut seen = std::collections::BTreeSet::new();
    for rule in rules::all() {
        assert!(rule.id.len() == 5 && rule.id.starts_with("AV"), "{}", rule.id);
        assert!(seen.insert(rule.id) && seen.insert(rule.name), "{} twice", rule.id);
        assert!(!rule.sources.is_empty(), "{} has no source", rule.id);
        assert!(!rule.summary.ends_with('.'), "{}", rule.id);
        assert_eq!(rules::find(rule.name), Some(rule));
        assert_eq!(rules::find(&rule.id.to_lowercase()), Some(rule));
    }
    assert_eq!(rules::find("AV999"), None);
}

#[test]
fn a_fix_repairs_every_fixable_rule_and_only_those() {
    for rule in rules::all() {
        let target = target(rule.example_kernel, rule.example_qemu);
        let repaired = fixed("test", rule.bad, None, &target).unwrap();
        let left = repaired.report.diagnostics.iter().any(|d| d.rule.id == rule.id);
        assert_eq!(!left, rule.is_fixable, "{}: {}", rule.id, repaired.text);
        if rule.is_fixable {
            assert_ne!(repaired.text, rule.bad);
        }
    }
}

#[test]
fn a_lasting_predicted_inhibit_is_never_without_an_error() {
    for rule in rules::all() {
        let target = target(rule.example_kernel, rule.example_qemu);
        for text in [rule.bad, rule.good, rule.unknown] {
            let hints = Hints { qemu: target.qemu };
            let contents = configuration::read("test", text, None, &hints).unwrap();
            let report = lint(&contents, &target, "test");
            for vm in &contents.vms {
                for vendor in [Vendor::Amd, Vendor::Intel] {
                    let predicted =
                        crate::inhibit::predict(vendor, target.kernel.as_ref(), target.qemu, vm);
                    for one in predicted.iter().filter(|one| one.is_lasting()) {
                        let said = report.diagnostics.iter().any(|d| {
                            d.inhibit == Some(one.reason)
                                && d.answer == Answer::No
                                && d.vendors.contains(&vendor)
                        });
                        assert!(said, "{} on {vendor:?} unsaid for {text}", one.reason);
                    }
                }
            }
        }
    }
}

#[test]
fn vendor_and_versions_of_the_target_decide_which_rules_speak() {
    let default = "qemu-system-x86_64 -enable-kvm -cpu host";
    for (vendors, kernel, expected) in [
        (vec![Vendor::Amd], "", vec!["AV001"]),
        (vec![Vendor::Intel], "", vec![]),
        (vec![Vendor::Amd], "5.15", vec!["AV001", "AV005", "AV006"]),
        (vec![Vendor::Amd], "6.0", vec!["AV001"]),
        (vec![Vendor::Amd], "5.5", vec![]),
        (vec![Vendor::Intel], "5.15", vec![]),
    ] {
        let target = Target { vendors, kernel: Kernel::parse(kernel, None), ..Target::default() };
        assert_eq!(ids(&judge(default, &target), Answer::No), expected, "{target:?}");
    }
}

#[test]
fn fixes_keep_the_layout_of_each_input() {
    for (before, after) in [
        // The option's own separator is repeated.
        (
            "qemu-system-x86_64 \\\n  -machine q35 \\\n  -accel kvm \\\n  -m 1G\n",
            "qemu-system-x86_64 \\\n  -machine q35 \\\n  -accel kvm \\\n  \
             -global kvm-pit.lost_tick_policy=discard \\\n  -m 1G\n",
        ),
        (
            "qemu-system-x86_64 --enable-kvm --m 1G # x\n",
            "qemu-system-x86_64 --enable-kvm --global kvm-pit.lost_tick_policy=discard --m 1G # x\n",
        ),
        (
            "kvm -m 1G -global 'kvm-pit.lost_tick_policy=delay'",
            "kvm -m 1G -global 'kvm-pit.lost_tick_policy=discard'",
        ),
        (
            "kvm -M q35,kernel_irqchip=off,usb=off -m 1G",
            "kvm -M q35,kernel_irqchip=split,usb=off -m 1G",
        ),
        (
            "kvm -M q35,pit=off -cpu 'host,hv_vpindex,hv_synic,hv_stimer'",
            "kvm -M q35,pit=off -cpu 'host,hv_vpindex,hv_synic,hv_stimer,hv_avic'",
        ),
        (
            "kvm -M q35,pit=off -cpu host,hv-vpindex=on,hv-synic=on,hv-stimer=on,hv-avic=off",
            "kvm -M q35,pit=off -cpu host,hv-vpindex=on,hv-synic=on,hv-stimer=on,hv-avic=on",
        ),
        ("crosvm run --cpus 2 bzImage", "crosvm run --split-irqchip --cpus 2 bzImage"),
        (
            "kvm -smp 300 -M q35,kernel-irqchip=split -device '{\"driver\":\"intel-iommu\",\"eim\":\"off\"}' \
             -cpu host,kvm-msi-ext-dest-id=off",
            "kvm -smp 300 -M q35,kernel-irqchip=split -device '{\"driver\":\"intel-iommu\",\"eim\":\"on\"}' \
             -cpu host,kvm-msi-ext-dest-id=off",
        ),
        (
            "<domain type='kvm'>\n  <os>\n    <type machine='q35'>hvm</type>\n  </os>\n  <clock offset='utc'/>\n\
             </domain>\n",
            "<domain type='kvm'>\n  <os>\n    <type machine='q35'>hvm</type>\n  </os>\n  <clock offset='utc'>\n    \
             <timer name='pit' tickpolicy='discard'/>\n  </clock>\n</domain>\n",
        ),
        (
            "<domain type='kvm'>\n  <clock offset='utc'>\n    <timer name='rtc' tickpolicy='catchup'/>\n    \
             <timer name=\"pit\"/>\n  </clock>\n</domain>\n",
            "<domain type='kvm'>\n  <clock offset='utc'>\n    <timer name='rtc' tickpolicy='catchup'/>\n    \
             <timer name=\"pit\" tickpolicy=\"discard\"/>\n  </clock>\n</domain>\n",
        ),
        (
            "<domain type='kvm'>\n  <name>a</name>\n</domain>\n",
            "<domain type='kvm'>\n  <name>a</name>\n  <clock offset='utc'>\n    \
             <timer name='pit' tickpolicy='discard'/>\n  </clock>\n</domain>\n",
        ),
        (
            "# my vm\ncores: 2\nmachine: q35\nostype: l26\nscsihw: virtio-scsi-pci\n",
            "# my vm\nargs: -global kvm-pit.lost_tick_policy=discard\ncores: 2\nmachine: q35\nostype: l26\n\
             scsihw: virtio-scsi-pci\n",
        ),
        (
            "args: -s\ncores: 2\nostype: l26\nscsihw: virtio-scsi-pci\n",
            "args: -s -global kvm-pit.lost_tick_policy=discard\ncores: 2\nostype: l26\nscsihw: virtio-scsi-pci\n",
        ),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  template:\n    spec:\n      domain:\n        \
             cpu:\n          cores: 2\n        devices: {}\n",
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  template:\n    spec:\n      domain:\n        \
             clock:\n          timer:\n            pit:\n              tickPolicy: discard\n        \
             cpu:\n          cores: 2\n        devices: {}\n",
        ),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  domain:\n    devices: {}\n    clock:\n      \
             timer:\n        pit: {}\n        hpet: {present: false}\n",
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  domain:\n    devices: {}\n    clock:\n      \
             timer:\n        pit: {tickPolicy: discard}\n        hpet: {present: false}\n",
        ),
        (
            "[machine]\n  type = \"q35\"\n  accel = \"kvm\"\n",
            "[machine]\n  type = \"q35\"\n  accel = \"kvm\"\n\n[global]\n  driver = \"kvm-pit\"\n  \
             property = \"lost_tick_policy\"\n  value = \"discard\"\n",
        ),
        ("options kvm_amd avic=1 npt=0  # x\n", "options kvm_amd avic=1 npt=1  # x\n"),
        ("options kvm_amd force_avic=1\nblacklist x\n", "blacklist x\n"),
        (
            "GRUB_CMDLINE_LINUX=\"quiet amd_iommu=on iommu=pt\"\n",
            "GRUB_CMDLINE_LINUX=\"quiet iommu=pt\"\n",
        ),
        (
            "GRUB_CMDLINE_LINUX=\"amd_iommu=on,fullflush\"\n",
            "GRUB_CMDLINE_LINUX=\"amd_iommu=fullflush\"\n",
        ),
        ("GRUB_CMDLINE_LINUX=\"amd_iommu=on quiet\"\n", "GRUB_CMDLINE_LINUX=\"quiet\"\n"),
        (
            "root=/dev/sda1 intremap=nosid,nopost amd_iommu_intr=legacy\n",
            "root=/dev/sda1 intremap=nosid amd_iommu_intr=vapic\n",
        ),
    ] {
        let repaired = fixed("test", before, None, &Target::default()).unwrap();
        assert_eq!(repaired.text, after);
        let problems = repaired.report.diagnostics.iter().filter(|d| d.severity > Severity::Note);
        assert_eq!(problems.count(), 0, "{after}: {:?}", repaired.report.diagnostics);
        let again = fixed("test", after, None, &Target::default()).unwrap();
        assert_eq!(again.text, after, "a second fix changes nothing");
    }
}

#[test]
fn nothing_right_is_changed() {
    for text in [
        "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split\n",
        "options kvm_amd avic=1 nested=0\n",
        "GRUB_CMDLINE_LINUX=\"quiet splash\"\n",
    ] {
        let repaired = fixed("test", text, None, &Target::default()).unwrap();
        assert_eq!((repaired.text.as_str(), repaired.repaired), (text, 0));
    }
}

#[test]
fn comments_silence_the_rules_they_name_where_they_stand() {
    let vm = "qemu-system-x86_64 -enable-kvm -cpu host -s";
    let xml = "<domain type='kvm'>\n  <!-- avicenna: ignore AV001 -->\n  <os><type machine='q35'>hvm</type></os>\n\
               </domain>";
    for (text, expected) in [
        (format!("{vm}\n"), vec!["AV001", "AV022"]),
        (format!("# avicenna: ignore AV001\n{vm}\n"), vec!["AV022"]),
        (format!("# avicenna: ignore AV001, av022 because\n{vm}\n"), vec![]),
        (format!("{vm} # avicenna: ignore AV001\n"), vec!["AV022"]),
        (format!("# avicenna: ignore AV003\n{vm}\n"), vec!["AV001", "AV022"]),
        (format!("# avicenna: ignore\n{vm}\n"), vec!["AV001", "AV022"]),
        (format!("# avicenna: ignore AV001\n{vm}\n{vm} -m 1\n"), vec!["AV001", "AV022"]),
        (format!("# avicenna: ignore-file AV001\n{vm}\n{vm} -m 1\n"), vec!["AV022"]),
        (xml.to_owned(), vec![]),
        ("#avicenna%3A ignore AV001\ncores: 1\nostype: l26\nmachine: q35\n".to_owned(), vec![]),
        ("options kvm_amd avic=0 # avicenna: ignore AV102\n".to_owned(), vec![]),
        ("# avicenna: ignore AV102\noptions kvm_amd avic=0\n".to_owned(), vec![]),
    ] {
        let report = judge(&text, &Target::default());
        assert_eq!(ids(&report, Answer::No), expected, "{text}");
    }
}

#[test]
fn positions_and_messages_are_those_of_the_cause() {
    let text = "qemu-system-x86_64 -enable-kvm \\\n -global kvm-pit.lost_tick_policy=delay\n";
    let report = judge(text, &Target::default());
    let one = &report.diagnostics[0];
    assert_eq!((one.rule.id, one.position.line, one.position.column), ("AV001", 2, 10));
    assert_eq!(one.vendors, [Vendor::Amd]);
    assert_eq!(one.inhibit, Some(Reason::PitReinject));
    let finding = Finding::from(one);
    assert!(finding.is_problem());
    assert_eq!(finding.fix.unwrap().line, "-global kvm-pit.lost_tick_policy=discard");
}

#[test]
fn a_log_knows_its_versions_and_cannot_be_repaired() {
    let log = "2026-01-01 10:00:00.000+0000: starting up libvirt version: 9.0.0, qemu version: 6.1.0, \
               kernel: 5.15.0-1, hostname: h\n/usr/bin/qemu-system-x86_64 \\\n-accel kvm \\\n\
               -cpu host,hv-vpindex=on,hv-avic=on \\\n-m 1\n";
    let report = judge(log, &Target::default());
    assert_eq!(ids(&report, Answer::No), ["AV001", "AV005", "AV006", "AV026"]);
    let repaired = fixed("test", log, None, &Target::default()).unwrap();
    assert_eq!(repaired.text, log);
}

#[test]
fn every_rule_stands_on_the_page_of_rules_and_is_linked_to() {
    let page = rules::page();
    for rule in rules::all() {
        let (id, name) = (rule.id, rule.name);
        // As Markdown's renderers make an anchor of a heading.
        let anchor: String = format!("{id}: {name}")
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || "- ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        for part in [format!("[{id}](#{anchor})"), format!("\n## {id}: {name}\n")] {
            assert_eq!(page.matches(&part).count(), 1, "{part}");
        }
        for source in rule.sources {
            assert!(page.contains(&format!("\n- {source}\n")), "{id}: {source}");
        }
    }
    let headings = page.lines().filter(|line| line.starts_with("# ")).count();
    assert_eq!(headings, 1 + comments_in_code(&page), "{page}");
}

/// Lines of examples that look like headings.
fn comments_in_code(page: &str) -> usize {
    let code = page.split("```").skip(1).step_by(2);
    code.flat_map(str::lines).filter(|line| line.starts_with("# ")).count()
}

#[test]
fn kinds_without_machines_have_no_machine_rules() {
    let report = judge("options kvm_amd avic=1\n", &Target::default());
    assert!(report.diagnostics.is_empty());
    assert!(Kind::Modprobe.is_of_host() && !Kind::LibvirtXml.is_of_host());
}

#[test]
fn encrypted_guest_is_offered_no_other_pit_and_old_cloud_hypervisor_a_newer_one() {
    let sev = "qemu-system-x86_64 -enable-kvm -M q35,confidential-guest-support=s -object sev-guest,id=s,policy=1\n";
    let report = judge(sev, &target("6.12", ""));
    assert!(!ids(&report, Answer::No).contains(&"AV001"), "{:?}", report.diagnostics);
    let fixed = fixed("test", sev, None, &target("6.12", "")).unwrap();
    assert_eq!(fixed.text, sev);

    let cloud = "cloud-hypervisor --disk path=windows.raw --cpus boot=2,kvm_hyperv=on\n";
    let report = judge(cloud, &target("6.12", ""));
    let found = report.diagnostics.iter().find(|found| found.rule.id == "AV003").unwrap();
    assert!(found.message.contains("before v53"), "{}", found.message);
    let fix = &found.remedy.as_ref().unwrap().fix.line;
    assert_eq!(fix, "cloud-hypervisor v53 or later");
}

/// A manifest as `kubectl get vm -o json` prints it.
const KUBEVIRT_JSON: &str = r#"{
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "spec": {"template": {"spec": {"domain": {
        "clock": {"timer": CLOCK},
        "devices": {}
    }}}}
}
"#;

#[test]
fn repaired_json_is_json_and_differs_in_one_value() {
    for (clock, expected) in [
        (
            r#"{"hpet": {"present": false}}"#,
            r#"{"pit": {"tickPolicy": "discard"}, "hpet": {"present": false}}"#,
        ),
        (r#"{"pit": {"tickPolicy":"delay"}}"#, r#"{"pit": {"tickPolicy":"discard"}}"#),
        (r#"{"pit": {}}"#, r#"{"pit": {"tickPolicy": "discard"}}"#),
        (r#"{"pit": null}"#, r#"{"pit": {"tickPolicy": "discard"}}"#),
        ("{}", r#"{"pit": {"tickPolicy": "discard"}}"#),
    ] {
        let text = KUBEVIRT_JSON.replace("CLOCK", clock);
        let repaired = fixed("test", &text, None, &Target::default()).unwrap();
        assert_eq!(repaired.text, KUBEVIRT_JSON.replace("CLOCK", expected), "{clock}");
        assert!(
            serde_json::from_str::<serde_json::Value>(&repaired.text).is_ok(),
            "{}",
            repaired.text
        );
    }
}

#[test]
fn manifests_keep_line_ends_comments_and_anchors() {
    let head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  domain:\n";
    for (body, expected) in [
        (
            "    clock:\n      timer:   # none yet\n    devices: {}\n",
            Some(
                "    clock:\n      timer: {pit: {tickPolicy: discard}}   # none yet\n    devices: {}\n",
            ),
        ),
        ("    clock: &c\n    devices: {}\n", None),
        (
            "    clock: &c\n      timer: {hpet: {present: false}}\n    devices: {}\n",
            Some(
                "    clock: &c\n      timer: {pit: {tickPolicy: discard}, hpet: {present: false}}\n    devices: {}\n",
            ),
        ),
        ("    clock: &c {timer: {}}\n    devices: {}\n    other: *c\n", None),
    ] {
        for line_end in ["\n", "\r\n"] {
            let text = format!("{head}{body}").replace('\n', line_end);
            let wanted = format!("{head}{}", expected.unwrap_or(body)).replace('\n', line_end);
            let repaired = fixed("test", &text, None, &Target::default()).unwrap();
            assert_eq!(repaired.text, wanted, "{body:?}");
        }
    }
    let text = format!("{head}    cpu: {{cores: 2}}\n    devices: {{}}\n").replace('\n', "\r\n");
    let repaired = fixed("test", &text, None, &Target::default()).unwrap();
    assert_ne!(repaired.text, text);
    assert_eq!(repaired.text.matches('\n').count(), repaired.text.matches("\r\n").count());
}

#[test]
fn kernels_whose_number_does_not_tell_leave_rules_open() {
    let big = "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -cpu EPYC,+svm,+x2apic -smp 380\n";
    for release in [
        "5.14.0-427.13.1.el9_4.cloudlinux.x86_64",
        "5.14.21-150500.55.19-default",
        "5.15.0-1050-aws",
    ] {
        let target = Target { vendors: vec![Vendor::Amd], ..target(release, "") };
        let report = judge(big, &target);
        let bad = ids(&report, Answer::No);
        assert!(!bad.contains(&"AV005") && !bad.contains(&"AV006"), "{release}: {bad:?}");
        let open = ids(&report, Answer::Unknown);
        assert!(open.contains(&"AV005") && open.contains(&"AV006"), "{release}: {open:?}");
        let repaired = fixed("test", big, None, &target).unwrap();
        assert_eq!(repaired.text, big, "{release}");
    }
    // Oracle has told of this one.
    let uek = Target { vendors: vec![Vendor::Amd], ..target("5.15.0-204.146.1.el8uek.x86_64", "") };
    let report = judge(big, &uek);
    assert!(
        !report.diagnostics.iter().any(|found| found.rule.id == "AV005"),
        "{:?}",
        report.diagnostics
    );
    let options = "options kvm_intel enable_ipiv=1\n";
    // Red Hat's has it since 9.2.
    for (release, open) in
        [("5.14.0-503.11.1.el9_5.x86_64", &[][..]), ("5.14.21-150500.55.19-default", &["AV109"])]
    {
        let report = judge(options, &target(release, ""));
        assert_eq!(ids(&report, Answer::No), Vec::<&str>::new(), "{release}");
        assert_eq!(ids(&report, Answer::Unknown), open, "{release}");
    }
    assert_eq!(ids(&judge(options, &target("5.14", "")), Answer::No), ["AV109"]);
}

#[test]
fn more_than_255_vcpus_need_the_guests_x2apic() {
    let xml = "<domain type='kvm'>\n  <name>a</name>\n  <vcpu>380</vcpu>\n  <os><type machine='q35'>hvm</type></os>\n  \
               <features>\n    <apic/>\n    <ioapic driver='qemu'/>\n  </features>\n  <cpu mode='host-passthrough'>\n    \
               <feature policy='disable' name='x2apic'/>\n  </cpu>\n</domain>\n";
    let split = "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split";
    for (text, is_bad) in [
        (format!("{split} -cpu host,-x2apic -smp 380\n"), true),
        (format!("{split} -cpu host,x2apic=off -smp 2,maxcpus=300\n"), true),
        (format!("{split} -cpu host -smp 380\n"), false),
        (format!("{split} -cpu host,-x2apic -smp 255\n"), false),
        (xml.to_owned(), true),
    ] {
        let report = judge(&text, &target("6.18", "10.0"));
        let found = report
            .diagnostics
            .iter()
            .any(|found| found.rule.id == "AV009" && found.message.contains("no x2APIC"));
        assert_eq!(found, is_bad, "{text}: {:?}", report.diagnostics);
        if is_bad {
            let repaired = fixed("test", &text, None, &target("6.18", "10.0")).unwrap();
            let again = judge(&repaired.text, &target("6.18", "10.0"));
            assert!(
                !again.diagnostics.iter().any(|one| one.message.contains("no x2APIC")),
                "{}",
                repaired.text
            );
        }
    }
}

/// An I/O APIC entry and an MSI reach 254 alone: a vIOMMU helps where it remaps, with destinations
/// of 32 bits; without remapping QEMU's extended identifiers do it, which it has of itself.
#[test]
fn a_viommu_reaches_more_than_255_vcpus_only_as_it_is_told_to() {
    let machine = |irqchip: &str, rest: &str| {
        format!(
            "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip={irqchip} -cpu host{rest}\n"
        )
    };
    for (irqchip, rest, is_bad) in [
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device intel-iommu,intremap=on,eim=on", false),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device intel-iommu,intremap=on", false),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device intel-iommu,intremap=on,eim=off", true),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device intel-iommu,intremap=off", true),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device amd-iommu,intremap=on", true),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device amd-iommu,intremap=on,xtsup=on", false),
        ("split", ",-kvm-msi-ext-dest-id -smp 380 -device virtio-iommu-pci", true),
        ("split", ",-kvm-msi-ext-dest-id -smp 380", true),
        ("split", " -smp 380 -device virtio-iommu-pci", false),
        ("on", " -smp 380 -device intel-iommu,intremap=off", true),
        // Identifiers have gaps: three cores take the place of four.
        ("on", " -smp 192,sockets=64,cores=3,threads=1", false),
        ("on", " -smp 195,sockets=65,cores=3,threads=1", true),
        ("on", " -smp 2,maxcpus=256", true),
        ("on", " -smp 2,maxcpus=255", false),
    ] {
        let text = machine(irqchip, rest);
        let report = judge(&text, &target("6.18", "10.0"));
        assert_eq!(ids(&report, Answer::No).contains(&"AV009"), is_bad, "{text}");
        // With 32 bits of a vIOMMU and without the guest's x2APIC none above 254 comes up either.
        let hidden = text.replace("-cpu host", "-cpu host,-x2apic");
        let largest_is_small = rest.contains("192") || rest.contains("maxcpus=255");
        let report = judge(&hidden, &target("6.18", "10.0"));
        assert_eq!(ids(&report, Answer::No).contains(&"AV009"), !largest_is_small, "{hidden}");
    }
}

#[test]
fn words_of_grub_are_judged_wherever_the_shell_finds_them() {
    for text in [
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  amd_iommu_intr=legacy\"\n",
        "GRUB_CMDLINE_LINUX_DEFAULT=quiet; GRUB_CMDLINE_LINUX=amd_iommu_intr=legacy\n",
        "EXTRA=amd_iommu_intr=legacy\nGRUB_CMDLINE_LINUX=\"quiet $EXTRA\"\n",
        "GRUB_CMDLINE_LINUX=\"quiet\namd_iommu_intr=legacy\"\n",
    ] {
        assert_eq!(ids(&judge(text, &Target::default()), Answer::No), ["AV203"], "{text}");
        let repaired = fixed("test", text, None, &Target::default()).unwrap();
        assert_eq!(repaired.text, text.replace("legacy", "vapic"));
    }
    let open = "if x; then\n  GRUB_CMDLINE_LINUX=\"amd_iommu_intr=legacy\"\nfi\n";
    let report = judge(open, &Target::default());
    assert_eq!(ids(&report, Answer::No), Vec::<&str>::new());
    assert!(!ids(&report, Answer::Unknown).is_empty());
}

#[test]
fn commands_that_install_a_module_are_followed_where_they_only_load_it() {
    let simple =
        "options kvm_amd avic=1\ninstall kvm_amd /sbin/modprobe --ignore-install kvm_amd avic=0\n";
    assert!(ids(&judge(simple, &Target::default()), Answer::No).contains(&"AV102"));
    let other = "options kvm_amd avic=1\ninstall kvm_amd /bin/false\n";
    let report = judge(other, &Target::default());
    assert_eq!(ids(&report, Answer::No), Vec::<&str>::new());
    assert!(!ids(&report, Answer::Unknown).is_empty(), "{:?}", report.diagnostics);
}

#[test]
fn what_another_file_of_the_host_gives_is_not_missing() {
    let text = "options kvm_amd nested=1\n";
    let alone = judge(text, &target("6.12", ""));
    assert!(ids(&alone, Answer::No).contains(&"AV101"));
    let other =
        configuration::read("b", "options kvm_amd avic=1\n", None, &Hints::default()).unwrap();
    let together = Target { elsewhere: other.options, ..target("6.12", "") };
    assert!(!ids(&judge(text, &together), Answer::No).contains(&"AV101"));
}

#[test]
fn how_another_module_is_installed_leaves_no_rule_of_kvm_open() {
    let text = "install vfio_pci /usr/local/sbin/choose\noptions kvm_amd avic=1\n";
    let report = judge(text, &Target::default());
    assert_eq!(ids(&report, Answer::Unknown), Vec::<&str>::new());
    let text = "install kvm_amd /usr/local/sbin/choose\n";
    assert!(ids(&judge(text, &Target::default()), Answer::Unknown).contains(&"AV102"));
}
