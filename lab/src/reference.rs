//! The reference hypervisor under way, for tests of what looks at a machine.

use arch::time::Picoseconds;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine};
use cpu::CpuModel;

/// In which what is waited for is printed.
const PATIENCE_MS: u64 = 200;

/// Two processors.
pub(crate) fn configuration(model: CpuModel) -> Configuration {
    let topology = Topology::of_cores(2).expect("two processors");
    Configuration::of(model, topology, 128 << 20)
}

/// Two processors with it and a guest of two vCPUs, once `word` is on the console.
pub(crate) fn under_way(model: CpuModel, options: &str, word: &str) -> Machine {
    let mut machine = Machine::new(&configuration(model)).expect("a machine");
    let images = Images {
        kernel: Source::of("hypervisor", image::HYPERVISOR),
        initrd: None,
        modules: &[],
        command_line: options,
    };
    machine.load(&images).expect("an image that comes along");
    machine.state.wiring.recorder.records = Some(Vec::new());
    let mut text = Vec::new();
    for slice in 1..=PATIENCE_MS {
        let until = Picoseconds::from_milliseconds(slice);
        assert_eq!(machine.run(Limits { until, instructions: u64::MAX }), None);
        text.extend(machine.take_console().into_iter().map(|(_, byte)| byte));
        if String::from_utf8_lossy(&text).contains(word) {
            return machine;
        }
    }
    panic!("{word} was not printed: {}", String::from_utf8_lossy(&text));
}
