//! The APIC's timer in its three modes: an interrupt that is due and does not come is lost.

use super::ledger::{PATIENCE, wait_for};
use super::linger;
use super::numbers::Numbers;
use arch::apic::TimerMode;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic;
use runtime::instruction::{time_stamp, without_interrupts};
use runtime::interrupt::Frame;
use runtime::processor::{self, MAX_CPUS, Processor};
use runtime::vector::COUNTED_VECTOR;

/// What a timer that is watched sends, of the class of most others.
pub const VECTOR: u8 = 0xEA;

/// Ticks of a period: at least and less than. KVM makes shorter ones 200 µs, and its ticks are
/// nanoseconds. [LINUX "arch/x86/kvm/lapic.c"]
const PERIODS: (u32, u32) = (210_000, 300_000);
/// Periods of one start at most.
const MOST_PERIODS: u64 = 4;
/// Cycles by which a timer may be late without anybody being asked, beside an eighth of its time:
/// the timer's rate is known to a few parts of a thousand.
const SLACK: u64 = 1 << 14;
/// Processors that were stopped, saved and restored have the rest of a period before them, while
/// the time stamp counter went on.
const PATIENCE_OF_TIMER: u32 = 4 * PATIENCE;

/// By processor.
struct Timer {
    /// The time stamp at which its interrupt is late; 0 for none.
    late: AtomicU64,
    /// Further interrupts of a periodic one, and cycles between them.
    left: AtomicU64,
    period: AtomicU64,
}

static TIMERS: [Timer; MAX_CPUS] = [const { Timer::new() }; MAX_CPUS];

impl Timer {
    const fn new() -> Self {
        Self { late: AtomicU64::new(0), left: AtomicU64::new(0), period: AtomicU64::new(0) }
    }

    fn expect(&self, cycles: u64) {
        let late = time_stamp() + cycles + cycles / 8 + SLACK;
        self.late.store(late, Ordering::Relaxed);
    }

    fn take_again(&self, times: u64, period: u64) {
        self.left.store(times, Ordering::Relaxed);
        self.period.store(period, Ordering::Relaxed);
    }
}

/// Starts it in a way that the numbers choose, in place of what it was at.
pub fn start(own: &Processor, numbers: &mut Numbers) {
    let way = numbers.below(4);
    let timer = &TIMERS[own.index()];
    let (cycles, again) = (numbers.pause(), numbers.below(MOST_PERIODS));
    let (least, most) = PERIODS;
    let period = least + numbers.below(u64::from(most - least)) as u32;
    // What was sent before may still come, and is taken for the new one.
    without_interrupts(|| {
        timer.take_again(0, 0);
        let ticks = apic::timer_ticks(cycles).max(1);
        match way {
            1 => {
                timer.expect(cycles);
                apic::start_timer(VECTOR, TimerMode::OneShot, ticks);
            }
            2 if apic::has_tsc_deadline() => {
                timer.expect(cycles);
                apic::start_deadline(VECTOR, time_stamp() + cycles);
            }
            3 => {
                timer.take_again(again, apic::timer_cycles(period));
                timer.expect(apic::timer_cycles(period));
                apic::start_timer(VECTOR, TimerMode::Periodic, period);
            }
            _ => {
                timer.late.store(0, Ordering::Relaxed);
                apic::start_timer(COUNTED_VECTOR, TimerMode::OneShot, ticks);
            }
        }
    });
}

/// Stops it, and asks for nothing of it.
pub fn stop(own: &Processor) {
    without_interrupts(|| {
        let timer = &TIMERS[own.index()];
        apic::stop_timer();
        timer.take_again(0, 0);
        timer.late.store(0, Ordering::Relaxed);
    });
}

/// What handles it.
pub fn handle(_: &mut Frame) {
    let own = processor::current();
    let timer = &TIMERS[own.index()];
    match timer.left.load(Ordering::Relaxed) {
        0 => {
            if timer.period.swap(0, Ordering::Relaxed) != 0 {
                apic::stop_timer();
            }
            timer.late.store(0, Ordering::Relaxed);
        }
        left => {
            timer.left.store(left - 1, Ordering::Relaxed);
            timer.expect(timer.period.load(Ordering::Relaxed));
        }
    }
    own.arrivals.count.fetch_add(1, Ordering::Release);
    super::with_numbers(own, linger);
    apic::end_of_interrupt();
}

/// Ends the guest if this processor's timer is late.
pub fn audit(own: &Processor) {
    let timer = &TIMERS[own.index()];
    let late = timer.late.load(Ordering::Relaxed);
    if late != 0 && time_stamp() > late {
        wait_for(VECTOR, PATIENCE_OF_TIMER, || timer.late.load(Ordering::Relaxed) != late);
    }
}
