//! Watches running machines for a while through tracefs: which inhibits are set, who takes
//! interrupts, where those of their functions go.
//!
//! Uses a tracing instance of its own, which is removed at the end. Only inhibit and interrupt
//! events are enabled, no exits. Left out: BPF.

use crate::decode::interrupts;
use crate::folder::reason;
use reading::tracepoint::{
    ACCEPTED, GUEST_LOG, INCOMPLETE_IPI, INHIBIT_CHANGED, UNACCELERATED_ACCESS,
};
use reading::{InterruptCounter, VfioInterrupt};
use reading::{Observation, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};
use trace::inhibit::{Numbering, Reason};
use tracefs::{Directory, Error, InhibitChange, Instance, Line as TraceLine, RouteChange};

/// Events that tell the state, the hardware's interrupts and software's.
const EVENTS: &[&str] = &[
    INHIBIT_CHANGED.name,
    ACCEPTED.name,
    INCOMPLETE_IPI.name,
    UNACCELERATED_ACCESS.name,
    INJECTED,
    RouteChange::EVENT,
    GUEST_LOG.name,
];
/// The row of Intel's wake-up vector.
const WAKEUPS: &str = "PIW";
const INJECTED: &str = "kvm_inj_virq";

/// Most events that are kept of a trace.
const EVENTS_LIMIT: usize = 1_000_000;

/// What a trace says, by thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// How it was made.
    pub source: String,
    /// Seconds it spans.
    pub seconds: f64,
    events: Vec<Event>,
    /// Rows of /proc/interrupts before and after; empty where they could not be read.
    before: Vec<InterruptCounter>,
    after: Vec<InterruptCounter>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    thread: u32,
    time: f64,
    kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum EventKind {
    /// The reason's bit, whether it was set, and the mask afterwards.
    Inhibit {
        bit: u32,
        is_set: bool,
        mask: u64,
    },
    Accelerated,
    Injected,
    Route {
        host_irq: u32,
        route: Route,
    },
    Woken,
}

/// Records for a while on this host.
pub fn record(seconds: f64) -> Result<Trace, String> {
    let directory = Directory::find().map_err(told)?;
    let instance =
        Instance::create(&directory).map_err(|error| told(error) + " (root is needed)")?;
    let before = counted();
    let start = Instant::now();
    instance.enable_kvm_events(EVENTS).map_err(told)?;
    std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.1, 3600.0)));
    instance.stop();
    let spent = start.elapsed().as_secs_f64();
    let after = counted();
    let mut trace = parse(&instance.text().map_err(told)?);
    trace.seconds = spent;
    trace.source = format!("tracefs, {spent:.1} s");
    (trace.before, trace.after) = (before, after);
    Ok(trace)
}

fn counted() -> Vec<InterruptCounter> {
    fs::read_to_string("/proc/interrupts").map_or(vec![], |text| interrupts(&text))
}

fn told(error: Error) -> String {
    match error {
        Error::File { path, source } => format!("{}: {}", path.display(), reason(&source)),
        other => other.to_string(),
    }
}

/// Reads ftrace's text.
pub fn parse(text: &str) -> Trace {
    let mut trace = Trace { source: "ftrace text".into(), ..Trace::default() };
    trace.events = text.lines().filter_map(event).take(EVENTS_LIMIT).collect();
    let times = || trace.events.iter().map(|event| event.time);
    trace.seconds = times().fold(f64::MIN, f64::max) - times().fold(f64::MAX, f64::min);
    if trace.events.is_empty() {
        trace.seconds = 0.0;
    }
    trace
}

fn event(line: &str) -> Option<Event> {
    let TraceLine { thread, seconds, event, text } = TraceLine::parse(line)?;
    let kind = match event {
        name if name == INHIBIT_CHANGED.name => {
            let InhibitChange { bit, is_set, mask } = InhibitChange::parse(text)?;
            EventKind::Inhibit { bit, is_set, mask }
        }
        INJECTED => EventKind::Injected,
        name if name == GUEST_LOG.name => EventKind::Woken,
        RouteChange::EVENT => {
            let RouteChange { is_posted, host_irq, vcpu, vector } = RouteChange::parse(text)?;
            EventKind::Route { host_irq, route: Route { is_posted, vcpu, vector } }
        }
        name if EVENTS.contains(&name) => EventKind::Accelerated,
        _ => return None,
    };
    Some(Event { thread, time: seconds, kind })
}

impl Trace {
    /// The threads that occur.
    pub fn threads(&self) -> BTreeSet<u32> {
        self.events.iter().map(|event| event.thread).collect()
    }

    /// What is seen of the machine that these threads run. The trace ends when watching ends;
    /// before the first change the state is the one that the change reveals.
    pub fn observe(&self, threads: &BTreeSet<u32>, numbering: &Numbering) -> Observation {
        let mut seen = Observation {
            source: self.source.clone(),
            seconds: self.seconds,
            reasons: vec![],
            active_seconds: None,
            changes: 0,
            accelerated: 0,
            injected: 0,
            routes: self.routes(),
            taken: self.taken(),
            woken: self.woken(),
            interrupts: self.after.clone(),
        };
        let first = self.events.iter().map(|event| event.time).fold(f64::MAX, f64::min);
        let mut line = Line { since: first, mask: None, active: 0.0, reasons: BTreeMap::new() };
        let mut events: Vec<&Event> =
            self.events.iter().filter(|event| threads.contains(&event.thread)).collect();
        events.sort_by(|a, b| a.time.total_cmp(&b.time));
        for event in events {
            match event.kind {
                EventKind::Accelerated => seen.accelerated += 1,
                EventKind::Injected => seen.injected += 1,
                // Of the whole host: whose thread they happen in says nothing.
                EventKind::Route { .. } | EventKind::Woken => {}
                EventKind::Inhibit { bit, is_set, mask } => {
                    seen.changes += 1;
                    let before = if is_set { mask & !(1 << bit) } else { mask | 1 << bit };
                    line.until(event.time, line.mask.unwrap_or(before), numbering);
                    line.mask = Some(mask);
                }
            }
        }
        if let Some(mask) = line.mask {
            line.until(first + self.seconds, mask, numbering);
            seen.active_seconds = Some(line.active);
            seen.reasons = line.reasons.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
        }
        seen
    }
}

impl Trace {
    /// The last of each interrupt.
    fn routes(&self) -> BTreeMap<u32, Route> {
        let routes = self.events.iter().filter_map(|event| match event.kind {
            EventKind::Route { host_irq, route } => Some((host_irq, route)),
            _ => None,
        });
        routes.collect()
    }

    /// Of interrupts that vfio has set up; one that was set up meanwhile was taken never before.
    fn taken(&self) -> BTreeMap<u32, u64> {
        let before = |label: &str| {
            self.before.iter().find(|row| row.label == label).map_or(0, |row| row.total)
        };
        let functions = self.after.iter().filter_map(|row| Some((VfioInterrupt::of(row)?, row)));
        functions
            .map(|(one, row)| (one.host_irq, row.total.saturating_sub(before(&row.label))))
            .collect()
    }

    fn woken(&self) -> u64 {
        let row = |rows: &[InterruptCounter]| {
            rows.iter().find(|row| row.label == WAKEUPS).map_or(0, |row| row.total)
        };
        let logged = self.events.iter().filter(|event| event.kind == EventKind::Woken).count();
        logged as u64 + row(&self.after).saturating_sub(row(&self.before))
    }
}

/// The state over time.
struct Line {
    since: f64,
    mask: Option<u64>,
    active: f64,
    reasons: BTreeMap<Reason, f64>,
}

impl Line {
    fn until(&mut self, time: f64, mask: u64, numbering: &Numbering) {
        let spent = (time - self.since).max(0.0);
        self.since = self.since.max(time);
        if mask == 0 {
            self.active += spent;
        }
        for reason in numbering.reasons(mask).0 {
            *self.reasons.entry(reason).or_default() += spent;
        }
    }
}

/// The threads of a process on this host.
pub fn threads_of(pid: u32) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .chain([pid])
        .take(100_000)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# tracer: nop
 qemu-system-x86-141     [000] .....     4.000000: kvm_apicv_inhibit_changed: set reason=2, inhibits=0x4
 qemu-system-x86-141     [000] .....     5.000000: kvm_apicv_inhibit_changed: cleared reason=2, inhibits=0x0
 CPU 0/KVM-142     [001] d..1.     6.000000: kvm_apicv_accept_irq: apicid 0 vec 48 (Fixed|edge)
 odd - name [x]-143     [001] d..1.     6.500000: kvm_inj_virq: IRQ 0x30
 qemu-system-x86-141     [000] .....     8.000000: kvm_apicv_inhibit_changed: set reason=8, inhibits=0x100 PIT_REINJ
 other-999     [000] .....    14.000000: kvm_apicv_inhibit_changed: set reason=8, inhibits=0x100
 damaged line
 qemu-1 [000] ..... 5.0: kvm_apicv_inhibit_changed: set reason=99, inhibits=0x4
";

    #[test]
    fn time_with_each_reason_adds_up_per_machine() {
        let trace = parse(TEXT);
        let numbering = Numbering::of_kernel("6.1.0").unwrap();
        let seen = trace.observe(&[141, 142].into(), &numbering);
        assert_eq!((seen.changes, seen.accelerated, seen.injected), (3, 1, 0));
        assert_eq!(seen.seconds, 10.0);
        assert_eq!(seen.active_seconds, Some(3.0));
        assert_eq!(seen.reasons, [(Reason::Absent, 1.0), (Reason::PitReinject, 6.0)]);
        let share = seen.active_share().unwrap();
        assert!((share - 0.3).abs() < 1e-9);
        let other = trace.observe(&[7].into(), &numbering);
        assert_eq!((other.changes, other.active_seconds), (0, None));
    }

    #[test]
    fn of_a_function_s_interrupts_the_last_route_and_what_the_host_took_are_seen() {
        let text = " m-9 [000] ..... 4.0: kvm_pi_irte_update: PI is disabled for irq 34, vcpu 0, \
                    gsi: 0x18, gvec: 0xe1, pi_desc_addr: 0x0\n \
                    m-9 [000] ..... 5.0: kvm_pi_irte_update: PI is enabled and being updated for \
                    irq 34, vcpu 1, gsi: 0x18, gvec: 0xe1, pi_desc_addr: 0x0\n \
                    <idle>-0 [001] d.h.. 5.5: kvm_avic_ga_log: vmid=1, vcpuid=1\n";
        let rows = |piw: u64, taken: u64| {
            let row = "IR-PCI-MSIX-0000:00:1d.0 0-edge vfio-msix[0](0000:00:1d.0)";
            interrupts(&format!(
                "      CPU0  CPU1\n 34:  {taken}  1  {row}\n 35:  9  9 nvme0q0\nPIW:  {piw}  0 x\n"
            ))
        };
        let trace = Trace { before: rows(3, 10), after: rows(5, 17), ..parse(text) };
        let seen = trace.observe(&[9].into(), &Numbering::of_kernel("6.12.0").unwrap());
        let route = Route { is_posted: true, vcpu: Some(1), vector: 0xE1 };
        assert_eq!(seen.routes, BTreeMap::from([(34, route)]));
        assert_eq!(seen.taken, BTreeMap::from([(34, 7)]));
        assert_eq!((seen.woken, seen.interrupts.len()), (3, 2));
        assert_eq!((seen.accelerated, seen.injected), (0, 0));
    }

    #[test]
    fn names_with_blanks_and_brackets_keep_their_thread() {
        assert!(parse(TEXT).threads().is_superset(&[141, 142, 999].into()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,300}") {
            parse(&text);
        }
    }
}
