//! A client of a machine's service, whatever it says: the service neither panics nor hangs. The
//! bytes are headers of messages between line feeds; what follows each is its payload as well.
#![no_main]

#[path = "../../machine/cpu/tests/native/code.rs"]
mod code;
#[expect(dead_code, reason = "the processor's tests use more of it")]
#[path = "../../machine/cpu/tests/native/start.rs"]
mod start;

use board::inspection::Sheet;
use board::topology::Topology;
use board::{Configuration, Machine};
use bus::Random;
use cpu::CpuModel;
use libfuzzer_sys::fuzz_target;
use service::message::Message;
use service::{Description, Host, Service};

const MEMORY: u64 = 2 << 20;
/// Messages that one input has at most.
const MOST_MESSAGES: usize = 16;

/// A host without files, whose client leaves at the second look.
struct Nobody(bool);

impl Host for Nobody {
    fn is_over(&mut self) -> bool {
        std::mem::replace(&mut self.0, true)
    }

    fn save(&mut self, _: &Machine, file: &str) -> Result<String, String> {
        Err(file.to_owned())
    }

    fn show(&self, sheets: &[Sheet]) -> serde_json::Value {
        sheets.len().into()
    }
}

fn machine() -> Machine {
    let model = CpuModel::named("zen4").expect("a model");
    let topology = Topology::of_cores(2).expect("two processors");
    let mut machine = Machine::new(&Configuration::of(model, topology, MEMORY)).expect("a machine");
    let mut random = Random(5);
    let mut memory = bus::GuestMemory::new(start::RAM);
    start::set_up(&mut machine.state.cpus[0], &mut memory, &mut random);
    code::write(&mut memory, &mut random, &[]);
    let length = memory.ram.len().min(machine.memory.ram.len());
    machine.memory.ram[..length].copy_from_slice(&memory.ram[..length]);
    machine
}

fuzz_target!(|bytes: &[u8]| {
    let mut machine = machine();
    let mut service = Service::new(&mut machine, Description::default());
    let mut rest = bytes;
    for _ in 0..MOST_MESSAGES {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
        let (header, payload) = (rest[..end].to_vec(), rest[end + 1..].to_vec());
        rest = &rest[end + 1..];
        let (reply, _) = service.answer(&Message { header, payload }, &mut Nobody(false));
        assert!(reply.header.starts_with(b"{") || reply.header.starts_with(b"["));
    }
});
