use super::*;
use crate::capability::check;
use crate::host::{CpuKind, Fact, Kernel};
use std::collections::{BTreeMap, BTreeSet};

fn vm(words: &[&str]) -> RunningVm {
    RunningVm {
        pid: 7,
        name: Some("web".into()),
        arguments: words.iter().map(|word| word.to_string()).collect(),
        xml: None,
        statistics: Fact::unreadable("/sys/kernel/debug/kvm", "permission denied"),
    }
}

/// A host whose KVM says Y, or says nothing.
fn host(vendor: crate::host::Vendor, parameter: Option<&str>, release: &str) -> Facts {
    let (module, name) =
        if vendor.has_svm() { ("kvm_amd", "avic") } else { ("kvm_intel", "enable_apicv") };
    let modules = parameter.map(|value| {
        let place = format!("/sys/module/{module}/parameters/{name}");
        let parameters =
            BTreeMap::from([(name.to_string(), Fact::value(place, value.to_string()))]);
        (
            module.to_string(),
            Fact::value(
                "/sys/module",
                crate::host::Module { is_builtin: false, users: None, parameters },
            ),
        )
    });
    Facts {
        origin: "test".into(),
        incomplete: None,
        kernel: Fact::value("uname", Kernel::parse(release, None).unwrap()),
        command_line: Fact::value("/proc/cmdline", String::new()),
        distribution: Fact::absent(""),
        cpus: vec![CpuKind {
            cpus: "0".into(),
            vendor: Some(vendor),
            signature: None,
            brand: None,
            cpuid: Fact::unreadable("CPUID", "test"),
            msrs: BTreeMap::new(),
            flags: Fact::value(
                "/proc/cpuinfo",
                BTreeSet::from(["svm", "npt", "avic", "vmx"].map(String::from)),
            ),
            vmx_flags: Fact::absent("/proc/cpuinfo"),
        }],
        modules: modules.into_iter().collect(),
        iommus: Fact::absent(""),
        ivrs: Fact::absent(""),
        dmar: Fact::absent(""),
        madt: Fact::absent(""),
        log: Fact::absent(""),
        interrupts: Fact::unreadable("/proc/interrupts", "not recorded"),
        inhibit_names: Fact::absent(""),
        modprobe: Fact::value("/etc/modprobe.d", vec![]),
        vms: Fact::value("/proc", vec![]),
        definitions: vec![],
        boot: Default::default(),
    }
}

fn ask(facts: &Facts, vm: &RunningVm, seen: Result<Observation, String>) -> Machine {
    let mut seen = Some(seen);
    let why = why(facts, &check(facts), &[vm], |_| seen.take().unwrap_or(Err("once".into())));
    why.machines.into_iter().next().unwrap()
}

fn unseen() -> Result<Observation, String> {
    Err("tracefs: permission denied".into())
}

const QEMU: &[&str] =
    &["/usr/bin/qemu-system-x86_64", "-accel", "kvm", "-machine", "q35", "-cpu", "host,x2apic=on"];

fn with(words: &[&'static str]) -> Vec<&'static str> {
    QEMU.iter().copied().chain(words.iter().copied()).collect()
}

#[test]
fn default_qemu_is_inhibited_on_amd_only_and_the_line_is_named() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(QEMU), unseen());
    assert_eq!(found.active.answer, Answer::No);
    assert!(found.active.reason.starts_with("PIT_REINJ"), "{}", found.active.reason);
    assert_eq!(found.active.fix.unwrap().line, "-global kvm-pit.lost_tick_policy=discard");
    assert!(found.unseen.iter().any(|why| why.contains("permission denied")));

    let intel = host(crate::host::Vendor::Intel, Some("Y"), "6.18.44");
    assert_eq!(ask(&intel, &vm(QEMU), unseen()).active.answer, Answer::Yes);
}

#[test]
fn line_speaks_the_language_of_the_manager() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let rows: &[(&[&'static str], Option<&str>)] = &[
        (&[], Some("-global kvm-pit.lost_tick_policy=discard")),
        (
            &["-chardev", "socket,path=/var/lib/libvirt/qemu/x"],
            Some("virsh edit web: <timer name='pit' tickpolicy='discard'/> in <clock>"),
        ),
        (
            &["-id", "100", "-pidfile", "/var/run/qemu-server/100.pid"],
            Some("qm set 100 --args '-global kvm-pit.lost_tick_policy=discard'"),
        ),
        (
            &["-chardev", "socket,path=/var/run/kubevirt-private/x"],
            Some("spec.template.spec.domain.clock.timer.pit.tickPolicy: discard"),
        ),
    ];
    for (words, expected) in rows {
        let found = ask(&amd, &vm(&with(words)), unseen());
        assert_eq!(found.active.fix.map(|fix| fix.line).as_deref(), *expected, "{words:?}");
    }
    let crosvm = ask(&amd, &vm(&["crosvm", "run", "--cpus", "2", "vmlinux"]), unseen());
    assert_eq!(
        crosvm.active.fix.map(|fix| fix.line).as_deref(),
        Some("crosvm run --split-irqchip")
    );
    let firecracker = ask(&amd, &vm(&["firecracker", "--api-sock", "/x"]), unseen());
    assert_eq!((firecracker.active.answer, firecracker.active.fix), (Answer::No, None));
    let cloud = ask(&amd, &vm(&["cloud-hypervisor", "--cpus", "boot=2"]), unseen());
    assert_eq!(cloud.active.answer, Answer::Yes, "{}", cloud.active.reason);
}

#[test]
fn unknown_host_is_unknown_and_a_host_without_it_is_no() {
    let good = with(&["-global", "kvm-pit.lost_tick_policy=discard"]);
    let rows = [(Some("Y"), Answer::Yes), (None, Answer::Unknown), (Some("N"), Answer::No)];
    for (parameter, expected) in rows {
        let facts = host(crate::host::Vendor::Amd, parameter, "6.18.44");
        let found = ask(&facts, &vm(&good), unseen());
        assert_eq!(found.active.answer, expected, "{parameter:?}: {}", found.active.reason);
    }
}

#[test]
fn what_was_seen_outweighs_what_was_predicted() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let seen = |active: Option<f64>, accelerated, injected| Observation {
        source: "tracefs".into(),
        seconds: 2.0,
        reasons: vec![(Reason::InterruptWindow, 1.0)],
        active_seconds: active,
        changes: 3,
        accelerated,
        injected,
    };
    let rows = [
        (seen(Some(2.0), 0, 0), Answer::Yes),
        (seen(Some(1.0), 0, 0), Answer::No),
        (seen(None, 5, 0), Answer::Yes),
        (seen(None, 0, 5), Answer::No),
        // Nothing happened: the prediction stands.
        (seen(None, 0, 0), Answer::No),
        (seen(None, 5, 5), Answer::No),
    ];
    for (observation, expected) in rows {
        let found = ask(&amd, &vm(QEMU), Ok(observation.clone()));
        assert_eq!(found.active.answer, expected, "{observation:?}: {}", found.active.reason);
    }
}

#[test]
fn machine_without_kvm_has_nothing_to_accelerate() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let found =
        ask(&amd, &vm(&["qemu-system-x86_64", "-accel", "tcg", "-machine", "pc"]), unseen());
    assert_eq!(found.active.answer, Answer::No);
    assert!(found.active.reason.contains("tcg"), "{}", found.active.reason);
}

#[test]
fn passed_through_devices_have_their_own_answer() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(&with(&["-device", "vfio-pci,host=41:00.0"])), unseen());
    assert_eq!(found.devices.map(|row| row.answer), Some(Answer::No), "the host has no IOMMU");
    assert_eq!(ask(&amd, &vm(QEMU), unseen()).devices, None);
}

#[test]
fn what_is_not_understood_is_unknown() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(&["openvmm", "--something"]), unseen());
    assert_eq!(found.active.answer, Answer::Unknown);
    assert!(!found.unseen.is_empty());
}

#[test]
fn encrypted_guest_has_no_fix_that_would_gain_nothing() {
    let amd = host(crate::host::Vendor::Amd, Some("Y"), "6.18.44");
    let words =
        with(&["-machine", "confidential-guest-support=s", "-object", "sev-guest,id=s,policy=1"]);
    let found = ask(&amd, &vm(&words), unseen());
    assert_eq!((found.active.answer, found.active.fix), (Answer::No, None));
    assert!(found.causes.iter().all(|cause| cause.fix.is_none()));
}
