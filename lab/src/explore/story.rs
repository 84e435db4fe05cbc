//! A finding told in three lines: what is wrong, how it came to that, what it needs.

use super::oracle::{Alarm, Rule, Way};
use super::window::Seen;
use arch::address::SystemPhysical;
use arch::time::Picoseconds;
use board::perturb::Hold;
use trace::exit_reason::Isa;
use trace::symbol::Symbols;
use trace::{Event, Record, VirtualCpu};

/// How long is waited for a vCPU that sleeps when it should not: longer than a kernel waits for
/// the end of a grace period or the release of a lock.
pub(super) const AFTERWARDS: Picoseconds = Picoseconds::from_milliseconds(100);

/// What the guest says in place of a vector of one that it started again and that does not come.
const STARTUP: u8 = 0;

/// Whether that vCPU enters its guest again.
pub(super) fn is_entry(alarm: &Alarm, record: &Record) -> bool {
    record.at > alarm.at
        && matches!(record.event, Event::Entry { vcpu, .. } if vcpu.0.0 == alarm.vcpu)
}

/// What became of it in what happened up to that, or in all that time. One that was lost looks the
/// same as one that is late if the next that is sent wakes the vCPU, so it is said whether one was.
pub(super) fn fate(alarm: &Alarm, records: &[Record]) -> String {
    let Some(again) = records.iter().find(|record| is_entry(alarm, record)) else {
        return "; nor does that vCPU enter its guest in another 100 ms".into();
    };
    let is_later = |record: &&Record| record.at > alarm.since && record.at < again.at;
    let is_posted = records.iter().filter(is_later).any(
        |record| matches!(record.event, Event::Posted { place, .. } if place.0 == alarm.place),
    );
    let late = micros(Picoseconds(again.at.0 - alarm.since.0));
    let between = if is_posted { "another was" } else { "nothing was" };
    format!(
        "; that vCPU enters its guest {late} after it came, and {between} posted to it meanwhile"
    )
}

/// Tells it.
pub(super) fn tell(
    alarm: &Alarm,
    seen: &Seen,
    records: &[Record],
    symbols: &Symbols,
) -> Vec<String> {
    vec![what(alarm), how(alarm, records), needs(&seen.holds, alarm, symbols)]
}

fn micros(time: Picoseconds) -> String {
    format!("{:.1} µs", time.0 as f64 / 1e6)
}

fn since(alarm: &Alarm) -> String {
    micros(Picoseconds(alarm.at.0.saturating_sub(alarm.since.0)))
}

fn what(alarm: &Alarm) -> String {
    let Alarm { rule, vcpu, cpu, vector, way, text, .. } = alarm;
    let (title, since) = (rule.title(), since(alarm));
    match rule {
        Rule::Console | Rule::Ended => format!("{title}: {text}"),
        Rule::Lost if *vector == STARTUP => {
            format!("{title}: a startup IPI, says the guest of {vcpu:#x} on CPU {cpu}")
        }
        Rule::Lost | Rule::Unasked => {
            format!("{title}: vector {vector:#x}, says the guest of {vcpu:#x} on CPU {cpu}")
        }
        Rule::Elsewhere => {
            format!("{title}{}: the one of {vcpu:#x}, for {since} on CPU {cpu}", to_whom(*way))
        }
        Rule::InService => format!(
            "{title}: vector {vector:#x}, for {since} at the one of {vcpu:#x} on CPU {cpu}, which is \
             idle"
        ),
        Rule::SaidToRun => format!(
            "{title}{}: the one of {vcpu:#x}, for {since} on CPU {cpu}, which is idle",
            to_whom(*way)
        ),
        Rule::Asleep => format!(
            "{title}: vector {vector:#x}, {}, for {since} at the one of {vcpu:#x} on CPU {cpu}, \
             which is idle",
            way.name()
        ),
        Rule::NotTaken => format!(
            "{title}: vector {vector:#x}, {}, for {since} at the one of {vcpu:#x} on CPU {cpu}",
            way.name()
        ),
    }
}

/// Who is told what is not so, where it is not the guest's other processors.
fn to_whom(way: Way) -> &'static str {
    if way == Way::Device { ", to functions that interrupt it" } else { "" }
}

/// When the vCPU left for good, and who sent the vector that waits.
fn how(alarm: &Alarm, records: &[Record]) -> String {
    if alarm.rule == Rule::Elsewhere {
        return whence(alarm, records);
    }
    let own = VirtualCpu(SystemPhysical(alarm.vcpu));
    let since = alarm.since;
    let before = || records.iter().rev().filter(move |record| record.at <= since);
    let left = before().find(|record| match record.event {
        Event::SvmExit { vcpu, .. } | Event::VmxExit { vcpu, .. } => vcpu == own,
        _ => false,
    });
    let posted = before().find(|record| {
        matches!(record.event, Event::Posted { place, vector }
            if place.0 == alarm.place && vector.0 == alarm.vector)
    });
    let sent = posted.and_then(|posted| {
        let mut own = before().filter(|record| record.cpu == posted.cpu && record.at <= posted.at);
        own.find_map(|record| match record.event {
            Event::VirtualIpiSent { icr, .. } => Some((record, icr)),
            _ => None,
        })
    });
    let when = |at: Picoseconds| match left {
        Some(left) if at >= left.at => {
            format!("{} after that vCPU had left", micros(Picoseconds(at.0 - left.at.0)))
        }
        Some(left) => format!("{} before that vCPU left", micros(Picoseconds(left.at.0 - at.0))),
        None => "after that vCPU had left".into(),
    };
    if let Some(posted) = posted.filter(|_| alarm.way == Way::Device) {
        return format!("an IOMMU posted it for a function {}", when(posted.at));
    }
    let by_vector = || {
        before().find_map(|record| match record.event {
            Event::VirtualIpiSent { icr, .. } if icr as u8 == alarm.vector => Some((record, icr)),
            _ => None,
        })
    };
    // What is lost was posted nowhere, and what comes unasked may have been; who sent the vector
    // last may be the one.
    let is_noticed = matches!(alarm.rule, Rule::Lost | Rule::Unasked);
    let sent = sent.or_else(|| by_vector().filter(|_| is_noticed));
    let Some((sent, icr)) = sent else { return "nobody posted it in the window".into() };
    let cpu = sent.cpu.0;
    let first = format!("CPU {cpu}'s guest wrote {icr:#x} to its ICR {}", when(sent.at));
    let exit = records.iter().find(|record| {
        record.cpu == sent.cpu && record.at >= sent.at && exit_name(&record.event).is_some()
    });
    match exit.and_then(|exit| Some((exit, exit_name(&exit.event)?))) {
        Some((exit, name)) => {
            let later = micros(Picoseconds(exit.at.0 - sent.at.0));
            format!("{first}; its next exit, {later} later, was {name}")
        }
        None => first,
    }
}

/// Where a vCPU entered its guest last, and where before it was moved.
fn whence(alarm: &Alarm, records: &[Record]) -> String {
    let own = VirtualCpu(SystemPhysical(alarm.vcpu));
    let is_own =
        |record: &&Record| matches!(record.event, Event::Entry { vcpu, .. } if vcpu == own);
    let mut entries = records.iter().rev().filter(|one| one.at <= alarm.since).filter(is_own);
    let Some(last) = entries.next() else { return "it entered its guest before the window".into() };
    let ago = |record: &Record| micros(Picoseconds(alarm.since.0 - record.at.0));
    let there = format!("it had entered its guest there {} before", ago(last));
    match entries.find(|one| one.cpu != last.cpu) {
        Some(other) => format!("{there}, and on CPU {} {} before", other.cpu.0, ago(other)),
        None => there,
    }
}

fn exit_name(event: &Event) -> Option<String> {
    match *event {
        Event::SvmExit { code, info1, info2, .. } => {
            let name = Isa::Svm.reason_name(code.into_bits() as u32).unwrap_or("another");
            Some(format!("{name} ({info1:#x}, {info2:#x})"))
        }
        Event::VmxExit { reason, .. } => {
            Some(Isa::Vmx.reason_name(reason & 0xFFFF).unwrap_or("another").to_owned())
        }
        _ => None,
    }
}

fn needs(holds: &[Hold], alarm: &Alarm, symbols: &Symbols) -> String {
    let holds: Vec<_> = holds.iter().filter(|hold| hold.at <= alarm.at).collect();
    if holds.is_empty() {
        return "needs no delay: it happens whenever the two meet".into();
    }
    let each = holds.iter().map(|hold| match symbols.name(hold.rip) {
        Some(name) => format!("{} (in {name})", hold.decision),
        None => hold.decision.to_string(),
    });
    format!("needs {}", each.collect::<Vec<_>>().join("; "))
}
