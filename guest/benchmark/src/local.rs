//! Interrupts that a processor causes itself: self-IPI, timer, and the cost of their end.

use crate::gaps;
use crate::patience;
use crate::selection::Selection;
use crate::statistics::FIRST;
use arch::apic::{Register, Scope, TimerMode};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic::{self, Fence};
use runtime::instruction::{enable_interrupts_and_halt, time_stamp};
use runtime::interrupt::set_handler;
use runtime::vector::COUNTED_VECTOR;
use runtime::{print, processor};

/// How long a timer runs.
const TIMER_CYCLES: u64 = 200_000;
const MEASURED_EOI_VECTOR: u8 = 0xE2;

/// Takes samples; `sample` gives one, or None if the interrupt did not come.
fn series(
    selection: &Selection,
    what: core::fmt::Arguments<'_>,
    sample: impl Fn() -> Option<u64>,
) -> bool {
    for index in 0..selection.warmup + selection.samples {
        if index == selection.warmup {
            FIRST.clear();
        }
        gaps::wait();
        match sample() {
            Some(cycles) => FIRST.add(cycles),
            None => {
                print!("{{\"record\":\"lost\",{what}}}");
                return false;
            }
        }
    }
    FIRST.report(what);
    true
}

/// Waits for the next counted interrupt; its time.
fn next_arrival(before: u64) -> Option<u64> {
    let own = processor::current();
    patience::wait_while(|| own.arrival_count() == before).then(|| own.arrival_time())
}

/// By the shorthand, and in x2APIC mode by the register made for it.
pub fn measure_self_ipi(selection: &Selection, apic: &str) -> bool {
    let own = processor::current();
    let command = apic::shorthand(Scope::SelfOnly, COUNTED_VECTOR);
    let sample = |send: &dyn Fn()| {
        let before = own.arrival_count();
        let start = time_stamp();
        send();
        Some(next_arrival(before)?.saturating_sub(start))
    };
    let by_shorthand = series(
        selection,
        format_args!("\"test\":\"self_ipi\",\"apic\":\"{apic}\",\"by\":\"shorthand\""),
        || sample(&|| apic::command(command, Fence::None)),
    );
    if !own.is_x2apic() {
        return by_shorthand;
    }
    by_shorthand
        && series(
            selection,
            format_args!("\"test\":\"self_ipi\",\"apic\":\"{apic}\",\"by\":\"register\""),
            || sample(&|| apic::write(Register::SelfIpi, u32::from(COUNTED_VECTOR))),
        )
}

static EOI_CYCLES: AtomicU64 = AtomicU64::new(0);

/// Writing EOI inside of a handler, where there is an interrupt to end.
pub fn measure_end_of_interrupt(selection: &Selection, apic: &str) -> bool {
    const PENDING: u64 = u64::MAX;
    set_handler(MEASURED_EOI_VECTOR, |_| {
        let start = time_stamp();
        apic::end_of_interrupt();
        EOI_CYCLES.store(time_stamp() - start, Ordering::Relaxed);
    });
    let command = apic::shorthand(Scope::SelfOnly, MEASURED_EOI_VECTOR);
    series(selection, format_args!("\"test\":\"eoi\",\"apic\":\"{apic}\""), || {
        EOI_CYCLES.store(PENDING, Ordering::Relaxed);
        apic::command(command, Fence::None);
        let is_pending = || EOI_CYCLES.load(Ordering::Relaxed) == PENDING;
        patience::wait_while(is_pending).then(|| EOI_CYCLES.load(Ordering::Relaxed))
    })
}

/// How late the timer's interrupt is, by count and by deadline, spinning and halted.
pub fn measure_timer(selection: &Selection, apic: &str) -> bool {
    apic::measure_timer_rate();
    let own = processor::current();
    let ticks = apic::timer_ticks(TIMER_CYCLES);
    let by_count = |is_halted: bool| {
        let before = own.arrival_count();
        apic::start_timer(COUNTED_VECTOR, TimerMode::OneShot, ticks);
        let due = time_stamp() + apic::timer_cycles(ticks);
        wait_for_timer(is_halted, before, due)
    };
    let by_deadline = |is_halted: bool| {
        let before = own.arrival_count();
        let due = time_stamp() + TIMER_CYCLES;
        apic::start_deadline(COUNTED_VECTOR, due);
        wait_for_timer(is_halted, before, due)
    };
    let all = [false, true].into_iter().all(|is_halted| {
        let target = if is_halted { "halted" } else { "spinning" };
        let run = |by: &str, sample: &dyn Fn(bool) -> Option<u64>| {
            series(
                selection,
                format_args!(
                    "\"test\":\"timer\",\"apic\":\"{apic}\",\"by\":\"{by}\",\
                     \"target\":\"{target}\""
                ),
                || sample(is_halted),
            )
        };
        (ticks == 0 || run("count", &by_count))
            && (!apic::has_tsc_deadline() || run("deadline", &by_deadline))
    });
    apic::stop_timer();
    all
}

/// What setting a deadline costs, with the fence before the write and without it.
pub fn measure_arming(selection: &Selection, apic: &str) -> bool {
    /// No sample takes so long.
    const FAR_AWAY: u64 = 1 << 32;
    if !apic::has_tsc_deadline() {
        return true;
    }
    apic::start_deadline(COUNTED_VECTOR, time_stamp() + FAR_AWAY);
    let all = [Fence::None, Fence::Full].into_iter().all(|fence| {
        !selection.wants_fence(fence)
            || series(
                selection,
                format_args!(
                    "\"test\":\"arm\",\"apic\":\"{apic}\",\"by\":\"deadline\",\"fence\":{}",
                    fence == Fence::Full
                ),
                || {
                    let start = time_stamp();
                    apic::arm_deadline(start + FAR_AWAY, fence);
                    Some(time_stamp() - start)
                },
            )
    });
    apic::stop_timer();
    all
}

fn wait_for_timer(is_halted: bool, before: u64, due: u64) -> Option<u64> {
    if is_halted && processor::current().arrival_count() == before {
        // If the timer fires between the check and HLT, the wait below ends at once instead.
        runtime::instruction::disable_interrupts();
        if processor::current().arrival_count() == before {
            enable_interrupts_and_halt();
        }
        runtime::instruction::enable_interrupts();
    }
    Some(next_arrival(before)?.saturating_sub(due))
}
