//! Watches running machines for a while through tracefs: which inhibits are set, who takes interrupts.
//!
//! Uses an instance of its own (`/sys/kernel/tracing/instances/avicenna-PID`), which is removed at the end: the host's
//! own tracing is not touched. Only inhibit and interrupt events are enabled, no exits. Left out: BPF.

use crate::folder::reason;
use rules::feature::{ACCEPTED, INCOMPLETE_IPI, INHIBIT_CHANGED, UNACCELERATED_ACCESS};
use rules::why::Observation;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace::inhibit::{Numbering, Reason};

/// Events that tell the state, the hardware's interrupts and software's.
const EVENTS: &[&str] = &[
    INHIBIT_CHANGED.name,
    ACCEPTED.name,
    INCOMPLETE_IPI.name,
    UNACCELERATED_ACCESS.name,
    INJECTED,
];
const INJECTED: &str = "kvm_inj_virq";

/// Most of a trace that is read, and most events that are kept of it.
const TRACE_LIMIT: u64 = 64 << 20;
const EVENTS_LIMIT: usize = 1_000_000;

/// What a trace says, by thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// How it was made.
    pub source: String,
    /// Seconds it spans.
    pub seconds: f64,
    events: Vec<Event>,
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
}

/// Records for a while on this host.
pub fn record(seconds: f64) -> Result<Trace, String> {
    let instance = Instance::create()?;
    for event in EVENTS {
        instance.enable(event)?;
    }
    let start = Instant::now();
    instance.write("tracing_on", "1")?;
    std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.1, 3600.0)));
    instance.write("tracing_on", "0")?;
    let spent = start.elapsed().as_secs_f64();
    let mut text = String::new();
    let path = instance.folder.join("trace");
    File::open(&path)
        .and_then(|file| file.take(TRACE_LIMIT).read_to_string(&mut text))
        .map_err(|error| format!("{}: {}", path.display(), reason(&error)))?;
    let mut trace = parse(&text);
    trace.seconds = spent;
    trace.source = format!("tracefs, {spent:.1} s");
    Ok(trace)
}

/// A tracing instance that goes with this value.
struct Instance {
    folder: PathBuf,
}

impl Instance {
    fn create() -> Result<Instance, String> {
        let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let root = roots
            .into_iter()
            .map(Path::new)
            .find(|root| root.join("events").is_dir())
            .ok_or("tracefs is not mounted or not readable")?;
        if !root.join("events/kvm").is_dir() {
            return Err("this kernel has no kvm events: is the kvm module loaded?".into());
        }
        let folder = root.join(format!("instances/avicenna-{}", std::process::id()));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(format!("{}: {} (root is needed)", folder.display(), reason(&error)))
            }
            _ => Ok(Instance { folder }),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {}", path.display(), reason(&error)))
    }

    /// Kernels lack events of later ones and of the other vendor.
    fn enable(&self, event: &str) -> Result<(), String> {
        let file = format!("events/kvm/{event}/enable");
        if self.folder.join(&file).exists() { self.write(&file, "1") } else { Ok(()) }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Should this fail, an empty instance stays; the next reboot removes it.
        let _ = fs::remove_dir(&self.folder);
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

/// ` qemu-system-x86-141     [000] .....     4.286000: kvm_apicv_inhibit_changed: set reason=2, inhibits=0x4`
fn event(line: &str) -> Option<Event> {
    if line.starts_with('#') || line.len() > 1000 {
        return None;
    }
    // Names may hold any character: the processor's bracket comes after the thread's number.
    let (before, after) = line.split_once(" [")?;
    let thread = before.trim_end().rsplit('-').next()?.parse().ok()?;
    let (_, after) = after.split_once(']')?;
    let (stamp, rest) = after.split_once(": ")?;
    let time = stamp.split_whitespace().last()?.parse().ok()?;
    let (name, body) = rest.split_once(':')?;
    let kind = match name.trim() {
        name if name == INHIBIT_CHANGED.name => inhibit(body.trim())?,
        INJECTED => EventKind::Injected,
        name if EVENTS.contains(&name) => EventKind::Accelerated,
        _ => return None,
    };
    Some(Event { thread, time, kind })
}

/// `set reason=8, inhibits=0x100 PIT_REINJ`
fn inhibit(body: &str) -> Option<EventKind> {
    let (verb, rest) = body.split_once(" reason=")?;
    let (bit, rest) = rest.split_once(',')?;
    let mask = rest.trim().strip_prefix("inhibits=0x")?.split_whitespace().next()?;
    Some(EventKind::Inhibit {
        bit: bit.trim().parse().ok().filter(|bit| *bit < 64)?,
        is_set: verb == "set",
        mask: u64::from_str_radix(mask, 16).ok()?,
    })
}

impl Trace {
    /// The threads that occur.
    pub fn threads(&self) -> BTreeSet<u32> {
        self.events.iter().map(|event| event.thread).collect()
    }

    /// What is seen of the machine that these threads run. The trace ends when watching ends; before the first change
    /// the state is the one that the change reveals.
    pub fn observe(&self, threads: &BTreeSet<u32>, numbering: &Numbering) -> Observation {
        let mut seen = Observation {
            source: self.source.clone(),
            seconds: self.seconds,
            reasons: vec![],
            active_seconds: None,
            changes: 0,
            accelerated: 0,
            injected: 0,
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
