//! Running: a thread per vCPU, one for the devices' timers.

use crate::devices::Devices;
use crate::error::BenchError;
use crate::outcome::{End, Outcome};
use crate::virtual_machine::VirtualMachine;
use kvm_ioctls::{VcpuExit, VcpuFd};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

/// Longest sleep of the thread that looks after timers and the end of the run.
const PULSE: Duration = Duration::from_millis(5);

type Exits = BTreeMap<&'static str, u64>;

/// What interrupts a vCPU's thread does nothing else.
pub(crate) extern "C" fn interrupt(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

impl VirtualMachine {
    /// Runs to the end, to `limit` or until `stop` says so. `look` is called from time to time with
    /// what the guest wrote to its serial ports, and answers what to type at the first.
    pub fn run(
        &mut self,
        limit: Duration,
        stop: &AtomicBool,
        mut look: impl FnMut(&[(u8, u8)]) -> Vec<u8>,
    ) -> Result<End, BenchError> {
        register_signal_handler(SIGRTMIN(), interrupt)
            .map_err(|error| BenchError::Signal(error.to_string()))?;
        let over = Arc::new(AtomicBool::new(false));
        lock(&self.devices).reader = self.is_read_by_line.then(std::thread::current);
        let places = places(self.is_pinned);
        let threads: Vec<io::Result<JoinHandle<Exits>>> = std::mem::take(&mut self.vcpus)
            .into_iter()
            .zip(places)
            .zip(0..)
            .map(|((vcpu, place), index)| {
                let (devices, over) = (self.devices.clone(), over.clone());
                let stop = self.stop.clone();
                Builder::new().name(thread_name(index)).spawn(move || {
                    stay_on(place);
                    stop.begin(index.into());
                    let exits = run_processor(vcpu, &devices, &over, |vcpu| {
                        stop.pass(index.into(), vcpu);
                    });
                    stop.end();
                    exits
                })
            })
            .collect();
        // A guest that lacks a vCPU is not run.
        over.store(threads.iter().any(Result::is_err), Ordering::SeqCst);
        let outcome = self.watch(limit, stop, &over, &mut look);
        over.store(true, Ordering::SeqCst);
        self.stop.end();
        let mut process_exits = BTreeMap::new();
        let mut without = None;
        for thread in threads {
            match thread {
                Ok(thread) => join(thread).into_iter().for_each(|(reason, count)| {
                    *process_exits.entry(reason.to_owned()).or_default() += count;
                }),
                Err(error) => without = Some(error),
            }
        }
        if let Some(error) = without {
            return Err(BenchError::Thread(error));
        }
        look(&std::mem::take(&mut lock(&self.devices).console));
        Ok(End { outcome, process_exits })
    }

    fn watch(
        &self,
        limit: Duration,
        stop: &AtomicBool,
        over: &AtomicBool,
        look: &mut impl FnMut(&[(u8, u8)]) -> Vec<u8>,
    ) -> Outcome {
        let started = Instant::now();
        let mut typed: Vec<u8> = Vec::new();
        loop {
            let mut devices = lock(&self.devices);
            let next = devices.advance();
            let console = std::mem::take(&mut devices.console);
            if let Some(outcome) = devices.outcome.clone() {
                devices.console = console;
                return outcome;
            }
            let taken = devices.type_at(0, &typed);
            drop(devices);
            typed.drain(..taken);
            typed.extend(look(&console));
            if stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed) {
                return Outcome::Stopped;
            }
            if started.elapsed() >= limit {
                return Outcome::TimeLimit;
            }
            let rest = next.unwrap_or(PULSE).min(PULSE);
            match self.is_read_by_line {
                true => std::thread::park_timeout(rest),
                false => std::thread::sleep(rest),
            }
        }
    }
}

/// What the thread of a vCPU is called, for who moves it.
pub fn thread_name(vcpu: u16) -> String {
    format!("vcpu {vcpu}")
}

/// A processor of the host for each virtual one, over and over; nothing but None if they are free.
fn places(is_pinned: bool) -> impl Iterator<Item = Option<usize>> {
    let own = sched_getaffinity(None).unwrap_or_default();
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu)).collect();
    let is_pinned = is_pinned && !usable.is_empty();
    (0..).map(move |turn: usize| is_pinned.then(|| usable[turn % usable.len()]))
}

/// Keeps the calling thread on one processor. Where the host refuses, it runs where it may.
fn stay_on(place: Option<usize>) {
    if let Some(cpu) = place {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
}

/// A panic of a processor's thread leaves the devices usable: they are plain state.
fn lock(devices: &Mutex<Devices>) -> std::sync::MutexGuard<'_, Devices> {
    devices.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interrupts a thread until it has ended: a signal may come just before it enters KVM.
fn join(thread: JoinHandle<Exits>) -> Exits {
    while !thread.is_finished() {
        // It fails for a thread that has just ended, which is what is wanted.
        let _ = thread.kill(SIGRTMIN());
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap_or_default()
}

/// Runs it to the end; `pass` is called each time that it is out of KVM.
fn run_processor(
    mut vcpu: VcpuFd,
    devices: &Mutex<Devices>,
    over: &AtomicBool,
    pass: impl Fn(&VcpuFd),
) -> Exits {
    let mut exits = Exits::new();
    while !over.load(Ordering::SeqCst) {
        let (reason, end) = match vcpu.run() {
            Ok(exit) => handle(exit, devices),
            Err(error) if [libc::EINTR, libc::EAGAIN].contains(&error.errno()) => ("signal", None),
            Err(error) => ("error", Some(Outcome::Failed(format!("KVM_RUN: {error}")))),
        };
        *exits.entry(reason).or_default() += 1;
        let mut devices = lock(devices);
        if let Some(end) = end {
            devices.outcome.get_or_insert(end);
        }
        if devices.outcome.is_some() {
            break;
        }
        drop(devices);
        pass(&vcpu);
    }
    exits
}

/// Answers one return from KVM: its name, and the end of the run where it is one.
fn handle(exit: VcpuExit<'_>, devices: &Mutex<Devices>) -> (&'static str, Option<Outcome>) {
    match exit {
        VcpuExit::IoIn(port, data) => {
            lock(devices).port_in(port, data);
            ("port read", None)
        }
        VcpuExit::IoOut(port, data) => {
            lock(devices).port_out(port, data);
            ("port write", None)
        }
        VcpuExit::MmioRead(address, data) => {
            lock(devices).read(address, data);
            ("memory read", None)
        }
        VcpuExit::MmioWrite(address, data) => {
            lock(devices).write(address, data);
            ("memory write", None)
        }
        VcpuExit::IoapicEoi(vector) => {
            lock(devices).end_of_interrupt(vector);
            ("end of interrupt", None)
        }
        VcpuExit::Intr | VcpuExit::IrqWindowOpen => ("interrupt window", None),
        VcpuExit::Hlt => ("halt", None),
        VcpuExit::Shutdown => ("shutdown", Some(Outcome::TripleFault)),
        VcpuExit::SystemEvent(..) => ("system event", Some(Outcome::Reset)),
        VcpuExit::FailEntry(reason, cpu) => {
            ("failed entry", Some(Outcome::Failed(format!("entry {reason:#x} on CPU {cpu}"))))
        }
        other => ("other", Some(Outcome::Failed(format!("{other:?}")))),
    }
}
