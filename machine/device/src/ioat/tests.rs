//! A driver of a few lines, and what it must see.

use super::register::{ChannelControl, ChannelError, State, channel as at};
use super::*;
use crate::bench::Bench;
use crate::pci::PciBus;
use arch::address::SystemPhysical;
use arch::msi::MessageSignalled;
use bus::Effect;

const PLACE: FunctionAddress = FunctionAddress::new(0, 0x15, 0);
const CHANNELS: u8 = 2;
/// Where the driver keeps descriptors, its status and its data.
const CHAIN: u64 = 0x1000;
const STATUS: u64 = 0x2000;
const SOURCE: u64 = 0x1_0000;
const DESTINATION: u64 = 0x4_0000;
/// Behind the memory that there is.
const NOWHERE: u64 = 0x4000_0000;
const INTERRUPTS: u32 = 1;
const WRITES_STATUS: u32 = 1 << 3;
const IS_NULL: u32 = 1 << 5;
/// What the driver of Linux sets: rearm, error interrupt and completion, abort.
const RUN: u64 = 0x1D;

struct Driver {
    bench: Bench,
    pci: PciBus<Engine>,
}

impl Driver {
    /// A bus master with a vector for each channel, vector n as data 40h + n.
    fn new() -> Self {
        let mut driver = Self { bench: Bench::new(), pci: PciBus::default() };
        assert!(driver.pci.plug(|room| Engine::new(CHANNELS).function(PLACE, room)));
        let cx = &mut driver.bench.context();
        driver.pci.write_configuration(cx, PLACE, 4, 2, 6);
        driver.pci.write_configuration(cx, PLACE, 0x42, 2, 0x8000);
        let table = driver.region(TABLE_BAR);
        for vector in 0..u64::from(CHANNELS) {
            for (offset, value) in [(0, 0xFEE0_0000), (4, 0), (8, 0x40 + vector), (12, 0)] {
                let cx = &mut driver.bench.context();
                assert!(driver.pci.write(cx, table + vector * 16 + offset, true, 4, value));
            }
        }
        driver.write(register::INTERRUPT_CONTROL, 1, 8);
        driver
    }

    fn region(&self, bar: usize) -> u64 {
        self.pci.function(PLACE).unwrap().configuration.mapped(bar).unwrap()
    }

    fn write(&mut self, offset: u64, size: u8, value: u64) {
        let at = self.region(REGISTERS_BAR) + offset;
        assert!(self.pci.write(&mut self.bench.context(), at, true, size, value));
    }

    fn read(&mut self, offset: u64, size: u8) -> u64 {
        let at = self.region(REGISTERS_BAR) + offset;
        self.pci.read(&mut self.bench.context(), at, true, size).unwrap()
    }

    fn set(&mut self, channel: u64, offset: u64, size: u8, value: u64) {
        self.write((channel + 1) * 0x80 + offset, size, value);
    }

    fn get(&mut self, channel: u64, offset: u64, size: u8) -> u64 {
        self.read((channel + 1) * 0x80 + offset, size)
    }

    fn state(&mut self, channel: u64) -> u64 {
        self.get(channel, at::STATUS, 8) & 7
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.bench.memory.write(SystemPhysical(at), bytes).unwrap();
    }

    fn load(&self, at: u64) -> u64 {
        self.bench.memory.read_u64(SystemPhysical(at)).unwrap()
    }

    /// Puts a descriptor into memory.
    fn describe(&mut self, at: u64, size: u32, control: u32, [from, to, next]: [u64; 3]) {
        let head = u64::from(control) << 32 | u64::from(size);
        let words = [head, from, to, next];
        self.store(at, &words.map(u64::to_le_bytes).concat());
    }

    /// Lets a channel work off `count` descriptors from [`CHAIN`] on.
    fn start(&mut self, channel: u64, count: u64) {
        self.set(channel, at::CONTROL, 2, RUN);
        self.set(channel, at::COMPLETION, 8, STATUS);
        self.set(channel, at::CHAIN, 8, CHAIN);
        self.set(channel, at::COUNT, 2, count);
    }

    /// Runs until nothing is due; gives how long it took.
    fn finish(&mut self) -> Picoseconds {
        let start = self.bench.now;
        // More than any test has descriptors.
        for _ in 0..100 {
            let Some(at) = self.pci.next_deadline() else { break };
            self.bench.now = at;
            self.pci.advance(&mut self.bench.context());
        }
        assert_eq!(self.pci.next_deadline(), None);
        Picoseconds(self.bench.now.0 - start.0)
    }

    fn messages(&mut self) -> Vec<u32> {
        let message = |effect: &Effect| match effect {
            Effect::MessageSignalled(MessageSignalled { data, .. }) => *data,
            other => panic!("{other:?}"),
        };
        self.bench.effects().iter().map(message).collect()
    }
}

#[test]
fn the_shared_registers_say_version_channels_and_no_further_operation() {
    let mut driver = Driver::new();
    assert_eq!(driver.read(0x00, 1), CHANNELS.into());
    assert_eq!(driver.read(0x01, 1), 20);
    assert_eq!(driver.read(0x03, 1), 8);
    assert_eq!(driver.read(0x08, 1), 0x32);
    assert_eq!(driver.read(0x10, 4), 0);
    assert_eq!(driver.pci.read_configuration(PLACE, 0, 4), 0x2021_8086);
    assert_eq!(driver.state(0), State::Halted as u64, "before there is a chain");
}

#[test]
fn copies_of_a_chain_are_done_in_order_and_the_last_says_so() {
    for channel in 0..u64::from(CHANNELS) {
        let mut driver = Driver::new();
        let bytes: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        driver.store(SOURCE, &bytes);
        let second = CHAIN + 0x40;
        driver.describe(CHAIN, 10_000, 0, [SOURCE, DESTINATION, second]);
        let last = INTERRUPTS | WRITES_STATUS;
        driver.describe(second, 16, last, [DESTINATION + 9984, DESTINATION, CHAIN]);
        driver.start(channel, 2);
        assert_eq!(driver.state(channel), State::Active as u64);
        // 500 ns and 100 ps a byte, each.
        assert_eq!(driver.finish(), Picoseconds(2 * 500_000 + 10_016 * 100));
        let mut copied = vec![0; bytes.len()];
        driver.bench.memory.read(SystemPhysical(DESTINATION), &mut copied).unwrap();
        assert_eq!(copied[..16], bytes[9984..]);
        assert_eq!(copied[16..], bytes[16..]);
        assert_eq!(driver.messages(), [0x40 + channel as u32]);
        assert_eq!(driver.load(STATUS), second | State::Done as u64);
        assert_eq!(driver.get(channel, at::STATUS, 8), second | State::Done as u64);
    }
}

#[test]
fn a_count_that_grows_goes_on_where_the_chain_was() {
    let mut driver = Driver::new();
    for index in 0..4 {
        let own = CHAIN + index * 0x40;
        driver.describe(own, 8, WRITES_STATUS, [SOURCE, DESTINATION + index * 8, own + 0x40]);
    }
    driver.store(SOURCE, &[7; 8]);
    driver.start(0, 1);
    driver.finish();
    assert_eq!(
        (driver.load(DESTINATION), driver.load(DESTINATION + 8)),
        (u64::from_le_bytes([7; 8]), 0)
    );
    driver.set(0, at::COUNT, 2, 3);
    driver.finish();
    assert_ne!(driver.load(DESTINATION + 16), 0);
    assert_eq!(driver.load(DESTINATION + 24), 0);
    assert_eq!(driver.load(STATUS), CHAIN + 0x80 | State::Done as u64);
}

#[test]
fn a_descriptor_that_follows_itself_is_done_as_often_as_the_count_says() {
    let mut driver = Driver::new();
    driver.describe(CHAIN, 4096, 0, [SOURCE, DESTINATION, CHAIN]);
    driver.start(0, 5);
    assert_eq!(driver.finish(), Picoseconds(5 * (500_000 + 4096 * 100)));
    // The driver suspends, and a new chain needs no resume.
    driver.set(0, at::COMMAND, 1, 0x04);
    assert_eq!(driver.state(0), State::Suspended as u64);
    driver.start(0, 1);
    assert_eq!(driver.state(0), State::Active as u64);
    driver.finish();
    assert_eq!(driver.state(0), State::Done as u64);
}

#[test]
fn null_descriptors_complete_without_a_copy() {
    let mut driver = Driver::new();
    let control = IS_NULL | INTERRUPTS | WRITES_STATUS;
    driver.describe(CHAIN, 1, control, [NOWHERE, NOWHERE, CHAIN + 0x40]);
    driver.start(0, 1);
    driver.finish();
    assert_eq!(driver.load(STATUS), CHAIN | State::Done as u64);
    assert_eq!(driver.messages(), [0x40]);
}

#[test]
fn each_rearming_allows_one_interrupt() {
    let mut driver = Driver::new();
    driver.describe(CHAIN, 1, IS_NULL | INTERRUPTS, [0, 0, CHAIN]);
    driver.start(0, 3);
    driver.finish();
    assert_eq!(driver.messages(), [0x40]);
    assert_eq!(driver.get(0, at::CONTROL, 2), RUN, "INTERRUPT_DISABLE is what rearming clears");
    assert_eq!(driver.read(0x04, 4), 1, "ATTNSTATUS names the channel");
    driver.set(0, at::CONTROL, 2, RUN);
    let armed = driver.get(0, at::CONTROL, 2) as u16;
    assert_eq!(armed & ChannelControl::INTERRUPT_DISABLE.bits(), 0);
    driver.set(0, at::COUNT, 2, 4);
    driver.finish();
    assert_eq!(driver.messages(), [0x40]);
}

#[test]
fn suspended_work_waits_for_resume() {
    let mut driver = Driver::new();
    driver.describe(CHAIN, 8, 0, [SOURCE, DESTINATION, CHAIN]);
    driver.start(0, 1);
    driver.set(0, at::COMMAND, 1, 0x04);
    assert_eq!(driver.pci.next_deadline(), None);
    driver.set(0, at::COUNT, 2, 2);
    assert_eq!(driver.pci.next_deadline(), None, "a count alone does not resume");
    driver.set(0, at::COMMAND, 1, 0x10);
    driver.finish();
    assert_eq!(driver.get(0, at::STATUS, 8), CHAIN | State::Done as u64);
}

#[test]
fn what_cannot_be_done_halts_with_its_error() {
    let good = [SOURCE, DESTINATION, CHAIN];
    for (chain, size, control, addresses, error) in [
        (CHAIN, 8, 0, [NOWHERE, DESTINATION, CHAIN], ChannelError::SOURCE_ADDRESS),
        (CHAIN, 8, 0, [SOURCE, NOWHERE, CHAIN], ChannelError::DESTINATION_ADDRESS),
        (CHAIN, 8, 0, [SOURCE, DESTINATION, NOWHERE], ChannelError::NEXT_ADDRESS),
        (CHAIN, 8, 0, [SOURCE, DESTINATION, 0x1020], ChannelError::NEXT_ALIGNMENT),
        (CHAIN + 8, 8, 0, good, ChannelError::CHAIN_ADDRESS),
        (CHAIN, 8, 0x8700_0000, good, ChannelError::DESCRIPTOR_CONTROL),
        (CHAIN, 0, 0, good, ChannelError::LENGTH),
        (CHAIN, (1 << 20) + 1, 0, good, ChannelError::LENGTH),
    ] {
        let mut driver = Driver::new();
        driver.describe(CHAIN, size, control, addresses);
        driver.set(0, at::CONTROL, 2, RUN);
        driver.set(0, at::COMPLETION, 8, STATUS);
        driver.set(0, at::CHAIN, 8, chain);
        driver.set(0, at::COUNT, 2, 2);
        driver.finish();
        assert_eq!(driver.get(0, at::ERROR, 4), error.bits().into(), "{error:?}");
        assert_eq!(driver.state(0), State::Halted as u64, "{error:?}");
        assert_eq!(driver.load(STATUS) & 7, State::Halted as u64, "{error:?}");
        assert_eq!(driver.messages(), [0x40], "{error:?}");
        driver.set(0, at::ERROR, 4, error.bits().into());
        assert_eq!(driver.get(0, at::ERROR, 4), 0);
        driver.set(0, at::COMMAND, 1, 0x20);
        assert_eq!(driver.get(0, at::COMMAND, 1), 0, "the reset is over at once");
    }
}

#[test]
fn a_status_that_cannot_be_written_is_an_error() {
    let mut driver = Driver::new();
    driver.describe(CHAIN, 8, WRITES_STATUS, [SOURCE, DESTINATION, CHAIN]);
    driver.set(0, at::COMPLETION, 8, NOWHERE);
    driver.set(0, at::CHAIN, 8, CHAIN);
    driver.set(0, at::COUNT, 2, 1);
    driver.finish();
    let error = ChannelError::COMPLETION_ADDRESS.bits();
    assert_eq!(driver.get(0, at::ERROR, 4), error.into());
}

#[test]
fn a_function_that_is_no_bus_master_moves_nothing() {
    let mut driver = Driver::new();
    let cx = &mut driver.bench.context();
    driver.pci.write_configuration(cx, PLACE, 4, 2, 2);
    driver.describe(CHAIN, 8, 0, [SOURCE, DESTINATION, CHAIN]);
    driver.store(SOURCE, &[1; 8]);
    driver.start(0, 1);
    driver.finish();
    assert_eq!(driver.load(DESTINATION), 0);
    assert_eq!(driver.state(0), State::Halted as u64);
}

#[test]
fn random_accesses_of_any_width_end() {
    let mut random = bus::Random(1);
    let mut driver = Driver::new();
    for _ in 0..20_000 {
        let word = random.next();
        let offset = word & 0x1FF;
        let size = [1, 2, 4, 8][(word >> 16) as usize & 3];
        let offset = offset & !(u64::from(size) - 1);
        // Small values are addresses of memory, counts and commands.
        let value = random.next() >> [0, 32, 44, 52][(word >> 20) as usize & 3];
        driver.write(offset, size, value);
        driver.read(offset, size);
        if let Some(at) = driver.pci.next_deadline() {
            driver.bench.now = at;
            driver.pci.advance(&mut driver.bench.context());
        }
        driver.bench.effects();
    }
}
