//! Function calls from one processor of a Linux guest to another, as the published ipi-bench makes
//! them: `smp_call_function_single`, whose caller waits, by Linux's own path.
//!
//! No module is needed: to read a perf event of another processor is such a call, and any process
//! that may can do it. [LINUX "kernel/events/core.c"] Its target is busy meanwhile, as it would
//! otherwise halt. Of two calls to one processor at once the second waits for a lock of the
//! event's, where the module's calls join a queue and share an IPI.

use super::figure::{Figure, rate};
use super::kind::{Conditions, Workload};
use crate::linux::console::mark;
use crate::linux::place::GUEST_COMMAND_LINE;
use crate::plan::{LinuxGuest, Needs};
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use anyhow::Context;
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value as Json;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Of the one sender whose latency is asked for.
const CALLS: usize = 1000;
/// Of each sender, where many send at once.
const EACH: usize = 300;

pub(super) struct Call;

impl Workload for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn summary(&self) -> &'static str {
        "function calls between processors of a Linux guest, by Linux's own path"
    }

    fn needs(&self) -> Needs {
        Needs { linux: Some(LinuxGuest::default()), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let words = format!("{GUEST_COMMAND_LINE}{}", self.name());
        let step = conditions.step(self.name(), "x2APIC", true, conditions.linux(&words));
        vec![Step { is_traced: false, ..step.clone() }, step]
    }

    fn work(&self, _words: &str) -> anyhow::Result<()> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        anyhow::ensure!(cpus > 1, "a call goes from one processor to another: one is too few");
        let pairs: Vec<_> = (0..cpus / 2).map(Role::of_pair).collect();
        mark(WINDOW_BEGINS);
        for (test, roles, calls) in [
            ("latency", Role::of_pair(0).to_vec(), CALLS),
            ("pairs", pairs.concat(), EACH),
            ("mesh", (0..cpus).map(|_| Role::Anyone).collect(), EACH),
        ] {
            let (count, seconds) = together(&roles, calls)?;
            say!(
                "{{\"record\":\"call\",\"test\":\"{test}\",\"calls\":{count},\
                 \"seconds\":{seconds:.9},\"nanoseconds\":{:.2},\"per_second\":{:.0}}}",
                seconds * 1e9 / calls as f64,
                count as f64 / seconds
            );
        }
        mark(WINDOW_ENDS);
        Ok(())
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("latency", "a call to another processor")
    }

    fn figure(&self, record: &Json) -> Option<Figure> {
        rate(record, "call", record["test"].as_str()?, "calls", "calls/s")
    }
}

/// What the processor of the same place in a list does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Calls one other.
    To(usize),
    /// Calls others as they are drawn.
    Anyone,
    /// Is busy.
    Target,
}

impl Role {
    /// Two neighbours, of which the first calls the second.
    fn of_pair(pair: usize) -> [Self; 2] {
        [Self::To(2 * pair + 1), Self::Target]
    }
}

/// What processors have in common while they work.
struct Common {
    cpus: usize,
    calls: usize,
    /// All begin at once.
    start: Barrier,
    senders: AtomicUsize,
    is_over: AtomicBool,
}

/// All processors in their roles at once; how many calls were made, and in what time from the first
/// to the last.
fn together(roles: &[Role], calls: usize) -> anyhow::Result<(usize, f64)> {
    let senders = roles.iter().filter(|role| **role != Role::Target).count();
    let common = Common {
        cpus: roles.len(),
        calls,
        start: Barrier::new(roles.len()),
        senders: AtomicUsize::new(senders),
        is_over: AtomicBool::new(false),
    };
    let times: Vec<Option<(Instant, Instant)>> = std::thread::scope(|scope| {
        let common = &common;
        let threads: Vec<_> = roles
            .iter()
            .enumerate()
            .map(|(cpu, role)| scope.spawn(move || common.work(cpu, *role)))
            .collect();
        let ends = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a processor's thread failed"))?
        });
        ends.collect::<anyhow::Result<_>>()
    })?;
    let times = || times.iter().flatten();
    let first = times().map(|(began, _)| *began).min().context("nobody calls")?;
    let last = times().map(|(_, ended)| *ended).max().context("nobody calls")?;
    Ok((senders * calls, last.duration_since(first).as_secs_f64()))
}

impl Common {
    /// One processor's part, and when its calls began and ended.
    fn work(&self, cpu: usize, role: Role) -> anyhow::Result<Option<(Instant, Instant)>> {
        let events = self.events(cpu, role);
        self.start.wait();
        let done = match role {
            Role::Target => events.map(|_| None),
            Role::To(_) | Role::Anyone => {
                events.and_then(|events| self.call(cpu, events)).map(Some)
            }
        };
        if role != Role::Target && self.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.is_over.store(true, Ordering::Release);
        }
        // A processor that halted would have to be woken, and after many PAUSEs KVM exits.
        while !self.is_over.load(Ordering::Acquire) {
            std::hint::black_box(());
        }
        done
    }

    /// Binds the thread to its processor; events of those that it calls.
    fn events(&self, cpu: usize, role: Role) -> anyhow::Result<Vec<Counter>> {
        let mut own = CpuSet::new();
        own.set(cpu);
        sched_setaffinity(None, &own).with_context(|| format!("processor {cpu}"))?;
        match role {
            Role::To(target) => Ok(vec![event(target)?]),
            Role::Anyone => (0..self.cpus).filter(|other| *other != cpu).map(event).collect(),
            Role::Target => Ok(Vec::new()),
        }
    }

    fn call(&self, cpu: usize, mut events: Vec<Counter>) -> anyhow::Result<(Instant, Instant)> {
        let mut draw = Draw(cpu as u64);
        let began = Instant::now();
        for _ in 0..self.calls {
            let which = draw.below(events.len());
            events[which].read()?;
        }
        Ok((began, Instant::now()))
    }
}

/// An event of a processor that counts nothing: reading it is the call.
fn event(cpu: usize) -> anyhow::Result<Counter> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu).enabled(true).exclude_kernel(false).exclude_hv(false);
    builder.build().with_context(|| format!("a perf event of processor {cpu}"))
}

/// Numbers that look random, the same in each run: Knuth's generator for MMIX.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_pairs_and_everyone_is_drawn() {
        let pairs: Vec<_> = (0..2).flat_map(Role::of_pair).collect();
        assert_eq!(pairs, [Role::To(1), Role::Target, Role::To(3), Role::Target]);
        let mut draw = Draw(1);
        let mut seen = [0; 7];
        (0..700).for_each(|_| seen[draw.below(7)] += 1);
        assert!(seen.iter().all(|count| (50..200).contains(count)), "{seen:?}");
    }
}
