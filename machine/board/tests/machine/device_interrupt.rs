//! A function behind the IOMMU: where its writes and its interrupts go.

use crate::program::{MAIN, assemble, configuration, image};
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::{Configuration, Images, IommuModel, Limits, Machine, server_iommu};
use bus::{Platform, Visit};
use cpu::CpuModel;
use device::map;
use device::pulse::{REGISTERS_BAR, TABLE_BAR, register};
use iommu::Behaviour;
use trace::Event;

mod amd_vi;
mod vt_d;

const TARGET: u64 = 0x25_0000;
const PULSES: u32 = 5;

/// Processors that sleep for ever, and a function that interrupts.
struct Bench(Machine, Vec<Picoseconds>);

impl Bench {
    /// The server of a model, whose IOMMU nobody has set up yet.
    fn new(model: &str) -> Self {
        Self::with(model, Behaviour::default())
    }

    fn with(model: &str, behaviour: Behaviour) -> Self {
        let model = CpuModel::named(model).expect("the model exists");
        let iommu = server_iommu(&model).map(|iommu| IommuModel { behaviour, ..iommu });
        let configuration = Configuration {
            model,
            iommu,
            functions: vec![device::pulse::Request.into()],
            ..configuration()
        };
        let mut machine = Machine::new(&configuration).expect("the machine is possible");
        let sleeper = assemble(MAIN, &|a| {
            a.cli()?;
            a.hlt()
        });
        let program = image(&[(MAIN, sleeper)]);
        let kernel = board::load::Source::of("sleeper", &program);
        let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
        machine.load(&images).expect("the program loads");
        machine.state.wiring.recorder.records = Some(Vec::new());
        Self(machine, Vec::new())
    }

    fn store(&mut self, at: u64, value: u64) {
        let at = SystemPhysical(at);
        self.0.memory.write(at, &value.to_le_bytes()).expect("the machine has so much memory");
    }

    fn store_wide(&mut self, at: u64, value: u128) {
        self.store(at, value as u64);
        self.store(at + 8, (value >> 64) as u64);
    }

    fn load(&self, at: u64) -> u64 {
        self.0.memory.read_u64(SystemPhysical(at)).expect("the machine has so much memory")
    }

    fn write(&mut self, address: u64, size: u8, value: u64) {
        let visit = Visit { cpu: CpuIndex(0), at: Picoseconds::ZERO };
        let wiring = &mut self.0.state.wiring;
        wiring.write(&mut self.0.memory, visit, SystemPhysical(address), size, value);
    }

    fn read(&mut self, address: u64, size: u8) -> u64 {
        let visit = Visit { cpu: CpuIndex(0), at: Picoseconds::ZERO };
        let wiring = &mut self.0.state.wiring;
        wiring.read(&mut self.0.memory, visit, SystemPhysical(address), size)
    }

    fn region(&self, index: usize) -> u64 {
        let function = self.0.state.wiring.chipset.pci.function(map::PULSE);
        let mapped = function.and_then(|function| function.configuration.mapped(index));
        mapped.expect("the region is where firmware put it")
    }

    /// Lets the function send its pulses, with a message to this address; gives what happened
    /// meanwhile.
    fn pulses(&mut self, message: u64) -> Vec<Event> {
        let configuration = map::PULSE.in_window(map::ECAM).0;
        self.write(configuration + 4, 2, 6);
        self.write(configuration + 0x42, 2, 0x8000);
        let table = self.region(TABLE_BAR);
        for (offset, value) in [(0, message), (4, 0), (8, 0), (12, 0)] {
            self.write(table + offset, 4, value);
        }
        let registers = self.region(REGISTERS_BAR);
        for (offset, value) in [
            (register::PERIOD_NS, 1_000),
            (register::COUNT, PULSES.into()),
            (register::ADDRESS, TARGET),
            (register::CONTROL, 1),
        ] {
            self.write(registers + offset, 4, value);
        }
        let until = Picoseconds::from_milliseconds(1);
        self.0.run(Limits { until, instructions: u64::MAX });
        let records = self.0.state.wiring.recorder.records.take().expect("they are collected");
        self.1 = records.iter().map(|record| record.at).collect();
        records.into_iter().map(|record| record.event).collect()
    }
}

fn count(events: &[Event], is: impl Fn(&Event) -> bool) -> u32 {
    events.iter().filter(|event| is(event)).count() as u32
}

fn posts(events: &[Event], place: u64) -> u32 {
    let place = SystemPhysical(place);
    count(events, |event| matches!(event, Event::Posted { place: at, .. } if *at == place))
}
