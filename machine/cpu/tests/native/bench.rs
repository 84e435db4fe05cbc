//! A processor twice, interpreted and translated, and what must be the same. A fuzz target runs the
//! same rounds with code of its own.

use crate::{code, start};
use arch::address::SystemPhysical;
use arch::identity::{ApicId, CpuIndex};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Random, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Bus, CodeCache, Cpu, CpuModel, RunEnd};
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;
use start::RAM;

/// Picoseconds of a round.
const TIME: u64 = 400_000;

/// There are no devices.
struct Nothing;

impl Platform for Nothing {
    fn read(&mut self, _: &mut GuestMemory, visit: Visit, at: SystemPhysical, _: u8) -> u64 {
        visit.at.0 ^ at.0
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, visit: Visit, _: u16, _: u8) -> u32 {
        visit.at.0 as u32
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8, _: u32) {}
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

/// Each class costs something else.
fn costs() -> InstructionCosts {
    let mut costs = [0; Cost::COUNT];
    costs.iter_mut().zip(1..).for_each(|(cost, n)| *cost = 500 + 37 * n);
    InstructionCosts(costs)
}

pub fn run(
    cpu: &mut Cpu,
    cache: &mut CodeCache,
    memory: &mut GuestMemory,
    until: Picoseconds,
) -> bool {
    loop {
        let mut bus = Bus { memory, platform: &mut Nothing };
        match cpu.run(cache, &mut bus, until, u64::MAX) {
            RunEnd::Instructions | RunEnd::Yield => {}
            RunEnd::Time => return true,
            RunEnd::Point | RunEnd::Idle | RunEnd::Shutdown => return false,
        }
    }
}

/// What must be equal.
pub fn summary(cpu: &Cpu) -> impl PartialEq + std::fmt::Debug {
    let r = &cpu.registers;
    let registers: Vec<String> = r.gpr[..16].iter().map(|value| format!("{value:x}")).collect();
    let place = format!("ip {:x} flags {:x} cr2 {:x}", r.ip, r.flags.bits(), cpu.control.cr2);
    (
        registers,
        place,
        r.cpl(),
        cpu.clock.now(),
        cpu.clock.instructions(),
        cpu.pending.activity(),
        (r.xmm, r.ymm_high),
    )
}

pub struct Bench {
    pub fresh: Cpu,
    pub memory: GuestMemory,
    pub other: GuestMemory,
    pub interpreter: CodeCache,
    pub translator: CodeCache,
}

impl Bench {
    pub fn new(model: &str, dialect: Dialect) -> Option<Self> {
        let model = CpuModel::named(model).expect("model");
        let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
        let mut translator = CodeCache::new(costs(), dialect);
        if let Err(absence) = translator.translate(0) {
            eprintln!("not tested: {absence}");
            return None;
        }
        Some(Self {
            fresh: Cpu::new(CpuIndex(0), model, apic, 1),
            memory: GuestMemory::new(RAM),
            other: GuestMemory::new(RAM),
            interpreter: CodeCache::new(costs(), dialect),
            translator,
        })
    }

    /// Answers how many instructions have completed.
    pub fn round(&mut self, seed: u64) -> u64 {
        self.round_of(seed, 0, &[])
    }

    /// As `round`, with code that begins with the bytes `given`, in a mode of these bits.
    pub fn round_of(&mut self, seed: u64, mode: u8, given: &[u8]) -> u64 {
        self.round_from(seed, |cpu, memory, random| {
            start::set_up(cpu, memory, random);
            start::vary(cpu, mode);
            code::write(memory, random, given);
        })
    }

    /// As `round`, from the state and the code that `prepare` makes.
    pub fn round_from(
        &mut self,
        seed: u64,
        prepare: impl FnOnce(&mut Cpu, &mut GuestMemory, &mut Random),
    ) -> u64 {
        let mut random = Random(seed);
        let mut cpu = self.fresh.clone();
        prepare(&mut cpu, &mut self.memory, &mut random);
        self.other.ram.copy_from_slice(&self.memory.ram);
        self.memory.watched_lines.fill(0);
        self.other.watched_lines.fill(0);
        let mut interpreted = cpu.clone();
        self.interpreter.clear();
        // Emptying the arena is not what is tested here, but each round rewrites code.
        self.translator.clear();
        let end = Picoseconds(cpu.clock.now().0 + TIME);
        let mut goes_on = true;
        while goes_on && cpu.clock.now() < end {
            // Devices see the time at which their block began, so both are cut at the same times.
            let cut = if random.one_in(2) { TIME } else { random.below(TIME / 4) };
            let until = Picoseconds(cpu.clock.now().0 + cut).min(end);
            run(&mut interpreted, &mut self.interpreter, &mut self.other, until);
            goes_on = run(&mut cpu, &mut self.translator, &mut self.memory, until);
        }
        assert_eq!(summary(&interpreted), summary(&cpu), "interpreter, translated: seed {seed}");
        assert!(self.other.ram == self.memory.ram, "memory, seed {seed}");
        cpu.clock.instructions()
    }
}
