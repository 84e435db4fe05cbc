//! Functions on a bus, driven as drivers do.

use super::*;
use crate::bench::Bench;
use crate::pci::PciBus;
use arch::address::SystemPhysical;
use arch::intel_82599::register::queue;
use arch::msi::MessageSignalled;
use bus::Effect;

const PLACE: FunctionAddress = FunctionAddress::new(0, 0x15, 0);
const OTHER: FunctionAddress = FunctionAddress::new(0, 0x16, 0);
const OWN: [u8; 6] = [0x52, 0x54, 0, 0, 3, 0];
const TRANSMIT_RING: u64 = 0x1000;
const RECEIVE_RING: u64 = 0x2000;
const BUFFERS: u64 = 0x1_0000;
const SEND: u64 = 0x8_0000;
/// EOP, IFCS, RS, DEXT, data.
const COMMAND: u64 = 0x2B30_0000;

struct Board {
    bench: Bench,
    pci: PciBus<VirtualFunction>,
}

impl Board {
    /// Functions at the ends of a wire, with MSI-X on and vector n as data 40h + n.
    fn new(wire: Wire) -> Self {
        let (mut bench, mut pci) = (Bench::new(), PciBus::default());
        let places = &[PLACE, OTHER][..wire.count()];
        for function in wire.functions(0, places, &mut pci.room) {
            assert!(pci.add(function));
        }
        let places: Vec<_> = pci.functions().iter().map(|function| function.address).collect();
        let cx = &mut bench.context();
        for address in places {
            pci.write_configuration(cx, address, 4, 2, 6);
            pci.write_configuration(cx, address, 0x42, 2, 0x8000);
            let table = pci.function(address).unwrap().configuration.mapped(TABLE_BAR).unwrap();
            for vector in 0..VECTORS as u64 {
                for (offset, value) in [(0, 0xFEE0_0000), (4, 0), (8, 0x40 + vector), (12, 0)] {
                    assert!(pci.write(cx, table + vector * 16 + offset, true, 4, value));
                }
            }
        }
        Self { bench, pci }
    }

    fn region(&self, place: FunctionAddress) -> u64 {
        self.pci.function(place).unwrap().configuration.mapped(REGISTERS_BAR).unwrap()
    }

    fn write_at(&mut self, place: FunctionAddress, offset: u64, value: u64) {
        let at = self.region(place) + offset;
        assert!(self.pci.write(&mut self.bench.context(), at, true, 4, value));
    }

    fn write(&mut self, offset: u64, value: u64) {
        self.write_at(PLACE, offset, value);
    }

    fn read(&mut self, offset: u64) -> u32 {
        let at = self.region(PLACE) + offset;
        self.pci.read(&mut self.bench.context(), at, true, 4).unwrap() as u32
    }

    /// A driver has the function ready: RX on vector 0, TX on 1, 7 receive buffers of 2 KiB.
    fn up(&mut self, place: FunctionAddress, ring: u64) {
        for (offset, value) in [
            (register::MESSAGE, 1),
            (register::MAILBOX, 1),
            (register::ALLOCATION, 0x8180),
            (register::AUTO_CLEAR, 7),
            (register::AUTO_MASK, 0),
            (register::MASK_SET, 7),
        ] {
            self.write_at(place, offset, value);
        }
        for (start, base) in
            [(register::RECEIVE, ring + RECEIVE_RING), (register::TRANSMIT, ring + TRANSMIT_RING)]
        {
            self.write_at(place, start + queue::BASE, base);
            self.write_at(place, start + queue::LENGTH, 128);
            self.write_at(place, start + queue::CONTROL, 1 << 25);
        }
        self.write_at(place, register::RECEIVE + queue::RECEIVE_CONTROL, 0x1200_0002);
        for i in 0..7 {
            self.store(ring + RECEIVE_RING + i * 16, &(ring + BUFFERS + i * 2048).to_le_bytes());
        }
        self.write_at(place, register::RECEIVE + queue::TAIL, 7);
        self.bench.effects();
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.bench.memory.write(SystemPhysical(at), bytes).unwrap();
    }

    fn load(&self, at: u64) -> u64 {
        self.bench.memory.read_u64(SystemPhysical(at)).unwrap()
    }

    /// Hands a frame over in descriptor `index`; the tail is not moved.
    fn hand_over(&mut self, index: u64, frame: &[u8]) {
        let (at, buffer) = (TRANSMIT_RING + index * 16, SEND + index * 0x2000);
        self.store(buffer, frame);
        self.store(at, &buffer.to_le_bytes());
        self.store(at + 8, &(COMMAND | frame.len() as u64).to_le_bytes());
    }

    fn tail(&mut self, index: u64) {
        self.write(register::TRANSMIT + queue::TAIL, index);
    }

    fn step(&mut self) -> bool {
        let Some(at) = self.pci.next_deadline() else { return false };
        self.bench.now = at;
        self.pci.advance(&mut self.bench.context());
        true
    }

    fn run(&mut self) {
        for _ in 0..1000 {
            if !self.step() {
                return;
            }
        }
        panic!("deadlines do not end");
    }

    fn messages(&mut self) -> Vec<u32> {
        let message = |effect: &Effect| match effect {
            Effect::MessageSignalled(MessageSignalled { data, .. }) => *data,
            other => panic!("{other:?}"),
        };
        self.bench.effects().iter().map(message).collect()
    }

    fn counters(&self, place: FunctionAddress) -> Counters {
        self.pci.function(place).unwrap().device.counters
    }
}

fn frame(to: [u8; 6], length: usize) -> Vec<u8> {
    let mut frame = [&to[..], &OWN, &[0x88, 0xB5]].concat();
    frame.resize(length, 0xA5);
    frame
}

#[test]
fn a_reflected_frame_takes_its_time_on_the_wire_in_each_direction() {
    let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
    board.up(PLACE, 0);
    board.hand_over(0, &frame([2; 6], 1000));
    board.tail(1);
    assert_eq!(board.messages(), [], "nothing has left yet");
    let start = board.bench.now;
    assert!(board.step());
    assert_eq!((board.bench.now.0 - start.0) / 100, 1024 * 8, "800 ps for each of 1024 bytes");
    assert_eq!(board.messages(), [0x41], "it has left");
    assert_eq!(board.load(TRANSMIT_RING + 8) >> 32, 1, "and its descriptor is done");
    assert!(board.step());
    assert_eq!((board.bench.now.0 - start.0) / 100, 2 * 1024 * 8);
    assert_eq!(board.messages(), [0x40]);
    assert_eq!(board.load(RECEIVE_RING + 8), 1000 << 32 | 3, "done, last, length");
    assert_eq!(board.load(BUFFERS).to_le_bytes()[..6], OWN);
    assert!(!board.step());
    assert_eq!(board.read(register::FRAMES_SENT), 1);
    assert_eq!(board.read(register::BYTES_RECEIVED), 1004, "with the check sequence");
}

#[test]
fn frames_follow_each_other_without_a_gap_but_the_wires() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    for index in 0..5 {
        board.hand_over(index, &frame([2; 6], 1514));
    }
    let start = board.bench.now;
    board.tail(5);
    board.run();
    let passed = board.bench.now.0 - start.0;
    assert_eq!(passed, 5 * 1538 * 800);
    let payload_rate = 5 * 1448 * 8 * 1000 / (passed / 1000);
    assert!(payload_rate > 9400, "{payload_rate} Mb/s of TCP's payload");
}

#[test]
fn functions_at_both_ends_of_a_wire_receive_what_the_other_sends() {
    let mut board = Board::new(Wire::Pair);
    board.up(PLACE, 0);
    board.up(OTHER, 0x4_0000);
    board.hand_over(0, &frame([0x52, 0x54, 0, 0, 3, 1], 100));
    board.hand_over(1, &frame([0x52, 0x54, 0, 0, 3, 9], 100));
    board.tail(2);
    board.run();
    let there = board.counters(OTHER);
    assert_eq!((there.frames_received, there.not_addressed), (1, 1));
    assert_eq!(board.load(0x4_0000 + RECEIVE_RING + 8), 100 << 32 | 3);
    assert_eq!(board.counters(PLACE).frames_sent, 2);
}

#[test]
fn a_frame_without_descriptors_is_dropped_where_the_queue_drops_and_waits_where_not() {
    for (control, received, dropped) in [(0x1200_0002, 7, 3), (0x0200_0002, 10, 0)] {
        let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
        board.up(PLACE, 0);
        board.write(register::RECEIVE + queue::RECEIVE_CONTROL, control);
        for index in 0..10 {
            board.hand_over(index % 8, &frame([2; 6], 60));
            board.tail((index + 1) % 8);
            board.run();
        }
        assert_eq!(board.counters(PLACE).frames_received, 7);
        board.write(register::RECEIVE + queue::TAIL, 5);
        let counters = board.counters(PLACE);
        assert_eq!((counters.frames_received, counters.dropped), (received, dropped));
    }
}

#[test]
fn a_frame_longer_than_a_buffer_goes_into_several() {
    let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
    board.up(PLACE, 0);
    board.write(register::MESSAGE, 5);
    board.write(register::MESSAGE + 4, 9000);
    board.write(register::MAILBOX, 1);
    board.hand_over(0, &frame([2; 6], 5000));
    board.tail(1);
    board.run();
    let written = [0, 1, 2].map(|i| board.load(RECEIVE_RING + i * 16 + 8));
    assert_eq!(written, [2048 << 32 | 1, 2048 << 32 | 1, 904 << 32 | 3]);
}

#[test]
fn messages_of_a_vector_keep_the_interval_that_was_set() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    board.write(register::THROTTLE, 5 << 3 | 1 << 31);
    for _ in 0..3 {
        board.write(register::CAUSE_SET, 1);
    }
    assert_eq!(board.messages(), [0x40], "the first at once");
    let first = board.bench.now;
    assert!(board.step());
    assert_eq!(board.bench.now.0 - first.0, 10_000_000, "5 units of 2 us");
    assert_eq!(board.messages(), [0x40], "the others as one");
    assert!(!board.step());
}

#[test]
fn a_masked_cause_is_told_when_the_mask_goes_and_auto_mask_masks() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    board.write(register::AUTO_MASK, 7);
    board.write(register::CAUSE_SET, 2);
    assert_eq!((board.messages(), board.read(register::MASK_SET)), (vec![0x41], 5));
    board.write(register::CAUSE_SET, 2);
    assert_eq!(board.messages(), []);
    assert!(!board.step(), "a masked vector waits for no time");
    board.write(register::MASK_SET, 2);
    assert_eq!(board.messages(), [0x41]);
    board.write(register::MASK_SET, 2);
    assert_eq!(board.messages(), [], "it was cleared by sending");
    board.write(register::MASK_CLEAR, 2);
    board.write(register::CAUSE_SET, 2);
    assert_eq!(board.read(register::CAUSE), 2);
    board.write(register::MASK_SET, 2);
    assert_eq!(board.messages(), [], "reading the cause clears it");
}

#[test]
fn an_answer_in_the_mailbox_interrupts() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    board.write(register::ALLOCATION_OTHER, 0x82);
    board.write(register::MESSAGE, 8);
    board.write(register::MAILBOX, 1);
    assert_eq!(board.messages(), [0x42]);
}

#[test]
fn a_function_level_reset_leaves_nothing_of_the_driver() {
    let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
    board.up(PLACE, 0);
    board.hand_over(0, &frame([2; 6], 60));
    board.tail(1);
    let express = 0x4C;
    let cx = &mut board.bench.context();
    assert_eq!(board.pci.read_configuration(PLACE, express, 1), 0x10, "the capability");
    assert_eq!(board.pci.read_configuration(PLACE, express + 4, 4) >> 28 & 1, 1, "FLR");
    board.pci.write_configuration(cx, PLACE, express + 8, 2, 0x8000);
    assert_eq!(board.pci.read_configuration(PLACE, express + 8, 2), 0);
    assert_eq!(board.pci.read_configuration(PLACE, 4, 2), 0, "the command register");
    assert_eq!(board.pci.read_configuration(PLACE, 0x42, 2), 2, "MSI-X is off");
    assert_eq!(board.pci.next_deadline(), None, "nothing is on the wire");
    board.pci.write_configuration(&mut board.bench.context(), PLACE, 4, 2, 6);
    assert_eq!(board.pci.read_configuration(PLACE, 0x10, 4), 4, "the address is gone");
}

#[test]
fn a_reset_by_the_driver_switches_queues_off_and_says_so_in_the_mailbox() {
    let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
    board.up(PLACE, 0);
    board.read(register::MAILBOX);
    board.write(register::CONTROL, 1 << 26);
    for at in [
        register::MASK_SET,
        register::RECEIVE + queue::CONTROL,
        register::TRANSMIT + queue::CONTROL,
    ] {
        assert_eq!(board.read(at), 0, "{at:#x}");
    }
    assert_eq!(board.read(register::MAILBOX), 0x80);
    assert_eq!(board.read(register::LINKS), 0x7000_0000);
}

#[test]
fn what_memory_refuses_stops_neither_direction() {
    let mut board = Board::new(Wire::Source(Reaction::Reflect, None));
    board.up(PLACE, 0);
    board.hand_over(0, &frame([2; 6], 60));
    board.store(TRANSMIT_RING, &(1u64 << 40).to_le_bytes());
    board.hand_over(1, &frame([2; 6], 60));
    board.store(RECEIVE_RING, &(1u64 << 40).to_le_bytes());
    board.hand_over(2, &frame([2; 6], 60));
    board.tail(3);
    board.run();
    let counters = board.counters(PLACE);
    assert_eq!((counters.frames_sent, counters.dropped, counters.frames_received), (2, 1, 1));
}

#[test]
fn of_a_packet_in_pieces_nothing_is_sent_where_memory_refused_one() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    for index in 0..4 {
        board.hand_over(index, &frame([2; 6], 100));
    }
    for index in [0, 2] {
        let first = COMMAND & !(1 << 24) | 100;
        board.store(TRANSMIT_RING + index * 16 + 8, &first.to_le_bytes());
    }
    board.store(TRANSMIT_RING, &(1u64 << 40).to_le_bytes());
    board.tail(4);
    board.run();
    let counters = board.counters(PLACE);
    assert_eq!((counters.frames_sent, counters.bytes_sent), (1, 200));
}

#[test]
fn a_packet_whose_end_was_not_handed_over_waits_and_one_without_end_is_given_up() {
    let mut board = Board::new(Wire::Source(Reaction::Count, None));
    board.up(PLACE, 0);
    let open = COMMAND & !(1 << 24) | 60;
    for index in 0..200u64 {
        board.store(TRANSMIT_RING + index * 16, &SEND.to_le_bytes());
        board.store(TRANSMIT_RING + index * 16 + 8, &open.to_le_bytes());
    }
    board.tail(5);
    assert_eq!(board.read(register::TRANSMIT + queue::HEAD), 0);
    assert!(!board.step());
    board.write(register::TRANSMIT + queue::LENGTH, 128 * 20);
    board.tail(100);
    assert_eq!(board.read(register::TRANSMIT + queue::HEAD), 64, "no packet has so many buffers");
}
