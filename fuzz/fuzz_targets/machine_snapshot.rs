//! A snapshot of a machine with bytes of its state replaced: it is refused, or runs without a panic
//! and without a step out of its memory. Each record is an offset of four bytes, a length and so
//! many bytes; the checksums are made right, or nothing else would be found.
#![no_main]

#[path = "../../machine/cpu/tests/native/code.rs"]
mod code;
#[expect(dead_code, reason = "the processor's tests use more of it")]
#[path = "../../machine/cpu/tests/native/start.rs"]
mod start;

use arch::time::Picoseconds;
use board::snapshot::checksum;
use board::topology::Topology;
use board::{Configuration, Limits, Machine};
use bus::Random;
use cpu::CpuModel;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

const MEMORY: u64 = 4 << 20;
/// Instructions before the snapshot, and after it at most.
const BEFORE: u64 = 2_000;
const AFTER: u64 = 20_000;
/// Of the file's head, and where in it the sizes and hashes are.
const HEAD: usize = 56;
const STATE_SIZE: usize = 32;
const STATE_HASH: usize = 40;
const HEAD_HASH: usize = 48;

fn configuration() -> Configuration {
    let model = CpuModel::named("zen4").expect("a model");
    Configuration::of(model, Topology::of_cores(2).expect("two processors"), MEMORY)
}

fn limits(instructions: u64) -> Limits {
    Limits { until: Picoseconds::MAX, instructions }
}

/// A machine that has run random code for a while, so that its translations are filled in.
fn snapshot() -> Vec<u8> {
    let configuration = configuration();
    let mut machine = Machine::new(&configuration).expect("a machine");
    let mut random = Random(3);
    let mut memory = bus::GuestMemory::new(start::RAM);
    start::set_up(&mut machine.state.cpus[0], &mut memory, &mut random);
    code::write(&mut memory, &mut random, &[]);
    machine.memory.ram[..memory.ram.len()].copy_from_slice(&memory.ram);
    machine.run(limits(BEFORE));
    let mut bytes = Vec::new();
    machine.save("fuzz", &mut bytes, configuration.digest()).expect("a snapshot");
    bytes
}

fn replace(file: &mut [u8], mut records: &[u8]) {
    let size = file[STATE_SIZE..].first_chunk().map_or(0, |size| u64::from_le_bytes(*size));
    let Some(state) = file.get_mut(HEAD..HEAD + size as usize) else { return };
    while let Some((offset, [length, rest @ ..])) = records.split_first_chunk() {
        let (bytes, after) = rest.split_at(usize::from(*length).min(rest.len()));
        let at = u32::from_le_bytes(*offset) as usize % state.len();
        state.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        records = after;
    }
    let hash = checksum(state);
    file[STATE_HASH..HEAD_HASH].copy_from_slice(&hash.to_le_bytes());
    let hash = checksum(&file[..HEAD_HASH]);
    file[HEAD_HASH..HEAD].copy_from_slice(&hash.to_le_bytes());
}

fuzz_target!(|bytes: &[u8]| {
    static SNAPSHOT: OnceLock<Vec<u8>> = OnceLock::new();
    let mut file = SNAPSHOT.get_or_init(snapshot).clone();
    replace(&mut file, bytes);
    let Ok(mut machine) = Machine::restore(&configuration(), "fuzz", file.as_slice()) else {
        return;
    };
    // Where the host has none the interpreter runs.
    let _ = machine.translate(0);
    machine.run(limits(machine.instructions().saturating_add(AFTER)));
});
