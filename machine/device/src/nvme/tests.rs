//! A driver of a few lines, and what the specification promises it.

use super::*;
use crate::bench::Bench;
use crate::pci::PciBus;
use crate::storage::{MemoryStorage, SECTOR_SIZE, WriteMode};
use arch::nvme::ALL_NAMESPACES;
use arch::nvme::identify::namespace;
use arch::pci::header;
use bus::Effect;

mod access;
mod administration;
mod hostile;

const PLACE: FunctionAddress = FunctionAddress::new(0, 3, 0);
/// Where the driver keeps its queues, which are a page each, and its data.
const SUBMISSION: u64 = 0x1_0000;
const COMPLETION: u64 = 0x2_0000;
const DATA: u64 = 0x4_0000;
const LISTS: u64 = 0x3_0000;
const ENTRIES: u32 = 16;
const SECTORS: usize = 4096;
/// Behind the memory that there is.
const NOWHERE: u64 = 0x4000_0000;

/// A controller, with what a driver keeps of it.
struct Driver {
    bench: Bench,
    pci: PciBus<Controller>,
    tails: [u32; 3],
    heads: [u32; 3],
    phases: [bool; 3],
    next: u16,
}

/// A completion as the driver reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    result: u32,
    head: u16,
    queue: u16,
    identifier: u16,
    status: Status,
}

impl Driver {
    /// A function that is a bus master, with vector n as data n.
    fn found(mode: WriteMode) -> Self {
        let bytes = (0..SECTORS).flat_map(|sector| [sector as u8; SECTOR_SIZE]).collect();
        let disk = Disk::new(Box::new(MemoryStorage::new(bytes)), mode);
        let mut driver = Self {
            bench: Bench::new(),
            pci: PciBus::default(),
            tails: [0; 3],
            heads: [0; 3],
            phases: [true; 3],
            next: 0,
        };
        assert!(driver.pci.plug(|room| Controller::new(disk, 0).function(PLACE, room)));
        let cx = &mut driver.bench.context();
        driver.pci.write_configuration(cx, PLACE, header::COMMAND, 2, 6);
        driver.pci.write_configuration(cx, PLACE, 0x42, 2, 0x8000);
        let table = driver.region(TABLE_BAR);
        for vector in 0..u64::from(VECTORS) {
            for (offset, value) in [(0, 0xFEE0_0000), (4, 0), (8, vector), (12, 0)] {
                let cx = &mut driver.bench.context();
                assert!(driver.pci.write(cx, table + vector * 16 + offset, true, 4, value));
            }
        }
        driver
    }

    /// The same, enabled.
    fn enabled(mode: WriteMode) -> Self {
        let mut driver = Self::found(mode);
        let last = ENTRIES - 1;
        driver.write(register::ADMIN_ATTRIBUTES, last << 16 | last);
        driver.write(register::ADMIN_SUBMISSION, SUBMISSION as u32);
        driver.write(register::ADMIN_COMPLETION, COMPLETION as u32);
        driver.write(register::CONFIGURATION, ENABLED);
        assert_eq!(driver.read(register::STATUS), 1);
        driver
    }

    /// The same, with two pairs of I/O queues; pair n interrupts with vector n.
    fn ready(mode: WriteMode) -> Self {
        let mut driver = Self::enabled(mode);
        for queue in 1..3 {
            assert_eq!(driver.create_completion(queue, ENTRIES, queue), Status::SUCCESS);
            assert_eq!(driver.create_submission(queue, ENTRIES, queue), Status::SUCCESS);
        }
        driver.bench.effects();
        driver
    }

    fn region(&self, bar: usize) -> u64 {
        self.pci.function(PLACE).unwrap().configuration.mapped(bar).unwrap()
    }

    fn controller(&mut self) -> &mut Controller {
        &mut self.pci.function_mut(PLACE).unwrap().device
    }

    fn write(&mut self, offset: u64, value: u32) {
        let at = self.region(REGISTERS_BAR) + offset;
        assert!(self.pci.write(&mut self.bench.context(), at, true, 4, value.into()));
    }

    fn read(&mut self, offset: u64) -> u32 {
        let at = self.region(REGISTERS_BAR) + offset;
        self.pci.read(&mut self.bench.context(), at, true, 4).unwrap() as u32
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.bench.memory.ram[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn load(&self, at: u64, length: usize) -> Vec<u8> {
        self.bench.memory.ram[at as usize..][..length].to_vec()
    }

    fn dword(&self, at: u64) -> u32 {
        u32::from_le_bytes(*self.load(at, 4).first_chunk().unwrap())
    }

    /// Puts a command behind the last of a queue; the doorbell is not rung.
    fn put(&mut self, queue: u16, command: Submission) -> u16 {
        let identifier = self.next;
        self.next += 1;
        let tail = &mut self.tails[usize::from(queue)];
        let at = SUBMISSION + u64::from(queue) * 0x1000 + u64::from(*tail) * SUBMISSION_SIZE;
        *tail = (*tail + 1) % ENTRIES;
        self.store(at, &Submission { identifier, ..command }.to_bytes());
        identifier
    }

    fn ring(&mut self, queue: u16) {
        let tail = self.tails[usize::from(queue)];
        self.write(register::DOORBELLS + u64::from(queue) * 8, tail);
    }

    /// Lets the controller do what it has to.
    fn wait(&mut self) {
        while let Some(at) = self.pci.next_deadline() {
            self.bench.now = self.bench.now.max(at);
            self.pci.advance(&mut self.bench.context());
        }
    }

    /// The next completion of a queue, if there is one; the doorbell is not rung.
    fn take(&mut self, queue: u16) -> Option<Seen> {
        let index = usize::from(queue);
        let at = COMPLETION + u64::from(queue) * 0x1000 + u64::from(self.heads[index]) * 16;
        let status = self.dword(at + 12) >> 16;
        if (status & 1 != 0) != self.phases[index] {
            return None;
        }
        self.heads[index] = (self.heads[index] + 1) % ENTRIES;
        if self.heads[index] == 0 {
            self.phases[index] = !self.phases[index];
        }
        Some(Seen {
            result: self.dword(at),
            head: self.dword(at + 8) as u16,
            queue: (self.dword(at + 8) >> 16) as u16,
            identifier: self.dword(at + 12) as u16,
            status: Status::from_bits((status >> 1) as u16).with_has_more(false),
        })
    }

    fn release(&mut self, queue: u16) {
        let head = self.heads[usize::from(queue)];
        self.write(register::DOORBELLS + u64::from(queue) * 8 + 4, head);
    }

    /// One command, from its doorbell to its end.
    fn run(&mut self, queue: u16, command: Submission) -> Seen {
        let identifier = self.put(queue, command);
        self.ring(queue);
        self.wait();
        let seen = self.take(queue).expect("a completion");
        assert_eq!((seen.queue, seen.identifier), (queue, identifier));
        self.release(queue);
        seen
    }

    fn status(&mut self, queue: u16, command: Submission) -> Status {
        self.run(queue, command).status
    }

    fn create_completion(&mut self, queue: u16, entries: u32, vector: u16) -> Status {
        self.status(
            0,
            Submission {
                opcode: admin::CREATE_COMPLETION_QUEUE,
                prp1: COMPLETION + u64::from(queue) * 0x1000,
                arguments: [queue_word(queue, entries), u32::from(vector) << 16 | 3, 0, 0, 0, 0],
                ..Submission::default()
            },
        )
    }

    fn create_submission(&mut self, queue: u16, entries: u32, completion: u16) -> Status {
        self.status(
            0,
            Submission {
                opcode: admin::CREATE_SUBMISSION_QUEUE,
                prp1: SUBMISSION + u64::from(queue) * 0x1000,
                arguments: [
                    queue_word(queue, entries),
                    u32::from(completion) << 16 | 1,
                    0,
                    0,
                    0,
                    0,
                ],
                ..Submission::default()
            },
        )
    }

    fn messages(&mut self) -> Vec<u32> {
        let message = |effect| match effect {
            Effect::MessageSignalled(message) => message.data,
            other => panic!("{other:?}"),
        };
        self.bench.effects().into_iter().map(message).collect()
    }
}

/// CC with entries of 64 and 16 bytes.
const ENABLED: u32 = 4 << 20 | 6 << 16 | 1;

fn queue_word(queue: u16, entries: u32) -> u32 {
    entries.wrapping_sub(1) << 16 | u32::from(queue)
}

fn blocks(opcode: u8, first: u64, count: u32) -> Submission {
    Submission {
        opcode,
        namespace: 1,
        prp1: DATA,
        prp2: DATA + 0x1000,
        arguments: [first as u32, (first >> 32) as u32, count - 1, 0, 0, 0],
        ..Submission::default()
    }
}

fn identify(structure: u32, namespace: u32) -> Submission {
    let arguments = [structure, 0, 0, 0, 0, 0];
    Submission {
        opcode: admin::IDENTIFY,
        namespace,
        prp1: DATA,
        arguments,
        ..Submission::default()
    }
}

#[test]
fn registers_say_what_there_is_and_keep_what_may_be_kept() {
    let mut driver = Driver::found(WriteMode::Overlay);
    assert_eq!(driver.read(0), 1023 | 1 << 16 | 2 << 24);
    assert_eq!(driver.read(4), 1 << 5);
    assert_eq!(driver.read(register::VERSION), 0x1_0400);
    for (offset, kept) in [
        (register::CAPABILITIES, 1023 | 1 << 16 | 2 << 24),
        (register::STATUS, 0),
        (register::ADMIN_ATTRIBUTES, 0x0FFF_0FFF),
        (register::ADMIN_SUBMISSION, 0xFFFF_F000),
        (register::ADMIN_SUBMISSION + 4, u32::MAX),
        (register::ADMIN_COMPLETION, 0xFFFF_F000),
        (0xFFC, 0),
        (register::DOORBELLS, 0),
    ] {
        driver.write(offset, u32::MAX);
        assert_eq!(driver.read(offset), kept, "{offset:#x}");
    }
}

#[test]
fn a_reset_keeps_the_admin_queues_registers_and_forgets_all_queues() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.ring(1);
    driver.write(register::CONFIGURATION, ENABLED & !1);
    assert_eq!(driver.read(register::STATUS), 0);
    assert_eq!(driver.pci.next_deadline(), None);
    assert_eq!(driver.read(register::ADMIN_SUBMISSION), SUBMISSION as u32);
    assert!(!driver.controller().queues.has_io());
    let function = driver.pci.function_mut(PLACE).unwrap();
    let control = function.configuration.read(0x34, 1);
    let express = function.configuration.read(control as u16 + 1, 1) as u16;
    driver.pci.write_configuration(&mut driver.bench.context(), PLACE, express + 8, 2, 0x8000);
    driver.pci.write_configuration(&mut driver.bench.context(), PLACE, header::COMMAND, 2, 6);
    assert_eq!(driver.read(register::ADMIN_SUBMISSION), 0, "a function-level reset");
}

#[test]
fn what_cannot_be_enabled_is_a_failure() {
    for wrong in [1 << 4, 1 << 7, 1 << 11] {
        let mut driver = Driver::found(WriteMode::Overlay);
        driver.write(register::CONFIGURATION, ENABLED | wrong);
        assert_eq!(driver.read(register::STATUS), 2, "{wrong:#x}");
        driver.write(register::CONFIGURATION, 0);
        assert_eq!(driver.read(register::STATUS), 0);
    }
}

#[test]
fn after_a_shutdown_nothing_is_done_until_a_reset() {
    let mut driver = Driver::ready(WriteMode::Through);
    driver.write(register::CONFIGURATION, ENABLED | 1 << 14);
    assert_eq!(driver.read(register::STATUS), 1 | 2 << 2);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.ring(1);
    driver.wait();
    assert_eq!(driver.take(1), None);
    driver.write(register::CONFIGURATION, 0);
    driver.write(register::CONFIGURATION, ENABLED);
    assert_eq!(driver.read(register::STATUS), 1);
}
