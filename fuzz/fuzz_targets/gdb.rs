//! A debugger's bytes, whatever they are: the stub neither panics nor hangs, and what is debugged
//! is the machine alone. Records of a length and so many bytes are packets, whose sums are made
//! right; a length of 255 and one byte are that byte, as an interrupt is.
#![no_main]

#[path = "../../machine/cpu/tests/native/code.rs"]
mod code;
#[expect(dead_code, reason = "the processor's tests use more of it")]
#[path = "../../machine/cpu/tests/native/start.rs"]
mod start;

use board::debugger::{DebuggedMachine, serve};
use board::topology::Topology;
use board::{Configuration, Machine};
use bus::Random;
use cpu::CpuModel;
use gdbstub::conn::{Connection, ConnectionExt};
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;

const MEMORY: u64 = 2 << 20;
/// Looks for a byte that find none, before the peer is gone.
const PATIENCE: u32 = 2;
/// Bytes that are more than any answer.
const MOST_ANSWERED: usize = 16 << 20;

/// A peer that has said all it will say.
struct Peer {
    bytes: VecDeque<u8>,
    looks: u32,
    answered: usize,
}

impl Peer {
    fn of(mut records: &[u8]) -> Self {
        let mut bytes = VecDeque::new();
        while let [length, rest @ ..] = records {
            let (body, after) = rest.split_at(usize::from(*length).min(rest.len()));
            records = after;
            if *length == u8::MAX {
                bytes.extend(rest.first());
                records = rest.get(1..).unwrap_or_default();
                continue;
            }
            let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            bytes.push_back(b'$');
            bytes.extend(body);
            bytes.extend(format!("#{sum:02x}+").bytes());
        }
        Self { bytes, looks: 0, answered: 0 }
    }
}

impl Connection for Peer {
    type Error = String;

    fn write(&mut self, _: u8) -> Result<(), String> {
        self.answered += 1;
        assert!(self.answered < MOST_ANSWERED, "an answer without an end");
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl ConnectionExt for Peer {
    fn read(&mut self) -> Result<u8, String> {
        self.bytes.pop_front().ok_or_else(|| "gone".into())
    }

    fn peek(&mut self) -> Result<Option<u8>, String> {
        self.looks += u32::from(self.bytes.is_empty());
        if self.looks > PATIENCE { Err("gone".into()) } else { Ok(self.bytes.front().copied()) }
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
    let mut debugged = DebuggedMachine::new(&mut machine, |_| 0);
    // Errors are answers, too.
    let _ = serve(&mut debugged, Peer::of(bytes));
});
