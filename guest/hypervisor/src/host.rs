//! The physical processors as the schedule uses them: an alarm, and being told to look again.
//!
//! What an interrupt's handler writes belongs to the processor that takes the interrupt, so this is
//! the one part that no machine owns.

use arch::apic::TimerMode;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::apic;
use runtime::instruction::time_stamp;
use runtime::interrupt::set_handler;
use runtime::processor::{self, MAX_CPUS};

/// Ends a stay in the guest; what has changed is looked at before the next.
const KICK_VECTOR: u8 = 0xF1;
/// Says that something may have become ready.
const NUDGE_VECTOR: u8 = 0xF2;
const TIMER_VECTOR: u8 = 0xF3;
/// Says to a processor in its guest that an interrupt has been posted.
pub const NOTIFICATION_VECTOR: u8 = 0xF4;
/// The same to the home of a vCPU that does not run; no software sends it.
pub const WAKE_UP_VECTOR: u8 = 0xF5;

struct Host {
    /// When the timer interrupts; zero if it is not going to.
    alarm: AtomicU64,
    is_nudged: AtomicBool,
}

static HOSTS: [Host; MAX_CPUS] =
    [const { Host { alarm: AtomicU64::new(0), is_nudged: AtomicBool::new(false) } }; MAX_CPUS];

/// Sets the handlers of all processors.
pub fn prepare() {
    for vector in [KICK_VECTOR, NUDGE_VECTOR, NOTIFICATION_VECTOR] {
        set_handler(vector, |_| apic::end_of_interrupt());
    }
    set_handler(WAKE_UP_VECTOR, |_| {
        HOSTS[current()].is_nudged.store(true, Ordering::SeqCst);
        apic::end_of_interrupt();
    });
    set_handler(TIMER_VECTOR, |_| {
        HOSTS[current()].alarm.store(0, Ordering::Relaxed);
        apic::end_of_interrupt();
    });
}

/// The index of the processor this runs on.
pub fn current() -> usize {
    processor::current().index()
}

/// Has a processor leave its guest and enter it again.
pub fn kick(host: usize) {
    apic::send(processor::get(host).apic_id(), KICK_VECTOR);
}

/// Has a processor look for something to run.
pub fn nudge(host: usize) {
    HOSTS[host].is_nudged.store(true, Ordering::SeqCst);
    if host != current() {
        apic::send(processor::get(host).apic_id(), NUDGE_VECTOR);
    }
}

pub fn was_nudged(host: usize) -> bool {
    HOSTS[host].is_nudged.load(Ordering::SeqCst)
}

/// What was asked for until now is being looked at.
pub fn forget_nudge(host: usize) {
    HOSTS[host].is_nudged.store(false, Ordering::SeqCst);
}

/// Has this processor's timer interrupt at a time, or not at all. One that is already set for that
/// time is left alone.
pub fn set_alarm(host: usize, time: Option<u64>) {
    let time = time.unwrap_or(0);
    if HOSTS[host].alarm.swap(time, Ordering::Relaxed) == time {
        return;
    }
    if time == 0 {
        return apic::stop_timer();
    }
    let ticks = apic::timer_ticks(time.saturating_sub(time_stamp()));
    apic::start_timer(TIMER_VECTOR, TimerMode::OneShot, ticks.saturating_add(1));
}

/// Whether the alarm has interrupted already. Its timer is not the clock that deadlines are in, so
/// that it may be early, and then has to be set again.
pub fn has_rung(host: usize, time: Option<u64>) -> bool {
    time.is_some() && HOSTS[host].alarm.load(Ordering::Relaxed) == 0
}
