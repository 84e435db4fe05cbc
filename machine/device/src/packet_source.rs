//! The other end of a network cable: it counts, reflects or answers what a guest sends, and sends
//! packets of its own at a steady rate of virtual time.

use crate::packet::{ETHER_TYPE_IPV4, ETHERNET, IPV4, PROTOCOL_UDP, checksum};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of the longest Ethernet frame, without its check sequence.
pub const MAXIMUM_FRAME: usize = 1514;
const MINIMUM_FRAME: usize = 60;
/// Frames that wait for the guest's buffers; more are dropped, as on a wire.
const BACKLOG_LIMIT: usize = 256;
const SECOND: u64 = 1_000_000_000_000;

/// The peer's own addresses, and the one it sends to.
pub const PEER_HARDWARE: [u8; 6] = [0x52, 0x54, 0x00, 0x00, 0x02, 0x02];
/// The peer's IPv4 address, which it answers for and sends from.
pub const PEER_ADDRESS: [u8; 4] = [10, 0, 2, 2];
/// The IPv4 address that the peer's stream goes to.
pub const GUEST_ADDRESS: [u8; 4] = [10, 0, 2, 15];
/// The discard port.
const GENERATOR_PORT: u16 = 9;

const UDP: usize = 8;
const ETHER_TYPE_ARP: u16 = 0x0806;
const PROTOCOL_ICMP: u8 = 1;

/// What the peer does with a frame from the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Counts the frame and drops it.
    Count,
    /// Sends the frame back, hardware addresses exchanged.
    Reflect,
    /// Answers ARP requests and ICMP echo requests for [`PEER_ADDRESS`].
    #[default]
    Answer,
}

/// A stream of UDP packets to the guest, each with its number and time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// The stream's rate in virtual time; none is sent at zero.
    pub packets_per_second: u32,
    /// Bytes per frame, clamped to what Ethernet allows.
    pub length: u16,
    /// Nothing for an endless stream.
    pub count: Option<u64>,
}

/// What crossed the cable since the board was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that the guest sent.
    pub frames_from_guest: u64,
    /// Bytes of those frames, headers included.
    pub bytes_from_guest: u64,
    /// Frames that reached the guest's buffers.
    pub frames_to_guest: u64,
    /// Bytes of those frames, headers included.
    pub bytes_to_guest: u64,
    /// Frames for the guest that found the backlog full.
    pub dropped: u64,
}

/// The peer: its rule for the guest's frames, its stream, and the frames under way to the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketSource {
    reaction: Reaction,
    stream: Option<Stream>,
    guest: [u8; 6],
    backlog: VecDeque<Vec<u8>>,
    /// When the stream began; nothing while the guest's device is down.
    started_at: Option<Picoseconds>,
    sent: u64,
    /// What crossed the cable so far.
    pub counters: Counters,
}

impl PacketSource {
    /// A peer of the guest with hardware address `guest`; its stream waits for [`Self::start`].
    pub fn new(guest: [u8; 6], reaction: Reaction, stream: Option<Stream>) -> Self {
        Self {
            reaction,
            stream: stream.filter(|stream| stream.packets_per_second > 0),
            guest,
            backlog: VecDeque::new(),
            started_at: None,
            sent: 0,
            counters: Counters::default(),
        }
    }

    /// The guest's device came up: the stream begins.
    pub fn start(&mut self, now: Picoseconds) {
        self.started_at = Some(now);
        self.sent = 0;
    }

    /// The guest's device went down: the stream ends and frames under way are lost.
    pub fn stop(&mut self) {
        self.started_at = None;
        self.backlog.clear();
    }

    /// When the next packet of the stream is due.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        let (stream, start) = (self.stream?, self.started_at?);
        if stream.count.is_some_and(|count| self.sent >= count) {
            return None;
        }
        let passed = u128::from(self.sent + 1) * u128::from(SECOND);
        let passed = passed / u128::from(stream.packets_per_second);
        u64::try_from(passed).ok().map(|passed| start.saturating_add(Picoseconds(passed)))
    }

    /// Queues the packets of the stream that are due.
    pub fn advance(&mut self, now: Picoseconds) {
        for _ in 0..BACKLOG_LIMIT {
            let Some(at) = self.next_deadline().filter(|at| *at <= now) else { return };
            let frame = self.stream_frame(at);
            self.enqueue(frame);
            self.sent += 1;
        }
        // More were due than the wire holds: they are lost.
        while self.next_deadline().is_some_and(|at| at <= now) {
            self.skip_to(now);
        }
    }

    fn skip_to(&mut self, now: Picoseconds) {
        let (Some(stream), Some(start)) = (self.stream, self.started_at) else { return };
        let due = u128::from(now.saturating_sub(start).0) * u128::from(stream.packets_per_second)
            / u128::from(SECOND);
        let due = (due as u64).min(stream.count.unwrap_or(u64::MAX)).max(self.sent + 1);
        self.counters.dropped += due - self.sent;
        self.sent = due;
    }

    /// A frame from the guest.
    pub fn accept(&mut self, frame: &[u8]) {
        self.counters.frames_from_guest += 1;
        self.counters.bytes_from_guest += frame.len() as u64;
        let answer = match self.reaction {
            Reaction::Count => None,
            Reaction::Reflect => reflect(frame),
            Reaction::Answer => answer_arp(frame).or_else(|| answer_echo(frame)),
        };
        if let Some(answer) = answer {
            self.enqueue(answer);
        }
    }

    /// The next frame for the guest.
    pub fn front(&self) -> Option<&[u8]> {
        self.backlog.front().map(Vec::as_slice)
    }

    /// The front frame reached the guest.
    pub fn pop_delivered(&mut self) {
        if let Some(frame) = self.backlog.pop_front() {
            self.counters.frames_to_guest += 1;
            self.counters.bytes_to_guest += frame.len() as u64;
        }
    }

    fn enqueue(&mut self, frame: Vec<u8>) {
        if self.backlog.len() >= BACKLOG_LIMIT {
            self.counters.dropped += 1;
        } else {
            self.backlog.push_back(frame);
        }
    }

    fn stream_frame(&self, at: Picoseconds) -> Vec<u8> {
        let length = self.stream.map_or(0, |stream| usize::from(stream.length));
        let length = length.clamp(MINIMUM_FRAME, MAXIMUM_FRAME);
        let mut payload = vec![0; length - ETHERNET - IPV4 - UDP];
        payload[..8].copy_from_slice(&self.sent.to_be_bytes());
        payload[8..16].copy_from_slice(&at.0.to_be_bytes());
        let mut datagram = Vec::with_capacity(UDP + payload.len());
        for word in [GENERATOR_PORT, GENERATOR_PORT, (UDP + payload.len()) as u16, 0] {
            // A checksum of zero says that there is none.
            datagram.extend(word.to_be_bytes());
        }
        datagram.extend(payload);
        let packet = ipv4(PROTOCOL_UDP, PEER_ADDRESS, GUEST_ADDRESS, &datagram);
        ethernet(self.guest, ETHER_TYPE_IPV4, &packet)
    }
}

fn reflect(frame: &[u8]) -> Option<Vec<u8>> {
    let (destination, source) = (frame.get(..6)?, frame.get(6..12)?);
    Some([source, destination, &frame[12..]].concat())
}

/// [RFC826 "Packet Reception"]
fn answer_arp(frame: &[u8]) -> Option<Vec<u8>> {
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let arp = frame.get(ETHERNET..ETHERNET + 28)?;
    let is_request = ether_type(frame)? == ETHER_TYPE_ARP && arp[..8] == REQUEST;
    if !is_request || arp[24..28] != PEER_ADDRESS {
        return None;
    }
    let mut answer = REQUEST.to_vec();
    answer[7] = 2;
    answer.extend(PEER_HARDWARE);
    answer.extend(PEER_ADDRESS);
    answer.extend(&arp[8..18]);
    let asker = arp[8..14].try_into().ok()?;
    Some(ethernet(asker, ETHER_TYPE_ARP, &answer))
}

/// [RFC792 "Echo or Echo Reply Message"]
fn answer_echo(frame: &[u8]) -> Option<Vec<u8>> {
    const ECHO_REQUEST: u8 = 8;
    let packet = frame.get(ETHERNET..)?;
    if ether_type(frame)? != ETHER_TYPE_IPV4 || *packet.first()? != 0x45 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let message = packet.get(IPV4..total)?;
    let is_echo = packet[9] == PROTOCOL_ICMP && *message.first()? == ECHO_REQUEST;
    if !is_echo || message.len() < 8 || packet[16..20] != PEER_ADDRESS {
        return None;
    }
    let mut reply = message.to_vec();
    reply[..4].fill(0);
    let sum = checksum(&reply);
    reply[2..4].copy_from_slice(&sum.to_be_bytes());
    let asker = packet[12..16].try_into().ok()?;
    let packet = ipv4(PROTOCOL_ICMP, PEER_ADDRESS, asker, &reply);
    Some(ethernet(frame[6..12].try_into().ok()?, ETHER_TYPE_IPV4, &packet))
}

fn ether_type(frame: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]))
}

fn ethernet(destination: [u8; 6], ether_type: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET + content.len());
    frame.extend(destination);
    frame.extend(PEER_HARDWARE);
    frame.extend(ether_type.to_be_bytes());
    frame.extend(content);
    frame.resize(frame.len().max(MINIMUM_FRAME), 0);
    frame
}

/// [RFC791 "Internet Header Format"]
fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], content: &[u8]) -> Vec<u8> {
    const LIFETIME: u8 = 64;
    let mut packet = vec![0x45, 0];
    packet.extend(((IPV4 + content.len()) as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, LIFETIME, protocol, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(content);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn source(reaction: Reaction, stream: Option<Stream>) -> PacketSource {
        PacketSource::new(GUEST, reaction, stream)
    }

    #[test]
    fn a_stream_sends_at_its_rate_once_the_guest_is_up() {
        let stream = Stream { packets_per_second: 3000, length: 10, count: Some(3) };
        let mut source = source(Reaction::Count, Some(stream));
        assert_eq!(source.next_deadline(), None);
        source.start(Picoseconds::from_milliseconds(1));
        let mut at = Vec::new();
        while let Some(deadline) = source.next_deadline() {
            at.push(deadline.0 / 1_000_000);
            source.advance(deadline);
            let frame = source.front().unwrap().to_vec();
            assert_eq!(frame.len(), MINIMUM_FRAME);
            assert_eq!(frame[42..50], (at.len() as u64 - 1).to_be_bytes());
            assert_eq!(checksum(&frame[14..34]), 0, "a valid header sums to zero");
            source.pop_delivered();
        }
        assert_eq!(at, [1333, 1666, 2000]);
    }

    #[test]
    fn what_the_backlog_cannot_hold_is_dropped_and_counted() {
        let stream = Stream { packets_per_second: 1_000_000, length: 60, count: None };
        let mut source = source(Reaction::Count, Some(stream));
        source.start(Picoseconds::ZERO);
        source.advance(Picoseconds::from_milliseconds(1000));
        assert_eq!(source.backlog.len(), BACKLOG_LIMIT);
        assert_eq!(source.counters.dropped, 1_000_000 - BACKLOG_LIMIT as u64);
        assert!(source.next_deadline().unwrap() > Picoseconds::from_milliseconds(1000));
    }

    #[test]
    fn arp_and_echo_requests_for_the_peer_are_answered() {
        let mut request = [&[0xFF; 6][..], &GUEST, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        request.extend([&GUEST[..], &GUEST_ADDRESS, &[0; 6], &PEER_ADDRESS].concat());
        let mut source = source(Reaction::Answer, None);
        source.accept(&request);
        let answer = source.front().unwrap();
        assert_eq!(answer[..6], GUEST);
        assert_eq!(answer[21], 2);
        assert_eq!(answer[22..28], PEER_HARDWARE);
        source.pop_delivered();

        let echo = [8, 0, 0, 0, 1, 2, 3, 4, b'h', b'i', b'!'];
        let packet = ipv4(PROTOCOL_ICMP, GUEST_ADDRESS, PEER_ADDRESS, &echo);
        let frame = [&PEER_HARDWARE[..], &GUEST, &[8, 0], &packet].concat();
        source.accept(&frame);
        let answer = source.front().unwrap();
        assert_eq!(answer[34], 0, "an echo reply");
        assert_eq!(checksum(&answer[34..34 + echo.len()]), 0);
        assert_eq!(&answer[38..45], &echo[4..]);
        source.pop_delivered();

        for length in 0..frame.len() {
            source.accept(&frame[..length]);
            assert!(source.front().is_none(), "{length} bytes are not a whole request");
        }
    }

    #[test]
    fn a_reflected_frame_comes_back_with_its_addresses_exchanged() {
        let mut source = source(Reaction::Reflect, None);
        source.accept(&[0; 5]);
        assert!(source.front().is_none());
        source.accept(&[&[1; 6][..], &[2; 6], &[3; 50]].concat());
        assert_eq!(source.front().unwrap()[..13], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 3]);
        assert_eq!(source.counters.frames_from_guest, 2);
    }
}
