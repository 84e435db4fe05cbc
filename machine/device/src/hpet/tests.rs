use super::*;
use crate::bench::Bench;

const ENABLE: u64 = 1;
const LEGACY: u64 = 2;
const LEVEL: u64 = 1 << 1;
const INTERRUPT: u64 = 1 << 2;
const PERIODIC: u64 = 1 << 3;
const SET_VALUE: u64 = 1 << 6;
const NARROW: u64 = 1 << 8;
const MESSAGE: u64 = 1 << 14;
const ROUTE_10: u64 = 10 << 9;

fn at(bench: &mut Bench, tick: u64) {
    bench.now = Picoseconds::at_tick(tick, HERTZ);
}

fn write(bench: &mut Bench, hpet: &mut Hpet, offset: u64, value: u64) {
    hpet.write(&mut bench.context(), offset, 8, value);
}

fn read(bench: &mut Bench, hpet: &mut Hpet, offset: u64) -> u64 {
    hpet.read(&mut bench.context(), offset, 8)
}

/// Runs to the next deadline; gives its tick.
fn step(bench: &mut Bench, hpet: &mut Hpet) -> u64 {
    bench.now = hpet.next_deadline().expect("a timer is armed");
    hpet.advance(&mut bench.context());
    bench.now.ticks(HERTZ)
}

#[test]
fn the_counter_counts_while_enabled_and_keeps_its_value_while_halted() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    at(&mut bench, 1000);
    write(&mut bench, &mut hpet, 0xF0, 5);
    write(&mut bench, &mut hpet, 0x10, ENABLE);
    at(&mut bench, 1100);
    assert_eq!(read(&mut bench, &mut hpet, 0xF0), 105);
    assert_eq!(hpet.read(&mut bench.context(), 0xF4, 4), 0);
    write(&mut bench, &mut hpet, 0x10, 0);
    at(&mut bench, 5000);
    assert_eq!(read(&mut bench, &mut hpet, 0xF0), 105);
    assert_eq!(read(&mut bench, &mut hpet, 0x00), 0x0098_9680_8086_A201);
}

#[test]
fn a_match_interrupts_by_the_way_that_is_configured() {
    let message =
        Effect::MessageSignalled(MessageSignalled { address: Device(0xFEE0_0000), data: 0x55 });
    let line = |gsi, asserted| Effect::Line { gsi, asserted };
    for (general, timer, configuration, effects) in [
        (ENABLE, 2, INTERRUPT | ROUTE_10, vec![line(10, true)]),
        (ENABLE, 2, ROUTE_10, vec![]),
        (ENABLE, 2, INTERRUPT | MESSAGE, vec![message]),
        (ENABLE | LEGACY, 0, INTERRUPT, vec![line(0, true)]),
        (ENABLE | LEGACY, 1, INTERRUPT | ROUTE_10, vec![line(8, true)]),
        (ENABLE | LEGACY, 2, INTERRUPT | ROUTE_10, vec![line(10, true)]),
    ] {
        let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
        let base = 0x100 + 0x20 * timer;
        write(&mut bench, &mut hpet, base, configuration);
        write(&mut bench, &mut hpet, base + 0x10, 0xFEE0_0000_0000_0055);
        write(&mut bench, &mut hpet, base + 8, 1000);
        assert_eq!(hpet.next_deadline(), None, "the counter is halted");
        write(&mut bench, &mut hpet, 0x10, general);
        assert_eq!(step(&mut bench, &mut hpet), 1000);
        assert_eq!(bench.effects(), effects, "timer {timer} {configuration:#x}");
    }
}

#[test]
fn a_periodic_timer_takes_its_first_match_and_then_its_period() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    write(&mut bench, &mut hpet, 0x10, ENABLE);
    write(&mut bench, &mut hpet, 0x100, INTERRUPT | PERIODIC | SET_VALUE | NARROW | ROUTE_10);
    write(&mut bench, &mut hpet, 0x108, 500);
    write(&mut bench, &mut hpet, 0x108, 100);
    let ticks: Vec<_> = (0..3).map(|_| step(&mut bench, &mut hpet)).collect();
    assert_eq!(ticks, [500, 600, 700]);
    assert_eq!(bench.levels(10), [true, false, true, false, true]);
    assert_eq!(read(&mut bench, &mut hpet, 0x108), 800);
    at(&mut bench, 1050);
    hpet.advance(&mut bench.context());
    assert_eq!(bench.levels(10), [false, true], "missed periods give one interrupt");
    assert_eq!(step(&mut bench, &mut hpet), 1100);
}

#[test]
fn a_level_interrupt_holds_its_line_until_status_is_cleared() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    write(&mut bench, &mut hpet, 0x10, ENABLE);
    write(&mut bench, &mut hpet, 0x120, INTERRUPT | LEVEL | ROUTE_10);
    write(&mut bench, &mut hpet, 0x128, 100);
    step(&mut bench, &mut hpet);
    assert_eq!(read(&mut bench, &mut hpet, 0x20), 2);
    write(&mut bench, &mut hpet, 0x20, 1);
    assert_eq!(bench.levels(10), [true], "another timer's bit");
    write(&mut bench, &mut hpet, 0x20, 2);
    assert_eq!(bench.levels(10), [false]);
    assert_eq!(read(&mut bench, &mut hpet, 0x20), 0);
}

#[test]
fn a_narrow_timer_matches_again_when_the_counter_wraps() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    write(&mut bench, &mut hpet, 0xF0, 0xFFFF_FF00);
    write(&mut bench, &mut hpet, 0x100, INTERRUPT | NARROW | ROUTE_10);
    write(&mut bench, &mut hpet, 0x108, 0x10);
    write(&mut bench, &mut hpet, 0x10, ENABLE);
    assert_eq!(step(&mut bench, &mut hpet), 0x110);
    assert_eq!(step(&mut bench, &mut hpet), 0x1_0000_0110);
}

#[test]
fn a_comparator_in_the_past_of_a_wide_timer_never_matches() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    write(&mut bench, &mut hpet, 0x10, ENABLE);
    at(&mut bench, 5000);
    write(&mut bench, &mut hpet, 0x100, INTERRUPT | ROUTE_10);
    write(&mut bench, &mut hpet, 0x108, 4999);
    assert_eq!(hpet.next_deadline(), None);
    assert!(bench.effects().is_empty());
    write(&mut bench, &mut hpet, 0x108, 5000);
    assert_eq!(bench.levels(10), [true], "equality matches at once");
}

#[test]
fn routes_that_are_not_offered_are_not_taken_and_capabilities_are_read_only() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    write(&mut bench, &mut hpet, 0x100, !(31 << 9));
    let read_back = read(&mut bench, &mut hpet, 0x100);
    assert_eq!(read_back >> 32, u64::from(ROUTES));
    assert_eq!(read_back & 0xFFFF, 0xC17E);
    write(&mut bench, &mut hpet, 0x100, 11 << 9);
    write(&mut bench, &mut hpet, 0x100, 12 << 9);
    assert_eq!(read(&mut bench, &mut hpet, 0x100) >> 9 & 31, 11);
}

#[test]
fn odd_accesses_read_lanes_and_do_not_panic() {
    let (mut bench, mut hpet) = (Bench::new(), Hpet::default());
    assert_eq!(hpet.read(&mut bench.context(), 4, 4), 0x0098_9680);
    assert_eq!(hpet.read(&mut bench.context(), 5, 1), 0x96);
    for offset in [0x1, 0x3F8, 0x15F, 0x160, 0x3FF] {
        for size in [1, 2, 4, 8] {
            hpet.write(&mut bench.context(), offset, size, u64::MAX);
            hpet.read(&mut bench.context(), offset, size);
        }
    }
}
