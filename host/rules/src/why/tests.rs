use super::*;
use crate::capability::check;
use reading::{CpuKind, Fact, Kernel};
use std::collections::{BTreeMap, BTreeSet};

fn vm(words: &[&str]) -> RunningVm {
    RunningVm {
        pid: 7,
        name: Some("web".into()),
        arguments: words.iter().map(|word| word.to_string()).collect(),
        xml: None,
        statistics: Fact::unreadable("/sys/kernel/debug/kvm", "permission denied"),
        functions: Fact::unreadable("/proc/7/fd", "permission denied"),
    }
}

/// A host whose KVM says Y, or says nothing.
fn host(vendor: reading::Vendor, parameter: Option<&str>, release: &str) -> Facts {
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
                reading::Module { is_builtin: false, users: None, parameters },
            ),
        )
    });
    Facts {
        origin: "test".into(),
        incomplete: None,
        kernel: Fact::value("uname", Kernel::parse(release, None).unwrap()),
        command_line: Fact::value("/proc/cmdline", String::new()),
        distribution: Fact::absent(""),
        foreign: None,
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
            told: BTreeMap::new(),
            vmx_flags: Fact::absent("/proc/cpuinfo"),
        }],
        modules: modules.into_iter().collect(),
        iommus: Fact::absent(""),
        ivrs: Fact::absent(""),
        dmar: Fact::absent(""),
        madt: Fact::absent(""),
        log: Fact::absent(""),
        interrupts: Fact::unreadable("/proc/interrupts", "not recorded"),
        remapping_entries: Fact::absent(""),
        inhibit_names: Fact::absent(""),
        modprobe: Fact::value("/etc/modprobe.d", vec![]),
        vms: Fact::value("/proc", vec![]),
        definitions: vec![],
        boot: Default::default(),
        initial_disk: Fact::unreadable("", "not looked into"),
    }
}

fn ask(facts: &Facts, vm: &RunningVm, seen: Result<Observation, String>) -> Machine {
    let mut seen = Some(seen);
    let why = why(facts, &check(facts), &[vm], |_| seen.take().unwrap_or(Err("once".into())));
    why.machines.into_iter().next().unwrap()
}

/// Nothing happened for two seconds.
fn watched() -> Observation {
    Observation {
        source: "tracefs".into(),
        seconds: 2.0,
        reasons: vec![],
        active_seconds: None,
        changes: 0,
        accelerated: 0,
        injected: 0,
        routes: BTreeMap::new(),
        taken: BTreeMap::new(),
        woken: 0,
        interrupts: vec![],
    }
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
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(QEMU), unseen());
    assert_eq!(found.active.answer, Answer::No);
    assert!(found.active.reason.starts_with("PIT_REINJ"), "{}", found.active.reason);
    assert_eq!(found.active.fix.unwrap().line, "-global kvm-pit.lost_tick_policy=discard");
    assert!(found.unseen.iter().any(|why| why.contains("permission denied")));

    let intel = host(reading::Vendor::Intel, Some("Y"), "6.18.44");
    assert_eq!(ask(&intel, &vm(QEMU), unseen()).active.answer, Answer::Yes);
}

#[test]
fn line_speaks_the_language_of_the_manager() {
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let rows: &[(&[&'static str], Option<&str>)] = &[
        (&[], Some("-global kvm-pit.lost_tick_policy=discard")),
        (
            &["-chardev", "socket,path=/var/lib/libvirt/qemu/x"],
            Some("virsh edit web: <timer name='pit' tickpolicy='discard'/> in <clock>"),
        ),
        (
            &["-id", "100", "-pidfile", "/var/run/qemu-server/100.pid"],
            // It may have a line of its own, which this would replace.
            Some(
                "qm set 100 --args '… -global kvm-pit.lost_tick_policy=discard', with what qm config 100 has as args now \
                 in front",
            ),
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
    let kvmtool = ask(&amd, &vm(&["lkvm", "run", "-c", "2", "-k", "bzImage"]), unseen());
    assert_eq!((kvmtool.active.answer, kvmtool.active.fix), (Answer::No, None));
    let cloud = ask(&amd, &vm(&["cloud-hypervisor", "--cpus", "boot=2"]), unseen());
    assert_eq!(cloud.active.answer, Answer::Yes, "{}", cloud.active.reason);
}

#[test]
fn unknown_host_is_unknown_and_a_host_without_it_is_no() {
    let good = with(&["-global", "kvm-pit.lost_tick_policy=discard"]);
    let rows = [(Some("Y"), Answer::Yes), (None, Answer::Unknown), (Some("N"), Answer::No)];
    for (parameter, expected) in rows {
        let facts = host(reading::Vendor::Amd, parameter, "6.18.44");
        let found = ask(&facts, &vm(&good), unseen());
        assert_eq!(found.active.answer, expected, "{parameter:?}: {}", found.active.reason);
    }
}

#[test]
fn what_was_seen_outweighs_what_was_predicted() {
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let seen = |active: Option<f64>, accelerated, injected| Observation {
        source: "tracefs".into(),
        seconds: 2.0,
        reasons: vec![(Reason::InterruptWindow, 1.0)],
        active_seconds: active,
        changes: 3,
        accelerated,
        injected,
        ..watched()
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
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let found =
        ask(&amd, &vm(&["qemu-system-x86_64", "-accel", "tcg", "-machine", "pc"]), unseen());
    assert_eq!(found.active.answer, Answer::No);
    assert!(found.active.reason.contains("tcg"), "{}", found.active.reason);
}

#[test]
fn passed_through_devices_have_their_own_answer() {
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(&with(&["-device", "vfio-pci,host=41:00.0"])), unseen());
    assert_eq!(found.devices.map(|row| row.answer), Some(Answer::No), "the host has no IOMMU");
    assert_eq!(ask(&amd, &vm(QEMU), unseen()).devices, None);
}

#[test]
fn what_is_not_understood_is_unknown() {
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let found = ask(&amd, &vm(&["openvmm", "--something"]), unseen());
    assert_eq!(found.active.answer, Answer::Unknown);
    assert!(!found.unseen.is_empty());
}

#[test]
fn encrypted_guest_has_no_fix_that_would_gain_nothing() {
    let amd = host(reading::Vendor::Amd, Some("Y"), "6.18.44");
    let words =
        with(&["-machine", "confidential-guest-support=s", "-object", "sev-guest,id=s,policy=1"]);
    let found = ask(&amd, &vm(&words), unseen());
    assert_eq!((found.active.answer, found.active.fix), (Answer::No, None));
    assert!(found.causes.iter().all(|cause| cause.fix.is_none()));
}

/// A host whose VT-d posts, unless told otherwise, with one function of a machine.
fn with_function(release: &str, command_line: &str, taken: u64) -> (Facts, RunningVm) {
    use reading::{Dmar, InterruptCounter, Iommu, IommuKind};
    let mut facts = host(reading::Vendor::Intel, Some("Y"), release);
    facts.command_line = Fact::value("/proc/cmdline", command_line.to_owned());
    facts.cpus[0].flags =
        Fact::value("/proc/cpuinfo", BTreeSet::from(["vmx", "cx16"].map(String::from)));
    let unit = Iommu {
        name: "dmar0".into(),
        kind: IommuKind::VtD,
        amd: Fact::absent(""),
        cap: Fact::value("cap", 1 << 59),
        ecap: Fact::value("ecap", 0b11000),
    };
    facts.iommus = Fact::value("/sys/class/iommu", vec![unit]);
    facts.dmar = Fact::value("DMAR", Dmar { flags: 1, ..Dmar::default() });
    let row = InterruptCounter {
        label: "34".into(),
        total: taken,
        description: "IR-PCI-MSIX-0000:3b:00.1 0-edge vfio-msix[0](0000:3b:00.1)".into(),
    };
    facts.interrupts = Fact::value("/proc/interrupts", vec![row]);
    let mut vm = vm(&with(&["-device", "vfio-pci,host=3b:00.1"]));
    vm.functions = Fact::value("/proc/7/fd", vec!["0000:3b:00.1".into()]);
    (facts, vm)
}

/// The host took so many of its interrupts in two seconds.
fn took(facts: &Facts, taken: u64) -> Observation {
    let interrupts = facts.interrupts.get().unwrap().clone();
    Observation { taken: BTreeMap::from([(34, taken)]), interrupts, ..watched() }
}

fn routed(facts: &Facts, is_posted: bool, vcpu: Option<u32>) -> Observation {
    let route = reading::Route { is_posted, vcpu, vector: 0xE1 };
    Observation { routes: BTreeMap::from([(34, route)]), ..took(facts, 0) }
}

#[test]
fn a_function_is_posted_to_a_vcpu_or_one_cause_says_why_not() {
    type See = fn(&Facts) -> Result<Observation, String>;
    let rows: &[(&str, &str, u64, See, Answer, &str, &str)] = &[
        ("6.12.1", "", 0, |_| unseen(), Answer::Yes, "the host has taken none of them", ""),
        ("6.12.1", "", 50, |_| unseen(), Answer::Unknown, "--watch tells", ""),
        ("6.12.1", "", 50, |facts| Ok(took(facts, 0)), Answer::Yes, "took none", ""),
        (
            "6.12.1",
            "intremap=nopost",
            50,
            |_| unseen(),
            Answer::No,
            "intremap=nopost is given",
            "remove intremap=nopost",
        ),
        (
            "6.12.1",
            "intremap=nopost",
            50,
            |facts| Ok(took(facts, 5)),
            Answer::No,
            "took 5 of its interrupts in 2.0 s: intremap=nopost is given",
            "remove intremap=nopost",
        ),
        (
            "6.12.1",
            "",
            50,
            |facts| Ok(took(facts, 5)),
            Answer::No,
            "decide as the guest enables an interrupt",
            "unload and load the device's driver",
        ),
        (
            "6.18.1",
            "",
            50,
            |facts| Ok(took(facts, 5)),
            Answer::No,
            "not fixed or lowest-priority to one vCPU",
            "smp_affinity",
        ),
        (
            "6.12.1",
            "",
            3,
            |facts| Ok(routed(facts, true, Some(1))),
            Answer::Yes,
            "posted to vCPU 1, vector e1h",
            "",
        ),
        (
            "6.18.1",
            "",
            3,
            |facts| Ok(routed(facts, false, None)),
            Answer::No,
            "not fixed or lowest-priority to one vCPU",
            "smp_affinity",
        ),
    ];
    for (release, command_line, taken, see, answer, reason, fix) in rows {
        let (facts, vm) = with_function(release, command_line, *taken);
        let found = ask(&facts, &vm, see(&facts));
        let [function] = found.functions.as_slice() else { panic!("one function: {found:?}") };
        let posted = &function.posted;
        assert_eq!(posted.answer, *answer, "{release} {command_line}: {}", posted.reason);
        assert!(posted.reason.contains(reason), "{reason}: {}", posted.reason);
        let line = posted.fix.as_ref().map_or("", |fix| fix.line.as_str());
        assert!(line.contains(fix) && line.is_empty() == fix.is_empty(), "{fix}: {line}");
        let devices = found.devices.expect("an answer for all of them");
        assert_eq!(devices.answer, *answer);
        assert!(devices.reason.contains("0000:3b:00.1"), "{}", devices.reason);
    }
}

#[test]
fn a_wake_up_of_the_only_function_s_machine_tells_that_it_is_posted() {
    let (mut facts, mut vm) = with_function("6.12.1", "", 0);
    vm.arguments = vec!["monitor".into()];
    let woken = Observation { woken: 40, ..took(&facts, 0) };
    let answer = |facts: &Facts, vm: &RunningVm, seen: &Observation| {
        ask(facts, vm, Ok(seen.clone())).functions.remove(0).posted.answer
    };
    facts.vms = Fact::value("/proc", vec![vm.clone()]);
    assert_eq!(answer(&facts, &vm, &woken), Answer::Yes);
    assert_eq!(answer(&facts, &vm, &took(&facts, 0)), Answer::Unknown);
    assert_eq!(answer(&facts, &vm, &Observation { woken: 40, ..took(&facts, 1) }), Answer::No);
    facts.vms = Fact::value("/proc", vec![vm.clone(), RunningVm { pid: 8, ..vm.clone() }]);
    assert_eq!(answer(&facts, &vm, &woken), Answer::Unknown, "it may be the other's");
}

#[test]
fn remapping_tables_outweigh_everything_and_intx_is_never_posted() {
    use reading::RemappingEntry;
    let entry = |is_posted| RemappingEntry { source: "3b:00.1".into(), is_posted, vector: 0xE1 };
    for (entries, answer, reason) in [
        (vec![entry(true)], Answer::Yes, "in posted form, to vector e1h"),
        (vec![entry(true), entry(false)], Answer::No, "1 of its 2 remapping entries"),
    ] {
        let (mut facts, vm) = with_function("6.12.1", "", 50);
        facts.remapping_entries = Fact::value("debugfs", entries);
        let found = ask(&facts, &vm, Ok(took(&facts, 0))).functions.remove(0).posted;
        assert_eq!(found.answer, answer, "{}", found.reason);
        assert!(found.reason.contains(reason), "{}", found.reason);
    }
    let (mut facts, vm) = with_function("6.12.1", "", 0);
    let mut rows = facts.interrupts.get().unwrap().clone();
    rows[0].description = "IO-APIC 16-fasteoi vfio-intx(0000:3b:00.1)".into();
    facts.interrupts = Fact::value("/proc/interrupts", rows);
    let found = ask(&facts, &vm, unseen()).functions.remove(0).posted;
    assert_eq!(found.answer, Answer::No);
    assert!(found.reason.contains("INTx"), "{}", found.reason);

    facts.interrupts = Fact::value("/proc/interrupts", vec![]);
    let found = ask(&facts, &vm, unseen()).functions.remove(0).posted;
    assert_eq!(found.answer, Answer::Unknown, "no vector is enabled: {}", found.reason);
}

#[test]
fn a_monitor_that_takes_the_interrupts_itself_is_named_before_the_host() {
    let (facts, mut vm) = with_function("6.12.1", "intremap=nopost", 50);
    let last = vm.arguments.last_mut().expect("a device");
    last.push_str(",x-no-kvm-msix=on");
    let found = ask(&facts, &vm, Ok(took(&facts, 5))).functions.remove(0).posted;
    assert!(found.reason.contains("the monitor takes its interrupts itself"), "{}", found.reason);
    assert_eq!(found.fix.map(|fix| fix.needs), Some(crate::finding::Needs::VmRestart));
}
