//! The time line of inhibits.

use super::*;

fn change(time_ns: u64, is_set: bool, bit: u32, mask: u64) -> InhibitChange {
    InhibitChange { time_ns, process: 1, thread: 2, bit, is_set, mask }
}

fn machine(changes: &[InhibitChange], span: (u64, u64)) -> MachineInhibits {
    let numbering = Numbering::of_kernel("6.1").expect("a known kernel");
    follow(changes, &numbering, span).expect("there are changes").machines.remove(0)
}

#[test]
fn seconds_per_reason_overlap_and_the_whole_counts_once() {
    let changes = [
        change(SECOND, true, 2, 0b100),
        change(2 * SECOND, true, 8, 0x104),
        change(4 * SECOND, false, 2, 0x100),
        change(5 * SECOND, false, 8, 0),
    ];
    let machine = machine(&changes, (0, 9 * SECOND));
    let rows: Vec<_> = machine.reasons.iter().map(|row| (row.name.as_str(), row.seconds)).collect();
    assert_eq!(rows, [("ABSENT", 3.0), ("PIT_REINJ", 3.0)]);
    assert_eq!((machine.inhibited_seconds, machine.inhibited_share), (4.0, 0.5));
    assert_eq!(machine.inconsistent, 0);
}

#[test]
fn a_bit_set_before_the_recording_counts_from_its_start() {
    let changes = [change(SECOND, true, 8, 0x120), change(SECOND + 10, false, 8, 0x20)];
    let machine = machine(&changes, (0, 2 * SECOND));
    assert_eq!(machine.reasons[0].name, "APIC_BASE_MODIFIED");
    assert_eq!((machine.reasons[0].seconds, machine.reasons[0].is_set_at_end), (2.0, true));
}

#[test]
fn without_a_kernel_a_number_keeps_its_meanings() {
    let changes = [change(0, true, 8, 0x100), change(1, true, 1, 0x102)];
    let found = follow(&changes, &Numbering::assumed(), (0, 10)).expect("there are changes");
    let names: Vec<_> = found.machines[0].reasons.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["HYPERV", "bit 8: IRQWIN or PIT_REINJ"]);
}

#[test]
fn a_storm_is_told_from_a_flap() {
    let mut changes = Vec::new();
    for n in 0..200 {
        changes.push(change(n * 1000, n % 2 == 0, 7, if n % 2 == 0 { 0x80 } else { 0 }));
    }
    let storm = machine(&changes, (0, SECOND));
    assert!(storm.reasons[0].is_storm);
    assert!(!machine(&changes[..4], (0, SECOND)).reasons[0].is_storm);
}

#[test]
fn setting_twice_is_set_once() {
    let changes =
        [change(0, true, 7, 0x80), change(10, true, 7, 0x80), change(SECOND, false, 7, 0)];
    let machine = machine(&changes, (0, SECOND));
    assert_eq!((machine.reasons[0].seconds, machine.reasons[0].times_set), (1.0, 2));
}

#[test]
fn damaged_bit_numbers_are_survived() {
    let changes = [change(0, true, 4_000_000_000, 0), change(5, false, 64, u64::MAX)];
    assert_eq!(machine(&changes, (0, 10)).inconsistent, 1);
}

#[test]
fn who_set_a_reason_is_named_the_most_frequent_first() {
    let by = |time_ns, thread, is_set| {
        let mask = u64::from(is_set) << 8;
        InhibitChange { time_ns, process: 1, thread, bit: 8, is_set, mask }
    };
    let changes =
        [by(1, 7, true), by(2, 9, false), by(3, 9, true), by(4, 9, false), by(5, 9, true)];
    let mut found = follow(&changes, &Numbering::of_kernel("6.1").expect("known"), (0, 10))
        .expect("there are changes");
    found.name_setters(|thread| (thread == 9).then(|| "vCPU 0".to_owned()));
    let setter =
        |thread, name: Option<&str>, times| Setter { thread, name: name.map(str::to_owned), times };
    let expected = [setter(9, Some("vCPU 0"), 2), setter(7, None, 1)];
    assert_eq!(found.machines[0].reasons[0].setters, expected);
    assert_eq!(found.machines[0].reasons[0].set_by, Some(9));
}
