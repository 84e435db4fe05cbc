use super::*;
use crate::bench::Bench;

fn start() -> Date {
    Date { year: 2026, month: 11, day: 30, hour: 23, minute: 59, second: 58 }
}

fn clock() -> RealTimeClock {
    RealTimeClock::new(start(), 4 << 30)
}

fn get(bench: &mut Bench, clock: &mut RealTimeClock, index: u8) -> u8 {
    clock.write_index(index);
    clock.read_data(&mut bench.context())
}

fn set(bench: &mut Bench, clock: &mut RealTimeClock, index: u8, value: u8) {
    clock.write_index(index);
    clock.write_data(&mut bench.context(), value);
}

#[test]
fn the_clock_starts_at_its_date_and_follows_virtual_time() {
    let (mut bench, mut clock) = (Bench::new(), clock());
    let all = |bench: &mut Bench, clock: &mut RealTimeClock| {
        [0x32, 9, 8, 7, 6, 4, 2, 0].map(|index| get(bench, clock, index))
    };
    assert_eq!(all(&mut bench, &mut clock), [0x20, 0x26, 0x11, 0x30, 2, 0x23, 0x59, 0x58]);
    bench.now = Picoseconds::from_milliseconds(2_500);
    assert_eq!(all(&mut bench, &mut clock), [0x20, 0x26, 0x12, 0x01, 3, 0, 0, 0]);
}

#[test]
fn update_in_progress_shows_just_before_the_registers_change() {
    for (us, expected) in [(0, 0), (997_000, 0), (999_000, 0x80), (1_000_000, 0)] {
        let (mut bench, mut clock) = (Bench::new(), clock());
        bench.now = Picoseconds::from_microseconds(us);
        assert_eq!(get(&mut bench, &mut clock, 0x0A) & 0x80, expected, "at {us} µs");
    }
}

#[test]
fn setting_holds_the_registers_and_the_next_update_is_a_second_after_release() {
    let (mut bench, mut clock) = (Bench::new(), clock());
    set(&mut bench, &mut clock, 0x0B, 0x82);
    bench.now = Picoseconds::from_milliseconds(5_300);
    set(&mut bench, &mut clock, 0, 0x10);
    assert_eq!(get(&mut bench, &mut clock, 0), 0x10);
    set(&mut bench, &mut clock, 0x0B, 0x02);
    bench.now = Picoseconds::from_milliseconds(6_299);
    assert_eq!(get(&mut bench, &mut clock, 0), 0x10);
    bench.now = Picoseconds::from_milliseconds(6_300);
    assert_eq!(get(&mut bench, &mut clock, 0), 0x11);
}

#[test]
fn each_enabled_cause_asserts_line_8_until_register_c_is_read() {
    for (enable, cause, at_us) in [
        (0x10, 0x10, 1_000_000),
        (0x20, 0x20, 2_000_000),
        // Rate 6 is 1,024 Hz: 976.5625 µs.
        (0x40, 0x40, 977),
    ] {
        let (mut bench, mut clock) = (Bench::new(), clock());
        set(&mut bench, &mut clock, 1, 0x00);
        set(&mut bench, &mut clock, 3, 0xC0);
        set(&mut bench, &mut clock, 5, 0xFF);
        set(&mut bench, &mut clock, 0x0B, 0x02 | enable);
        while bench.now < Picoseconds::from_microseconds(at_us - 1) {
            assert!(bench.levels(8).is_empty(), "cause {cause:#x} at {:?}", bench.now);
            bench.now = clock.next_deadline().expect("an interrupt is enabled");
            clock.advance(&mut bench.context());
        }
        assert_eq!(bench.levels(8), [true], "cause {cause:#x}");
        assert_eq!(bench.now.0.div_ceil(1_000_000), at_us, "cause {cause:#x}");
        let read = get(&mut bench, &mut clock, 0x0C);
        assert_eq!(read & (0x80 | cause), 0x80 | cause);
        assert_eq!(bench.levels(8), [false]);
        assert_eq!(get(&mut bench, &mut clock, 0x0C), 0);
    }
}

#[test]
fn periodic_rates_follow_the_table() {
    for (rate, hertz) in [(1, 256), (2, 128), (3, 8192), (6, 1024), (15, 2)] {
        let (mut bench, mut clock) = (Bench::new(), clock());
        set(&mut bench, &mut clock, 0x0A, 0x20 | rate);
        set(&mut bench, &mut clock, 0x0B, 0x42);
        let expected = Picoseconds::at_tick(32_768 / hertz, 32_768);
        assert_eq!(clock.next_deadline(), Some(expected), "rate {rate}");
    }
}

#[test]
fn without_an_enabled_interrupt_there_is_no_deadline_and_flags_still_set() {
    let (mut bench, mut clock) = (Bench::new(), clock());
    assert_eq!(clock.next_deadline(), None);
    bench.now = Picoseconds::from_milliseconds(1_500);
    assert_eq!(get(&mut bench, &mut clock, 0x0C), 0x50);
    assert!(bench.levels(8).is_empty());
}

#[test]
fn nvram_keeps_what_was_written_and_describes_memory() {
    let (mut bench, mut clock) = (Bench::new(), clock());
    set(&mut bench, &mut clock, 0x7F, 0xA5);
    assert_eq!(get(&mut bench, &mut clock, 0x7F), 0xA5);
    assert_eq!(get(&mut bench, &mut clock, 0x34), 0x00);
    assert_eq!(get(&mut bench, &mut clock, 0x35), 0xBF);
    assert_eq!(get(&mut bench, &mut clock, 0x0D), 0x80);
}
