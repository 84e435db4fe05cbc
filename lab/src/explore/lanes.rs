//! A finding as lanes: what the sender's processor and that of the vCPU did, side by side, around
//! the moment at which the interrupt came to wait.

use super::oracle::Alarm;
use arch::time::Picoseconds;
use std::cmp::Ordering;
use trace::exit_reason::Isa;
use trace::{Event, Record};

/// Before the first and behind the last of the moments that matter.
const AROUND: Picoseconds = Picoseconds::from_nanoseconds(6_000);
/// Rows at most: the last ones before the alarm began.
const MOST_ROWS: usize = 24;
/// Columns of a lane.
const WIDTH: usize = 32;

/// The rows of a table for readers.
pub(super) fn draw(alarm: &Alarm, records: &[Record]) -> Vec<String> {
    let Some(posted) = records.iter().rev().filter(|one| one.at <= alarm.since).find(|record| {
        matches!(record.event, Event::Posted { place, vector }
            if place.0 == alarm.place && vector.0 == alarm.vector)
    }) else {
        return Vec::new();
    };
    let (sender, own) = (posted.cpu.0, alarm.cpu);
    let first = posted.at.0.saturating_sub(AROUND.0);
    let last = posted.at.saturating_add(AROUND).0;
    let mut rows: Vec<_> = records
        .iter()
        .filter(|record| (first..=last).contains(&record.at.0))
        .filter(|record| record.cpu.0 == sender || record.cpu.0 == own)
        .filter_map(|record| Some((record, words(&record.event)?)))
        .collect();
    rows.sort_by_key(|(record, _)| record.at);
    let behind = rows.len().saturating_sub(MOST_ROWS);
    let (left, right) = (format!("CPU {sender}"), format!("CPU {own}"));
    let mut text = vec![format!("{:>9}  {left:<WIDTH$}{right}", "ns")];
    text.extend(rows[behind..].iter().map(|(record, words)| {
        let at = signed(record.at, posted.at);
        match (record.cpu.0 == sender, record.cpu.0 == own) {
            (true, false) => format!("{at:>9}  {words}"),
            _ => format!("{at:>9}  {:<WIDTH$}{words}", ""),
        }
    }));
    let later = (alarm.at.0.saturating_sub(posted.at.0)) / 1000;
    text.push(format!("{:>9}  {:<WIDTH$}still {}", format!("+{later}"), "", state(alarm)));
    text
}

fn state(alarm: &Alarm) -> &'static str {
    use super::oracle::Rule;
    match alarm.rule {
        Rule::Asleep | Rule::SaidToRun | Rule::InService => "asleep",
        Rule::NotTaken | Rule::Lost => "not taken",
        Rule::Elsewhere => "said to be elsewhere",
        Rule::Console | Rule::Ended | Rule::Unasked => "there",
    }
}

/// Nanoseconds between two moments, with a sign.
fn signed(at: Picoseconds, zero: Picoseconds) -> String {
    match at.cmp(&zero) {
        Ordering::Less => format!("-{}", (zero.0 - at.0) / 1000),
        _ => format!("+{}", (at.0 - zero.0) / 1000),
    }
}

fn words(event: &Event) -> Option<String> {
    let text = match *event {
        Event::Entry { .. } => "enters the guest".to_owned(),
        Event::SvmExit { code, .. } => {
            let name = Isa::Svm.reason_name(code.into_bits() as u32).unwrap_or("another reason");
            format!("leaves: {name}")
        }
        Event::VmxExit { reason, .. } => {
            let name = Isa::Vmx.reason_name(reason & 0xFFFF).unwrap_or("another reason");
            format!("leaves: {name}")
        }
        Event::Halt { .. } => "halts".to_owned(),
        Event::Wake {} => "wakes".to_owned(),
        Event::VirtualIpiSent { icr, .. } => format!("sends: ICR {icr:#x}"),
        Event::Posted { place, vector } => format!("IRR {:#x} in {:#x}", vector.0, place.0),
        Event::Doorbell { target } => format!("rings APIC {}", target.0),
        Event::InterruptSent { vector, .. } => format!("sends vector {:#x}", vector.0),
        Event::InterruptAccepted { vector, .. } => format!("vector {:#x} arrives", vector.0),
        Event::VirtualInterruptDelivered { vector, .. } => format!("takes {:#x}", vector.0),
        _ => return None,
    };
    Some(text)
}
