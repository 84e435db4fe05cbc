//! What runs where. Each virtual processor lives on one physical processor, which runs those of its
//! own that are ready in turn, a slice each, and sleeps when none is.
//!
//! IsRunning follows: set before the first VMRUN of a slice, cleared before anything else may run or
//! sleep. A virtual processor that halts is looked at once more after that, since an interrupt may
//! have been requested by a sender that still saw it run. [APM2 "AVIC IsRunning"]

use crate::machine;
use crate::statistics;
use crate::svm::{control, entry, exit, inject};
use crate::vapic::timer;
use crate::vcpu::{self, Activity, Owned, Vcpu};
use arch::apic::TimerMode;
use arch::control::rflags;
use arch::svm::vmcb::save;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::apic;
use runtime::instruction::{
    disable_interrupts, enable_interrupts, enable_interrupts_and_halt, time_stamp,
};
use runtime::interrupt::set_handler;
use runtime::processor::{self, MAX_CPUS};

/// Ends a VMRUN; what has changed is looked at before the next.
pub const KICK_VECTOR: u8 = 0xF1;
/// Says that something may have become ready.
const NUDGE_VECTOR: u8 = 0xF2;
const TIMER_VECTOR: u8 = 0xF3;

/// When the timer of each processor interrupts; zero if it is not going to.
static ALARMS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
static NUDGED: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];
static SLICE: AtomicU64 = AtomicU64::new(0);

pub fn prepare(slice: u64) {
    SLICE.store(slice, Ordering::Relaxed);
    for vector in [KICK_VECTOR, NUDGE_VECTOR] {
        set_handler(vector, |_| apic::end_of_interrupt());
    }
    set_handler(TIMER_VECTOR, |_| {
        ALARMS[processor::current().index()].store(0, Ordering::Relaxed);
        apic::end_of_interrupt();
    });
}

/// Has a physical processor look for something to run.
pub fn nudge(host: usize) {
    NUDGED[host].store(true, Ordering::SeqCst);
    if host != processor::current().index() {
        apic::send(processor::get(host).apic_id(), NUDGE_VECTOR);
    }
}

fn was_nudged(host: usize) -> bool {
    NUDGED[host].load(Ordering::SeqCst)
}

/// Runs the virtual processors that live here until the machine ends.
pub fn serve() {
    let host = processor::current().index();
    let mut last = None;
    while !machine::has_ended() {
        NUDGED[host].store(false, Ordering::SeqCst);
        match next_ready(host, last) {
            Some(vcpu) => {
                last = Some(vcpu.index());
                vcpu.owned.with(|owned| run_slice(vcpu, owned));
            }
            None => sleep(host),
        }
    }
    set_alarm(host, None);
}

/// Halts until an interrupt; what was asked for before that is seen in the last look.
fn sleep(host: usize) {
    let alarm = earliest_deadline(host, None);
    set_alarm(host, alarm);
    disable_interrupts();
    let is_wanted = machine::has_ended() || was_nudged(host) || has_rung(host, alarm);
    if !is_wanted && next_ready(host, None).is_none() {
        enable_interrupts_and_halt();
    }
    enable_interrupts();
}

/// The next of those that live here and are ready, after `last`.
fn next_ready(host: usize, last: Option<usize>) -> Option<&'static Vcpu> {
    let ready = |vcpu: &&Vcpu| vcpu.owned.with(|owned| is_ready(vcpu, owned));
    let all = vcpu::living_on(host);
    let is_later = |vcpu: &&Vcpu| last.is_none_or(|last| vcpu.index() > last);
    all.clone().filter(is_later).find(ready).or_else(|| all.clone().find(ready))
}

/// Whether another one than `vcpu` is ready here.
fn has_rival(host: usize, vcpu: &Vcpu) -> bool {
    vcpu::living_on(host)
        .filter(|other| other.index() != vcpu.index())
        .any(|other| other.owned.with(|owned| is_ready(other, owned)))
}

fn is_ready(vcpu: &Vcpu, owned: &mut Owned) -> bool {
    timer::expire(vcpu, owned);
    match owned.activity {
        _ if vcpu.has_startup_request() => true,
        Activity::WaitForStartup => false,
        Activity::Running => true,
        Activity::Halted => is_woken(vcpu, owned),
    }
}

/// Whether HLT would end. One with interrupts disabled waits for INIT or NMI.
fn is_woken(vcpu: &Vcpu, owned: &mut Owned) -> bool {
    let is_enabled = owned.vmcb().get(save::RFLAGS) & rflags::IF != 0;
    vcpu.has_nmi_request()
        || owned.interrupted.is_valid()
        || is_enabled && vcpu.page.deliverable().is_some()
}

fn earliest_deadline(host: usize, except: Option<&Vcpu>) -> Option<u64> {
    vcpu::living_on(host)
        .filter(|vcpu| except.is_none_or(|except| except.index() != vcpu.index()))
        .filter_map(|vcpu| vcpu.owned.with(|owned| owned.timer.deadline()))
        .min()
}

/// Has this physical processor's timer interrupt at a time, or not at all. One that is already set
/// for that time is left alone.
fn set_alarm(host: usize, time: Option<u64>) {
    let time = time.unwrap_or(0);
    if ALARMS[host].swap(time, Ordering::Relaxed) == time {
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
fn has_rung(host: usize, time: Option<u64>) -> bool {
    time.is_some() && ALARMS[host].load(Ordering::Relaxed) == 0
}

/// Runs a virtual processor until it halts, its time is up or there may be a better use of this
/// processor.
fn run_slice(vcpu: &Vcpu, owned: &mut Owned) {
    vcpu.take_startup(owned);
    if owned.activity == Activity::WaitForStartup {
        return;
    }
    let host = processor::current().index();
    let has_company = vcpu::living_on(host).nth(1).is_some();
    let others = if has_company { earliest_deadline(host, Some(vcpu)) } else { None };
    let mut end = time_stamp() + SLICE.load(Ordering::Relaxed);
    owned.activity = Activity::Running;
    // Another one's translations may carry the same number.
    owned.flushes_tlb |= has_company;
    vcpu.enter_residence(owned);
    loop {
        timer::expire(vcpu, owned);
        if time_stamp() >= end {
            if has_company && has_rival(host, vcpu) {
                break;
            }
            end = time_stamp() + SLICE.load(Ordering::Relaxed);
        }
        let slice = has_company.then_some(end);
        let alarm = [slice, others, owned.timer.deadline()].into_iter().flatten().min();
        set_alarm(host, alarm);
        match run_once(vcpu, owned, host, alarm) {
            Turn::Ran => {}
            Turn::Again => continue,
            Turn::Wanted => break,
        }
        if owned.activity == Activity::Halted {
            vcpu.leave_residence();
            if !is_woken(vcpu, owned) {
                return;
            }
            owned.activity = Activity::Running;
            vcpu.enter_residence(owned);
        }
    }
    vcpu.leave_residence();
}

/// What came of a turn.
enum Turn {
    /// The guest ran, and its exit has been answered.
    Ran,
    /// The alarm rang too early.
    Again,
    /// This physical processor is wanted for something else.
    Wanted,
}

/// From the last look at what others want to the answer of the exit.
fn run_once(vcpu: &Vcpu, owned: &mut Owned, host: usize, alarm: Option<u64>) -> Turn {
    entry::hold_off_interrupts();
    let is_wanted = machine::has_ended() || was_nudged(host) || vcpu.has_startup_request();
    if is_wanted || has_rung(host, alarm) {
        entry::hold_off_no_more();
        return if is_wanted { Turn::Wanted } else { Turn::Again };
    }
    inject::prepare(vcpu, owned);
    control::set_tlb_control(owned);
    entry::run(&mut owned.vmcb, &mut owned.registers);
    entry::hold_off_no_more();
    let start = time_stamp();
    inject::take_back(vcpu, owned);
    let code = exit::code(owned);
    if exit::handle(vcpu, owned, code) == exit::Next::Halt {
        owned.activity = Activity::Halted;
    }
    statistics::count(code, time_stamp() - start);
    Turn::Ran
}
