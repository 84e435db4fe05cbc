//! Erratum 1235 in running software: the reference hypervisor's guest loses wake-ups on a part that
//! has it, unless IsRunning is never set, which is the work-around that kernels use.

use arch::time::Picoseconds;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;

const LIMIT: Picoseconds = Picoseconds::from_milliseconds(2_000);

/// Runs IPIs to halted targets under AVIC; what the hypervisor ended with, and its records.
fn run(variant: &str, options: &str) -> (Option<Outcome>, String) {
    let mut model = CpuModel::named("zen2").expect("a model that comes with the machine");
    model.choose(variant).expect("a variant");
    let mut machine = Machine::new(&Configuration {
        model,
        topology: Topology::of_cores(2).expect("two cores"),
        memory: 256 << 20,
        seed: 0,
        start: device::Date::default(),
        iommu: None,
        has_pulse: false,
        virtio: Vec::new(),
    })
    .expect("a machine");
    let command_line = format!(
        "avic=on output=memory guest.output=memory guest.apic=xapic guest.tests=ipi \
         guest.targets=halted guest.gap=0 guest.samples=100 guest.patience=4000000 \
         {options}"
    );
    machine
        .load(&Images {
            kernel: Source { name: "hypervisor", bytes: image::HYPERVISOR },
            initrd: None,
            modules: &[],
            command_line: &command_line,
        })
        .expect("loaded");
    let outcome = machine.run(Limits { until: LIMIT, instructions: u64::MAX });
    let bytes = machine.take_console().into_iter().map(|(_, byte)| byte).collect();
    (outcome, String::from_utf8(bytes).expect("text"))
}

#[test]
fn a_part_with_the_erratum_loses_wake_ups_of_a_hypervisor_without_the_work_around() {
    let (outcome, text) = run("erratum-1235=on", "");
    assert!(text.contains("\"record\":\"lost\""), "{text}");
    assert_ne!(outcome, Some(Outcome::DebugExit(0)), "{text}");
}

#[test]
fn nothing_is_lost_with_the_work_around_or_without_the_erratum() {
    for (variant, options) in [
        ("erratum-1235=on", "workaround=1235"),
        ("erratum-1235=off", ""),
        ("erratum-1235=off", "workaround=1235"),
    ] {
        let (outcome, text) = run(variant, options);
        assert_eq!(outcome, Some(Outcome::DebugExit(0)), "{variant} {options}: {text}");
        assert!(!text.contains("\"record\":\"lost\""), "{variant} {options}: {text}");
        assert!(text.contains("ipi_round_trip"), "{variant} {options}: {text}");
    }
}
