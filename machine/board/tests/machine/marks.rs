//! Several marks of one machine, runs to records and points between them, and what code was
//! executed.

use crate::backwards::counting;
use crate::program::LOAD;
use arch::address::Linear;
use arch::time::Picoseconds;
use board::debugger::{Stop, StopPoint};
use board::{Limits, Machine, Marks};
use trace::{Event, Record};

/// What two machines must share to be at one moment.
fn moment(machine: &Machine) -> (u64, u64, Vec<u8>, Vec<u8>) {
    let hash = machine.state.wiring.recorder.hash.value();
    let state = machine.state_bytes().expect("a state");
    (hash, machine.instructions(), state, machine.memory.ram.clone())
}

fn run_for(machine: &mut Machine, microseconds: u64) {
    let until = Picoseconds(machine.state.now.0 + microseconds * 1_000_000);
    machine.run(Limits { until, instructions: u64::MAX });
}

#[test]
fn a_machine_returns_to_each_of_its_marks_and_goes_on_as_it_did() {
    let mut machine = counting();
    let mut marks = Marks::default();
    let mut moments = Vec::new();
    for _ in 0..4 {
        run_for(&mut machine, 300);
        moments.push(moment(&machine));
        marks.push(&mut machine);
    }
    run_for(&mut machine, 300);
    let end = moment(&machine);
    // Over one that is forgotten, to one twice, and from there to the end again.
    marks.forget(3, &mut machine);
    for number in [2, 1, 1, 0] {
        assert!(marks.return_to(number, &mut machine).is_some_and(|pages| pages > 0));
        assert!(moment(&machine) == moments[number], "mark {number}");
        assert_eq!(marks.len(), number + 1);
        run_for(&mut machine, 300);
        assert!(moment(&machine) == moments[number + 1], "behind mark {number}");
    }
    assert_eq!(marks.return_to(1, &mut machine), None);
    run_for(&mut machine, 300 * 3);
    assert!(moment(&machine) == end);
}

#[test]
fn a_run_to_a_record_ends_behind_its_instruction_and_shows_each_record_once() {
    const UNTIL: Limits = Limits { until: Picoseconds(3_000_000_000), instructions: u64::MAX };
    let mut plain = counting();
    plain.state.wiring.recorder.records = Some(Vec::new());
    plain.run(UNTIL);
    let all = plain.state.wiring.recorder.records.take().expect("they are kept");
    let is_message = |record: &Record| matches!(record.event, Event::InterruptSent { .. });
    let wanted = all.iter().rposition(is_message).expect("the guest starts a processor");
    assert!(all[..wanted].iter().any(is_message), "it is not the first");

    let mut machine = counting();
    let mut marks = Marks::default();
    marks.push(&mut machine);
    let (mut shown, mut seen) = (Vec::new(), 0);
    let sought = marks.run_to_record(
        &mut machine,
        UNTIL,
        &mut |record| {
            seen += 1;
            *record == all[wanted]
        },
        &mut |records| shown.extend(records),
        &mut || false,
    );
    assert_eq!((sought.record, sought.outcome), (Some(all[wanted]), None));
    assert_eq!((seen, marks.len()), (wanted + 1, 1));
    assert!(shown.len() > wanted && shown[..] == all[..shown.len()]);
    let begins = machine.state.cpus[0].clock.now();
    assert!(begins >= all[wanted].at && begins < Picoseconds(all[wanted].at.0 + 1_000_000));
    machine.run(UNTIL);
    assert!(moment(&machine) == moment(&plain));
    // What is not met costs nothing but the time.
    marks.return_to(0, &mut machine);
    let sought =
        marks.run_to_record(&mut machine, UNTIL, &mut |_| false, &mut |_| {}, &mut || false);
    assert_eq!((sought.record, sought.outcome, marks.len()), (None, None, 1));
    assert!(moment(&machine) == moment(&plain));
}

#[test]
fn a_run_to_a_point_stops_each_time_before_it_and_keeps_marks() {
    let mut machine = counting();
    let mut marks = Marks::default();
    run_for(&mut machine, 100);
    marks.push(&mut machine);
    let begin = moment(&machine);
    let ip = machine.state.cpus[0].registers.ip;
    assert!(ip >= LOAD.into(), "the first processor is in its loop");
    let limits = Limits { until: Picoseconds(1_000_000_000), instructions: u64::MAX };
    let mut last = machine.instructions();
    for _ in 0..3 {
        let stop = machine.run_to_points(&[StopPoint::Execute(Linear(ip))], limits, || false);
        assert!(matches!(stop, Some(Stop::Execute { cpu }) if cpu.0 == 0), "{stop:?}");
        assert_eq!(machine.state.cpus[0].registers.ip, ip);
        assert!(machine.instructions() > last);
        last = machine.instructions();
    }
    let limits = Limits { until: Picoseconds::MAX, instructions: last + 500 };
    assert_eq!(machine.run_to_points(&[StopPoint::Execute(Linear(5))], limits, || false), None);
    assert_eq!(machine.instructions(), last + 500);
    marks.return_to(0, &mut machine);
    assert!(moment(&machine) == begin);
}

#[test]
fn coverage_has_every_instruction_that_was_executed_and_no_other() {
    let mut machine = counting();
    assert_eq!(machine.take_coverage(), None);
    machine.count_coverage();
    for _ in 0..3 {
        let before = machine.instructions();
        run_for(&mut machine, 400);
        let covered = machine.take_coverage().expect("it is kept");
        let executed: u64 = covered.iter().map(|one| u64::from(one.instructions) * one.runs).sum();
        assert_eq!(executed, machine.instructions() - before);
        assert!(covered.is_sorted(), "by place");
    }
}
