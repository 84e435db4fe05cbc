//! No guest can crash or hang the devices, whatever it writes to ports, registers and queues, and
//! a board that is copied or restored at any point goes on in the same way.

use arch::address::SystemPhysical;
use arch::nvme::command::{Submission, io};
use arch::time::Picoseconds;
use bus::{Context, Effect, GuestMemory, Outbox};
use device::intel_82599::Wire;
use device::nvme::Drive;
use device::packet_source::{PacketSource, Reaction, Stream};
use device::storage::{Disk, MemoryStorage};
use device::virtio::Model;
use device::virtio::block::Block;
use device::virtio::console::Console;
use device::virtio::entropy::Entropy;
use device::virtio::network::Network;
use device::virtio::nine_p::{FileServer, NineP};
use device::{Chipset, ChipsetConfiguration, Device, map};
use proptest::prelude::*;

const MEMORY_SIZE: u64 = 1 << 20;
const DISK_SIZE: usize = 1 << 16;
const DEVICES: u64 = 5;
/// Registers of virtio device n, as the board assigns them: 16 KiB of registers, 4 KiB of table.
const REGION: u64 = 0x8000;
/// Behind the region of the test function.
const FIRST_REGION: u64 = map::PCI_MEMORY_START.0 + 0x4000;
const QUEUES: u64 = 0x1_0000;
/// Virtual functions of a network controller follow, 16 KiB of registers and 16 KiB of table each:
/// two with a wire between, and one that hears itself.
const FUNCTIONS: u64 = 3;
const FIRST_FUNCTION: u64 = FIRST_REGION + DEVICES * REGION;
/// An NVM Express controller's registers are behind those of the functions.
const CONTROLLER: u64 = FIRST_FUNCTION + FUNCTIONS * REGION;
/// Its admin queues and its pair of I/O queues, a page each.
const COMMANDS: u64 = 0x3_0000;
/// Rings of 16 descriptors, which all functions share.
const RINGS: u64 = 0x2_0000;

#[derive(Clone, Debug)]
enum Action {
    PortIn { port: u16, size: u8 },
    PortOut { port: u16, size: u8, value: u32 },
    Read { address: u64, size: u8 },
    Write { address: u64, size: u8, value: u64 },
    Store { address: u64, bytes: Vec<u8> },
    Descriptor { queue: u64, index: u64, target: u64, length: u32, flags: u16, next: u16 },
    Offer { queue: u64, head: u16, count: u16 },
    Notify { device: u64, queue: u64 },
    Register { function: u64, offset: u64, value: u32 },
    Frame { ring: u64, index: u64, buffer: u64, command: u64 },
    Mail { function: u64, words: Vec<u32> },
    Type { port: u8, bytes: Vec<u8> },
    Feed { port: usize, bytes: Vec<u8> },
    ToDeadline,
    Wait { ps: u64 },
}

fn port() -> impl Strategy<Value = u16> {
    let known = [
        0x20, 0x40, 0x43, 0x60, 0x61, 0x64, 0x70, 0x71, 0x80, 0x92, 0xE0, 0xE4, 0xF4, 0x2F8, 0x3F8,
        0x510, 0x514, 0x518, 0x600, 0x604, 0x608, 0x620, 0xCF8, 0xCF9, 0xCFC, 0x2000, 0x8900,
        0xC000,
    ];
    prop_oneof![
        4 => (prop::sample::select(known.to_vec()), 0u16..8).prop_map(|(base, at)| base + at),
        1 => any::<u16>(),
    ]
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..DEVICES, prop_oneof![0u64..0x40, 0x1000u64..0x1004, 0x2000u64..0x2040,
            0x3000u64..0x3020, 0u64..REGION])
            .prop_map(|(device, at)| FIRST_REGION + device * REGION + at),
        2 => (0u64..0x400).prop_map(|at| map::HPET.0 + at),
        2 => (0u64..32, 0u64..0x100)
            .prop_map(|(device, at)| map::ECAM.0 + (device << 15) + at),
        1 => (0u64..16).prop_map(|at| map::TEST_RAM.0 + map::TEST_RAM_SIZE - at),
        1 => any::<u64>(),
    ]
}

/// Offsets that mean something, of both queues and none.
fn register() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u64..0x60).prop_map(|at| at * 4),
        (0x40u64..0x54).prop_map(|at| at * 4),
        (0x80u64..0xC1).prop_map(|at| at * 4),
        (0x208u64..0x20B).prop_map(|at| at * 4),
        (0u64..3, 0u64..16).prop_map(|(queue, at)| 0x1000 + queue * 0x40 + at * 4),
        (0u64..3, 0u64..16).prop_map(|(queue, at)| 0x2000 + queue * 0x40 + at * 4),
        0u64..0x4000,
    ]
}

/// The second half of a descriptor: contexts, data, segments, and anything.
fn command() -> impl Strategy<Value = u64> {
    let data = (0u64..3000, any::<u8>(), any::<u32>()).prop_map(|(length, flags, rest)| {
        length | 3 << 20 | u64::from(flags | 0x20) << 24 | u64::from(rest) << 32
    });
    let context = (any::<u32>(), any::<u16>())
        .prop_map(|(low, rest)| u64::from(low & 0x1E00) | 0x2020_0000 | u64::from(rest) << 40);
    prop_oneof![6 => data, 3 => context, 1 => any::<u64>()]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..16, any::<u64>(), Just(u64::MAX), (0u32..64).prop_map(|bit| 1 << bit)]
}

fn size() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1, 2, 4, 8])
}

fn action() -> impl Strategy<Value = Action> {
    let target = prop_oneof![4 => 0..MEMORY_SIZE, 1 => any::<u64>()];
    let length = prop_oneof![4 => 0u32..2048, 2 => Just(16), 1 => any::<u32>()];
    let flags = prop_oneof![4 => 0u16..8, 1 => any::<u16>()];
    let next = prop_oneof![8 => 0u16..8, 1 => any::<u16>()];
    prop_oneof![
        3 => (port(), size()).prop_map(|(port, size)| Action::PortIn { port, size }),
        5 => (port(), size(), value()).prop_map(|(port, size, value)| Action::PortOut {
            port, size, value: value as u32
        }),
        3 => (address(), size()).prop_map(|(address, size)| Action::Read { address, size }),
        5 => (address(), size(), value())
            .prop_map(|(address, size, value)| Action::Write { address, size, value }),
        1 => (0..MEMORY_SIZE - 64, prop::collection::vec(any::<u8>(), 1..64))
            .prop_map(|(address, bytes)| Action::Store { address, bytes }),
        6 => (0u64..6, 0u64..8, target, length, flags, next).prop_map(
            |(queue, index, target, length, flags, next)| Action::Descriptor {
                queue, index, target, length, flags, next
            }
        ),
        6 => (0u64..6, 0u16..9, 0u16..10)
            .prop_map(|(queue, head, count)| Action::Offer { queue, head, count }),
        6 => (0..DEVICES, 0u64..7).prop_map(|(device, queue)| Action::Notify { device, queue }),
        8 => (0..FUNCTIONS, register(), value()).prop_map(|(function, offset, value)| {
            Action::Register { function, offset, value: value as u32 }
        }),
        8 => (0u64..4, 0u64..16, 0..MEMORY_SIZE, command()).prop_map(
            |(ring, index, buffer, command)| Action::Frame { ring, index, buffer, command }
        ),
        2 => (0..FUNCTIONS, prop::collection::vec(any::<u32>(), 0..16), 0u32..16).prop_map(
            |(function, mut words, request)| {
                words.insert(0, request);
                Action::Mail { function, words }
            }
        ),
        1 => (0u8..4, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(port, bytes)| Action::Type { port, bytes }),
        1 => (0usize..4, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(port, bytes)| Action::Feed { port, bytes }),
        2 => Just(Action::ToDeadline),
        1 => (0u64..3_000_000_000_000).prop_map(|ps| Action::Wait { ps }),
    ]
}

/// What one action showed: a value, the effects in order, and when the next deadline is.
type Seen = (u64, Vec<Effect>, Option<Picoseconds>);

#[derive(Clone)]
struct Board {
    chipset: Chipset,
    ram: Vec<u8>,
    now: Picoseconds,
}

impl Board {
    fn new() -> Self {
        let mac = [2, 0, 0, 0, 0, 1];
        let stream = Stream { packets_per_second: 1000, length: 100, count: Some(50) };
        let source = PacketSource::new(mac, Reaction::Answer, Some(stream));
        let configuration = ChipsetConfiguration {
            memory_size: MEMORY_SIZE,
            functions: vec![
                Model::Block(Block { disk: disk(), serial: "d".into() }).into(),
                Model::Console(Console::new(&["results".into()])).into(),
                Model::Network(Network::new(mac, source)).into(),
                Model::Entropy(Entropy::new(1)).into(),
                Model::NineP(NineP::new("host", Box::new(Counting(0)))).into(),
                Wire::Pair.into(),
                Wire::Source(Reaction::Reflect, None).into(),
                Drive(disk()).into(),
            ],
            ..ChipsetConfiguration::default()
        };
        let chipset = Chipset::new(&configuration);
        Self { chipset, ram: vec![0; MEMORY_SIZE as usize], now: Picoseconds::ZERO }
    }

    /// As [`Board::new`], with all virtio devices live on queues that share their memory.
    fn live() -> Self {
        let mut board = Self::new();
        for device in 0..DEVICES {
            let slot = device + u64::from(map::FIRST_VIRTIO_DEVICE);
            let registers = FIRST_REGION + device * REGION;
            board.set(map::ECAM.0 + (slot << 15) + 4, 2, 6);
            for (at, size, value) in
                [(0x14, 1, 3), (8, 4, 1), (0xC, 4, 1), (8, 4, 0), (0xC, 4, 3 << 28), (0x14, 1, 11)]
            {
                board.set(registers + at, size, value);
            }
            for queue in 0..6 {
                let base = QUEUES + queue * 0x1000;
                for (at, size, value) in [
                    (0x16, 2, queue),
                    (0x18, 2, 8),
                    (0x20, 8, base),
                    (0x28, 8, base + 0x400),
                    (0x30, 8, base + 0x800),
                    (0x1C, 2, 1),
                ] {
                    board.set(registers + at, size, value);
                }
            }
            board.set(registers + 0x14, 1, 15);
        }
        board
    }

    /// As [`Board::new`], with all virtual functions up on rings that share their memory.
    fn online() -> Self {
        let mut board = Self::new();
        for function in 0..FUNCTIONS {
            let slot = function + u64::from(map::FIRST_SERVER_DEVICE);
            board.set(map::ECAM.0 + (slot << 15) + 4, 2, 6);
            board.set(map::ECAM.0 + (slot << 15) + 0x42, 2, 0x8000);
            board.act(&Action::Mail { function, words: vec![1] });
            board.act(&Action::Mail { function, words: vec![8, 4] });
            board.act(&Action::Mail { function, words: vec![0xC, 3] });
            let registers = FIRST_FUNCTION + function * REGION;
            for (offset, value) in [(0x120, 0x8180_8180), (0x108, 7), (0x1014, 0x1200_0002)] {
                board.set(registers + offset, 4, value);
            }
            for (ring, queue) in [0x1000, 0x1040, 0x2000, 0x2040].into_iter().enumerate() {
                for (offset, value) in
                    [(0, RINGS + ring as u64 * 0x1000), (8, 256), (0x28, 1 << 25), (0x18, 15)]
                {
                    board.set(registers + queue + offset, 4, value);
                }
            }
        }
        board
    }

    /// As [`Board::new`], with a pair of queues of the NVM Express controller.
    fn storing() -> Self {
        let mut board = Self::new();
        let slot = FUNCTIONS + u64::from(map::FIRST_SERVER_DEVICE);
        board.set(map::ECAM.0 + (slot << 15) + 4, 2, 6);
        for (offset, value) in
            [(0x24, 0xF_000F), (0x28, COMMANDS), (0x30, COMMANDS + 0x1000), (0x14, 0x46_0001)]
        {
            board.set(CONTROLLER + offset, 4, value);
        }
        for (index, opcode, flags, place) in [(0, 5, 1, 0x3000), (1, 1, 0x1_0001, 0x2000)] {
            let arguments = [0xF_0001, flags, 0, 0, 0, 0];
            let prp1 = COMMANDS + place;
            board.command(0, index, Submission { opcode, prp1, arguments, ..SUBMISSION });
            board.set(CONTROLLER + 0x1000, 4, index + 1);
            board.act(&Action::ToDeadline);
        }
        board
    }

    fn command(&mut self, queue: u64, index: u64, command: Submission) {
        let command = Submission { identifier: index as u16, ..command };
        self.store(COMMANDS + queue * 0x2000 + index * 64, &command.to_bytes());
    }

    fn set(&mut self, address: u64, size: u8, value: u64) {
        self.act(&Action::Write { address, size, value });
    }

    fn store(&mut self, address: u64, bytes: &[u8]) {
        let at = address as usize;
        self.ram[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn act(&mut self, action: &Action) -> Seen {
        match *action {
            Action::Store { address, ref bytes } => self.store(address, bytes),
            Action::Descriptor { queue, index, target, length, flags, next } => {
                let mut bytes = target.to_le_bytes().to_vec();
                bytes.extend(length.to_le_bytes());
                bytes.extend(flags.to_le_bytes());
                bytes.extend(next.to_le_bytes());
                self.store(QUEUES + queue * 0x1000 + index * 16, &bytes);
            }
            Action::Frame { ring, index, buffer, command } => {
                let bytes = u128::from(buffer) | u128::from(command) << 64;
                self.store(RINGS + ring * 0x1000 + index * 16, &bytes.to_le_bytes());
            }
            Action::Mail { function, ref words } => {
                let registers = FIRST_FUNCTION + function * REGION;
                for (word, at) in words.iter().zip((0x200..).step_by(4)) {
                    self.set(registers + at, 4, u64::from(*word));
                }
                self.set(registers + 0x2FC, 4, 1);
            }
            Action::Offer { queue, head, count } => {
                let ring = QUEUES + queue * 0x1000 + 0x400;
                let at = ring as usize + 2;
                let index = u16::from_le_bytes([self.ram[at], self.ram[at + 1]]);
                self.store(ring + 4 + u64::from(index % 8) * 2, &head.to_le_bytes());
                self.store(ring + 2, &index.wrapping_add(count).to_le_bytes());
            }
            Action::Wait { ps } => {
                self.now = Picoseconds(self.now.0 + ps);
                return self.advance();
            }
            Action::ToDeadline => {
                self.now = self.chipset.next_deadline().unwrap_or(self.now).max(self.now);
                return self.advance();
            }
            _ => {}
        }
        self.with(|chipset, cx| match *action {
            Action::PortIn { port, size } => chipset.port_in(cx, port, size).into(),
            Action::PortOut { port, size, value } => {
                chipset.port_out(cx, port, size, value);
                0
            }
            Action::Read { address, size } => chipset.read(cx, SystemPhysical(address), size),
            Action::Write { address, size, value } => {
                chipset.write(cx, SystemPhysical(address), size, value);
                0
            }
            Action::Notify { device, queue } => {
                let at = FIRST_REGION + device * REGION + 0x3000 + queue * 4;
                chipset.write(cx, SystemPhysical(at), 2, queue);
                0
            }
            Action::Register { function, offset, value } => {
                let at = FIRST_FUNCTION + function * REGION + offset;
                let before = chipset.read(cx, SystemPhysical(at), 4);
                chipset.write(cx, SystemPhysical(at), 4, value.into());
                before
            }
            Action::Type { port, ref bytes } => chipset.receive(cx, port, bytes) as u64,
            Action::Feed { port, ref bytes } => chipset.feed_console(cx, 0, port, bytes) as u64,
            _ => 0,
        })
    }

    fn advance(&mut self) -> Seen {
        let now = self.now;
        let seen = self.with(|chipset, cx| {
            chipset.advance(cx);
            0
        });
        if let Some(deadline) = self.chipset.next_deadline() {
            assert!(deadline > now, "a deadline that does not move on hangs the board");
        }
        seen
    }

    fn with(&mut self, act: impl FnOnce(&mut Chipset, &mut Context) -> u64) -> Seen {
        let mut memory = GuestMemory::new(MEMORY_SIZE);
        std::mem::swap(&mut memory.ram, &mut self.ram);
        let mut outbox = Outbox::default();
        let mut cx = Context { now: self.now, memory: &mut memory, outbox: &mut outbox };
        let value = act(&mut self.chipset, &mut cx);
        std::mem::swap(&mut memory.ram, &mut self.ram);
        let effects: Vec<_> = outbox.drain().map(|(_, _, effect)| effect).collect();
        assert!(effects.len() <= 4096, "{} effects of one action", effects.len());
        (value, effects, self.chipset.next_deadline())
    }

    /// Through the snapshot format and back.
    fn restored(&self) -> Self {
        let text = serde_json::to_string(&self.chipset).expect("all state is data");
        let mut chipset: Chipset = serde_json::from_str(&text).expect("what was written is read");
        for disk in chipset.disks_mut() {
            disk.attach(storage()).expect("the same size");
        }
        let ours = self.chipset.pci.functions().iter();
        for (restored, ours) in chipset.pci.functions_mut().iter_mut().zip(ours) {
            // Its server is elsewhere.
            if let (Device::Virtio(restored), Device::Virtio(ours)) =
                (&mut restored.device, &ours.device)
                && matches!(ours.model, Model::NineP(_))
            {
                restored.model = ours.model.clone();
            }
        }
        Self { chipset, ram: self.ram.clone(), now: self.now }
    }
}

/// Block 5 of the only namespace.
const SUBMISSION: Submission = Submission {
    opcode: 0,
    flags: 0,
    identifier: 0,
    namespace: 1,
    metadata: 0,
    prp1: 0x8_0000,
    prp2: 0,
    arguments: [5, 0, 0, 0, 0, 0],
};

/// Gives as much as there is room for, of what it was asked so far.
#[derive(Clone, Debug)]
struct Counting(usize);

impl FileServer for Counting {
    fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8> {
        self.0 += message.len();
        vec![self.0 as u8; room]
    }

    fn is_in_use(&self) -> bool {
        self.0 > 0
    }

    fn reset(&mut self) {
        self.0 = 0;
    }

    fn duplicate(&self) -> Box<dyn FileServer> {
        Box::new(self.clone())
    }
}

fn storage() -> Box<MemoryStorage> {
    Box::new(MemoryStorage::new((0..DISK_SIZE).map(|i| (i / 512) as u8).collect()))
}

fn disk() -> Disk {
    Disk::new(storage(), device::storage::WriteMode::Overlay)
}

#[test]
fn the_live_board_of_these_tests_serves_well_formed_requests() {
    let mut board = Board::live();
    let bytes =
        Action::Descriptor { queue: 0, index: 0, target: 0x8_0000, length: 64, flags: 2, next: 0 };
    board.act(&bytes);
    board.act(&Action::Offer { queue: 0, head: 0, count: 1 });
    board.act(&Action::Notify { device: 3, queue: 0 });
    assert_eq!(board.ram[QUEUES as usize + 0x802], 1, "entropy returned the buffer");
    assert!(board.ram[0x8_0000..0x8_0040].iter().any(|&byte| byte != 0));
}

#[test]
fn the_online_board_of_these_tests_carries_frames() {
    let mut board = Board::online();
    let buffer = 0x8_0000;
    board.store(buffer, &[&[0xFF; 12][..], &[0x88, 0xB5]].concat());
    // EOP, RS, advanced data, 60 bytes; a ring for sending and one for receiving.
    board.act(&Action::Frame { ring: 2, index: 15, buffer, command: 0x2930_003C });
    board.act(&Action::Frame { ring: 0, index: 0, buffer: 0x9_0000, command: 0 });
    for (offset, value) in [(0x2010, 15), (0x2018, 0)] {
        board.act(&Action::Register { function: 0, offset, value });
    }
    for _ in 0..100 {
        board.act(&Action::ToDeadline);
    }
    assert_eq!(board.ram[0x9_0000..0x9_000E], board.ram[0x8_0000..0x8_000E]);
}

#[test]
fn a_board_restored_behind_a_doorbell_ends_the_commands_that_were_read() {
    let mut board = Board::storing();
    board.store(0x8_0000, &[0xCD; 512]);
    board.command(1, 0, Submission { opcode: io::WRITE, ..SUBMISSION });
    board.command(1, 1, Submission { opcode: io::READ, prp1: 0x9_0000, ..SUBMISSION });
    board.set(CONTROLLER + 0x1008, 4, 2);
    let mut other = board.restored();
    for board in [&mut board, &mut other] {
        for done in 1..3 {
            assert_ne!(board.ram[0x9_0000], 0xCD, "{done} is not done");
            board.act(&Action::ToDeadline);
        }
        assert_eq!(board.ram[0x9_0000..0x9_0200], [0xCD; 512]);
        let completions = &board.ram[COMMANDS as usize + 0x3000..][..32];
        assert_eq!(completions[8..16], [2, 0, 1, 0, 0, 0, 1, 0], "both were read, the first ended");
    }
    assert!(board.ram == other.ram, "memory differs");
}

proptest! {
    // Failures are kept as named rows here, not in a file beside.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_guest_crashes_or_hangs_a_board_at_reset(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        let mut board = Board::new();
        actions.iter().for_each(|action| {
            board.act(action);
        });
    }

    #[test]
    fn no_queue_content_crashes_or_hangs_live_devices(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        let mut board = Board::live();
        actions.iter().for_each(|action| {
            board.act(action);
        });
    }

    #[test]
    fn no_descriptor_register_or_message_crashes_or_hangs_a_virtual_function(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        let mut board = Board::online();
        actions.iter().for_each(|action| {
            board.act(action);
        });
    }

    #[test]
    fn copies_and_restored_boards_go_on_alike(
        is_live in any::<bool>(),
        before in prop::collection::vec(action(), 0..100),
        after in prop::collection::vec(action(), 1..100),
    ) {
        let mut board = if is_live { Board::live() } else { Board::online() };
        before.iter().for_each(|action| {
            board.act(action);
        });
        let (mut copy, mut restored) = (board.clone(), board.restored());
        for action in &after {
            let seen = board.act(action);
            prop_assert_eq!(&seen, &copy.act(action), "a copy after {:?}", action);
            prop_assert_eq!(&seen, &restored.act(action), "restored, after {:?}", action);
        }
        prop_assert!(board.ram == copy.ram && board.ram == restored.ram);
    }
}
