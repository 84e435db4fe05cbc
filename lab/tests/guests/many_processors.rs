//! The benchmark where APIC identifiers do not fit into eight bits: firmware and guest use x2APIC
//! mode.

use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;

#[test]
fn the_benchmark_runs_on_more_processors_than_xapic_mode_can_address() {
    for cpus in [256, 300] {
        let mut machine = Machine::new(&Configuration {
            model: CpuModel::named("zen4").expect("a model that comes with the machine"),
            topology: Topology::of_cores(cpus).expect("a topology"),
            memory: 512 << 20,
            seed: 0,
            start: device::Date::default(),
            iommu: None,
            has_pulse: false,
            virtio: Vec::new(),
        })
        .expect("a machine");
        machine
            .load(&Images {
                kernel: Source { name: "benchmark", bytes: image::BENCHMARK },
                initrd: None,
                modules: &[],
                command_line: "output=memory tests=ipi,throughput fence=off samples=10 messages=2",
            })
            .expect("loaded");
        let until = arch::time::Picoseconds::from_milliseconds(1_000);
        let outcome = machine.run(Limits { until, instructions: 2_000_000_000 });
        let bytes = machine.take_console().into_iter().map(|(_, byte)| byte).collect();
        let text = String::from_utf8(bytes).expect("text");
        assert_eq!(outcome, Some(Outcome::DebugExit(0)), "{cpus}: {text}");
        assert!(text.contains(&format!("\"cpus\":{cpus}")), "{text}");
        assert!(text.contains("ipi_all_to_one"), "{text}");
    }
}
