use super::*;
use crate::part::{Options, Part as RecordingPart};
use crate::pasted::{PrintedRow, from_rows};
use trace::kvm::{Exit, KvmEvent, Stamp};

/// A recording of `seconds` whose second `n` has `rate(n)` exits.
fn recording(seconds: u64, rate: impl Fn(u64) -> u64) -> Profile {
    recording_among(seconds, rate, 0)
}

/// The same with so many other exits in each second.
fn recording_among(seconds: u64, rate: impl Fn(u64) -> u64, others: u64) -> Profile {
    let mut part = RecordingPart::new(&Options::default());
    let stamp = |time_ns| Stamp { time_ns, process: 1, thread: 2, cpu: 0 };
    part.entry(&stamp(0), 0);
    for second in 0..seconds {
        for n in 0..rate(second) + others {
            let at = second * 1_000_000_000 + n * 1_000_000;
            let reason = if n < others { 0x72 } else { 0x7c };
            let exit = Exit { isa: 2, reason, ..Exit::default() };
            part.event(&stamp(at), &KvmEvent::Exit(exit));
            part.entry(&stamp(at + 5_000), 0);
        }
    }
    part.finish()
}

fn compared(a: &Profile, b: &Profile) -> Comparison {
    let context = Context::default();
    let side = |name: &str, profile| Side {
        name: name.into(),
        profile,
        context: &context,
        seconds: None,
        work: None,
    };
    let (a, b) = (side("a", a), side("b", b));
    // The profiles are borrowed for the comparison only.
    compare(&a, &b)
}

#[test]
fn a_halved_rate_is_shown_and_the_same_rate_is_not() {
    let noisy = |second: u64| 100 + second * 7919 % 31;
    let full = recording(30, noisy);
    let half = recording(60, |second| noisy(second) / 2);
    let same = recording(45, |second| 100 + second * 104_729 % 31);
    let shown = compared(&full, &half);
    assert_eq!(shown.basis, Basis::PerSecondAndVcpu);
    assert_eq!(shown.total.finding, Finding::Fewer);
    let percent = shown.total.percent.expect("there were exits");
    assert!((percent + 50.0).abs() < 4.0, "{percent}");
    assert_eq!(compared(&full, &same).total.finding, Finding::NoDifferenceShown);
    assert_eq!(compared(&full, &full).total.percent, Some(0.0));
}

#[test]
fn what_is_new_or_gone_is_shown_if_it_is_not_a_single_event() {
    let none = recording_among(30, |_| 0, 3);
    let many = recording_among(30, |_| 9, 3);
    let once = recording_among(30, |second| u64::from(second == 7), 3);
    let rows = [
        (&none, &many, Finding::More),
        (&many, &none, Finding::Fewer),
        (&none, &once, Finding::NoDifferenceShown),
        (&once, &none, Finding::NoDifferenceShown),
        (&once, &many, Finding::More),
    ];
    for (at, (a, b, finding)) in rows.into_iter().enumerate() {
        let comparison = compared(a, b);
        let msr = comparison.changes.iter().find(|change| change.name == "msr");
        let msr = msr.expect("one has it");
        assert_eq!(msr.finding, finding, "{at}: {msr:?}");
        assert!(msr.interval.is_none_or(|(low, high)| low <= high && high.is_finite()));
    }
}

#[test]
fn waiting_is_set_apart() {
    let row = |name: &str, count| PrintedRow {
        name: name.into(),
        count,
        min_us: 0.0,
        max_us: 1.0,
        mean_us: 0.5,
        error_percent: 1.0,
    };
    let a = from_rows("VM-EXIT", &[row("msr", 900), row("hlt", 100)]).0;
    let b = from_rows("VM-EXIT", &[row("msr", 90), row("hlt", 910)]).0;
    let comparison = compared(&a, &b);
    assert_eq!(comparison.total.percent, Some(0.0));
    assert_eq!((comparison.working.count_a, comparison.working.count_b), (900, 90));
}

/// A recording of `ms` milliseconds whose millisecond `n` has `rate(n)` exits.
fn short_recording(ms: u64, rate: impl Fn(u64) -> u64) -> Profile {
    let mut part = RecordingPart::new(&Options::default());
    let stamp = |time_ns| Stamp { time_ns, process: 1, thread: 2, cpu: 0 };
    part.entry(&stamp(0), 0);
    for at in 0..ms {
        for n in 0..rate(at) {
            let at = at * 1_000_000 + n * 1_000;
            let exit = Exit { isa: 2, reason: 0x7c, ..Exit::default() };
            part.event(&stamp(at), &KvmEvent::Exit(exit));
            part.entry(&stamp(at + 500), 0);
        }
    }
    part.finish()
}

#[test]
fn half_a_second_with_many_exits_is_enough_for_confidence() {
    let noisy = |at: u64| 60 + at * 7919 % 31;
    let (a, b) = (short_recording(500, noisy), short_recording(300, |at| noisy(at) / 4));
    let shown = compared(&a, &b);
    assert_eq!(shown.total.finding, Finding::Fewer);
    let (low, high) = shown.total.interval.expect("known");
    assert!(low < -75.0 && -75.0 < high + 2.0 && high - low < 6.0, "{low} to {high}");
    assert_eq!(compared(&a, &a).total.finding, Finding::NoDifferenceShown);
}

#[test]
fn bursts_longer_than_a_block_widen_the_interval() {
    // Phases of 40 ms with and without exits: what one recording happens to hold says little.
    let phases =
        |from: u64| move |at: u64| if ((at + from) / 40).is_multiple_of(2) { 90 } else { 5 };
    let (a, b) = (short_recording(480, phases(0)), short_recording(440, phases(15)));
    let (low, high) = compared(&a, &b).total.interval.expect("known");
    assert!(high - low > 40.0 && low < 0.0 && 0.0 < high, "{low} to {high}");
}

#[test]
fn too_short_a_recording_claims_no_confidence() {
    let short = recording(1, |_| 3);
    assert_eq!(compared(&short, &short).total.finding, Finding::NoConfidence);
}

#[test]
fn printed_totals_are_compared_as_counted_with_their_contributions() {
    let row = |name: &str, count| PrintedRow {
        name: name.into(),
        count,
        min_us: 0.0,
        max_us: 1.0,
        mean_us: 0.5,
        error_percent: 1.0,
    };
    let a = from_rows("VM-EXIT", &[row("msr", 900), row("hlt", 100)]).0;
    let b = from_rows("VM-EXIT", &[row("msr", 0), row("hlt", 100), row("npf", 50)]).0;
    let comparison = compared(&a, &b);
    assert_eq!(comparison.basis, Basis::Count);
    assert_eq!(comparison.total.percent, Some(-85.0));
    assert_eq!(comparison.changes[0].name, "msr");
    assert_eq!(comparison.changes[0].contribution, -90.0);
    assert_eq!(comparison.changes[1].percent, None);
}
