//! What SENDUIPI takes: of its sender, until the handler runs, and of its receiver. Cycles of the
//! time-stamp counter.

use crate::check::{PATIENCE, with_receiver};
use crate::{RECEIVER, instruction, table, user};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use runtime::instruction::time_stamp;
use runtime::{clock, job, print, processor};

const MOST: usize = 10_000;
/// Rounds of the receiver's loop that are timed without interrupts.
const ROUNDS: u64 = 100_000;
/// Cycles between two interrupts to a receiver whose loop is timed.
const GAP: u64 = 10_000;

/// One measurement's samples.
struct Series([AtomicU64; MOST]);

static SENT: Series = Series([const { AtomicU64::new(0) }; MOST]);
static ARRIVED: Series = Series([const { AtomicU64::new(0) }; MOST]);
/// How many samples there are; fewer than asked for if one was lost.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Measures in an APIC mode; whether every interrupt arrived.
pub fn all(apic: &str, samples: usize) -> bool {
    let samples = samples.clamp(1, MOST);
    with_receiver(send, samples);
    let passed = COUNT.load(Ordering::SeqCst) == samples;
    report(apic, "send", &SENT, samples, passed);
    report(apic, "one_way", &ARRIVED, samples, passed);
    passed && cost(apic, samples)
}

extern "C" fn send(samples: usize) {
    COUNT.store(0, Ordering::SeqCst);
    let target = processor::get(RECEIVER);
    let index = table::target(RECEIVER, 0);
    let overhead = (0..100).map(|_| {
        let start = time_stamp();
        time_stamp() - start
    });
    let overhead = overhead.min().unwrap_or(0);
    for sample in 0..samples {
        let before = target.arrival_count();
        let start = time_stamp();
        instruction::send(index);
        let end = time_stamp();
        if !clock::wait_cycles(PATIENCE, || target.arrival_count() == before) {
            return;
        }
        SENT.0[sample].store((end - start).saturating_sub(overhead), Ordering::Relaxed);
        let arrived = target.arrival_time().saturating_sub(start);
        ARRIVED.0[sample].store(arrived, Ordering::Relaxed);
        COUNT.store(sample + 1, Ordering::SeqCst);
        clock::wait_cycles(GAP, || true);
    }
}

/// Smallest, median and largest of the samples.
fn report(apic: &str, test: &str, series: &Series, samples: usize, passed: bool) {
    if !passed {
        print!("{{\"record\":\"lost\",\"test\":\"{test}\",\"apic\":\"{apic}\"}}");
        return;
    }
    let values = &series.0[..samples];
    let at = |index: usize| values[index].load(Ordering::Relaxed);
    // By insertion: there is no heap, and few distances.
    for end in 1..samples {
        let (value, mut place) = (at(end), end);
        while place > 0 && at(place - 1) > value {
            values[place].store(at(place - 1), Ordering::Relaxed);
            place -= 1;
        }
        values[place].store(value, Ordering::Relaxed);
    }
    print!(
        "{{\"record\":\"latency\",\"test\":\"{test}\",\"apic\":\"{apic}\",\"unit\":\"cycles\",\
         \"samples\":{samples},\"min\":{},\"p50\":{},\"max\":{}}}",
        at(0),
        at(samples / 2),
        at(samples - 1),
    );
}

static IS_READY: AtomicBool = AtomicBool::new(false);
/// What the receiver's loop took, beside its rounds.
static LOST_CYCLES: AtomicU64 = AtomicU64::new(0);

/// How long the loop runs that a user interrupt interrupts, and how long it would without.
extern "C" fn work(samples: usize) {
    let own = processor::current();
    let first = own.arrival_count();
    let start = time_stamp();
    let rounds = spin(ROUNDS, u64::MAX);
    let per_million = (time_stamp() - start) * 1_000_000 / rounds;
    let end = first + samples as u64;
    IS_READY.store(true, Ordering::SeqCst);
    let start = time_stamp();
    let rounds = spin(u64::MAX, end);
    let took = time_stamp() - start;
    let alone = u128::from(rounds) * u128::from(per_million) / 1_000_000;
    LOST_CYCLES.store(took.saturating_sub(alone as u64), Ordering::SeqCst);
}

/// Goes round until so many rounds or arrivals; the same code whether interrupted or not.
#[inline(never)]
fn spin(most: u64, arrivals: u64) -> u64 {
    let (own, mut rounds) = (processor::current(), 0);
    while rounds < most && own.arrival_count() < arrivals {
        rounds += 1;
    }
    rounds
}

/// What a user interrupt costs the program that it interrupts.
fn cost(apic: &str, samples: usize) -> bool {
    extern "C" fn feed(samples: usize) {
        let target = processor::get(RECEIVER);
        let index = table::target(RECEIVER, 0);
        clock::wait_cycles(PATIENCE, || !IS_READY.load(Ordering::SeqCst));
        for _ in 0..samples {
            let before = target.arrival_count();
            instruction::send(index);
            clock::wait_cycles(PATIENCE, || target.arrival_count() == before);
            clock::wait_cycles(GAP, || true);
        }
    }
    IS_READY.store(false, Ordering::SeqCst);
    let target = processor::get(RECEIVER);
    job::start(target, |samples| user::run(work, samples), samples);
    user::run(feed, samples);
    let ended = clock::wait_cycles(PATIENCE, || !job::has_ended(target));
    let cycles = LOST_CYCLES.load(Ordering::SeqCst) / samples as u64;
    print!(
        "{{\"record\":\"latency\",\"test\":\"receive\",\"apic\":\"{apic}\",\"unit\":\"cycles\",\
         \"samples\":{samples},\"mean\":{cycles}}}"
    );
    ended
}
