//! Where blocks begin and end changes nothing: random code run at once ends in the same state, at
//! the same time, as when it is run an instruction at a time.

use crate::start::{Mode, RAM, set_up};
use crate::{Anything, Bench, Random, code};
use arch::time::Picoseconds;
use bus::GuestMemory;
use cpu::{Bus, CodeCache, Cpu, RunEnd};

const ROUNDS: u64 = 6000;
const INSTRUCTIONS: u64 = 200;

/// Runs until so many instructions are done, `step` at a time at most.
fn run(cpu: &mut Cpu, cache: &mut CodeCache, memory: &mut GuestMemory, step: u64) {
    let mut platform = Anything(Random(7));
    let last = cpu.clock.instructions() + INSTRUCTIONS;
    // Faults that fault again complete nothing.
    let until = Picoseconds(cpu.clock.now().0 + 1_000_000);
    while cpu.clock.instructions() < last {
        let mut bus = Bus { memory, platform: &mut platform };
        let count = step.min(last - cpu.clock.instructions());
        match cpu.run(cache, &mut bus, until, count) {
            RunEnd::Instructions | RunEnd::Yield => {}
            RunEnd::Time | RunEnd::Point | RunEnd::Idle | RunEnd::Shutdown => break,
        }
    }
}

fn summary(cpu: &Cpu) -> impl PartialEq + std::fmt::Debug {
    let registers: Vec<u64> = cpu.registers.gpr[..16].to_vec();
    let place = (
        cpu.registers.ip,
        cpu.registers.flags.bits(),
        cpu.registers.cpl(),
        cpu.control.cr2,
        cpu.debug.dr6(),
    );
    (
        registers,
        place,
        cpu.clock.now(),
        cpu.clock.instructions(),
        cpu.pending.activity(),
        (cpu.registers.xmm, cpu.registers.ymm_high),
    )
}

#[test]
fn state_and_time_do_not_depend_on_where_blocks_begin_and_end() {
    let mut bench = Bench::new();
    let mut other = GuestMemory::new(RAM);
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let mode = random.pick(Mode::ALL);
        let model = random.below(bench.fresh.len() as u64) as usize;
        let mut whole = bench.fresh[model].clone();
        set_up(&mut whole, &mut bench.memory, mode, &mut random);
        code::write(&mut bench.memory, mode.code_bits(), &mut random);
        let mut stepped = whole.clone();
        other.ram.copy_from_slice(&bench.memory.ram);
        bench.cache.clear();
        run(&mut whole, &mut bench.cache, &mut bench.memory, INSTRUCTIONS);
        bench.cache.clear();
        run(&mut stepped, &mut bench.cache, &mut other, 1);
        bench.cache.clear();
        assert_eq!(summary(&whole), summary(&stepped), "seed {seed}, {mode:?}");
        assert!(bench.memory.ram == other.ram, "memory, seed {seed}, {mode:?}");
    }
}
