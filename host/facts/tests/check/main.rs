//! `check` from raw inputs to answers: every rule answers yes, no and unknown, and the three
//! answers stay apart.

mod enable;
mod fixture;
mod habits;
mod mutation;
mod real;
mod script;
mod summary;
mod table;

use fixture::Host;
use rules::Answer::{self, No, Unknown, Yes};
use rules::capability::Row;
use schema::assert_follows;

fn answers(host: &Host) -> [Answer; 3] {
    let report = host.report();
    [report.answers[0].answer, report.answers[1].answer, report.answers[2].answer]
}

#[test]
fn three_answers_are_kept_apart() {
    let zen2 = include_str!("zen2.txt");
    let rows: &[(&str, Host, [Answer; 3])] = &[
        ("all on, AMD", Host::amd(), [Yes, Yes, Yes]),
        ("all on, Intel", Host::intel(), [Yes, Yes, Yes]),
        ("nothing known", Host::empty(), [Unknown, Unknown, Unknown]),
        (
            "AVIC without IPIs: erratum 1235",
            Host::amd().with(&[
                ("cpuid.txt", Some(zen2)),
                ("proc/cpuinfo", None),
                ("sys/module/kvm_amd/parameters/enable_ipiv", Some("N")),
            ]),
            [Yes, No, Yes],
        ),
        (
            "AVIC without posting: one of two units cannot",
            Host::amd()
                .with(&[("sys/class/iommu/ivhd1/amd-iommu/features", Some("58f77ef22294a5a"))]),
            [Yes, Yes, No],
        ),
        (
            "parameter off",
            Host::amd().with(&[("sys/module/kvm_amd/parameters/avic", Some("N"))]),
            [No, No, No],
        ),
        (
            "APICv without IPIs",
            Host::intel().with(&[("sys/module/kvm_intel/parameters/enable_ipiv", Some("N"))]),
            [Yes, No, Yes],
        ),
        (
            "APICv without posting",
            Host::intel().with(&[("proc/cmdline", Some("intremap=nopost"))]),
            [Yes, Yes, No],
        ),
        (
            "no VT-d unit recorded",
            Host::intel().with(&[("sys/class/iommu", None)]),
            [Yes, Yes, Unknown],
        ),
    ];
    for (name, host, expected) in rows {
        assert_eq!(answers(host), *expected, "{name}");
    }
}

#[test]
fn verdict_is_yes_only_if_everything_is() {
    assert_eq!(Host::amd().report().verdict(), Yes);
    assert_eq!(Host::empty().report().verdict(), Unknown);
    assert_eq!(
        Host::amd().with(&[("sys/module/kvm_amd/parameters/avic", Some("N"))]).report().verdict(),
        No
    );
}

/// kvm has the variable, its vendor half the parameter: a load without AVIC clears it for the next
/// ones too.
#[test]
fn parameter_that_kvm_keeps_is_told_from_one_that_was_given() {
    const IPI: &str = "sys/module/kvm_amd/parameters/enable_ipiv";
    const POSTED: &str = "sys/module/kvm_amd/parameters/enable_device_posted_irqs";
    const BOTH: &str = "modprobe -r kvm_amd kvm && modprobe kvm_amd";
    let off: &[fixture::Change] = &[(IPI, Some("N")), (POSTED, Some("N"))];
    let rows: &[(&str, &[fixture::Change], &str, Option<&str>)] = &[
        ("kept", &[("sys/module/kvm/refcnt", Some("1"))], "earlier load", Some(BOTH)),
        (
            "kvm is built in",
            &[("sys/module/kvm/parameters/halt_poll_ns", Some("0"))],
            "earlier load",
            Some("echo 'options kvm_amd enable_ipiv=1' >>/etc/modprobe.d/avicenna.conf"),
        ),
        (
            "given",
            &[("etc/modprobe.d/a.conf", Some("options kvm_amd enable_ipiv=0"))],
            "given as off",
            Some("enable_ipiv=1 instead of enable_ipiv=0 in /etc/modprobe.d/a.conf"),
        ),
        (
            "AVIC is off",
            &[("sys/module/kvm_amd/parameters/avic", Some("N"))],
            "as it does while APIC virtualization is off",
            None,
        ),
    ];
    for (name, changes, reason, fix) in rows {
        let report = Host::amd().with(off).with(changes).report();
        let row = report.finding(Row::named("kvm-ipi").unwrap()).unwrap();
        assert_eq!(row.answer, No, "{name}");
        assert!(row.reason.contains(reason), "{name}: {}", row.reason);
        assert_eq!(row.fix.as_ref().map(|fix| fix.line.as_str()), *fix, "{name}");
        assert_eq!(
            report.finding(Row::named("kvm-device-posting").unwrap()).unwrap().answer,
            No,
            "{name}"
        );
    }
}

#[test]
fn plan_loads_kvm_again_with_its_vendor_half() {
    let rows: &[(&[fixture::Change], &[&str])] = &[
        (
            &[("sys/module/kvm_amd/parameters/avic", Some("N"))],
            &["write-etc-modprobe.d-avicenna.conf", "reload-kvm_amd"],
        ),
        (&[("sys/module/kvm_amd/parameters/enable_ipiv", Some("N"))], &["reload-kvm_amd"]),
        (
            &[("sys/module/kvm_amd/parameters/enable_device_posted_irqs", Some("N"))],
            &["reload-kvm_amd"],
        ),
        (&[], &[]),
    ];
    for (changes, expected) in rows {
        let host = Host::amd().with(&[("sys/module/kvm/refcnt", Some("1"))]).with(changes);
        let plan = rules::enable::plan_of(&facts::facts(&host.inputs()));
        let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids, *expected, "{changes:?}");
        for step in &plan.steps {
            if let rules::enable::Action::Tell { instruction } = &step.action {
                assert_eq!(instruction, "modprobe -r kvm_amd kvm && modprobe kvm_amd");
            }
        }
    }
}

#[test]
fn cores_that_differ_only_in_counters_and_temperatures_are_one_kind() {
    let mut text = String::new();
    for cpu in 0..4 {
        text.push_str(&format!(
            "------[ CPUID Registers / Logical CPU #{cpu} ]------\n\
             CPUID 00000000: 0000000B-756E6547-6C65746E-49656E69 [GenuineIntel]\n\
             CPUID 00000001: 000106E5-0{cpu}100800-0098E3FD-BFEBFBFF\n\
             CPUID 0000001A: 0{cpu}000001-00000001-00000100-0000000{cpu}\n\
             ------[ MSR Registers / Logical CPU #{cpu} ]------\n\
             MSR 00000198: 0000-0000-0000-12{cpu}4\nMSR 00000481: 0000-007F-0000-0016\n"
        ));
    }
    for place in ["cpuid.txt", "avicenna/cpuid/0-3.txt"] {
        let mut host = Host::empty();
        host.put(place, text.clone().into_bytes());
        assert_eq!(host.report().processors, ["cpu 0-3 (family 6h model 1Eh stepping 5)"]);
    }
}

#[test]
fn every_kind_of_core_and_every_iommu_has_its_rows() {
    let text = "CPU 0:\n   0x00000000 0x00: eax=0x20 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
                0x00000001 0x00: eax=0x000b0671 ebx=0x0 ecx=0x7ffafbff edx=0xbfebfbff\n   \
                0x0000001a 0x00: eax=0x40000001 ebx=0x0 ecx=0x0 edx=0x0\n\
                CPU 1:\n   0x00000000 0x00: eax=0x20 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
                0x00000001 0x00: eax=0x000b0671 ebx=0x1000000 ecx=0x7ffafbff edx=0xbfebfbff\n   \
                0x0000001a 0x00: eax=0x20000001 ebx=0x0 ecx=0x0 edx=0x0\n\
                CPU 2:\n   0x00000000 0x00: eax=0x20 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
                0x00000001 0x00: eax=0x000b0671 ebx=0x2000000 ecx=0x7ffafbff edx=0xbfebfbff\n   \
                0x0000001a 0x00: eax=0x20000001 ebx=0x0 ecx=0x0 edx=0x0\n";
    let mut host = Host::empty();
    host.put("cpuid.txt", text.as_bytes().to_vec());
    let subjects: Vec<String> = host
        .report()
        .findings
        .into_iter()
        .filter(|row| row.id == "cpu-vmx")
        .map(|row| row.subject)
        .collect();
    assert_eq!(subjects, ["cpu 0", "cpu 1-2"]);

    let units: Vec<String> = Host::amd()
        .report()
        .findings
        .into_iter()
        .filter(|row| row.id == "iommu-guest-apic")
        .map(|row| row.subject)
        .collect();
    assert_eq!(units, ["ivhd0", "ivhd1"]);
}

#[test]
fn report_matches_its_published_schema() {
    let schema = schema::published("check-1.json");
    for host in [Host::amd(), Host::intel(), Host::empty()] {
        let report = serde_json::to_value(host.report()).unwrap();
        assert_follows(&report, &schema, "report");
    }
}

#[test]
fn plan_and_why_match_their_published_schemas() {
    let enable = schema::published("enable-1.json");
    let why = schema::published("why-1.json");
    let off = Host::amd().with(&[
        ("sys/module/kvm_amd/parameters/avic", Some("N")),
        ("proc/cmdline", Some("amd_iommu_intr=legacy kvm_amd.avic=0")),
        (
            "proc/7/cmdline",
            Some("qemu-system-x86_64\0-name\0web\0-accel\0kvm\0-device\0vfio-pci,host=1:0.0"),
        ),
    ]);
    for host in [Host::amd(), Host::intel(), Host::empty(), off] {
        let facts = facts::facts(&host.inputs());
        let report = rules::capability::check(&facts);
        let plan = serde_json::to_value(rules::enable::plan(&facts, &report)).unwrap();
        assert_follows(&plan, &enable, "plan");
        let machines: Vec<_> = facts.vms.get().into_iter().flatten().collect();
        let trace = facts::watch::parse(
            "q-7 [000] ..... 1.0: kvm_apicv_inhibit_changed: set reason=9, inhibits=0x200\n",
        );
        let numbering = trace::inhibit::Numbering::assumed();
        let answer = rules::why::why(&facts, &report, &machines, |_| {
            Ok(trace.observe(&[7].into(), &numbering))
        });
        assert_follows(&serde_json::to_value(answer).unwrap(), &why, "why");
    }
}

#[test]
fn sosreport_answers_like_the_host_it_was_made_on() {
    let cpuid = include_str!("zen2.txt");
    let files: &[(&str, &str)] = &[
        ("proc/cmdline", "quiet amd_iommu_intr=legacy"),
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: svm npt avic\n"),
        ("sos_commands/processor/cpuid_-r", cpuid),
        ("sos_commands/kernel/uname_-a", "Linux host 5.19.17 #1 SMP x86_64 GNU/Linux"),
        (
            "sos_commands/kernel/dmesg",
            "[    1.0] kvm: x\n[    1.1] AMD-Vi: Interrupt remapping enabled\n",
        ),
        (
            "sos_commands/process/ps_auxwww",
            "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\nqemu 4711 1.0 0.1 100 100 ? Sl 10:00 0:01 /usr/bin/qemu-system-x86_64 -name guest=web -accel kvm\n",
        ),
        ("sys/module/kvm_amd/parameters/avic", "N\n"),
        ("sys/module/kvm/parameters/nx_huge_pages", "auto\n"),
    ];
    let mut builder = tar::Builder::new(liblzma::write::XzEncoder::new(vec![], 1));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_cksum();
        builder
            .append_data(&mut header, format!("sosreport-host-2026-01-01/{path}"), text.as_bytes())
            .unwrap();
    }
    let bytes = builder.into_inner().unwrap().finish().unwrap();
    let mut inputs = facts::Inputs::new("sosreport");
    let packing = facts::archive::Packing::detect(&bytes).unwrap();
    facts::archive::read_into(&bytes[..], packing, &mut inputs).unwrap();
    let facts = facts::facts(&inputs);
    assert_eq!(facts.kernel.get().map(|kernel| kernel.release.as_str()), Some("5.19.17"));
    assert_eq!(
        facts.vms.get().map(|vms| (vms[0].pid, vms[0].name.as_deref())),
        Some((4711, Some("web")))
    );
    let report = rules::capability::check(&facts);
    let answer = |id| report.finding(Row::named(id).unwrap()).map(|row| row.answer);
    assert_eq!(answer("cpu-avic"), Some(Yes));
    assert_eq!(answer("cpu-erratum-1235"), Some(No));
    assert_eq!(answer("kvm-avic"), Some(No));
    assert_eq!(answer("iommu-guest-apic-on"), Some(No));
    assert_eq!(answer("iommu-present"), Some(Unknown));
}
