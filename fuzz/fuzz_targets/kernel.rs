//! A kernel and an initial RAM disk of any bytes: each loader refuses them, or leaves a machine
//! that runs. The first two bytes are how much of the rest is the kernel.
#![no_main]

use arch::time::Picoseconds;
use board::load::{Module, Source};
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine};
use cpu::CpuModel;
use libfuzzer_sys::fuzz_target;

const MEMORY: u64 = 8 << 20;
const INSTRUCTIONS: u64 = 200;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (kernel, other) = rest.split_at(length);
    let model = CpuModel::named("sapphire-rapids").expect("a model");
    let topology = Topology::of_cores(1).expect("a processor");
    let mut machine = Machine::new(&Configuration::of(model, topology, MEMORY)).expect("a machine");
    let other = Source::of("other", other);
    let loaded = machine.load(&Images {
        kernel: Source::of("kernel", kernel),
        initrd: Some(other),
        modules: &[Module { file: other, command_line: "x" }],
        command_line: "console=ttyS0",
    });
    if loaded.is_ok() {
        machine.run(Limits { until: Picoseconds::MAX, instructions: INSTRUCTIONS });
    }
});
