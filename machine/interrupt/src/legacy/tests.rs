use super::*;

const MASTER: u16 = 0x20;
const SLAVE: u16 = 0xA0;
const END: u8 = 0x20;

/// A pair initialized as PC firmware does, with nothing masked.
fn pair() -> PicPair {
    pair_with_modes(0x01)
}

fn pair_with_modes(modes: u8) -> PicPair {
    let mut pair = PicPair::new();
    for (port, base, wiring) in [(MASTER, 0x30, 4), (SLAVE, 0x38, 2)] {
        for (offset, value) in [(0, 0x11), (1, base), (1, wiring), (1, modes), (1, 0)] {
            pair.port_write(port + offset, value);
        }
    }
    pair
}

fn pulse(pair: &mut PicPair, irq: u8) {
    pair.set_line(irq, true);
    pair.set_line(irq, false);
}

/// The vectors that acknowledging, without any EOI, yields.
fn taken(pair: &mut PicPair) -> Vec<u8> {
    let mut vectors = Vec::new();
    while pair.output() {
        vectors.push(pair.acknowledge());
        assert!(vectors.len() <= 16);
    }
    vectors
}

fn in_service(pair: &mut PicPair, port: u16) -> u8 {
    pair.port_write(port, 0x0B);
    pair.port_read(port)
}

fn requested(pair: &mut PicPair, port: u16) -> u8 {
    pair.port_write(port, 0x0A);
    pair.port_read(port)
}

#[test]
fn every_line_has_its_vector() {
    for irq in (0..16).filter(|irq| *irq != 2) {
        let mut pair = pair();
        assert!(!pair.output());
        pulse(&mut pair, irq);
        assert!(pair.output(), "irq {irq}");
        assert_eq!(pair.acknowledge(), 0x30 + irq);
        assert!(!pair.output());
        let (master, slave) = if irq < 8 { (1 << irq, 0) } else { (4, 1 << (irq - 8)) };
        assert_eq!(in_service(&mut pair, MASTER), master);
        assert_eq!(in_service(&mut pair, SLAVE), slave);
    }
}

#[test]
fn unconnected_lines_do_nothing() {
    let mut pair = pair();
    for irq in [2, 16, 255] {
        pair.set_line(irq, true);
        assert!(!pair.output(), "irq {irq}");
    }
}

#[test]
fn fully_nested_mode_over_all_pairs_of_lines() {
    let order = [0, 1, 8, 9, 10, 11, 12, 13, 14, 15, 3, 4, 5, 6, 7];
    for (a, first) in order.into_iter().enumerate() {
        for (b, second) in order.into_iter().enumerate() {
            if first == second {
                continue;
            }
            let mut pair = pair();
            pulse(&mut pair, first);
            assert_eq!(pair.acknowledge(), 0x30 + first);
            pulse(&mut pair, second);
            // A slave's second request needs the master's special fully nested mode.
            let both_slave = first >= 8 && second >= 8;
            let nests = b < a && !both_slave;
            assert_eq!(pair.output(), nests, "{second} during {first}");
        }
    }
}

#[test]
fn special_fully_nested_mode_lets_the_slave_nest() {
    let mut pair = pair_with_modes(0x11);
    pulse(&mut pair, 12);
    assert_eq!(pair.acknowledge(), 0x3C);
    pulse(&mut pair, 9);
    assert!(pair.output());
    assert_eq!(pair.acknowledge(), 0x39);
    pulse(&mut pair, 14);
    assert!(!pair.output());
}

#[test]
fn masked_line_keeps_its_request() {
    let mut pair = pair();
    pair.port_write(MASTER + 1, 0xFF);
    assert_eq!(pair.port_read(MASTER + 1), 0xFF);
    pulse(&mut pair, 4);
    assert!(!pair.output());
    assert_eq!(requested(&mut pair, MASTER), 0x10);
    pair.port_write(MASTER + 1, 0xEF);
    assert!(pair.output());
}

#[test]
fn initialization_clears_masks_requests_and_service() {
    let mut pair = pair();
    pulse(&mut pair, 3);
    pair.acknowledge();
    pulse(&mut pair, 4);
    pair.port_write(MASTER + 1, 0x55);
    pair.port_write(MASTER, 0x11);
    for value in [0x40, 4, 1] {
        pair.port_write(MASTER + 1, value);
    }
    assert_eq!(pair.port_read(MASTER + 1), 0);
    assert_eq!(in_service(&mut pair, MASTER), 0);
    assert_eq!(requested(&mut pair, MASTER), 0);
    pulse(&mut pair, 1);
    assert_eq!(pair.acknowledge(), 0x41);
}

#[test]
fn initialization_words_that_icw1_announces() {
    for (icw1, words) in
        [(0x10, &[0x40, 4][..]), (0x11, &[0x40, 4, 1]), (0x12, &[0x40]), (0x13, &[0x40, 1])]
    {
        let mut pair = PicPair::new();
        pair.port_write(MASTER, icw1);
        for word in words {
            pair.port_write(MASTER + 1, *word);
        }
        pair.port_write(MASTER + 1, 0xA5);
        assert_eq!(pair.port_read(MASTER + 1), 0xA5, "ICW1 {icw1:#x}");
        pulse(&mut pair, 1);
        assert_eq!(pair.acknowledge(), 0x41);
    }
}

#[test]
fn non_specific_eoi_ends_the_highest_in_service() {
    let mut pair = pair();
    for irq in [5, 3, 1] {
        pulse(&mut pair, irq);
        pair.acknowledge();
    }
    for left in [0b10_1000, 0b10_0000, 0, 0] {
        pair.port_write(MASTER, END);
        assert_eq!(in_service(&mut pair, MASTER), left);
    }
}

#[test]
fn specific_eoi_ends_the_named_input() {
    let mut pair = pair();
    for irq in [5, 3, 1] {
        pulse(&mut pair, irq);
        pair.acknowledge();
    }
    pair.port_write(MASTER, 0x63);
    assert_eq!(in_service(&mut pair, MASTER), 0b10_0010);
}

#[test]
fn all_rotations_give_the_cyclic_order() {
    for lowest in 0..8u8 {
        let mut pair = pair_with_modes(0x03);
        pair.port_write(MASTER, 0xC0 | lowest);
        for irq in [0, 1, 3, 4, 5, 6, 7] {
            pulse(&mut pair, irq);
        }
        let expected: Vec<u8> =
            (1..=8).map(|k| (lowest + k) & 7).filter(|i| *i != 2).map(|i| 0x30 + i).collect();
        assert_eq!(taken(&mut pair), expected, "lowest {lowest}");
    }
}

#[test]
fn rotating_end_of_interrupt_makes_its_input_the_lowest() {
    for command in [0xA0, 0xE4] {
        let mut pair = pair();
        pulse(&mut pair, 4);
        pair.acknowledge();
        pair.port_write(MASTER, command);
        assert_eq!(in_service(&mut pair, MASTER), 0);
        pulse(&mut pair, 4);
        pulse(&mut pair, 5);
        assert_eq!(pair.acknowledge(), 0x35, "command {command:#x}");
    }
}

#[test]
fn automatic_eoi_leaves_nothing_in_service_and_can_rotate() {
    for (command, second) in [(0x00, 0x33), (0x80, 0x34)] {
        let mut pair = pair_with_modes(0x03);
        pair.port_write(MASTER, command);
        pulse(&mut pair, 3);
        pulse(&mut pair, 4);
        assert_eq!(pair.acknowledge(), 0x33);
        assert_eq!(in_service(&mut pair, MASTER), 0);
        pulse(&mut pair, 3);
        assert_eq!(pair.acknowledge(), second);
    }
}

#[test]
fn special_mask_mode_lets_lower_inputs_through_a_masked_one() {
    let mut pair = pair();
    pulse(&mut pair, 3);
    pair.acknowledge();
    pulse(&mut pair, 5);
    pair.port_write(MASTER + 1, 0x08);
    assert!(!pair.output());
    pair.port_write(MASTER, 0x68);
    assert!(pair.output());
    assert_eq!(pair.acknowledge(), 0x35);
    // The non-specific EOI passes over what the mode hides.
    pair.port_write(MASTER, END);
    assert_eq!(in_service(&mut pair, MASTER), 0x08);
    pulse(&mut pair, 6);
    pair.port_write(MASTER, 0x48);
    assert!(!pair.output());
}

#[test]
fn poll_acknowledges_and_names_the_input() {
    let mut pair = pair();
    pair.port_write(MASTER, 0x0C);
    assert_eq!(pair.port_read(MASTER), 0);
    pulse(&mut pair, 6);
    pair.port_write(MASTER, 0x0C);
    assert_eq!(pair.port_read(MASTER), 0x86);
    assert!(!pair.output());
    assert_eq!(in_service(&mut pair, MASTER), 0x40);
}

#[test]
fn level_triggered_line_requests_as_long_as_it_is_asserted() {
    let mut pair = pair();
    pair.port_write(0x4D1, 0x02);
    pair.set_line(9, true);
    assert_eq!(pair.acknowledge(), 0x39);
    for port in [SLAVE, MASTER] {
        pair.port_write(port, END);
    }
    assert!(pair.output(), "still asserted");
    pair.set_line(9, false);
    assert!(!pair.output());
}

#[test]
fn edge_triggered_line_requests_once() {
    let mut pair = pair();
    pair.set_line(9, true);
    assert_eq!(pair.acknowledge(), 0x39);
    for port in [SLAVE, MASTER] {
        pair.port_write(port, END);
    }
    assert!(!pair.output());
}

#[test]
fn elcr_has_no_bits_for_the_timer_keyboard_cascade_clock_and_coprocessor() {
    let mut pair = pair();
    for (port, capable) in [(0x4D0, 0xF8), (0x4D1, 0xDE)] {
        pair.port_write(port, 0xFF);
        assert_eq!(pair.port_read(port), capable);
    }
}

#[test]
fn spurious_interrupt_is_input_7_and_not_in_service() {
    let mut pair = pair();
    assert_eq!(pair.acknowledge(), 0x37);
    assert_eq!(in_service(&mut pair, MASTER), 0);
}

#[test]
fn spurious_interrupt_of_the_slave_leaves_the_master_in_service() {
    // Between the master's and the slave's acknowledge the request goes away; seen from outside
    // this is a slave without a request behind a master that has one.
    let mut pair = pair();
    pulse(&mut pair, 10);
    pair.slave.write(true, 0xFF);
    assert_eq!(pair.acknowledge(), 0x3F);
    assert_eq!(in_service(&mut pair, MASTER), 4);
    assert_eq!(in_service(&mut pair, SLAVE), 0);
}

#[test]
fn no_port_access_panics() {
    let mut pair = PicPair::new();
    for port in [0x20, 0x21, 0xA0, 0xA1, 0x4D0, 0x4D1, 0, 0xFFFF] {
        for value in 0..=255 {
            pair.port_write(port, value);
            pair.set_line(value, value & 1 != 0);
            pair.port_read(port);
            pair.acknowledge();
        }
    }
    assert_eq!(pair.port_read(0x22), 0xFF);
}
