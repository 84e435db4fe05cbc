use super::*;
use crate::bench::Bench;

fn at(bench: &mut Bench, tick: u64) {
    bench.now = Picoseconds::at_tick(tick, HERTZ);
}

/// Programs `counter` at tick 0, so that its count is loaded at tick 1.
fn programmed(bench: &mut Bench, counter: u8, control: u8, count: u16) -> Pit {
    let mut pit = Pit::default();
    let cx = &mut bench.context();
    pit.write_system_control(cx, 1);
    pit.write(cx, 3, counter << 6 | 0x30 | control);
    pit.write(cx, u16::from(counter), count as u8);
    pit.write(cx, u16::from(counter), (count >> 8) as u8);
    pit
}

fn count_of(bench: &mut Bench, pit: &mut Pit, counter: u16) -> u16 {
    let cx = &mut bench.context();
    pit.write(cx, 3, (counter as u8) << 6);
    u16::from(pit.read(cx, counter)) | u16::from(pit.read(cx, counter)) << 8
}

#[test]
fn counts_follow_their_mode() {
    for (control, count, elapsed, expected) in [
        (0 << 1, 100, 0, 100),
        (0 << 1, 100, 99, 1),
        (0 << 1, 100, 101, 0xFFFF),
        (2 << 1, 100, 99, 1),
        (2 << 1, 100, 100, 100),
        (3 << 1, 100, 10, 80),
        (3 << 1, 100, 60, 80),
        (3 << 1, 101, 10, 80),
        (4 << 1, 100, 100, 0),
        (0 << 1, 0, 1, 0xFFFF),
        (1, 0x0100, 1, 0x0099),
        (1, 0x0000, 1, 0x9999),
        (1, 0x0010, 11, 0x9999),
    ] {
        let mut bench = Bench::new();
        let mut pit = programmed(&mut bench, 0, control, count);
        at(&mut bench, 1 + elapsed);
        let name = format!("control {control:#x}, {elapsed} after {count:#x}");
        assert_eq!(count_of(&mut bench, &mut pit, 0), expected, "{name}");
    }
}

#[test]
fn line_0_follows_the_output_of_counter_0() {
    for (control, count, edges) in [
        (0 << 1, 100, vec![(101, vec![true])]),
        (2 << 1, 100, vec![(101, vec![false, true]), (201, vec![false, true])]),
        (3 << 1, 100, vec![(51, vec![false]), (101, vec![true]), (151, vec![false])]),
        (3 << 1, 5, vec![(4, vec![false]), (6, vec![true]), (9, vec![false])]),
        (4 << 1, 100, vec![(102, vec![false, true])]),
    ] {
        let mut bench = Bench::new();
        let mut pit = programmed(&mut bench, 0, control, count);
        bench.effects();
        for (tick, levels) in edges {
            let deadline = pit.next_deadline().unwrap();
            assert_eq!(deadline, Picoseconds::at_tick(tick, HERTZ), "mode {}", control >> 1);
            bench.now = deadline;
            pit.advance(&mut bench.context());
            assert_eq!(bench.levels(0), levels, "mode {} at {tick}", control >> 1);
        }
    }
}

#[test]
fn one_shot_modes_have_no_deadline_once_they_fired() {
    for control in [0 << 1, 4 << 1] {
        let mut bench = Bench::new();
        let mut pit = programmed(&mut bench, 0, control, 10);
        at(&mut bench, 50);
        pit.advance(&mut bench.context());
        assert_eq!(pit.next_deadline(), None, "mode {}", control >> 1);
        assert!(bench.levels(0).ends_with(&[true]));
    }
}

#[test]
fn a_long_sleep_gives_one_pulse_and_the_phase_is_kept() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 0, 2 << 1, 100);
    bench.effects();
    at(&mut bench, 1 + 1050);
    pit.advance(&mut bench.context());
    assert_eq!(bench.levels(0), [false, true]);
    assert_eq!(pit.next_deadline(), Some(Picoseconds::at_tick(1 + 1100, HERTZ)));
}

#[test]
fn a_new_count_of_a_periodic_mode_waits_for_the_end_of_the_period() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 0, 2 << 1, 100);
    at(&mut bench, 1 + 40);
    pit.write(&mut bench.context(), 0, 10);
    pit.write(&mut bench.context(), 0, 0);
    assert_eq!(count_of(&mut bench, &mut pit, 0), 60);
    assert_eq!(pit.next_deadline(), Some(Picoseconds::at_tick(1 + 100, HERTZ)));
    at(&mut bench, 1 + 103);
    assert_eq!(count_of(&mut bench, &mut pit, 0), 7);
    assert_eq!(pit.next_deadline(), Some(Picoseconds::at_tick(1 + 110, HERTZ)));
}

#[test]
fn a_new_count_waits_for_the_period_it_was_written_in() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 2, 2 << 1, 100);
    at(&mut bench, 1 + 340);
    pit.write(&mut bench.context(), 2, 30);
    pit.write(&mut bench.context(), 2, 0);
    assert_eq!(count_of(&mut bench, &mut pit, 2), 60);
    at(&mut bench, 1 + 410);
    assert_eq!(count_of(&mut bench, &mut pit, 2), 20);
}

#[test]
fn the_gate_of_counter_2_stops_restarts_and_triggers() {
    for (control, gates, elapsed, expected) in [
        // Mode 0 goes on where it stopped.
        (0 << 1, [(10, 0), (30, 1)], 40, 100 - 20),
        // Mode 2 starts over, one tick after the edge.
        (2 << 1, [(10, 0), (30, 1)], 41, 100 - 10),
        // Mode 1 starts at the edge.
        (1 << 1, [(10, 0), (30, 1)], 41, 100 - 10),
    ] {
        let mut bench = Bench::new();
        let mut pit = programmed(&mut bench, 2, control, 100);
        for (tick, gate) in gates {
            at(&mut bench, 1 + tick);
            pit.write_system_control(&mut bench.context(), gate);
        }
        at(&mut bench, 1 + elapsed);
        assert_eq!(count_of(&mut bench, &mut pit, 2), expected, "mode {}", control >> 1);
    }
}

#[test]
fn port_61h_shows_refresh_and_the_output_of_counter_2() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 2, 0, 1000);
    assert_eq!(pit.read_system_control(&mut bench.context()), 0x01);
    at(&mut bench, REFRESH_TICKS);
    assert_eq!(pit.read_system_control(&mut bench.context()), 0x11);
    at(&mut bench, 1000);
    assert_eq!(pit.read_system_control(&mut bench.context()) & 0x20, 0);
    at(&mut bench, 1001);
    assert_eq!(pit.read_system_control(&mut bench.context()) & 0x20, 0x20);
}

#[test]
fn read_back_latches_status_before_count() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 0, 2 << 1, 500);
    at(&mut bench, 1 + 100);
    pit.write(&mut bench.context(), 3, 0xC2);
    at(&mut bench, 1 + 200);
    let cx = &mut bench.context();
    assert_eq!(pit.read(cx, 0), 0x80 | 0x34);
    let count = u16::from(pit.read(cx, 0)) | u16::from(pit.read(cx, 0)) << 8;
    assert_eq!(count, 400);
}

#[test]
fn status_says_null_count_until_the_count_is_loaded() {
    let mut bench = Bench::new();
    let mut pit = Pit::default();
    let cx = &mut bench.context();
    pit.write(cx, 3, 0x34);
    pit.write(cx, 3, 0xE2);
    assert_eq!(pit.read(cx, 0), 0xC0 | 0x34);
}

#[test]
fn single_byte_access_modes_take_and_give_one_byte() {
    for (control, written, count, read) in [(0x14, 0x20, 0x20, 0x20), (0x24, 0x20, 0x2000, 0x20)] {
        let mut bench = Bench::new();
        let mut pit = Pit::default();
        pit.write(&mut bench.context(), 3, control);
        pit.write(&mut bench.context(), 0, written);
        at(&mut bench, 1);
        assert_eq!(pit.read(&mut bench.context(), 0), read);
        at(&mut bench, 1 + count);
        assert_eq!(pit.next_deadline(), Some(Picoseconds::at_tick(1 + count, HERTZ)));
    }
}

#[test]
fn an_hpet_may_take_the_line_away_and_give_it_back() {
    let mut bench = Bench::new();
    let mut pit = programmed(&mut bench, 0, 2 << 1, 100);
    bench.effects();
    pit.set_line_connected(&mut bench.context(), false);
    assert_eq!(bench.levels(0), [false]);
    assert_eq!(pit.next_deadline(), None);
    at(&mut bench, 500);
    pit.advance(&mut bench.context());
    assert!(bench.levels(0).is_empty());
    pit.set_line_connected(&mut bench.context(), true);
    assert_eq!(bench.levels(0), [true]);
}
