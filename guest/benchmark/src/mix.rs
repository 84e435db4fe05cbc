//! A mix of interrupts that goes on without an end, for an observer outside: every
//! processor sends, spins and halts as numbers of its own say, in all ways of one mode of the APIC.
//! Now and then the first falls silent for a while: who was not woken then sleeps on. It measures
//! nothing and keeps one promise: none halts with interrupts disabled or its priority raised, nor
//! in a handler. It ends if an interrupt is lost, or comes unasked ([`ledger`]).

mod functions;
mod ledger;
mod lines;
mod numbers;
mod renewal;
mod timer;

use self::ledger::{Kind, VECTORS};
use self::numbers::Numbers;
use crate::path::mode_name;
use crate::selection::Selection;
use arch::apic::{DestinationMode, Mode, Register, Scope, TimerMode};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic::{self, Fence};
use runtime::instruction::{halt_until, set_task_priority, time_stamp, without_interrupts};
use runtime::interrupt::{self, Frame};
use runtime::processor::{self, MAX_CPUS, Processor};
use runtime::vector::COUNTED_VECTOR;
use runtime::{clock, job, print};

/// Where all numbers come from.
static SEED: AtomicU64 = AtomicU64::new(1);

/// A silence is that long at least, and twice as long at most.
const SILENCE: u64 = 1 << 21;
/// Task priorities: one holds back every interrupt, the other those of the lower class.
const PRIORITIES: [u32; 2] = [0xF0, 0x70];
/// Of so many interrupts one is handled for long.
const LINGERS: u64 = 8;
/// Of eight halts, those for which a timer is started: what it wakes would hide that nobody else
/// does.
const HALTS_WITH_TIMER: u64 = 2;

/// By processor: what its handlers choose by.
static HANDLERS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Begins, on all processors; none of them comes back.
pub fn run(selection: &Selection, mode: Mode) {
    SEED.store(selection.seed, Ordering::Relaxed);
    apic::measure_timer_rate();
    let uncounted = VECTORS.into_iter().filter(|vector| *vector != COUNTED_VECTOR);
    let handled = uncounted.chain(functions::VECTORS);
    handled.for_each(|vector| interrupt::set_handler(vector, handle));
    interrupt::set_handler(timer::VECTOR, timer::handle);
    if selection.lines {
        lines::begin();
    }
    if selection.starts {
        renewal::begin();
    }
    print!(
        "{{\"record\":\"mix\",\"apic\":\"{}\",\"cpus\":{},\"seed\":{},\"ledger\":{}}}",
        mode_name(mode),
        processor::count(),
        selection.seed,
        &raw const ledger::FROM_HOST as usize
    );
    job::run_on(0..processor::count(), take_part, 0);
}

fn take_part(_: usize) {
    let own = processor::current();
    let seed = SEED.load(Ordering::Relaxed) ^ (own.index() as u64 + 1).wrapping_mul(0x9E37_79B9);
    let mut numbers = Numbers(seed | 1 << 63);
    // One that comes again goes on otherwise than it did.
    let place = &HANDLERS[own.index()];
    numbers.0 ^= place.load(Ordering::Relaxed) >> 1;
    numbers.0 |= 1 << 63;
    place.store(numbers.next() | 1, Ordering::Relaxed);
    without_interrupts(|| renewal::arrive(own));
    let mut seen = own.arrival_count();
    loop {
        ledger::audit(own);
        if lines::are_on() && numbers.below(8) == 0 {
            lines::change(&mut numbers);
        }
        renewal::take_part(own, &mut numbers);
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
            action @ 0..8 => {
                // What a kernel does that has nothing to do until then.
                if action < HALTS_WITH_TIMER {
                    timer::start(own, &mut numbers);
                }
                halt_until(|| own.arrival_count() != seen);
            }
            8..11 => send(own, &mut numbers),
            11 | 12 => timer::start(own, &mut numbers),
            13 | 14 => with_priorities(&mut numbers),
            _ => without_interrupts(|| wait(&mut numbers)),
        }
        seen = own.arrival_count();
        if numbers.below(4) != 0 {
            wait(&mut numbers);
        }
    }
}

/// What handles a vector that the runtime does not count.
fn handle(frame: &mut Frame) {
    let own = processor::current();
    ledger::serve(own, frame.vector as u8);
    functions::serve(own, frame.vector as u8);
    own.arrivals.count.fetch_add(1, Ordering::Release);
    with_numbers(own, linger);
    apic::end_of_interrupt();
}

/// What a handler does with its processor's numbers.
fn with_numbers(own: &Processor, act: impl FnOnce(&mut Numbers)) {
    let place = &HANDLERS[own.index()];
    let mut numbers = Numbers(place.load(Ordering::Relaxed) | 1 << 63);
    act(&mut numbers);
    place.store(numbers.0, Ordering::Relaxed);
}

/// Now and then a handler takes long.
fn linger(numbers: &mut Numbers) {
    if numbers.below(LINGERS) == 0 {
        wait(numbers);
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
    let kind = Kind(numbers.below(VECTORS.len() as u64) as usize);
    let vector = kind.vector();
    let any =
        |numbers: &mut Numbers| processor::get(numbers.below(processor::count() as u64) as usize);
    let (target, second) = (any(numbers), any(numbers));
    let physical = |target: &Processor| {
        let command = apic::fixed(target.apic_id(), DestinationMode::Physical, vector);
        let index = target.index();
        ledger::send(kind, |one| one.index() == index, || apic::command(command, Fence::Full));
    };
    match numbers.below(16) {
        0..6 => physical(target),
        6..12 => {
            if !send_logically(kind, target, second, numbers) {
                physical(target);
            }
        }
        12..14 => {
            let command = apic::shorthand(Scope::AllButSelf, vector);
            let is_other = |one: &Processor| one.index() != own.index();
            ledger::send(kind, is_other, || apic::command(command, Fence::Full));
        }
        14 if own.is_x2apic() => {
            let is_own = |one: &Processor| one.index() == own.index();
            ledger::send(kind, is_own, || apic::write(Register::SelfIpi, vector.into()));
        }
        _ => physical(own),
    }
}

/// Sends to one or two, perhaps the same, and now and then to one beside them who is not there;
/// false where they have no logical identifiers.
fn send_logically(
    kind: Kind,
    first: &Processor,
    second: &Processor,
    numbers: &mut Numbers,
) -> bool {
    let identifier = apic::logical_identifier;
    let (Some(one), Some(other)) = (identifier(first), identifier(second)) else { return false };
    // Those of other clusters are not reached by one command.
    let is_together = one >> 16 == other >> 16 && processor::count() <= apic::FLAT_CPUS;
    let both = if is_together { one | other } else { one };
    let absent = apic::FLAT_CPUS - 1;
    let is_absent = numbers.below(8) == 0 && processor::count() <= absent;
    let destination = if is_absent { both | 1 << absent } else { both };
    let command = apic::fixed(destination, DestinationMode::Logical, kind.vector());
    let is_target = |target: &Processor| {
        target.index() == first.index() || is_together && target.index() == second.index()
    };
    ledger::send(kind, is_target, || apic::command(command, Fence::Full));
    true
}

/// For a while some or none are delivered, a few times, by either of the two ways to say so.
fn with_priorities(numbers: &mut Numbers) {
    for _ in 0..numbers.pick([1, 1, 4, 16]) {
        let priority = numbers.pick(PRIORITIES);
        let set: fn(u32) = match numbers.below(2) {
            0 => set_task_priority,
            _ => |priority| apic::write(Register::TaskPriority, priority),
        };
        set(priority);
        wait(numbers);
        set(0);
        ledger::audit(processor::current());
    }
}
