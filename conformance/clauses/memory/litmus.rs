//! Litmus tests run on the emulated machine, round after round within one program.

use crate::bare::Bare;
use crate::model::outcomes;
use crate::rounds;
use crate::test::{Outcome, REGISTERS, Step, TESTS, Test, VARIABLES, Variable, Verdict};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use std::collections::BTreeMap;

/// Threads meet here before each round.
const MEETING: u32 = 0x8000;
/// A line for each thread's locked increments.
const ELSEWHERE: u32 = 0x9000;
/// What a round uses: a line for each variable, and one for the threads' registers.
const ROUNDS: u32 = 0x10_0000;
const LINE: u32 = 64;
const ROUND: u32 = LINE * (VARIABLES as u32 + 1);
/// Rounds of one machine.
const BATCH: u32 = 20_000;
const MEMORY: u64 = 8 << 20;

const _: () = assert!(ROUNDS as u64 + BATCH as u64 * ROUND as u64 <= MEMORY);

fn variable(a: Variable) -> AsmMemoryOperand {
    dword_ptr(ebp + a as u32 * LINE)
}

fn result(thread: usize, register: usize) -> u32 {
    VARIABLES as u32 * LINE + 4 * (thread * REGISTERS + register) as u32
}

/// EBP is the round, EDI how many are left, ESI how many have come to the meeting by then, EDX
/// random.
fn program(
    a: &mut CodeAssembler,
    test: &Test,
    thread: usize,
    rounds: u32,
) -> Result<(), IcedError> {
    const REGISTER: [AsmRegister32; REGISTERS] = [eax, ebx];
    a.mov(ebp, ROUNDS)?;
    a.mov(edi, rounds)?;
    a.xor(esi, esi)?;
    a.mov(edx, 0x9E37 * (thread as u32 + 1))?;
    let (mut again, mut wait, mut delay) = (a.create_label(), a.create_label(), a.create_label());
    a.set_label(&mut again)?;
    a.lock().inc(dword_ptr(MEETING))?;
    a.add(esi, test.threads.len() as i32)?;
    a.set_label(&mut wait)?;
    a.cmp(dword_ptr(MEETING), esi)?;
    a.jb(wait)?;
    a.imul_3(edx, edx, 1_664_525)?;
    a.add(edx, 1_013_904_223)?;
    a.mov(ecx, edx)?;
    a.shr(ecx, 27)?;
    a.inc(ecx)?;
    a.set_label(&mut delay)?;
    a.dec(ecx)?;
    a.jne(delay)?;
    a.xor(eax, eax)?;
    a.xor(ebx, ebx)?;
    for step in test.threads[thread] {
        match *step {
            Step::Store(at, value) => a.mov(variable(at), value)?,
            Step::Load(register, at) => a.mov(REGISTER[register], variable(at))?,
            Step::Fence => a.mfence()?,
            Step::Exchange(register, at, value) => {
                a.mov(REGISTER[register], value)?;
                a.xchg(variable(at), REGISTER[register])?;
            }
            Step::LockedElsewhere => {
                a.lock().inc(dword_ptr(ELSEWHERE + LINE * thread as u32))?;
            }
        }
    }
    for (number, register) in REGISTER.into_iter().enumerate() {
        a.mov(dword_ptr(ebp + result(thread, number)), register)?;
    }
    a.add(ebp, ROUND as i32)?;
    a.dec(edi)?;
    a.jne(again)?;
    a.cli()?;
    a.hlt()
}

/// How often each outcome was seen.
fn seen(test: &Test, order: &str, rounds: u32) -> BTreeMap<Outcome, u32> {
    let mut seen = BTreeMap::new();
    for (seed, first) in (0..rounds).step_by(BATCH as usize).enumerate() {
        let rounds = BATCH.min(rounds - first);
        let mut bare = Bare::new("generic", order, seed as u64 + 1, test.threads.len(), MEMORY);
        for thread in 0..test.threads.len() {
            bare.load(thread, |a| program(a, test, thread, rounds));
        }
        bare.run();
        for round in 0..rounds {
            let get = |at: u32| bare.get(u64::from(ROUNDS + round * ROUND + at));
            let mut outcome = Outcome::default();
            for thread in 0..test.threads.len() {
                for register in 0..REGISTERS {
                    outcome.registers[thread][register] = get(result(thread, register));
                }
            }
            for (number, value) in outcome.memory.iter_mut().enumerate() {
                *value = get(number as u32 * LINE);
            }
            *seen.entry(outcome).or_default() += 1;
        }
    }
    seen
}

#[test]
fn the_abstract_machine_gives_the_published_verdicts() {
    for test in TESTS {
        let has = |is_buffered| outcomes(test, is_buffered).iter().any(test.is_known);
        let verdict = match (has(true), has(false)) {
            (true, true) => Verdict::Plain,
            (true, false) => Verdict::Relaxed,
            _ => Verdict::Forbidden,
        };
        assert_eq!(verdict, test.verdict, "{}", test.name);
    }
}

#[test]
fn what_x86_tso_forbids_is_never_seen_and_all_that_it_allows_is() {
    let rounds = rounds();
    for test in TESTS {
        let (allowed, seen) = (outcomes(test, true), seen(test, "tso", rounds));
        let known: u32 =
            seen.iter().filter(|(outcome, _)| (test.is_known)(outcome)).map(|(_, n)| n).sum();
        println!("{}: {known} of {rounds}, {:?}", test.name, test.verdict);
        let forbidden = seen.keys().find(|outcome| !allowed.contains(outcome));
        assert_eq!(forbidden, None, "{}", test.name);
        let missing = allowed.iter().find(|outcome| !seen.contains_key(outcome));
        assert_eq!(missing, None, "{}: {seen:?}", test.name);
    }
}

#[test]
fn without_store_buffers_nothing_is_seen_that_is_not_sequentially_consistent() {
    for test in TESTS {
        let (allowed, seen) = (outcomes(test, false), seen(test, "sequential", 1_000));
        assert_eq!(seen.keys().find(|outcome| !allowed.contains(outcome)), None, "{}", test.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_outcomes() {
    let Some(test) = TESTS.iter().find(|test| test.name == "SB") else { panic!("SB is there") };
    assert_eq!(seen(test, "tso", 500), seen(test, "tso", 500));
}
