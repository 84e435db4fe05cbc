//! A small driver, and what it must see of each device.

use super::*;
use crate::bench::Bench;
use crate::chipset::{Chipset, ChipsetConfiguration};
use crate::map;
use crate::packet_source::{PacketSource, Reaction, Stream};
use crate::storage::{Disk, MemoryStorage, WriteMode};
use arch::address::SystemPhysical;
use bus::Effect;

mod console;
mod nine_p;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const QUEUE_SIZE: u16 = 8;
const EVENT_INDEX: u64 = 1 << 29;
const INDIRECT_FEATURE: u64 = 1 << 28;
const VERSION_1: u64 = 1 << 32;
/// Where the driver keeps data buffers.
const BUFFERS: u64 = 0x8_0000;
const HEADER: u64 = BUFFERS;
const DATA: u64 = BUFFERS + 0x1000;
const STATUS: u64 = BUFFERS + 0xF00;

pub(crate) struct Rig {
    pub bench: Bench,
    pub chipset: Chipset,
    registers: u64,
    table: u64,
    configuration: u64,
    next_descriptor: u16,
    seen_used: Vec<u16>,
}

impl Rig {
    pub fn new(model: Model) -> Self {
        let configuration = ChipsetConfiguration {
            functions: vec![model.into()],
            ..ChipsetConfiguration::default()
        };
        let mut rig = Self {
            bench: Bench::new(),
            chipset: Chipset::new(&configuration),
            registers: 0,
            table: 0,
            configuration: map::ECAM.0 + (u64::from(map::FIRST_VIRTIO_DEVICE) << 15),
            next_descriptor: 0,
            seen_used: vec![0; 16],
        };
        rig.registers = rig.get(rig.configuration + 0x10, 4) & !15;
        rig.table = rig.get(rig.configuration + 0x14, 4) & !15;
        rig.set(rig.configuration + 4, 2, 6);
        rig
    }

    /// A device that is live with all its queues, with messages to vector n + 1 for queue n.
    fn live(model: Model, features: u64) -> Self {
        let mut rig = Self::new(model);
        rig.enable_msix();
        rig.negotiate(features | VERSION_1);
        rig.set_up_queues();
        rig.set_status(15);
        rig.bench.effects();
        rig
    }

    fn get(&mut self, address: u64, size: u8) -> u64 {
        self.chipset.read(&mut self.bench.context(), SystemPhysical(address), size)
    }

    fn set(&mut self, address: u64, size: u8, value: u64) {
        self.chipset.write(&mut self.bench.context(), SystemPhysical(address), size, value);
    }

    fn enable_msix(&mut self) {
        for vector in 0..16 {
            self.set(self.table + vector * 16, 8, 0xFEE0_0000);
            self.set(self.table + vector * 16 + 8, 8, 0x30 + vector);
        }
        let capability = self.capability(0x11);
        self.set(self.configuration + capability + 2, 2, 0x8000);
    }

    fn capability(&mut self, id: u64) -> u64 {
        let mut at = self.get(self.configuration + 0x34, 1);
        while at != 0 && self.get(self.configuration + at, 1) != id {
            at = self.get(self.configuration + at + 1, 1);
        }
        at
    }

    fn negotiate(&mut self, features: u64) {
        self.set_status(0);
        self.set_status(3);
        for half in 0..2 {
            self.set(self.registers + 8, 4, half);
            self.set(self.registers + 0xC, 4, features >> (32 * half) & 0xFFFF_FFFF);
        }
        self.set_status(11);
    }

    fn set_status(&mut self, value: u64) {
        self.set(self.registers + 0x14, 1, value);
    }

    fn status(&mut self) -> u64 {
        self.get(self.registers + 0x14, 1)
    }

    fn set_up_queues(&mut self) {
        let count = self.get(self.registers + 0x12, 2);
        for queue in 0..count {
            let base = 0x1_0000 + queue * 0x4000;
            self.set(self.registers + 0x16, 2, queue);
            self.set(self.registers + 0x18, 2, QUEUE_SIZE.into());
            self.set(self.registers + 0x1A, 2, queue + 1);
            self.set(self.registers + 0x20, 8, base);
            self.set(self.registers + 0x28, 8, base + 0x1000);
            self.set(self.registers + 0x30, 8, base + 0x2000);
            self.set(self.registers + 0x1C, 2, 1);
        }
    }

    fn store(&mut self, address: u64, bytes: &[u8]) {
        self.bench.memory.write(SystemPhysical(address), bytes).unwrap();
    }

    fn load(&mut self, address: u64, length: usize) -> Vec<u8> {
        self.bench.memory.slice(SystemPhysical(address), length).unwrap().to_vec()
    }

    fn load_u16(&mut self, address: u64) -> u16 {
        u16::from_le_bytes(self.load(address, 2).try_into().unwrap())
    }

    fn put_descriptor(&mut self, table: u64, index: u16, descriptor: (u64, u32, u16, u16)) {
        let (address, length, flags, next) = descriptor;
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.store(table + u64::from(index) * 16, &bytes);
    }

    fn make_available(&mut self, queue: u64, head: u16) {
        let ring = 0x1_0000 + queue * 0x4000 + 0x1000;
        let index = self.load_u16(ring + 2);
        self.store(ring + 4 + u64::from(index % QUEUE_SIZE) * 2, &head.to_le_bytes());
        self.store(ring + 2, &index.wrapping_add(1).to_le_bytes());
    }

    fn notify(&mut self, queue: u64) {
        self.set(self.registers + 0x3000 + queue * 4, 2, queue);
    }

    /// Offers a chain of (address, length, flags) and notifies.
    fn submit(&mut self, queue: u64, buffers: &[(u64, u32, u16)]) {
        let table = 0x1_0000 + queue * 0x4000;
        let head = self.next_descriptor;
        for (position, &(address, length, flags)) in buffers.iter().enumerate() {
            let index = self.next_descriptor;
            self.next_descriptor = (index + 1) % QUEUE_SIZE;
            let link = if position + 1 < buffers.len() { NEXT } else { 0 };
            let descriptor = (address, length, flags | link, self.next_descriptor);
            self.put_descriptor(table, index, descriptor);
        }
        self.make_available(queue, head);
        self.notify(queue);
    }

    /// The lengths of the chains that came back since the last call.
    fn used(&mut self, queue: u64) -> Vec<u32> {
        let ring = 0x1_0000 + queue * 0x4000 + 0x2000;
        let index = self.load_u16(ring + 2);
        let mut lengths = Vec::new();
        while self.seen_used[queue as usize] != index {
            let slot = u64::from(self.seen_used[queue as usize] % QUEUE_SIZE);
            let element = self.load(ring + 4 + slot * 8 + 4, 4);
            lengths.push(u32::from_le_bytes(element.try_into().unwrap()));
            self.seen_used[queue as usize] = self.seen_used[queue as usize].wrapping_add(1);
        }
        lengths
    }

    fn messages(&mut self) -> Vec<u32> {
        let of_message = |effect| match effect {
            Effect::MessageSignalled(message) => Some(message.data),
            _ => None,
        };
        self.bench.effects().into_iter().filter_map(of_message).collect()
    }

    /// A block request; gives the status byte.
    fn block_request(&mut self, kind: u32, sector: u64, data: &[(u64, u32, u16)]) -> u8 {
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        self.store(HEADER, &header);
        self.store(STATUS, &[0xEE]);
        let mut buffers = vec![(HEADER, 16, 0)];
        buffers.extend(data);
        buffers.push((STATUS, 1, WRITE));
        self.submit(0, &buffers);
        self.load(STATUS, 1)[0]
    }
}

fn block() -> Model {
    let bytes = (0..64u8).flat_map(|sector| [sector; 512]).collect();
    Model::Block(Block { disk: Disk::in_memory(bytes), serial: "avicenna".into() })
}

fn network(reaction: Reaction, stream: Option<Stream>) -> Model {
    let mac = [2, 0, 0, 0, 0, 1];
    Model::Network(Network::new(mac, PacketSource::new(mac, reaction, stream)))
}

#[test]
fn identity_and_configuration_say_what_the_device_is() {
    for (model, device, class, at, size, value) in [
        (block(), 0x1042, 0x0180, 0, 8, 64),
        (network(Reaction::Count, None), 0x1041, 0x0200, 0, 4, 2),
        (Model::Console(Console::new(&["results".into()])), 0x1043, 0x0780, 4, 4, 2),
        (Model::Entropy(Entropy::new(1)), 0x1044, 0x00FF, 0, 4, 0),
    ] {
        let mut rig = Rig::new(model);
        assert_eq!(rig.get(rig.configuration, 4), device << 16 | 0x1AF4);
        assert_eq!(rig.get(rig.configuration + 8, 4), class << 16 | 1);
        assert_eq!(rig.get(rig.registers + 0x2000 + at, size), value, "{device:#x}");
        let mut at = rig.get(rig.configuration + 0x34, 1);
        let mut kinds = Vec::new();
        while at != 0 {
            if rig.get(rig.configuration + at, 1) == 9 {
                kinds.push(rig.get(rig.configuration + at + 3, 1));
            }
            at = rig.get(rig.configuration + at + 1, 1);
        }
        assert_eq!(kinds, [1, 3, 4, 2]);
    }
}

#[test]
fn features_are_accepted_only_if_offered_and_modern() {
    for (features, accepted) in [
        (VERSION_1, true),
        (VERSION_1 | EVENT_INDEX | INDIRECT_FEATURE, true),
        (0, false),
        (VERSION_1 | 1 << 60, false),
        (VERSION_1 | 1 << 34, false),
    ] {
        let mut rig = Rig::new(block());
        rig.negotiate(features);
        assert_eq!(rig.status() & 8 != 0, accepted, "{features:#x}");
        rig.set_status(15);
        assert_eq!(rig.status() & 4 != 0, accepted, "no DRIVER_OK without FEATURES_OK");
    }
}

#[test]
fn block_requests_do_what_they_say() {
    for (kind, sector, data, status, length) in [
        (0, 3, vec![(DATA, 1024, WRITE)], 0, 1025),
        (0, 3, vec![(DATA, 100, WRITE), (DATA + 100, 924, WRITE)], 0, 1025),
        (0, 63, vec![(DATA, 1024, WRITE)], 1, 1),
        (0, 0, vec![(DATA, 100, WRITE)], 1, 1),
        (0, u64::MAX, vec![(DATA, 512, WRITE)], 1, 1),
        (1, 3, vec![(DATA, 512, 0)], 0, 1),
        (1, 64, vec![(DATA, 512, 0)], 1, 1),
        (4, 0, vec![], 0, 1),
        (8, 0, vec![(DATA, 20, WRITE)], 0, 21),
        (99, 0, vec![], 2, 1),
    ] {
        let mut rig = Rig::live(block(), 0);
        let name = format!("request {kind} at {sector} {data:x?}");
        assert_eq!(rig.block_request(kind, sector, &data), status, "{name}");
        assert_eq!(rig.used(0), [length], "{name}");
        assert_eq!(rig.messages(), [0x31], "{name}");
        if kind == 0 && status == 0 {
            assert_eq!(rig.load(DATA, 1024), [[3; 512], [4; 512]].concat());
        }
        if kind == 8 {
            assert_eq!(rig.load(DATA, 9), b"avicenna\0");
        }
    }
}

#[test]
fn what_was_written_is_read_again() {
    let mut rig = Rig::live(block(), 0);
    rig.store(DATA, &[0x5A; 4096]);
    assert_eq!(rig.block_request(1, 10, &[(DATA, 4096, 0)]), 0);
    assert_eq!(rig.block_request(0, 9, &[(DATA + 0x2000, 1024, WRITE)]), 0);
    assert_eq!(rig.load(DATA + 0x2000, 1024), [[9; 512], [0x5A; 512]].concat());
    assert_eq!(rig.used(0).len(), 2);
}

#[test]
fn a_read_only_disk_says_so_and_refuses_writes() {
    let storage = Box::new(MemoryStorage::new(vec![0; 4096]));
    let disk = Disk::new(storage, WriteMode::Refused);
    let mut rig = Rig::live(Model::Block(Block { disk, serial: String::new() }), 0);
    rig.set(rig.registers, 4, 0);
    assert_ne!(rig.get(rig.registers + 4, 4) & 1 << 5, 0);
    assert_eq!(rig.block_request(1, 0, &[(DATA, 512, 0)]), 1);
    assert_eq!(rig.block_request(0, 0, &[(DATA, 512, WRITE)]), 0);
}

#[test]
fn a_chain_may_lie_in_an_indirect_table() {
    let mut rig = Rig::live(block(), INDIRECT_FEATURE);
    let table = BUFFERS + 0x4000;
    rig.store(HEADER, &[0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    rig.put_descriptor(table, 0, (HEADER, 16, NEXT, 2));
    rig.put_descriptor(table, 2, (DATA, 512, WRITE | NEXT, 1));
    rig.put_descriptor(table, 1, (STATUS, 1, WRITE, 0));
    rig.submit(0, &[(table, 48, INDIRECT)]);
    assert_eq!(rig.used(0), [513]);
    assert_eq!(rig.load(DATA, 512), [5; 512]);
}

#[test]
fn a_broken_queue_asks_for_a_reset_and_works_again_after_it() {
    type Break = fn(&mut Rig);
    let ways: [(&str, u64, Break); 10] = [
        ("a loop", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, NEXT, 1));
            rig.put_descriptor(0x1_0000, 1, (HEADER, 16, NEXT, 0));
            rig.make_available(0, 0);
        }),
        ("a head outside the table", 0, |rig| rig.make_available(0, QUEUE_SIZE)),
        ("a link outside the table", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, NEXT, 0xFFFF));
            rig.make_available(0, 0);
        }),
        ("more available than there are descriptors", 0, |rig| {
            rig.store(0x1_1002, &(QUEUE_SIZE + 1).to_le_bytes());
        }),
        ("readable after writable", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, NEXT | WRITE, 1));
            rig.put_descriptor(0x1_0000, 1, (HEADER, 16, 0, 0));
            rig.make_available(0, 0);
        }),
        ("indirect without the feature", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, INDIRECT, 0));
            rig.make_available(0, 0);
        }),
        ("indirect inside indirect", INDIRECT_FEATURE, |rig| {
            rig.put_descriptor(HEADER, 0, (HEADER, 16, INDIRECT, 0));
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, INDIRECT, 0));
            rig.make_available(0, 0);
        }),
        ("an indirect table of no whole descriptor", INDIRECT_FEATURE, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 15, INDIRECT, 0));
            rig.make_available(0, 0);
        }),
        ("memory that is not there", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (u64::MAX - 8, 16, NEXT, 1));
            rig.put_descriptor(0x1_0000, 1, (STATUS, 1, WRITE, 0));
            rig.make_available(0, 0);
        }),
        ("no room for a status", 0, |rig| {
            rig.put_descriptor(0x1_0000, 0, (HEADER, 16, 0, 0));
            rig.make_available(0, 0);
        }),
    ];
    for (name, features, break_queue) in ways {
        let mut rig = Rig::live(block(), features);
        rig.set(rig.registers + 0x10, 2, 0);
        break_queue(&mut rig);
        rig.notify(0);
        assert_eq!(rig.status() & 64, 64, "{name}");
        assert_eq!(rig.messages(), [0x30], "{name}: the configuration vector");
        rig.notify(0);
        assert!(rig.messages().is_empty(), "{name}: a broken device is silent");
        rig.set_status(0);
        assert_eq!(rig.status(), 0);
        rig.store(0x1_0000, &[0; 0x3000]);
        rig.next_descriptor = 0;
        rig.seen_used = vec![0; 16];
        rig.negotiate(VERSION_1);
        rig.set_up_queues();
        rig.set_status(15);
        assert_eq!(rig.block_request(0, 3, &[(DATA, 512, WRITE)]), 0, "{name}");
    }
}

#[test]
fn nothing_leaves_a_function_that_is_no_bus_master() {
    let mut rig = Rig::live(block(), 0);
    rig.set(rig.configuration + 4, 2, 2);
    assert_eq!(rig.block_request(0, 3, &[(DATA, 512, WRITE)]), 0xEE);
    assert!(rig.bench.effects().is_empty());
    assert_eq!(rig.used(0), []);
}

#[test]
fn the_driver_is_told_only_where_it_wants_to_be() {
    // Without event index: a flag. With it: when the used index passes the event.
    for (features, flags, event, told) in [
        (0, 0, 0, [true, true, true]),
        (0, 1, 0, [false, false, false]),
        (EVENT_INDEX, 1, 0, [true, false, false]),
        (EVENT_INDEX, 0, 1, [false, true, false]),
        (EVENT_INDEX, 0, 7, [false, false, false]),
    ] {
        let mut rig = Rig::live(block(), features);
        rig.store(0x1_1000, &[flags, 0]);
        rig.store(0x1_1004 + u64::from(QUEUE_SIZE) * 2, &[event, 0]);
        for (round, told) in told.into_iter().enumerate() {
            rig.block_request(4, 0, &[]);
            let name = format!("features {features:#x}, event {event}, round {round}");
            assert_eq!(!rig.messages().is_empty(), told, "{name}");
        }
        let wanted = rig.load_u16(0x1_2004 + u64::from(QUEUE_SIZE) * 8);
        assert_eq!(wanted, if features == 0 { 0 } else { 3 }, "notify from here on");
    }
}

#[test]
fn without_messages_the_pin_is_held_until_the_cause_is_read() {
    let mut rig = Rig::new(block());
    rig.negotiate(VERSION_1);
    rig.set_up_queues();
    rig.set_status(15);
    rig.block_request(4, 0, &[]);
    let line = map::pci_line(map::FIRST_VIRTIO_DEVICE, 0);
    assert_eq!(rig.bench.levels(line), [true]);
    assert_eq!(rig.get(rig.registers + 0x1000, 1), 1);
    assert_eq!(rig.bench.levels(line), [false]);
    assert_eq!(rig.get(rig.registers + 0x1000, 1), 0);
}

#[test]
fn a_vector_that_does_not_exist_reads_back_as_none_and_queues_have_limits() {
    let mut rig = Rig::new(block());
    rig.set(rig.registers + 0x1A, 2, 1);
    assert_eq!(rig.get(rig.registers + 0x1A, 2), 1);
    rig.set(rig.registers + 0x1A, 2, 2);
    assert_eq!(rig.get(rig.registers + 0x1A, 2), 0xFFFF);
    for (size, kept) in [(128, 128), (100, 128), (0, 128), (512, 128), (1, 1)] {
        rig.set(rig.registers + 0x18, 2, size);
        assert_eq!(rig.get(rig.registers + 0x18, 2), kept, "size {size}");
    }
    rig.set(rig.registers + 0x16, 2, 1);
    assert_eq!(rig.get(rig.registers + 0x18, 2), 0, "there is no queue 1");
    rig.set(rig.registers + 0x20, 8, u64::MAX);
    assert_eq!(rig.get(rig.registers + 0x20, 8), 0);
}

#[test]
fn a_console_moves_bytes_both_ways_and_names_its_ports() {
    let mut rig = Rig::live(Model::Console(Console::new(&["results".into()])), 1 << 1);
    // Control buffers for seven messages.
    for slot in 0..7u64 {
        let base = 0x1_0000 + 2 * 0x4000;
        rig.put_descriptor(base, slot as u16, (DATA + slot * 64, 64, WRITE, 0));
        rig.make_available(2, slot as u16);
    }
    rig.notify(2);
    let mut say = |port: u32, event: u16| {
        let mut message = port.to_le_bytes().to_vec();
        message.extend(event.to_le_bytes());
        message.extend([1, 0]);
        rig.store(HEADER, &message);
        rig.submit(3, &[(HEADER, 8, 0)]);
    };
    say(0, 0);
    say(0, 3);
    say(1, 3);
    say(0, 6);
    say(1, 6);
    say(77, 6);
    let lengths = rig.used(2);
    assert_eq!(lengths, [8, 8, 8, 8, 15, 8]);
    let heard: Vec<_> = (0..6u64).map(|slot| rig.load(DATA + slot * 64, 6)).collect();
    let events: Vec<_> = heard.iter().map(|message| (message[0], message[4])).collect();
    assert_eq!(events, [(0, 1), (1, 1), (0, 4), (0, 6), (1, 7), (1, 6)]);
    assert_eq!(rig.load(DATA + 4 * 64 + 8, 7), b"results");
    assert!(rig.chipset.consoles_mut().next().unwrap().is_open(1));

    rig.store(DATA, b"to the board");
    rig.submit(1, &[(DATA, 12, 0)]);
    rig.submit(5, &[(DATA, 2, 0), (DATA + 7, 5, 0)]);
    assert_eq!(rig.chipset.take_console_output(0, 0), b"to the board");
    assert_eq!(rig.chipset.take_console_output(0, 1), b"toboard");
    assert_eq!(rig.chipset.take_console_output(0, 0), b"");
    assert_eq!(rig.chipset.take_console_output(7, 7), b"");

    assert_eq!(rig.chipset.feed_console(&mut rig.bench.context(), 0, 0, b"hello"), 5);
    rig.submit(0, &[(DATA, 3, WRITE)]);
    rig.submit(0, &[(DATA + 3, 30, WRITE)]);
    assert_eq!(rig.used(0), [3, 2]);
    assert_eq!(rig.load(DATA, 5), b"hello");
    assert_eq!(rig.chipset.feed_console(&mut rig.bench.context(), 0, 0, &[0; 1 << 20]), 1 << 20);
    assert_eq!(rig.chipset.feed_console(&mut rig.bench.context(), 1, 0, b"x"), 0);
}

#[test]
fn the_board_is_told_which_port_was_written_to() {
    let mut rig = Rig::live(Model::Console(Console::new(&["results".into()])), 1 << 1);
    for (queue, port) in [(1, 0), (5, 1)] {
        rig.submit(queue, &[(DATA, 4, 0)]);
        let told = rig.bench.effects().into_iter().find_map(|effect| match effect {
            Effect::ChannelOutput { port } => Some(port),
            _ => None,
        });
        assert_eq!(told, Some(port));
    }
}

#[test]
fn a_frame_is_reflected_into_the_next_receive_buffer() {
    let mut rig = Rig::live(network(Reaction::Reflect, None), 0);
    rig.store(DATA + 12, &[&[1; 6][..], &[2; 6], &[3; 88]].concat());
    rig.submit(1, &[(DATA, 112, 0)]);
    assert_eq!(rig.used(1), [0]);
    assert_eq!(rig.used(0), [], "no buffer yet");
    rig.submit(0, &[(DATA + 0x1000, 2000, WRITE)]);
    assert_eq!(rig.used(0), [112]);
    assert_eq!(rig.load(DATA + 0x1000 + 10, 2), [1, 0]);
    assert_eq!(rig.load(DATA + 0x100C, 13), [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 3]);
    let counters = &rig.chipset.networks_mut().next().unwrap().source.counters;
    assert_eq!((counters.frames_from_guest, counters.frames_to_guest), (1, 1));
}

#[test]
fn a_stream_arrives_in_virtual_time() {
    let stream = Stream { packets_per_second: 1000, length: 64, count: None };
    let mut rig = Rig::live(network(Reaction::Count, Some(stream)), 0);
    for _ in 0..3 {
        rig.submit(0, &[(DATA, 2000, WRITE)]);
    }
    for millisecond in 1..=3 {
        rig.bench.now = rig.chipset.next_deadline().unwrap();
        assert_eq!(rig.bench.now, Picoseconds::from_milliseconds(millisecond));
        rig.chipset.advance(&mut rig.bench.context());
        assert_eq!(rig.used(0), [76]);
        assert_eq!(rig.messages(), [0x31]);
    }
    rig.set_status(0);
    assert_eq!(rig.chipset.next_deadline(), None, "a device that is down gets no packets");
}

#[test]
fn entropy_repeats_with_its_seed() {
    let mut seen = Vec::new();
    for seed in [1, 1, 2] {
        let mut rig = Rig::live(Model::Entropy(Entropy::new(seed)), 0);
        rig.submit(0, &[(DATA, 100, WRITE)]);
        assert_eq!(rig.used(0), [100]);
        seen.push(rig.load(DATA, 100));
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
}

#[test]
fn a_round_is_bounded_and_goes_on_later() {
    let mut rig = Rig::live(block(), INDIRECT_FEATURE);
    // Eight requests of 2.6 MiB each, into overlapping buffers, exceed what a round may move.
    let disk = Disk::in_memory(vec![7; 17 << 20]);
    *rig.chipset.disks_mut().next().unwrap() = disk;
    rig.store(HEADER, &[0; 16]);
    let table = BUFFERS + 0x4000;
    rig.put_descriptor(table, 0, (HEADER, 16, NEXT, 1));
    for index in 1..7 {
        rig.put_descriptor(table, index, (0x9_0000, 0x7_0000, WRITE | NEXT, index + 1));
    }
    rig.put_descriptor(table, 7, (STATUS, 1, WRITE, 0));
    let length = 6 * 0x7_0000 + 1;
    let table_of_queue = 0x1_0000;
    for index in 0..QUEUE_SIZE {
        rig.put_descriptor(table_of_queue, index, (table, 8 * 16, INDIRECT, 0));
        rig.make_available(0, index);
    }
    rig.notify(0);
    let first = rig.used(0);
    assert!(first.len() < usize::from(QUEUE_SIZE), "{} at once", first.len());
    assert!(first.iter().all(|&used| used == length));
    rig.bench.now = rig.chipset.next_deadline().expect("work is left");
    rig.chipset.advance(&mut rig.bench.context());
    assert_eq!(first.len() + rig.used(0).len(), usize::from(QUEUE_SIZE));
    assert_eq!(rig.chipset.next_deadline(), None);
}
