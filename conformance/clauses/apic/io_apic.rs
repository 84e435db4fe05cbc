//! A line's way through the I/O APIC to a local APIC and back.
//! [IOAPIC "Functional Description"] [SDM3 "Signaling Interrupt Servicing Completion"]

use crate::subject::*;
use arch::apic::{Register, Scope};
use arch::identity::{CpuIndex, RequesterId, Vector};
use arch::msi::DestinationWidth;
use bus::Effect;
use interrupt::route::targets;
use interrupt::{IoApic, IoApicModel, LocalApic};

/// An I/O APIC and two processors, connected as a board connects them.
struct Board {
    io_apic: IoApic,
    apics: Vec<LocalApic>,
    delivered: usize,
}

impl Board {
    fn new() -> Self {
        let model = IoApicModel { version: 0x20, pins: 24, requester: RequesterId(0xA0) };
        let apics = [0, 1].map(|id| xapic(intel(id))).into();
        Self { io_apic: IoApic::new(model), apics, delivered: 0 }
    }

    fn entry(&mut self, pin: u8, entry: u64) {
        let mut out = Vec::new();
        for (index, half) in [(0x11, entry >> 32), (0x10, entry & 0xFFFF_FFFF)] {
            self.io_apic.write_mmio(0, 4, index + 2 * u64::from(pin), &mut out);
            self.io_apic.write_mmio(0x10, 4, half, &mut out);
        }
        self.carry(out);
    }

    fn line(&mut self, pin: u8, asserted: bool) {
        let mut out = Vec::new();
        self.io_apic.set_line(pin, asserted, &mut out);
        self.carry(out);
    }

    fn end(&mut self, cpu: usize) {
        let out = write(&mut self.apics[cpu], Register::EndOfInterrupt, 0);
        self.carry(out);
    }

    fn carry(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::MessageSignalled(message) => {
                    let interrupt = message.interrupt(DestinationWidth::Eight).expect("valid");
                    let mut into = Vec::new();
                    targets(&interrupt, Scope::Destination, None, &self.apics, &mut into);
                    if into.is_empty() {
                        self.io_apic.not_accepted(message);
                    }
                    for CpuIndex(cpu) in into {
                        self.apics[usize::from(cpu)].accept(&interrupt);
                        self.delivered += 1;
                    }
                }
                Effect::EndOfInterrupt { vector } => {
                    let mut out = Vec::new();
                    self.io_apic.end_of_interrupt(vector, &mut out);
                    self.carry(out);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn pending(&self, cpu: usize) -> Option<Vector> {
        self.apics[cpu].pending()
    }
}

const EDGE: u64 = 0x41;
const LEVEL: u64 = 0x8041;
const TO_CPU_1: u64 = 1 << 56;

#[test]
fn edge_reaches_the_destination_and_needs_no_end() {
    let mut board = Board::new();
    board.entry(5, TO_CPU_1 | EDGE);
    board.line(5, true);
    assert_eq!(board.pending(0), None);
    assert_eq!(board.pending(1), Some(Vector(0x41)));
    board.apics[1].acknowledge();
    board.line(5, false);
    board.line(5, true);
    board.end(1);
    assert_eq!(board.delivered, 2);
    assert_eq!(board.pending(1), Some(Vector(0x41)));
}

#[test]
fn level_comes_back_after_the_end_as_long_as_the_line_is_asserted() {
    let mut board = Board::new();
    board.entry(5, LEVEL);
    board.line(5, true);
    for delivered in 1..=3 {
        assert_eq!(board.delivered, delivered);
        assert_eq!(board.apics[0].acknowledge(), Vector(0x41));
        board.end(0);
    }
    board.apics[0].acknowledge();
    board.line(5, false);
    board.end(0);
    assert_eq!((board.delivered, board.pending(0)), (4, None));
}

#[test]
fn level_is_not_sent_twice_before_the_end() {
    let mut board = Board::new();
    board.entry(5, LEVEL);
    for asserted in [true, false, true, false, true] {
        board.line(5, asserted);
    }
    assert_eq!(board.delivered, 1);
}

#[test]
fn level_interrupt_that_nobody_took_is_not_stuck() {
    let mut board = Board::new();
    board.entry(5, 9 << 56 | LEVEL);
    board.line(5, true);
    assert_eq!(board.delivered, 0);
    board.entry(5, LEVEL);
    assert_eq!(board.pending(0), Some(Vector(0x41)));
}

#[test]
fn logical_destination_reaches_both() {
    let mut board = Board::new();
    for (apic, logical_id) in board.apics.iter_mut().zip([1 << 24, 2 << 24]) {
        write(apic, Register::LogicalDestination, logical_id);
    }
    board.entry(5, 3 << 56 | 1 << 11 | EDGE);
    board.line(5, true);
    assert_eq!(board.delivered, 2);
}
