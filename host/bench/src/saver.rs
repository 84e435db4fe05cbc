//! Saving and restoring a guest's processors while it runs on, as for live migration: all are
//! stopped, their state is read, written back, and they go on. [KVM-API "KVM_GET_LAPIC"]
//!
//! A processor's own thread reads and writes, as in most VMMs, and none writes before all have
//! read, as on the other side of a migration.

use crate::error::BenchError;
use kvm_bindings::{kvm_lapic_state, kvm_mp_state, kvm_vcpu_events};
use kvm_ioctls::VcpuFd;
use rustix::process::getpid;
use rustix::thread::gettid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vmm_sys_util::signal::SIGRTMIN;

/// A signal may come just before a processor enters KVM: so it is sent again after this time.
const AGAIN: Duration = Duration::from_micros(50);

/// Before all read, before all write, and before all go on.
const MEETINGS: u64 = 3;

/// Who saves and restores all processors.
pub struct Saver(pub(crate) Arc<Stop>);

impl Saver {
    /// Does it once; false if the guest has ended. Fails as [`BenchError`] says.
    pub fn save_and_restore(&self) -> Result<bool, BenchError> {
        let stop = &self.0;
        stop.is_wanted.store(true, Ordering::SeqCst);
        stop.interrupt_all();
        let is_read = stop.meet() && stop.meet();
        stop.is_wanted.store(false, Ordering::SeqCst);
        let is_done = is_read && stop.meet();
        stop.lock().error.take().map_or(Ok(is_done), Err)
    }
}

/// Where all processors meet to be saved, and who wants that.
pub(crate) struct Stop {
    is_wanted: AtomicBool,
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

struct Meeting {
    /// By processor: its thread, once it has begun, and whether it has come.
    processors: Vec<(Option<i32>, bool)>,
    /// Who has come, of all processors and who saves them.
    come: usize,
    /// How many meetings there have been.
    count: u64,
    /// No processor runs any more, or one failed.
    is_over: bool,
    error: Option<BenchError>,
}

impl Stop {
    pub fn new(processors: usize) -> Self {
        let meeting = Meeting {
            processors: vec![(None, false); processors],
            come: 0,
            count: 0,
            is_over: false,
            error: None,
        };
        Self { is_wanted: false.into(), meeting: meeting.into(), changed: Condvar::new() }
    }

    /// The calling thread runs this processor from here on.
    pub fn begin(&self, processor: usize) {
        if let Some((thread, _)) = self.lock().processors.get_mut(processor) {
            *thread = Some(gettid().as_raw_nonzero().get());
        }
    }

    /// A processor runs no more: nobody waits for it.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The calling thread's processor is out of KVM: it is saved and restored if that is wanted.
    pub fn pass(&self, processor: usize, vcpu: &VcpuFd) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        self.come(processor);
        if let Err(error) = self.save(vcpu) {
            self.lock().error.get_or_insert(error);
            self.end();
        }
    }

    fn save(&self, vcpu: &VcpuFd) -> Result<(), BenchError> {
        if !self.meet() {
            return Ok(());
        }
        let state = State::of(vcpu)?;
        if self.meet() {
            state.restore(vcpu)?;
            self.meet();
        }
        Ok(())
    }

    fn come(&self, processor: usize) {
        if let Some((_, has_come)) = self.lock().processors.get_mut(processor) {
            *has_come = true;
        }
        self.changed.notify_all();
    }

    /// Has all processors leave KVM.
    fn interrupt_all(&self) {
        let mut meeting = self.lock();
        while !meeting.is_over && meeting.processors.iter().any(|(_, has_come)| !has_come) {
            meeting.processors.iter().filter(|(_, has_come)| !has_come).for_each(|(thread, _)| {
                thread.iter().for_each(|thread| interrupt(*thread));
            });
            let waited = self.changed.wait_timeout(meeting, AGAIN);
            meeting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until all have come; false if they never will.
    fn meet(&self) -> bool {
        let mut meeting = self.lock();
        meeting.come += 1;
        let count = meeting.count;
        if meeting.come > meeting.processors.len() {
            (meeting.come, meeting.count) = (0, count + 1);
            if meeting.count.is_multiple_of(MEETINGS) {
                meeting.processors.iter_mut().for_each(|(_, has_come)| *has_come = false);
            }
            self.changed.notify_all();
        }
        while meeting.count == count && !meeting.is_over {
            meeting = self.changed.wait(meeting).unwrap_or_else(PoisonError::into_inner);
        }
        meeting.count != count
    }

    fn lock(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn interrupt(thread: i32) {
    let process = getpid().as_raw_nonzero().get();
    // SAFETY: the request takes numbers alone, and the signal has a handler that does nothing. It
    // fails for a thread that has ended, which is as good.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGRTMIN()) };
}

/// What is saved of a processor: its interrupts, and whether it runs.
struct State {
    run: kvm_mp_state,
    apic: Box<kvm_lapic_state>,
    events: kvm_vcpu_events,
}

impl State {
    /// In an order in which what one request settles is there for the next: the first may take an
    /// INIT or a SIPI.
    fn of(vcpu: &VcpuFd) -> Result<Self, BenchError> {
        let fault = |request| move |error| BenchError::kvm(request, error);
        let run = vcpu.get_mp_state().map_err(fault("KVM_GET_MP_STATE"))?;
        let apic = vcpu.get_lapic().map_err(fault("KVM_GET_LAPIC"))?.into();
        let events = vcpu.get_vcpu_events().map_err(fault("KVM_GET_VCPU_EVENTS"))?;
        Ok(Self { run, apic, events })
    }

    fn restore(&self, vcpu: &VcpuFd) -> Result<(), BenchError> {
        let fault = |request| move |error| BenchError::kvm(request, error);
        vcpu.set_mp_state(self.run).map_err(fault("KVM_SET_MP_STATE"))?;
        vcpu.set_lapic(&self.apic).map_err(fault("KVM_SET_LAPIC"))?;
        vcpu.set_vcpu_events(&self.events).map_err(fault("KVM_SET_VCPU_EVENTS"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor that comes each time that it is wanted, until the end.
    fn come(stop: &Stop, processor: usize) {
        stop.begin(processor);
        while !stop.lock().is_over {
            if !stop.is_wanted.load(Ordering::SeqCst) {
                std::thread::yield_now();
                continue;
            }
            stop.come(processor);
            let _ = stop.meet() && stop.meet() && stop.meet();
        }
    }

    #[test]
    fn all_meet_each_time_and_none_waits_for_one_that_has_ended() {
        vmm_sys_util::signal::register_signal_handler(SIGRTMIN(), crate::run::interrupt)
            .expect("a handler");
        let stop = Arc::new(Stop::new(3));
        let saver = Saver(stop.clone());
        std::thread::scope(|scope| {
            for processor in 0..3 {
                let stop = stop.clone();
                scope.spawn(move || come(&stop, processor));
            }
            for _ in 0..20 {
                assert!(saver.save_and_restore().expect("nobody fails"));
            }
            assert_eq!(stop.lock().count, 20 * MEETINGS);
            stop.end();
        });
        assert!(!saver.save_and_restore().expect("nobody fails"), "all have ended");
    }
}
