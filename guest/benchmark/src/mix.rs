//! A mix of interrupts that goes on without an end, for an observer outside: every
//! processor sends, spins and halts as numbers of its own say, in all ways of one mode of the APIC.
//! Now and then the first falls silent for a while: who was not woken then sleeps on. It measures
//! nothing and keeps one promise: none halts with interrupts disabled or its priority raised.

use crate::path::mode_name;
use crate::selection::Selection;
use arch::apic::{DestinationMode, Icr, Mode, Register, Scope, TimerMode};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic::{self, Fence};
use runtime::instruction::{halt_until, time_stamp, without_interrupts};
use runtime::processor::{self, Processor};
use runtime::vector::COUNTED_VECTOR;
use runtime::{clock, job, print};

/// Where all numbers come from.
static SEED: AtomicU64 = AtomicU64::new(1);

/// Pauses are at least and at most so many cycles, short ones as likely as long ones.
const PAUSES: (u32, u32) = (9, 18);
/// A silence is that long at least, and twice as long at most.
const SILENCE: u64 = 1 << 21;
/// The task priority that holds back every interrupt.
const HIGHEST_PRIORITY: u32 = 0xF0;

/// xorshift64*, which is never zero.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// All orders of magnitude are alike.
    fn pause(&mut self) -> u64 {
        let (least, most) = PAUSES;
        let exponent = u64::from(least) + self.below(u64::from(most - least));
        (1 << exponent) + self.below(1 << exponent)
    }
}

/// Begins, on all processors; none of them comes back.
pub fn run(selection: &Selection, mode: Mode) {
    SEED.store(selection.seed, Ordering::Relaxed);
    apic::measure_timer_rate();
    print!(
        "{{\"record\":\"mix\",\"apic\":\"{}\",\"cpus\":{},\"seed\":{}}}",
        mode_name(mode),
        processor::count(),
        selection.seed
    );
    job::run_on(0..processor::count(), take_part, 0);
}

fn take_part(_: usize) {
    let own = processor::current();
    let seed = SEED.load(Ordering::Relaxed) ^ (own.index() as u64 + 1).wrapping_mul(0x9E37_79B9);
    let mut numbers = Numbers(seed | 1 << 63);
    let mut seen = own.arrival_count();
    loop {
        // The first never waits for the others: when all of them halt, it wakes them.
        if own.index() == 0 {
            match numbers.below(12) {
                0 => be_silent(&mut numbers),
                _ => {
                    send(own, &mut numbers);
                    wait(&mut numbers);
                }
            }
            continue;
        }
        match numbers.below(16) {
            0..10 => halt_until(|| own.arrival_count() != seen),
            10..13 => send(own, &mut numbers),
            13 => start_timer(&mut numbers),
            14 => with_priority(&mut numbers),
            _ => without_interrupts(|| wait(&mut numbers)),
        }
        seen = own.arrival_count();
        if numbers.below(4) != 0 {
            wait(&mut numbers);
        }
    }
}

fn wait(numbers: &mut Numbers) {
    clock::wait_cycles(numbers.pause(), || true);
}

/// Halts until a timer comes, whatever comes before it.
fn be_silent(numbers: &mut Numbers) {
    let (start, cycles) = (time_stamp(), SILENCE + numbers.below(SILENCE));
    apic::start_timer(COUNTED_VECTOR, TimerMode::OneShot, apic::timer_ticks(cycles).max(1));
    // The timer's rate is known to a few parts of a thousand.
    halt_until(|| time_stamp() - start >= cycles - cycles / 8);
}

/// Sends in a way that its numbers choose.
fn send(own: &Processor, numbers: &mut Numbers) {
    let target = processor::get(numbers.below(processor::count() as u64) as usize);
    let logical = || {
        let first = apic::logical_identifier(target)?;
        // Another one of the same cluster, perhaps the same one.
        let second = processor::get(numbers.0 as usize % processor::count());
        let both = apic::logical_identifier(second).map_or(first, |second| first | second);
        Some(apic::fixed(both, DestinationMode::Logical, COUNTED_VECTOR))
    };
    let physical = apic::fixed(target.apic_id(), DestinationMode::Physical, COUNTED_VECTOR);
    let command: Icr = match numbers.0 >> 40 & 15 {
        0..7 => physical,
        7..13 => logical().unwrap_or(physical),
        13 | 14 => apic::shorthand(Scope::AllButSelf, COUNTED_VECTOR),
        _ => apic::fixed(own.apic_id(), DestinationMode::Physical, COUNTED_VECTOR),
    };
    apic::command(command, Fence::Full);
}

fn start_timer(numbers: &mut Numbers) {
    let ticks = apic::timer_ticks(numbers.pause()).max(1);
    apic::start_timer(COUNTED_VECTOR, TimerMode::OneShot, ticks);
}

/// For a while nothing is delivered.
fn with_priority(numbers: &mut Numbers) {
    apic::write(Register::TaskPriority, HIGHEST_PRIORITY);
    wait(numbers);
    apic::write(Register::TaskPriority, 0);
}
