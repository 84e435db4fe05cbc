//! One IPI at a time, from the first processor to the second.
//!
//! - one way: from before the command to the first instruction of the handler. The two time stamps
//!   come from two processors; where their counters differ, so does this.
//! - acknowledged: until the sender sees, in memory, that the handler ran. One counter only; this
//!   is what kvm-unit-tests call `ipi`.
//! - round trip: until an IPI that the target sends in return has arrived.

use crate::gaps;
use crate::path::Path;
use crate::patience;
use crate::selection::Selection;
use crate::statistics::{FIRST, SECOND};
use core::sync::atomic::{AtomicBool, Ordering};
use runtime::instruction::{halt_until, time_stamp};
use runtime::processor::{self, Processor};
use runtime::{clock, job, print};

const SENDER: usize = 0;
const TARGET: usize = 1;

/// The target has begun its job: what it counts from now on is the job's.
static IS_READY: AtomicBool = AtomicBool::new(false);
/// The target leaves its job.
static STOP: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Spinning,
    Halted,
}

impl Waiting {
    fn name(self) -> &'static str {
        if self == Self::Halted { "halted" } else { "spinning" }
    }

    /// Waits in this way; `condition` may come true by an interrupt only.
    #[inline(always)]
    fn wait(self, condition: impl Fn() -> bool) {
        match self {
            Self::Halted => halt_until(condition),
            Self::Spinning => while !condition() {},
        }
    }
}

const HALTED: usize = 1 << 8;

fn decode(argument: usize) -> (Path, Waiting) {
    let waiting = if argument & HALTED != 0 { Waiting::Halted } else { Waiting::Spinning };
    (Path::decode(argument), waiting)
}

/// The target's part: take interrupts.
fn take(argument: usize) {
    let (_, waiting) = decode(argument);
    IS_READY.store(true, Ordering::Release);
    waiting.wait(|| STOP.load(Ordering::Acquire));
}

/// The target's part: send one back for each.
fn echo(argument: usize) {
    let (path, waiting) = decode(argument);
    let own = processor::current();
    let Some(reply) = path.to(processor::get(SENDER)) else { return };
    let mut seen = own.arrival_count();
    IS_READY.store(true, Ordering::Release);
    loop {
        waiting.wait(|| own.arrival_count() != seen || STOP.load(Ordering::Acquire));
        if STOP.load(Ordering::Acquire) {
            return;
        }
        seen = own.arrival_count();
        path.send(reply);
    }
}

/// Has the target take its part; false if it had to be woken more than once.
fn start(target: &Processor, job: fn(usize), path: Path, waiting: Waiting) -> bool {
    STOP.store(false, Ordering::Relaxed);
    IS_READY.store(false, Ordering::Relaxed);
    job::start(target, job, path.encode() | if waiting == Waiting::Halted { HALTED } else { 0 });
    wakes_until(target, || IS_READY.load(Ordering::Acquire)) == 0
}

/// Ends the target's part; false if it had to be woken more than once.
fn stop(target: &Processor) -> bool {
    STOP.store(true, Ordering::Release);
    wake(target);
    wakes_until(target, || job::has_ended(target)) == 0
}

fn wake(target: &Processor) {
    runtime::apic::send(target.apic_id(), runtime::vector::WAKE_VECTOR);
}

/// Waits until `condition` holds and wakes `target` again whenever that takes too long; how often
/// it had to be: a wake-up that is lost is a finding, and no reason to measure nothing more.
fn wakes_until(target: &Processor, condition: impl Fn() -> bool) -> u64 {
    let mut wakes = 0;
    while !patience::wait_while(|| !condition()) {
        wake(target);
        wakes += 1;
    }
    wakes
}

/// Both tests for both ways of waiting; whether every interrupt arrived.
pub fn measure(selection: &Selection, path: Path) -> bool {
    let reaches = |index| path.to(processor::get(index)).is_some();
    if processor::count() <= TARGET || !reaches(SENDER) || !reaches(TARGET) {
        return true;
    }
    let ways = [Waiting::Spinning, Waiting::Halted].into_iter();
    ways.filter(|waiting| selection.wants_targets(waiting.name())).all(|waiting| {
        measure_one_way(selection, path, waiting) && measure_round_trip(selection, path, waiting)
    })
}

/// Runs `sample` as often as asked for; false as soon as it is.
fn repeat(selection: &Selection, waiting: Waiting, sample: impl Fn() -> bool) -> bool {
    (0..selection.warmup + selection.samples).all(|index| {
        if index == selection.warmup {
            FIRST.clear();
            SECOND.clear();
        }
        if waiting == Waiting::Halted {
            clock::wait_cycles(selection.gap, || true);
        }
        gaps::wait();
        sample()
    })
}

fn measure_one_way(selection: &Selection, path: Path, waiting: Waiting) -> bool {
    let target = processor::get(TARGET);
    let Some(command) = path.to(target) else { return true };
    let has_started = start(target, take, path, waiting);
    let arrived = repeat(selection, waiting, || {
        let before = target.arrival_count();
        let start = time_stamp();
        path.send(command);
        let arrived = patience::wait_while(|| target.arrival_count() == before);
        let end = time_stamp();
        FIRST.add(target.arrival_time().saturating_sub(start));
        SECOND.add(end - start);
        arrived
    });
    let arrived = stop(target) && has_started && arrived;
    report(path, waiting, "ipi_one_way", arrived, &FIRST);
    report(path, waiting, "ipi_acknowledged", arrived, &SECOND);
    arrived
}

fn measure_round_trip(selection: &Selection, path: Path, waiting: Waiting) -> bool {
    let (own, target) = (processor::current(), processor::get(TARGET));
    let Some(command) = path.to(target) else { return true };
    let has_started = start(target, echo, path, waiting);
    let arrived = repeat(selection, waiting, || {
        let before = own.arrival_count();
        let start = time_stamp();
        path.send(command);
        let arrived = patience::wait_while(|| own.arrival_count() == before);
        FIRST.add(time_stamp() - start);
        arrived
    });
    let arrived = stop(target) && has_started && arrived;
    report(path, waiting, "ipi_round_trip", arrived, &FIRST);
    arrived
}

fn report(
    path: Path,
    waiting: Waiting,
    test: &str,
    arrived: bool,
    series: &crate::statistics::Series,
) {
    let (apic, destination, fence) = (path.apic(), path.destination(), path.is_fenced());
    let conditions = format_args!(
        "\"test\":\"{test}\",\"apic\":\"{apic}\",\"destination\":\"{destination}\",\
         \"target\":\"{}\",\"fence\":{fence}",
        waiting.name()
    );
    if arrived {
        series.report(conditions);
    } else {
        print!("{{\"record\":\"lost\",{conditions}}}");
    }
}
