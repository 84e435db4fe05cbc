//! Work for other processors: a function and a number, put into a mailbox; an interrupt wakes the
//! processor that it belongs to.

use crate::processor::{self, Processor};
use crate::vector::WAKE_VECTOR;
use crate::{apic, instruction};
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Gives `target`, which must be idle and not the caller, a job.
pub fn start(target: &Processor, job: fn(usize), argument: usize) {
    target.mailbox.job.store(job as usize, Ordering::Relaxed);
    target.mailbox.argument.store(argument, Ordering::Relaxed);
    target.mailbox.issued.fetch_add(1, Ordering::SeqCst);
    apic::send(target.apic_id(), WAKE_VECTOR);
}

/// Whether the last job that [`start`] gave `target` has ended.
pub fn has_ended(target: &Processor) -> bool {
    let mailbox = &target.mailbox;
    mailbox.finished.load(Ordering::Acquire) == mailbox.issued.load(Ordering::Relaxed)
}

/// Waits until the job that [`start`] gave has ended.
pub fn wait(target: &Processor) {
    while !has_ended(target) {
        core::hint::spin_loop();
    }
}

/// Runs `job` on every other processor of `range` and on the caller if it is in there, and waits.
pub fn run_on(range: Range<usize>, job: fn(usize), argument: usize) {
    let own = processor::current().index();
    let others = || range.clone().filter(|&index| index != own).map(processor::get);
    others().for_each(|target| start(target, job, argument));
    if range.contains(&own) {
        job(argument);
    }
    others().for_each(wait);
}

/// Runs `job` with `context` on all processors, the caller among them, and waits.
pub fn run_everywhere<T: Sync>(context: &T, job: fn(&T)) {
    struct Work<'a, T> {
        context: &'a T,
        job: fn(&T),
    }
    fn carry_out<T: Sync>(work: usize) {
        // SAFETY: the number is the address of the `Work` below, which outlives all of the calls.
        let work = unsafe { &*core::ptr::with_exposed_provenance::<Work<'_, T>>(work) };
        (work.job)(work.context);
    }
    let work = Work { context, job };
    let address = core::ptr::from_ref(&work).expose_provenance();
    run_on(0..processor::count(), carry_out::<T>, address);
}

/// What processors other than the first do: wait for work, halted.
pub(crate) fn serve() -> ! {
    let mailbox = &processor::current().mailbox;
    let finished = || mailbox.finished.load(Ordering::Relaxed);
    loop {
        instruction::halt_until(|| mailbox.issued.load(Ordering::Acquire) != finished());
        let argument = mailbox.argument.load(Ordering::Relaxed);
        // SAFETY: `start` alone stores here, before it raises `issued`, and stores a `fn`.
        let job: fn(usize) = unsafe { core::mem::transmute(mailbox.job.load(Ordering::Relaxed)) };
        job(argument);
        mailbox.finished.store(finished() + 1, Ordering::Release);
    }
}
