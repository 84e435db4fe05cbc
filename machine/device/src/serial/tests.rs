use super::*;
use crate::bench::Bench;

const COM1_LINE: u8 = 4;

fn enabled(bench: &mut Bench, enable: u8, fifo_control: u8) -> Serial {
    let mut serial = Serial::new(0);
    let cx = &mut bench.context();
    serial.write(cx, 4, 0x08);
    serial.write(cx, 2, fifo_control);
    serial.write(cx, 1, enable);
    serial
}

#[test]
fn a_written_character_reaches_the_console_and_the_transmitter_stays_empty() {
    let mut bench = Bench::new();
    let mut serial = Serial::new(1);
    serial.write(&mut bench.context(), 0, b'x');
    assert_eq!(bench.effects(), [Effect::Console { port: 1, byte: b'x' }]);
    assert_eq!(serial.read(&mut bench.context(), 5), 0x60);
}

#[test]
fn loopback_turns_modem_outputs_into_inputs_and_keeps_characters_off_the_wire() {
    for (control, status) in [(0x10, 0x00), (0x1A, 0x90), (0x15, 0x60), (0x1F, 0xF0)] {
        let mut bench = Bench::new();
        let mut serial = Serial::new(0);
        serial.write(&mut bench.context(), 4, control);
        assert_eq!(serial.read(&mut bench.context(), 6) & 0xF0, status, "MCR {control:#x}");
        serial.write(&mut bench.context(), 0, 0x5A);
        assert!(bench.effects().is_empty());
        assert_eq!(serial.read(&mut bench.context(), 0), 0x5A);
    }
}

#[test]
fn enabling_the_transmitter_interrupt_raises_it_and_reading_the_cause_lowers_it() {
    let mut bench = Bench::new();
    let mut serial = enabled(&mut bench, 0x02, 0);
    assert_eq!(bench.levels(COM1_LINE), [true]);
    assert_eq!(serial.read(&mut bench.context(), 2), 0x02);
    assert_eq!(bench.levels(COM1_LINE), [false]);
    assert_eq!(serial.read(&mut bench.context(), 2), 0x01);
}

#[test]
fn a_burst_of_characters_raises_one_interrupt_after_its_last() {
    let mut bench = Bench::new();
    let mut serial = enabled(&mut bench, 0x02, 0x01);
    for _ in 0..16 {
        bench.now += Picoseconds::from_microseconds(1);
        serial.write(&mut bench.context(), 0, b'a');
    }
    assert_eq!(bench.levels(COM1_LINE), [true, false], "a write answers the interrupt");
    assert_eq!(serial.read(&mut bench.context(), 5), 0x60);
    let due = serial.next_deadline().unwrap();
    assert_eq!(due, bench.now + DRAIN_TIME);
    bench.now = due;
    serial.advance(&mut bench.context());
    assert_eq!(bench.levels(COM1_LINE), [true]);
    assert_eq!(serial.next_deadline(), None);
    serial.write(&mut bench.context(), 0, b'a');
    serial.write(&mut bench.context(), 1, 0);
    assert_eq!(serial.next_deadline(), None, "nobody waits");
    serial.write(&mut bench.context(), 1, 2);
    assert_eq!(bench.levels(COM1_LINE), [false, true]);
}

#[test]
fn the_interrupt_needs_out2_and_no_loopback() {
    for (control, expected) in [(0x00, false), (0x08, true), (0x18, false)] {
        let mut bench = Bench::new();
        let mut serial = Serial::new(0);
        serial.write(&mut bench.context(), 1, 0x02);
        serial.write(&mut bench.context(), 4, control);
        assert_eq!(bench.levels(COM1_LINE) == [true], expected, "MCR {control:#x}");
    }
}

#[test]
fn received_data_interrupts_at_the_trigger_level_or_after_four_character_times() {
    for (fifo_control, level) in [(0x01, 1), (0x41, 4), (0x81, 8), (0xC1, 14)] {
        let mut bench = Bench::new();
        let mut serial = enabled(&mut bench, 0x01, fifo_control);
        assert_eq!(serial.receive(&mut bench.context(), &[7; 20][..level - 1]), level - 1);
        assert_eq!(serial.read(&mut bench.context(), 2), 0xC1);
        if level > 1 {
            bench.now = serial.next_deadline().unwrap();
            serial.advance(&mut bench.context());
            assert_eq!(serial.read(&mut bench.context(), 2), 0xCC, "level {level}");
        }
        serial.receive(&mut bench.context(), &[8]);
        assert_eq!(serial.read(&mut bench.context(), 2), 0xC4, "level {level}");
        for _ in 0..level {
            serial.read(&mut bench.context(), 0);
        }
        assert_eq!(serial.read(&mut bench.context(), 2), 0xC1);
        assert_eq!(serial.next_deadline(), None);
    }
}

#[test]
fn no_more_is_accepted_than_the_fifo_holds() {
    for (fifo_control, room) in [(0x00, 1), (0x01, 16)] {
        let mut bench = Bench::new();
        let mut serial = enabled(&mut bench, 0, fifo_control);
        assert_eq!(serial.receive(&mut bench.context(), &[1; 40]), room);
        assert!(!serial.has_room());
        assert_eq!(serial.read(&mut bench.context(), 5) & 0x03, 0x01);
    }
}

#[test]
fn an_overrun_is_the_most_urgent_cause_and_clears_when_line_status_is_read() {
    let mut bench = Bench::new();
    let mut serial = enabled(&mut bench, 0x07, 0);
    serial.write(&mut bench.context(), 4, 0x18);
    serial.write(&mut bench.context(), 0, 1);
    serial.write(&mut bench.context(), 0, 2);
    assert_eq!(serial.read(&mut bench.context(), 2), 0x06);
    assert_eq!(serial.read(&mut bench.context(), 5), 0x63);
    assert_eq!(serial.read(&mut bench.context(), 2), 0x04);
}

#[test]
fn identification_shows_a_16550a_and_no_larger_fifo() {
    let mut bench = Bench::new();
    let mut serial = Serial::new(0);
    serial.write(&mut bench.context(), 2, 0x21);
    assert_eq!(serial.read(&mut bench.context(), 2) & 0xE0, 0xC0);
    serial.write(&mut bench.context(), 2, 0x00);
    assert_eq!(serial.read(&mut bench.context(), 2) & 0xE0, 0x00);
}

#[test]
fn the_divisor_hides_data_and_enable_registers() {
    let mut bench = Bench::new();
    let mut serial = Serial::new(0);
    let cx = &mut bench.context();
    serial.write(cx, 3, 0x83);
    serial.write(cx, 0, 0x34);
    serial.write(cx, 1, 0x12);
    assert_eq!((serial.read(cx, 0), serial.read(cx, 1)), (0x34, 0x12));
    serial.write(cx, 3, 0x03);
    assert_eq!((serial.read(cx, 0), serial.read(cx, 1)), (0, 0));
}
