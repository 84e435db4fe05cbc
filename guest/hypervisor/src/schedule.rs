//! What runs where. Each vCPU lives on one physical processor, which runs those of its
//! own that are ready in turn, a slice each, and sleeps when none is.
//!
//! What senders see follows: a vCPU is said to run before its first entry of a slice,
//! and not to before anything else may run or sleep. One that halts is looked at once more after
//! that, since an interrupt may have been requested by a sender that still saw it run.
//! [APM2 "AVIC IsRunning"]

use crate::exit::{self, Next};
use crate::host;
use crate::inject;
use crate::machine::Machine;
use crate::vcpu::{Activity, Owned, Vcpu};
use crate::vendor::{Control, Vendor};
use runtime::instruction::{
    disable_interrupts, enable_interrupts, enable_interrupts_and_halt, time_stamp,
};

/// Runs the vCPUs that live here until the machine ends.
pub fn serve<V: Vendor>(machine: &Machine<V>) {
    let host = host::current();
    let mut last = None;
    while !machine.has_ended() {
        host::forget_nudge(host);
        match next_ready(machine, host, last) {
            Some(vcpu) => {
                last = Some(vcpu.index());
                vcpu.owned.with(|owned| run_slice(machine, vcpu, owned));
            }
            None => sleep(machine, host),
        }
    }
    host::set_alarm(host, None);
}

/// Halts until an interrupt; what was asked for before that is seen in the last look.
fn sleep<V: Vendor>(machine: &Machine<V>, host: usize) {
    let alarm = earliest_deadline(machine, host, None);
    host::set_alarm(host, alarm);
    disable_interrupts();
    let is_wanted = machine.has_ended() || host::was_nudged(host) || host::has_rung(host, alarm);
    if !is_wanted && next_ready(machine, host, None).is_none() {
        enable_interrupts_and_halt();
    }
    enable_interrupts();
}

/// The next of those that live here and are ready, after `last`.
fn next_ready<V: Vendor>(
    machine: &Machine<V>,
    host: usize,
    last: Option<usize>,
) -> Option<&'static Vcpu<V>> {
    let ready = |vcpu: &&Vcpu<V>| vcpu.owned.with(|owned| is_ready(machine, vcpu, owned));
    let all = machine.living_on(host);
    let is_later = |vcpu: &&Vcpu<V>| last.is_none_or(|last| vcpu.index() > last);
    all.clone().filter(is_later).find(ready).or_else(|| all.clone().find(ready))
}

/// Whether another one than `vcpu` is ready here.
fn has_rival<V: Vendor>(machine: &Machine<V>, host: usize, vcpu: &Vcpu<V>) -> bool {
    machine
        .living_on(host)
        .filter(|other| other.index() != vcpu.index())
        .any(|other| other.owned.with(|owned| is_ready(machine, other, owned)))
}

fn is_ready<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &mut Owned<V>) -> bool {
    vcpu.expire_timer(&machine.vendor, owned);
    match owned.activity {
        _ if vcpu.has_startup_request() => true,
        Activity::WaitForStartup => false,
        Activity::Running => true,
        Activity::Halted => is_woken(machine, vcpu, owned),
    }
}

/// Whether HLT would end. One with interrupts disabled waits for INIT or NMI.
fn is_woken<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &Owned<V>) -> bool {
    vcpu.has_nmi_request()
        || owned.control.has_unfinished_event()
        || owned.control.enables_interrupts() && machine.vendor.deliverable(&vcpu.target).is_some()
}

fn earliest_deadline<V: Vendor>(
    machine: &Machine<V>,
    host: usize,
    except: Option<&Vcpu<V>>,
) -> Option<u64> {
    machine
        .living_on(host)
        .filter(|vcpu| except.is_none_or(|except| except.index() != vcpu.index()))
        .filter_map(|vcpu| vcpu.owned.with(|owned| owned.timer.deadline()))
        .min()
}

/// Runs a vCPU until it halts, its time is up or there may be a better use of this
/// processor.
fn run_slice<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &mut Owned<V>) {
    let vendor = &machine.vendor;
    let host = host::current();
    let has_company = machine.living_on(host).nth(1).is_some();
    owned.control.make_current(vendor, has_company);
    vcpu.take_startup(vendor, owned);
    if owned.activity == Activity::WaitForStartup {
        return;
    }
    let others = if has_company { earliest_deadline(machine, host, Some(vcpu)) } else { None };
    let mut end = time_stamp() + machine.slice;
    owned.activity = Activity::Running;
    vcpu.enter_residence(vendor, owned);
    loop {
        vcpu.expire_timer(vendor, owned);
        if time_stamp() >= end {
            if has_company && has_rival(machine, host, vcpu) {
                break;
            }
            end = time_stamp() + machine.slice;
        }
        let slice = has_company.then_some(end);
        let alarm = [slice, others, owned.timer.deadline()].into_iter().flatten().min();
        host::set_alarm(host, alarm);
        match run_once(machine, vcpu, owned, host, alarm) {
            Turn::Ran => {}
            Turn::Again => continue,
            Turn::Wanted => break,
        }
        if owned.activity == Activity::Halted {
            vcpu.leave_residence(vendor);
            if !is_woken(machine, vcpu, owned) {
                return;
            }
            owned.activity = Activity::Running;
            vcpu.enter_residence(vendor, owned);
        }
    }
    vcpu.leave_residence(vendor);
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
fn run_once<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    host: usize,
    alarm: Option<u64>,
) -> Turn {
    V::hold_off_interrupts();
    let is_wanted = machine.has_ended() || host::was_nudged(host) || vcpu.has_startup_request();
    if is_wanted || host::has_rung(host, alarm) {
        V::hold_off_no_more();
        return if is_wanted { Turn::Wanted } else { Turn::Again };
    }
    inject::prepare(vcpu, owned);
    owned.control.run(&machine.vendor, &mut owned.registers);
    V::hold_off_no_more();
    let start = time_stamp();
    owned.control.store_apic(&vcpu.target);
    let (reason, exit) = (owned.control.reason(), owned.control.exit());
    if exit::answer(machine, vcpu, owned, exit) == Next::Halt {
        owned.activity = Activity::Halted;
    }
    machine.statistics.count(reason, time_stamp() - start);
    Turn::Ran
}
