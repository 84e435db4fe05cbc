//! The guests that come with the program, on machines as the lab makes them.

mod composition;
mod erratum;
mod many_processors;
mod reference_hypervisor;

use arch::time::Picoseconds;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;

/// Where a run ends that nothing else ends.
const LIMITS: Limits =
    Limits { until: Picoseconds::from_milliseconds(2_000), instructions: 3_000_000_000 };

fn model(name: &str) -> CpuModel {
    CpuModel::named(name).expect("a model that comes with the machine")
}

/// What an image ended with on so many processors, and what it printed.
fn run(model: CpuModel, cpus: u16, image: &[u8], command_line: &str) -> (Option<Outcome>, String) {
    let mut machine = started(model, cpus, image, command_line);
    let outcome = machine.run(LIMITS);
    let bytes = machine.take_console().into_iter().map(|(_, byte)| byte).collect();
    (outcome, String::from_utf8(bytes).expect("text"))
}

/// A machine that is about to run an image.
fn started(model: CpuModel, cpus: u16, image: &[u8], command_line: &str) -> Machine {
    let topology = Topology::of_cores(cpus).expect("a topology");
    let mut machine =
        Machine::new(&Configuration::of(model, topology, 512 << 20)).expect("a machine");
    machine
        .load(&Images {
            kernel: Source::of("guest", image),
            initrd: None,
            modules: &[],
            command_line,
        })
        .expect("loaded");
    machine
}
