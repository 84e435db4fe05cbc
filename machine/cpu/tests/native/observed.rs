//! A debugger looks at places of code and memory: translated code does what it does unseen, and all
//! that happens there is seen.

use crate::bench::{Bench, run, summary};
use crate::{code, start};
use arch::address::Linear;
use arch::time::Picoseconds;
use bus::{GuestMemory, Random};
use cpu::{CodeCache, Cpu, Interest, Range};

/// Picoseconds of a round.
const TIME: u64 = 400_000;
const ROUNDS: u64 = 600;

/// What was seen: of memory, and of code.
type Seen = (bool, bool);

/// Runs to the end in turns of these lengths.
fn turns(cpu: &mut Cpu, cache: &mut CodeCache, memory: &mut GuestMemory, cuts: &[u64]) -> Seen {
    let mut seen = (false, false);
    let end = Picoseconds(cpu.clock.now().0 + TIME);
    for cut in cuts.iter().cycle() {
        let until = Picoseconds(cpu.clock.now().0 + cut).min(end);
        let goes_on = run(cpu, cache, memory, until);
        seen.0 |= cpu.observation.take().is_some();
        seen.1 |= cpu.observation.take_reached();
        if !goes_on || cpu.clock.now() >= end {
            break;
        }
    }
    seen
}

/// Where instructions begin, up to the end.
fn places(cpu: &mut Cpu, cache: &mut CodeCache, memory: &mut GuestMemory) -> Vec<u64> {
    let end = cpu.clock.now().0 + TIME;
    let mut places = vec![cpu.registers.ip];
    while cpu.clock.now().0 < end {
        let until = Picoseconds(cpu.clock.now().0 + 1);
        if !run(cpu, cache, memory, until) {
            break;
        }
        places.push(cpu.registers.ip);
    }
    places
}

#[test]
fn code_that_is_observed_does_the_same_and_nothing_is_missed() {
    let Some(mut bench) = Bench::new("zen4", cpu::decode::Dialect::Amd) else { return };
    // Rounds in which memory, and code, was seen and not seen.
    let mut counts = [[0; 2]; 2];
    for seed in 0..ROUNDS {
        let mut random = Random(seed ^ 0x5EED);
        let mut fresh = bench.fresh.clone();
        start::set_up(&mut fresh, &mut bench.memory, &mut random);
        code::write(&mut bench.memory, &mut random, &[]);
        let ram = bench.memory.ram.clone();
        let cuts: Vec<u64> =
            (0..4).map(|_| if random.one_in(2) { TIME } else { random.below(TIME) + 1 }).collect();
        let mut round = |cpu: &mut Cpu, cache: &mut CodeCache| {
            bench.memory.ram.copy_from_slice(&ram);
            bench.memory.watched_lines.fill(0);
            cache.clear();
            let seen = turns(cpu, cache, &mut bench.memory, &cuts);
            (seen, bench.memory.ram.clone())
        };
        let mut plain = fresh.clone();
        let (_, after) = round(&mut plain, &mut bench.translator);

        let mut stepped = fresh.clone();
        let mut memory = GuestMemory::new(start::RAM);
        memory.ram.copy_from_slice(&ram);
        bench.interpreter.clear();
        let places = places(&mut stepped, &mut bench.interpreter, &mut memory);
        let point = match random.below(3) {
            0 => random.pick(&places) + 1,
            _ => random.pick(&places),
        };
        let register = random.pick(code::POINTERS);
        let pointer = fresh.registers.gpr[usize::from(register)];
        let range = Range {
            start: Linear(pointer.wrapping_sub(random.below(0x100))),
            length: 1 + random.below(0x200),
            reads: random.one_in(2),
            writes: true,
        };
        let mut watched = fresh.clone();
        watched.observe(vec![range], &[Linear(point)]);
        let (seen, ram_after) = round(&mut watched, &mut bench.translator);
        let mut slowly = fresh.clone();
        slowly.observe(vec![range], &[Linear(point)]);
        let (seen_slowly, _) = round(&mut slowly, &mut bench.interpreter);

        assert_eq!(summary(&watched), summary(&plain), "seed {seed}");
        assert!(ram_after == after, "memory, seed {seed}");
        assert_eq!(seen, seen_slowly, "translated, interpreted: seed {seed}");
        // The last place may be where the round ended.
        let before_last = &places[..places.len() - 1];
        if before_last.contains(&point) {
            assert!(seen.1, "{point:#x}, seed {seed}");
        }
        assert!(!seen.1 || places.contains(&point), "{point:#x}, seed {seed}");
        watched.observe(Vec::new(), &[]);
        let held = |cpu: &Cpu| cpu.translation.tlb.held().collect::<Vec<_>>();
        assert_eq!(held(&watched), held(&plain), "what the TLB knows, seed {seed}");
        counts[0][usize::from(seen.0)] += 1;
        counts[1][usize::from(seen.1)] += 1;
    }
    assert!(counts.iter().flatten().all(|rounds| *rounds > ROUNDS / 20), "{counts:?}");
}

#[test]
fn a_journal_has_each_access_at_its_time_and_nothing_shows_that_it_is_kept() {
    let Some(mut bench) = Bench::new("zen4", cpu::decode::Dialect::Amd) else { return };
    let mut noted = 0;
    for seed in 0..ROUNDS / 4 {
        let mut random = Random(seed ^ 0x10_0B);
        let mut fresh = bench.fresh.clone();
        start::set_up(&mut fresh, &mut bench.memory, &mut random);
        code::write(&mut bench.memory, &mut random, &[]);
        let ram = bench.memory.ram.clone();
        let mut plain = fresh.clone();
        turns(&mut plain, &mut bench.translator, &mut bench.memory, &[TIME]);
        let after = bench.memory.ram.clone();

        let mut again = |cpu: &mut Cpu, cache: &mut CodeCache, cut| {
            bench.memory.ram.copy_from_slice(&ram);
            bench.memory.watched_lines.fill(0);
            cache.clear();
            let all = 0..u64::MAX;
            cpu.keep_journal(Interest { code: vec![all.clone()], data: vec![all] });
            turns(cpu, cache, &mut bench.memory, &[cut]);
            (cpu.observation.take_touches(), bench.memory.ram.clone())
        };
        let mut kept = fresh.clone();
        let (touches, ram_after) = again(&mut kept, &mut bench.translator, TIME);
        assert_eq!(summary(&kept), summary(&plain), "seed {seed}");
        assert!(ram_after == after, "memory, seed {seed}");
        // Where each turn has one instruction a boundary is all that there is to see.
        let mut stepped = fresh.clone();
        let (one_by_one, _) = again(&mut stepped, &mut bench.interpreter, 1);
        assert_eq!(touches, one_by_one, "seed {seed}");
        assert!(touches.is_sorted_by_key(|touch| touch.at), "seed {seed}");
        noted += touches.len();
    }
    assert!(noted > ROUNDS as usize / 2, "{noted}");
}
