//! What the manual says of user interrupts, seen by software: a name and a result each.

use crate::table::{self, VECTORS};
use crate::{RECEIVER, SENDER, instruction, receiver, user};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::{clock, job, print, processor};

/// Cycles after which an interrupt is lost.
pub const PATIENCE: u64 = 50_000_000;

/// Runs all, in an APIC mode; whether all hold.
pub fn all(apic: &str) -> bool {
    let checks: [(&str, fn() -> bool); 7] = [
        ("the flag is set, cleared and tested at privilege 3", flag_is_the_users),
        ("a user interrupt to itself arrives", arrives_at_itself),
        ("a user interrupt to another processor arrives", arrives_at_another),
        ("the highest vector comes first, both behind STUI", highest_comes_first),
        ("a request of privilege 0 waits for privilege 3", waits_for_users),
        ("a suppressed descriptor is posted to without notification", suppressed_is_posted),
        ("no notification came as an ordinary interrupt", none_was_ordinary),
    ];
    let mut passed = true;
    for (name, check) in checks {
        let holds = check();
        passed &= holds;
        print!(
            "{{\"record\":\"check\",\"apic\":\"{apic}\",\"name\":\"{name}\",\"passed\":{holds}}}"
        );
    }
    passed
}

/// What a check's part at privilege 3 says.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn flag_is_the_users() -> bool {
    extern "C" fn act(_: usize) {
        let before = instruction::flag();
        instruction::set_flag(false);
        let cleared = !instruction::flag();
        instruction::set_flag(true);
        SEEN.store(u64::from(before && cleared && instruction::flag()), Ordering::SeqCst);
    }
    user::run(act, 0);
    SEEN.load(Ordering::SeqCst) == 1
}

fn arrives_at_itself() -> bool {
    extern "C" fn act(_: usize) {
        let own = processor::current();
        let before = own.arrival_count();
        instruction::send(table::target(SENDER, 0));
        let arrived = clock::wait_cycles(PATIENCE, || own.arrival_count() == before);
        SEEN.store(u64::from(arrived), Ordering::SeqCst);
    }
    user::run(act, 0);
    SEEN.load(Ordering::SeqCst) == 1
        && receiver::last() == VECTORS[0].into()
        && is_idle(SENDER)
        && instruction::requests() == 0
        && instruction::notification_vector() != 0
}

/// Nothing is posted, and nothing on its way.
fn is_idle(index: usize) -> bool {
    let descriptor = table::descriptor(index);
    descriptor.requests() == 0 && !descriptor.is_outstanding()
}

static IS_READY: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// Has the receiver spin at privilege 3 while `action` runs at privilege 3 here.
pub fn with_receiver(action: extern "C" fn(usize), argument: usize) {
    extern "C" fn spin(_: usize) {
        IS_READY.store(true, Ordering::SeqCst);
        while !STOP.load(Ordering::Relaxed) {}
    }
    STOP.store(false, Ordering::SeqCst);
    IS_READY.store(false, Ordering::SeqCst);
    let target = processor::get(RECEIVER);
    job::start(target, |_| user::run(spin, 0), 0);
    clock::wait_cycles(PATIENCE, || !IS_READY.load(Ordering::SeqCst));
    user::run(action, argument);
    STOP.store(true, Ordering::SeqCst);
    job::wait(target);
}

fn arrives_at_another() -> bool {
    extern "C" fn act(_: usize) {
        let target = processor::get(RECEIVER);
        let before = target.arrival_count();
        instruction::send(table::target(RECEIVER, 1));
        let arrived = clock::wait_cycles(PATIENCE, || target.arrival_count() == before);
        SEEN.store(u64::from(arrived), Ordering::SeqCst);
    }
    with_receiver(act, 0);
    SEEN.load(Ordering::SeqCst) == 1 && receiver::last() == VECTORS[1].into() && is_idle(RECEIVER)
}

fn highest_comes_first() -> bool {
    extern "C" fn act(_: usize) {
        let own = processor::current();
        let before = own.arrival_count();
        instruction::set_flag(false);
        instruction::send(table::target(SENDER, 0));
        instruction::send(table::target(SENDER, 1));
        let held = clock::wait_cycles(20_000, || own.arrival_count() == before);
        instruction::set_flag(true);
        let both = clock::wait_cycles(PATIENCE, || own.arrival_count() < before + 2);
        SEEN.store(u64::from(!held && both), Ordering::SeqCst);
    }
    user::run(act, 0);
    SEEN.load(Ordering::SeqCst) == 1 && receiver::last() == VECTORS[0].into()
}

fn waits_for_users() -> bool {
    extern "C" fn act(before: usize) {
        let own = processor::current();
        let arrived = clock::wait_cycles(PATIENCE, || own.arrival_count() == before as u64);
        SEEN.store(u64::from(arrived), Ordering::SeqCst);
    }
    let own = processor::current();
    let before = own.arrival_count();
    instruction::send(table::target(SENDER, 0));
    let taken = clock::wait_cycles(PATIENCE, || instruction::requests() == 0);
    let waits = own.arrival_count() == before;
    user::run(act, before as usize);
    taken && waits && SEEN.load(Ordering::SeqCst) == 1
}

fn suppressed_is_posted() -> bool {
    let descriptor = table::descriptor(RECEIVER);
    descriptor.suppress();
    instruction::send(table::target(RECEIVER, 0));
    let is_posted = descriptor.requests() == 1 << VECTORS[0] && !descriptor.is_outstanding();
    job::start(processor::get(RECEIVER), |_| receiver::prepare(), 0);
    job::wait(processor::get(RECEIVER));
    is_posted && is_idle(RECEIVER)
}

fn none_was_ordinary() -> bool {
    receiver::ordinary() == 0
}
