use super::*;
use crate::finding::Position;
use crate::vm::{
    Accelerator, Confidential, Exposure, Guest, Irqchip, Machine, MachineFamily, Pit, Setting,
    VmConfiguration, Vmm,
};
use reading::Kernel;

fn kvm_pc() -> VmConfiguration {
    let mut vm = VmConfiguration::defaults(Vmm::Qemu, "test", Position::default());
    vm.accelerator = Setting::by_default(Accelerator::Kvm, "test");
    vm.guest = Setting::by_default(Guest::Unknown, "test");
    vm
}

fn on(value: bool) -> Option<Setting<bool>> {
    Some(Setting::written(value, Position::default()))
}

/// Reasons that last in the running guest.
fn lasting(vendor: Vendor, kernel: &str, vm: &VmConfiguration) -> Vec<&'static str> {
    predict(vendor, Kernel::parse(kernel, None).as_ref(), None, vm)
        .iter()
        .filter(|found| found.is_lasting())
        .map(|found| found.reason.name())
        .collect()
}

#[test]
fn lasting_inhibits_follow_from_configuration_vendor_and_kernel() {
    type Change = fn(&mut VmConfiguration);
    let set_pit: fn(&mut VmConfiguration, Pit) =
        |vm, pit| vm.pit = Setting::by_default(pit, "test");
    let rows: [(&str, Vendor, &str, Change, &[&str]); 24] = [
        ("default", Vendor::Amd, "6.18", |_| (), &["PIT_REINJ"]),
        ("default", Vendor::Intel, "6.18", |_| (), &[]),
        ("discard", Vendor::Amd, "6.18", |vm| vm.pit.value = Pit::KernelDiscard, &[]),
        ("split", Vendor::Amd, "6.18", |vm| vm.pit.value = Pit::UserSpace, &[]),
        ("no pit", Vendor::Amd, "6.18", |vm| vm.pit.value = Pit::Absent, &[]),
        ("unknown pit", Vendor::Amd, "6.18", |vm| vm.pit.value = Pit::Unknown, &[]),
        (
            "irqchip off",
            Vendor::Intel,
            "6.18",
            |vm| vm.irqchip.value = Irqchip::UserSpace,
            &["ABSENT"],
        ),
        (
            "irqchip off",
            Vendor::Amd,
            "5.10",
            |vm| vm.irqchip.value = Irqchip::UserSpace,
            &["ABSENT"],
        ),
        ("tcg", Vendor::Amd, "6.18", |vm| vm.accelerator.value = Accelerator::Tcg, &[]),
        ("x2apic, old kernel", Vendor::Amd, "5.15", |vm| vm.pit.value = Pit::Absent, &["X2APIC"]),
        ("x2apic, old kernel", Vendor::Intel, "5.15", |vm| vm.pit.value = Pit::Absent, &[]),
        (
            "x2apic hidden, old kernel",
            Vendor::Amd,
            "5.15",
            |vm| {
                vm.pit.value = Pit::Absent;
                vm.x2apic.value = Exposure::Hidden;
            },
            &[],
        ),
        (
            "svm offered, 5.18",
            Vendor::Amd,
            "5.18",
            |vm| {
                vm.nested.value = Exposure::Exposed;
                vm.x2apic.value = Exposure::Hidden;
            },
            &["PIT_REINJ", "NESTED"],
        ),
        (
            "svm offered, 5.19+",
            Vendor::Amd,
            "6.0",
            |vm| vm.nested.value = Exposure::Exposed,
            &["PIT_REINJ"],
        ),
        (
            "synic and stimer",
            Vendor::Intel,
            "6.1",
            |vm| {
                vm.hyperv.synic = on(true);
                vm.hyperv.stimer = on(true);
            },
            &["HYPERV"],
        ),
        (
            "synic and stimer with avic",
            Vendor::Intel,
            "6.1",
            |vm| {
                vm.hyperv.synic = on(true);
                vm.hyperv.stimer = on(true);
                vm.hyperv.avic = on(true);
            },
            &[],
        ),
        (
            "synic with avic before 5.15",
            Vendor::Intel,
            "5.14",
            |vm| {
                vm.hyperv.synic = on(true);
                vm.hyperv.avic = on(true);
            },
            &["HYPERV"],
        ),
        (
            "synic and stimer for Linux",
            Vendor::Intel,
            "6.1",
            |vm| {
                vm.hyperv.synic = on(true);
                vm.hyperv.stimer = on(true);
                vm.guest.value = Guest::Linux;
            },
            &[],
        ),
        ("passthrough", Vendor::Intel, "6.1", |vm| vm.hyperv.passthrough = on(true), &[]),
        (
            "SEV",
            Vendor::Amd,
            "6.1",
            |vm| vm.confidential = Some(Setting::by_default(Confidential::Sev, "test")),
            &["PIT_REINJ", "SEV"],
        ),
        (
            "TDX",
            Vendor::Intel,
            "6.16",
            |vm| vm.confidential = Some(Setting::by_default(Confidential::Tdx, "test")),
            &[],
        ),
        (
            "600 vCPUs, 6.18",
            Vendor::Amd,
            "6.18",
            |vm| {
                vm.pit.value = Pit::UserSpace;
                vm.max_apic_id.value = 599;
            },
            &["PHYSICAL_ID_TOO_BIG"],
        ),
        (
            "600 vCPUs, 6.19",
            Vendor::Amd,
            "6.19",
            |vm| {
                vm.pit.value = Pit::UserSpace;
                vm.max_apic_id.value = 599;
            },
            &[],
        ),
        (
            "not x86",
            Vendor::Amd,
            "6.18",
            |vm| {
                let family = MachineFamily::Foreign;
                let name = "virt".to_owned();
                vm.machine = Setting::by_default(Machine { family, version: None, name }, "test");
            },
            &[],
        ),
    ];
    for (case, vendor, kernel, change, expected) in rows {
        let mut vm = kvm_pc();
        set_pit(&mut vm, Pit::KernelReinject);
        change(&mut vm);
        assert_eq!(lasting(vendor, kernel, &vm), expected, "{case} on {kernel}, {vendor:?}");
    }
}

#[test]
fn a_discarding_pit_inhibits_only_at_creation() {
    let mut vm = kvm_pc();
    vm.pit.value = Pit::KernelDiscard;
    let found = predict(Vendor::Amd, Kernel::parse("6.1", None).as_ref(), None, &vm);
    let of = |reason| found.iter().find(|f| f.reason == reason).map(|f| f.duration);
    assert_eq!(of(Reason::PitReinject), Some(Duration::Creation));
    assert_eq!(of(Reason::Absent), Some(Duration::Creation));
    assert_eq!(of(Reason::InterruptWindow), Some(Duration::Boot));
}

#[test]
fn unresolved_settings_are_possible_and_never_silent() {
    let mut vm = kvm_pc();
    vm.pit = Setting::unknown(Pit::Unknown, "machine type in a variable");
    vm.irqchip = Setting::unknown(Irqchip::Unknown, "machine type in a variable");
    let found = predict(Vendor::Amd, None, None, &vm);
    for reason in [Reason::PitReinject, Reason::Absent] {
        let one = found.iter().find(|f| f.reason == reason).unwrap();
        assert_eq!((one.certainty, one.duration), (Certainty::Possible, Duration::WholeLife));
    }
}
