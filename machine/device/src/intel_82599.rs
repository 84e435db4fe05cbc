//! A virtual function of Intel's 82599 10 GbE controller, with a wire that has a rate and a peer at
//! its other end. [82599 "Single Root IOV"]
//!
//! Frames leave and arrive at 10 Gb/s of virtual time, check sequence, preamble and gap included.
//! There is no physical function on the bus: what a driver asks of it in the mailbox is answered at
//! once, and the function stands on the root bus by itself.
//!
//! DEVIATION(82599 "DMA"): memory is read when a packet's turn comes and written when a frame has
//! arrived; neither takes time, and there is no buffer of packets on the part's transmit side.

use crate::packet::{self, Contents, ETHER_TYPE_VLAN};
use crate::packet_source::{PacketSource, Reaction, Stream};
use crate::pci::{
    Attachment, Bar, Configuration, Express, Function, Identity, Msix, PciDevice, Room,
};
use crate::request::{Name, Options, PciRequest, Places};
use arch::intel_82599::register::{self, FreeRunningTimer, Links};
use arch::intel_82599::{IDENTITY, REGION_SIZE, REGISTERS_BAR, REVISION, TABLE_BAR, VECTORS};
use arch::pci::{Command, FunctionAddress, class};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

mod hash;
mod interrupt;
mod mailbox;
mod offload;
mod receive;
mod ring;
mod statistics;
mod transmit;

use interrupt::{Interrupts, Source};
use mailbox::{Mailbox, QUEUES};
use receive::{Arrived, Outcome, Receiver};
use statistics::Statistics;
use transmit::{Fetched, Transmitter};

/// A byte at 10 Gb/s.
const BYTE: u64 = 800;
/// Bytes on the wire that are not part of a frame here: check sequence, preamble, gap.
const OVERHEAD: u64 = 4 + 8 + 12;
const RETA_WORDS: usize = ((register::REDIRECTION_END - register::REDIRECTION) / 4) as usize;
const KEY_WORDS: usize = ((register::HASH_KEY_END - register::HASH_KEY) / 4) as usize;

/// A wire, by what is at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wire {
    /// A function, and a peer that reacts so and may have a stream of its own.
    Source(Reaction, Option<Stream>),
    /// Two functions.
    Pair,
}

impl PciRequest for Wire {
    type Device = VirtualFunction;

    const NAMES: &'static [Name<Self>] = &[Name {
        name: "vf",
        takes: "peer=answer|reflect|count|pair, rate=N, length=N, count=N",
        ask,
    }];

    fn places(&self) -> Places {
        Places::SERVER
    }

    fn count(&self) -> usize {
        match self {
            Self::Source(..) => 1,
            Self::Pair => 2,
        }
    }

    fn functions(
        &self,
        number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<VirtualFunction>> {
        // Locally administered; the last byte tells functions apart.
        let own = |end: u8| [0x52, 0x54, 0, 0, 3, number + end];
        let new = |end: u8, far_end| VirtualFunction::new(own(end), far_end);
        match *self {
            Self::Source(reaction, stream) => {
                let far_end = FarEnd::Source(PacketSource::new(own(0), reaction, stream));
                vec![new(0, far_end).function(at[0], room)]
            }
            Self::Pair => vec![
                new(0, FarEnd::Function(at[1])).function(at[0], room),
                new(1, FarEnd::Function(at[0])).function(at[1], room),
            ],
        }
    }

    fn digest(&self) -> String {
        format!("wire {self:?}")
    }
}

fn ask(options: &mut Options<'_>) -> Result<Wire, String> {
    let peers = [
        ("answer", Some(Reaction::Answer)),
        ("reflect", Some(Reaction::Reflect)),
        ("count", Some(Reaction::Count)),
        ("pair", None),
    ];
    let Some(reaction) = options.word("peer", &peers)? else { return Ok(Wire::Pair) };
    let rate = options.number("rate", 0..=u32::MAX.into(), 0)?;
    let stream = Stream {
        packets_per_second: rate as u32,
        length: options.number("length", 0..=u16::MAX.into(), 60)? as u16,
        count: match options.number("count", 0..=u64::MAX - 1, u64::MAX)? {
            u64::MAX => None,
            count => Some(count),
        },
    };
    Ok(Wire::Source(reaction, (rate > 0).then_some(stream)))
}

/// What is at the other end of the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FarEnd {
    /// A peer that counts, reflects or answers.
    Source(PacketSource),
    /// Another virtual function on the bus.
    Function(FunctionAddress),
}

/// What crossed the wire, and what did not come through, since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that the function sent.
    pub frames_sent: u64,
    /// Their bytes, without check sequences.
    pub bytes_sent: u64,
    /// Frames that reached the driver's buffers.
    pub frames_received: u64,
    /// Their bytes, without check sequences.
    pub bytes_received: u64,
    /// Frames on the wire, either way, with a checksum of IP, TCP or UDP that does not fit.
    pub damaged: u64,
    /// Frames that were not for the function.
    pub not_addressed: u64,
    /// Frames that no queue had descriptors for.
    pub dropped: u64,
    /// Messages of the function's interrupts, whether or not MSI-X let them pass.
    pub interrupts: u64,
}

impl core::fmt::Display for Counters {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "sent {} frames ({} bytes), received {} ({} bytes), {} with a wrong checksum, {} for \
             others, {} dropped, {} interrupts",
            self.frames_sent,
            self.bytes_sent,
            self.frames_received,
            self.bytes_received,
            self.damaged,
            self.not_addressed,
            self.dropped,
            self.interrupts,
        )
    }
}

/// Registers that are kept, and have no effect.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    split_type: u32,
    hash_control: u32,
    hash_key: [u32; KEY_WORDS],
    redirection: [u32; RETA_WORDS],
    head_write_back: [[u32; 2]; QUEUES],
}

/// The frame that is on the wire, and when its last bit has left.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sending {
    fetched: Fetched,
    frame: Vec<u8>,
    ends: Picoseconds,
}

/// The function behind its registers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VirtualFunction {
    far_end: FarEnd,
    mailbox: Mailbox,
    interrupts: Interrupts,
    transmitter: Transmitter,
    receiver: Receiver,
    statistics: Statistics,
    kept: Kept,
    sending: Option<Sending>,
    /// When the peer's next frame has arrived.
    arrives: Option<Picoseconds>,
    /// Frames that have left for another function, which the bus carries there.
    departed: Vec<Vec<u8>>,
    /// What crossed the wire.
    pub counters: Counters,
}

impl PciDevice for VirtualFunction {
    fn read(&mut self, port: &mut Attachment, _: usize, offset: u64, _: u8) -> u32 {
        match offset {
            register::LINKS => {
                Links::new().with_is_up(true).with_speed(register::SPEED_10_GIGABIT).into_bits()
            }
            register::TIMER => timer(port.now()).into_bits(),
            register::MAILBOX | register::MESSAGE..register::MESSAGE_END => {
                self.mailbox.read(offset)
            }
            register::CAUSE..register::MESSAGE | register::THROTTLE..register::RECEIVE => {
                self.interrupts.read(offset)
            }
            _ if let Some(value) = self.statistics.read(offset) => value,
            register::RECEIVE..register::HASH_CONTROL => self.read_queue(offset),
            _ => self.kept.word(offset).map_or(0, |word| *word),
        }
    }

    /// Writes a register, whole: narrower writes are zero-extended.
    fn write(&mut self, port: &mut Attachment, _: usize, offset: u64, _: u8, value: u32) {
        match offset {
            register::CONTROL => {
                if value & register::CONTROL_RESET != 0 {
                    self.reset();
                }
            }
            register::MAILBOX | register::MESSAGE..register::MESSAGE_END => {
                if self.mailbox.write(offset, value) {
                    self.interrupts.raise(Source::Mailbox);
                }
            }
            register::CAUSE..register::MESSAGE | register::THROTTLE..register::RECEIVE => {
                self.interrupts.write(port.now(), offset, value);
            }
            register::RECEIVE..register::HASH_CONTROL => self.write_queue(port, offset, value),
            _ => {
                if let Some(word) = self.kept.word(offset) {
                    *word = value;
                }
            }
        }
        self.send_interrupts(port);
    }

    /// As after power-on: VFCTRL.RST and a function-level reset. What is counted stays.
    fn reset(&mut self) {
        if let FarEnd::Source(source) = &mut self.far_end {
            source.stop();
        }
        self.mailbox.reset();
        self.interrupts = Interrupts::default();
        self.transmitter = Transmitter::default();
        self.receiver = Receiver::default();
        self.kept = Kept::default();
        (self.sending, self.arrives) = (None, None);
    }

    fn next_deadline(&self) -> Option<Picoseconds> {
        let stream = match &self.far_end {
            FarEnd::Source(source) => source.next_deadline(),
            FarEnd::Function(_) => None,
        };
        let sent = self.sending.as_ref().map(|sending| sending.ends);
        let interrupt = self.interrupts.next_deadline();
        [stream, sent, self.arrives, interrupt].into_iter().flatten().min()
    }

    fn advance(&mut self, port: &mut Attachment) {
        let now = port.now();
        if self.sending.as_ref().is_some_and(|sending| sending.ends <= now) {
            self.finish_frame(port);
        }
        self.receive_from_source(port);
        self.send_interrupts(port);
    }

    /// Frames for another function, and where that is.
    fn take_departed(&mut self) -> Option<(FunctionAddress, Vec<Vec<u8>>)> {
        match self.far_end {
            FarEnd::Function(address) if !self.departed.is_empty() => {
                Some((address, core::mem::take(&mut self.departed)))
            }
            _ => None,
        }
    }

    /// A frame has arrived.
    fn receive(&mut self, port: &mut Attachment, frame: &[u8]) {
        let vlan = vlan_of(frame);
        let contents = packet::examine(frame);
        self.counters.damaged += u64::from(contents.is_damaged());
        if !self.mailbox.admits(frame, vlan) {
            self.counters.not_addressed += 1;
            return;
        }
        let outcome = self.receiver.take(port, Arrived::new(frame, contents, vlan));
        self.follow(frame, outcome);
        self.send_interrupts(port);
    }
}

impl VirtualFunction {
    /// A function with this hardware address.
    pub fn new(address: [u8; 6], far_end: FarEnd) -> Self {
        Self {
            far_end,
            mailbox: Mailbox::new(address),
            interrupts: Interrupts::default(),
            transmitter: Transmitter::default(),
            receiver: Receiver::default(),
            statistics: Statistics::default(),
            kept: Kept::default(),
            sending: None,
            arrives: None,
            departed: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// The function at a place.
    fn function(self, address: FunctionAddress, room: &mut Room) -> Function<Self> {
        let (vendor, device) = IDENTITY;
        let mut configuration = Configuration::new(Identity {
            vendor,
            device,
            revision: REVISION,
            class: class::ETHERNET,
            programming_interface: 0,
            subsystem_vendor: vendor,
            subsystem: 0,
        });
        for index in [REGISTERS_BAR, TABLE_BAR] {
            let bar = Bar::Memory64 { size: REGION_SIZE };
            configuration.set_bar(index, bar, room.allocate(bar));
        }
        configuration.set_command(Command::MEMORY_SPACE);
        let msix = Msix::add(&mut configuration, VECTORS as u16, TABLE_BAR as u8);
        let express = Express::add(&mut configuration);
        let function = Function::new(address, configuration, self);
        function.with_msix(msix, TABLE_BAR).with_express(express)
    }

    /// What is at the other end of the wire.
    pub fn far_end(&self) -> &FarEnd {
        &self.far_end
    }

    fn read_queue(&mut self, offset: u64) -> u32 {
        match place(offset) {
            Some((Direction::Receive, queue, at)) => self.receiver.queues[queue].read(at),
            Some((Direction::Transmit, queue, at)) => match head_write_back(at) {
                Some(half) => self.kept.head_write_back[queue][half],
                None => self.transmitter.rings[queue].read(at),
            },
            None => 0,
        }
    }

    fn write_queue(&mut self, port: &mut Attachment, offset: u64, value: u32) {
        match place(offset) {
            Some((Direction::Receive, queue, at)) => {
                let was_enabled = self.receiver.is_enabled();
                self.receiver.queues[queue].write(at, value);
                if let FarEnd::Source(source) = &mut self.far_end
                    && self.receiver.is_enabled() != was_enabled
                {
                    if was_enabled { source.stop() } else { source.start(port.now()) }
                }
                self.counters.dropped += self.receiver.forget();
                self.receive_waiting(port);
            }
            Some((Direction::Transmit, queue, at)) => match head_write_back(at) {
                Some(half) => self.kept.head_write_back[queue][half] = value,
                None => {
                    self.transmitter.rings[queue].write(at, value);
                    self.abandon(queue);
                    self.start_sending(port);
                }
            },
            None => {}
        }
    }

    /// A queue that is switched off writes nothing back: its packet is cut off on the wire.
    fn abandon(&mut self, queue: usize) {
        let is_enabled = self.transmitter.rings[queue].control.is_enabled();
        if !is_enabled && self.sending.as_ref().is_some_and(|sent| sent.fetched.queue == queue) {
            self.sending = None;
        }
    }

    /// The frame on the wire has left: the next one follows, of the same packet or of another.
    fn finish_frame(&mut self, port: &mut Attachment) {
        let Some(mut sending) = self.sending.take() else { return };
        self.depart(sending.frame);
        if let Some(frame) = sending.fetched.packet.next_frame() {
            let ends = port.now().saturating_add(duration(&frame));
            self.sending = Some(Sending { frame, ends, ..sending });
            return;
        }
        self.finish_packet(port, &sending.fetched);
        self.start_sending(port);
    }

    fn finish_packet(&mut self, port: &mut Attachment, fetched: &Fetched) {
        if Transmitter::finish(port, fetched) {
            self.interrupts.raise(Source::Transmit(fetched.queue));
        }
    }

    /// Puts the next frame on the wire, if there is one and the wire is free.
    fn start_sending(&mut self, port: &mut Attachment) {
        // Bounded: each turn uses up descriptors that the driver has handed over.
        while self.sending.is_none()
            && let Some(mut fetched) = self.transmitter.fetch(port)
        {
            match fetched.packet.next_frame() {
                Some(frame) => {
                    let ends = port.now().saturating_add(duration(&frame));
                    self.sending = Some(Sending { fetched, frame, ends });
                }
                None => {
                    self.transmitter.lost += 1;
                    self.finish_packet(port, &fetched);
                }
            }
        }
    }

    fn depart(&mut self, frame: Vec<u8>) {
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += frame.len() as u64;
        self.statistics.sent(&frame);
        match &mut self.far_end {
            FarEnd::Function(_) => self.departed.push(frame),
            FarEnd::Source(source) => {
                self.counters.damaged += u64::from(packet::examine(&frame).is_damaged());
                source.accept(&frame);
            }
        }
    }

    /// What the peer sends takes its time on the wire, too.
    fn receive_from_source(&mut self, port: &mut Attachment) {
        let now = port.now();
        let FarEnd::Source(source) = &mut self.far_end else { return };
        source.advance(now);
        let mut arrived = None;
        if self.arrives.is_some_and(|at| at <= now) {
            self.arrives = None;
            arrived = source.front().map(<[u8]>::to_vec);
            source.pop_delivered();
        }
        if self.arrives.is_none() {
            self.arrives = source.front().map(|frame| now.saturating_add(duration(frame)));
        }
        if let Some(frame) = arrived {
            self.receive(port, &frame);
        }
    }

    fn receive_waiting(&mut self, port: &mut Attachment) {
        // Bounded: each turn takes a frame that waits.
        while let Some(frame) = self.receiver.next_waiting() {
            let (vlan, contents): (_, Contents) = (vlan_of(&frame), packet::examine(&frame));
            let arrived = Arrived::new(&frame, contents, vlan);
            let outcome = self.receiver.take_waiting(port, arrived);
            self.follow(&frame, outcome);
        }
    }

    fn follow(&mut self, frame: &[u8], outcome: Outcome) {
        match outcome {
            Outcome::Delivered(queue) => {
                self.counters.frames_received += 1;
                self.counters.bytes_received += frame.len() as u64;
                self.statistics.received(frame);
                self.interrupts.raise(Source::Receive(queue));
            }
            Outcome::Dropped => self.counters.dropped += 1,
            Outcome::Waits => {}
        }
    }

    fn send_interrupts(&mut self, port: &mut Attachment) {
        self.counters.interrupts += self.interrupts.send(port);
    }
}

impl Kept {
    fn word(&mut self, offset: u64) -> Option<&mut u32> {
        match offset {
            register::SPLIT_TYPE => Some(&mut self.split_type),
            register::HASH_CONTROL => Some(&mut self.hash_control),
            register::HASH_KEY..register::HASH_KEY_END => {
                self.hash_key.get_mut(((offset - register::HASH_KEY) / 4) as usize)
            }
            register::REDIRECTION..register::REDIRECTION_END => {
                self.redirection.get_mut(((offset - register::REDIRECTION) / 4) as usize)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Receive,
    Transmit,
}

/// Which queue's register is at an offset, and the offset within that queue's.
fn place(offset: u64) -> Option<(Direction, usize, u64)> {
    let (direction, start) = match offset {
        register::TRANSMIT.. => (Direction::Transmit, register::TRANSMIT),
        _ => (Direction::Receive, register::RECEIVE),
    };
    let offset = offset.checked_sub(start)?;
    let queue = (offset / register::QUEUE_STRIDE) as usize;
    (queue < QUEUES).then_some((direction, queue, offset % register::QUEUE_STRIDE))
}

fn head_write_back(offset: u64) -> Option<usize> {
    match offset {
        register::queue::HEAD_WRITE_BACK => Some(0),
        register::queue::HEAD_WRITE_BACK_HIGH => Some(1),
        _ => None,
    }
}

/// How long a frame takes on the wire.
const fn duration(frame: &[u8]) -> Picoseconds {
    Picoseconds((frame.len() as u64 + OVERHEAD) * BYTE)
}

fn vlan_of(frame: &[u8]) -> Option<u16> {
    let is_tagged = packet::word(frame, 12) == Some(ETHER_TYPE_VLAN);
    packet::word(frame, 14).filter(|_| is_tagged)
}

fn timer(now: Picoseconds) -> FreeRunningTimer {
    let microseconds = now.0 / 1_000_000;
    FreeRunningTimer::new()
        .with_microseconds((microseconds % 1000) as u16)
        .with_milliseconds((microseconds / 1000 % 1000) as u16)
        .with_seconds((microseconds / 1_000_000 % 4096) as u16)
}

#[cfg(test)]
mod tests;
