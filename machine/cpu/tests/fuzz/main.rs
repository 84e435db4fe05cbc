//! Random code in random modes: whatever a guest does, the processor neither panics nor runs
//! without bound.
//!
//! A round sets up a mode, tables that are mostly sound, and code of random bytes or of random
//! valid instructions, and runs it with interrupts arriving. Each round follows from its seed,
//! which a failure names. `AVICENNA_FUZZ_ROUNDS` sets how many there are.

mod blocks;
mod code;
mod start;

use arch::address::SystemPhysical;
use arch::identity::{ApicId, CpuIndex};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Random, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Bus, CodeCache, Cpu, CpuModel, RunEnd};
use interrupt::LocalApic;
use interrupt::local_apic::{Acceptance, LocalApicModel};
use start::{Mode, RAM, set_up};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const ROUNDS: u64 = 6000;
/// Runs of one round, and instructions and time of each.
const RUNS: usize = 8;
const INSTRUCTIONS: u64 = 40;
const TIME: Picoseconds = Picoseconds(1_000_000);
/// The longest that a round may take before it counts as endless.
const PATIENCE: Duration = Duration::from_secs(60);

/// Devices that answer anything.
struct Anything(Random);

impl Platform for Anything {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8) -> u64 {
        self.0.next()
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        self.0.next() as u32
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8, _: u32) {}
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        self.0.next() as u8
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

struct Bench {
    fresh: Vec<Cpu>,
    memory: GuestMemory,
    cache: CodeCache,
}

impl Bench {
    fn new() -> Self {
        let processor = |name| {
            let model = CpuModel::named(name).expect("model");
            let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
            Cpu::new(CpuIndex(0), model, apic, 1)
        };
        let mut memory = GuestMemory::new(RAM);
        let mut random = Random(0);
        memory.ram.chunks_exact_mut(8).for_each(|chunk| {
            chunk.copy_from_slice(&random.next().to_le_bytes());
        });
        Self {
            fresh: CpuModel::names().map(processor).collect(),
            memory,
            cache: CodeCache::new(InstructionCosts([1000; Cost::COUNT]), Dialect::Amd),
        }
    }

    fn round(&mut self, seed: u64) {
        let mut random = Random(seed);
        let mode = random.pick(Mode::ALL);
        let model = random.below(self.fresh.len() as u64) as usize;
        let mut cpu = self.fresh[model].clone();
        set_up(&mut cpu, &mut self.memory, mode, &mut random);
        code::write(&mut self.memory, mode.code_bits(), &mut random);
        let mut platform = Anything(Random(random.next()));
        for _ in 0..RUNS {
            let mut bus = Bus { memory: &mut self.memory, platform: &mut platform };
            let until = Picoseconds(cpu.clock.now().0 + TIME.0);
            let end = cpu.run(&mut self.cache, &mut bus, until, INSTRUCTIONS);
            assert_eq!(cpu.registers.gpr[16], 0, "the register that reads zero");
            assert!(cpu.registers.flags.has(2), "bit 1 of RFLAGS reads one");
            match end {
                RunEnd::Shutdown => break,
                RunEnd::Idle => {
                    let at = Picoseconds(cpu.clock.now().0 + 1_000_000);
                    cpu.idle_until(&mut bus, at);
                    cpu.accepted(random.pick(&[Acceptance::Nmi, Acceptance::ExtInt]));
                }
                _ if random.one_in(4) => {
                    cpu.accepted(random.pick(&[
                        Acceptance::Nmi,
                        Acceptance::ExtInt,
                        Acceptance::Queued,
                        Acceptance::Init,
                        Acceptance::Startup(0x10),
                        Acceptance::Smi,
                    ]));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn random_code_in_every_mode_neither_panics_nor_hangs() {
    let rounds = match std::env::var("AVICENNA_FUZZ_ROUNDS") {
        Ok(text) => text.parse().expect("a number of rounds"),
        Err(_) => ROUNDS,
    };
    let first = match std::env::var("AVICENNA_FUZZ_SEED") {
        Ok(text) => text.parse().expect("a seed"),
        Err(_) => 0,
    };
    let seed = Arc::new(AtomicU64::new(first));
    let (done, news) = mpsc::channel();
    let worker = std::thread::spawn({
        let seed = seed.clone();
        move || {
            let mut bench = Bench::new();
            for round in first..first + rounds {
                seed.store(round, Ordering::Relaxed);
                bench.round(round);
            }
            let _ = done.send(());
        }
    });
    let mut before = first;
    while let Err(mpsc::RecvTimeoutError::Timeout) = news.recv_timeout(PATIENCE) {
        let now = seed.load(Ordering::Relaxed);
        assert!(now != before, "the round with seed {now} does not end");
        before = now;
    }
    let seed = seed.load(Ordering::Relaxed);
    assert!(worker.join().is_ok(), "the round with seed {seed} panicked");
}
