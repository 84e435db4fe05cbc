//! What the function does to a packet on its way to the wire: checksums, a VLAN tag, and the
//! cutting of long ones into segments. [82599 "Transmit Segmentation"]
//! [82599 "Transmit Checksum Offloading"]
//!
//! Software has put the sum of the pseudo header where TCP's or UDP's checksum goes, without the
//! length where the packet is to be cut.
//!
//! DEVIATION(82599 "Transmit Checksum Offloading"): the check of SCTP is not filled in.

use crate::packet::{
    ETHER_TYPE_VLAN, IPV4_CHECKSUM, TCP_CHECKSUM, UDP_CHECKSUM, checksum, fold, sum, word,
};
use arch::intel_82599::descriptor::{Layer4, TransmitContext, TransmitData};
use serde::{Deserialize, Serialize};

/// Frames are padded to this.
const LEAST_FRAME: usize = 60;
const ADDRESSES: usize = 12;
const TCP_FLAGS: usize = 13;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A packet from which frames are taken one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Packet {
    bytes: Vec<u8>,
    command: TransmitData,
    context: TransmitContext,
    /// Bytes of the payload that frames have been made of.
    done: usize,
    segments: u16,
    is_over: bool,
}

/// Where the headers of a frame are.
struct Headers {
    ip: usize,
    layer_4: usize,
}

impl Packet {
    /// `command` is that of the packet's first descriptor.
    pub fn new(bytes: Vec<u8>, command: TransmitData, context: TransmitContext) -> Self {
        Self { bytes, command, context, done: 0, segments: 0, is_over: false }
    }

    /// The next frame as it goes over the wire, without its check sequence. Nothing if there is no
    /// further one, or the headers that software told of do not fit the packet.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        let mut frame = if self.command.is_segmented() { self.cut()? } else { self.whole()? };
        if self.command.inserts_vlan() {
            let [high, low] = self.context.vlan_tag().to_be_bytes();
            let [kind_high, kind_low] = ETHER_TYPE_VLAN.to_be_bytes();
            frame.splice(ADDRESSES..ADDRESSES, [kind_high, kind_low, high, low]);
        }
        frame.resize(frame.len().max(LEAST_FRAME), 0);
        Some(frame)
    }

    fn headers(&self) -> Headers {
        let ip = usize::from(self.context.mac_length());
        Headers { ip, layer_4: ip + usize::from(self.context.ip_length()) }
    }

    fn checksum_place(&self) -> Option<usize> {
        match Layer4::from_bits(self.context.layer_4()) {
            Layer4::Tcp => Some(TCP_CHECKSUM),
            Layer4::Udp => Some(UDP_CHECKSUM),
            Layer4::Sctp | Layer4::Reserved => None,
        }
    }

    fn whole(&mut self) -> Option<Vec<u8>> {
        self.is_over = true;
        let mut frame = core::mem::take(&mut self.bytes);
        if frame.len() < ADDRESSES {
            return None;
        }
        self.fill_checksums(&mut frame, 0);
        Some(frame)
    }

    fn cut(&mut self) -> Option<Vec<u8>> {
        let Headers { ip, layer_4 } = self.headers();
        let header = layer_4 + usize::from(self.context.layer_4_length());
        let most = usize::from(self.context.segment_length());
        let left = self.bytes.len().checked_sub(header + self.done);
        let Some(left) = left.filter(|_| most > 0 && header >= ADDRESSES) else {
            self.is_over = true;
            return None;
        };
        let length = left.min(most);
        let start = header + self.done;
        let mut frame = Vec::with_capacity(header + length);
        frame.extend(&self.bytes[..header]);
        frame.extend(&self.bytes[start..start + length]);
        self.is_over = length == left;
        self.number_ip(&mut frame, ip);
        self.number_layer_4(&mut frame, layer_4);
        let segment = frame.len() - layer_4;
        self.fill_checksums(&mut frame, segment as u64);
        self.done += length;
        self.segments = self.segments.wrapping_add(1);
        Some(frame)
    }

    /// Length and identification of the IP header.
    fn number_ip(&self, frame: &mut [u8], ip: usize) {
        let length = frame.len() - ip;
        if self.context.is_ipv4() {
            let identification = word(frame, ip + 4).unwrap_or(0).wrapping_add(self.segments);
            put(frame, ip + 2, length as u16);
            put(frame, ip + 4, identification);
        } else {
            put(frame, ip + 4, length.saturating_sub(crate::packet::IPV6) as u16);
        }
    }

    /// TCP's sequence number and flags, or UDP's length.
    fn number_layer_4(&self, frame: &mut [u8], at: usize) {
        match Layer4::from_bits(self.context.layer_4()) {
            Layer4::Tcp => {
                if let Some(number) = frame.get_mut(at + 4..at + 8) {
                    let first = number.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
                    let here = first.wrapping_add(self.done as u32);
                    number.copy_from_slice(&here.to_be_bytes());
                }
                if let Some(flags) = frame.get_mut(at + TCP_FLAGS) {
                    let not_last = if self.is_over { 0 } else { FIN_AND_PSH };
                    let not_first = if self.done == 0 { 0 } else { CWR };
                    *flags &= !(not_last | not_first);
                }
            }
            Layer4::Udp => put(frame, at + 4, (frame.len() - at) as u16),
            Layer4::Sctp | Layer4::Reserved => {}
        }
    }

    /// `missing` is what software has left out of the pseudo header.
    fn fill_checksums(&self, frame: &mut [u8], missing: u64) {
        let Headers { ip, layer_4 } = self.headers();
        if self.command.inserts_ip_checksum()
            && let Some(header) = frame.get_mut(ip..layer_4)
        {
            put(header, IPV4_CHECKSUM, 0);
            let value = checksum(header);
            put(header, IPV4_CHECKSUM, value);
        }
        if self.command.inserts_l4_checksum()
            && let Some(place) = self.checksum_place()
            && let Some(segment) = frame.get_mut(layer_4..)
        {
            let value = !fold(sum(segment) + missing);
            // Zero would say that there is none. [RFC768 "Fields"]
            let value = if place == UDP_CHECKSUM && value == 0 { u16::MAX } else { value };
            put(segment, place, value);
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::examine;

    const IPV4_ADDRESSES: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

    fn sums(segmented: bool) -> TransmitData {
        TransmitData::new()
            .with_inserts_ip_checksum(true)
            .with_inserts_l4_checksum(true)
            .with_is_segmented(segmented)
    }

    /// A packet as Linux hands it over: pseudo header summed, with the length unless it is cut.
    fn tcp(payload: usize, segmented: bool) -> Vec<u8> {
        let mut bytes = [[2; 12].as_slice(), &[8, 0]].concat();
        let total = (40 + payload) as u16;
        bytes.extend([0x45, 0]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0xFF, 0xFE, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(IPV4_ADDRESSES);
        bytes.extend([0, 1, 0, 2, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0x50, 0x99, 1, 1, 0, 0, 0, 0]);
        let length = if segmented { 0 } else { 20 + payload as u64 };
        let pseudo = fold(sum(&IPV4_ADDRESSES) + 6 + length);
        put(&mut bytes, 34 + TCP_CHECKSUM, pseudo);
        bytes.extend((0..payload).map(|i| i as u8));
        bytes
    }

    fn context() -> TransmitContext {
        TransmitContext::new()
            .with_mac_length(14)
            .with_ip_length(20)
            .with_is_ipv4(true)
            .with_layer_4(1)
            .with_layer_4_length(20)
            .with_segment_length(1000)
    }

    fn frames(bytes: Vec<u8>, command: TransmitData, context: TransmitContext) -> Vec<Vec<u8>> {
        let mut packet = Packet::new(bytes, command, context);
        std::iter::from_fn(|| packet.next_frame()).take(100).collect()
    }

    #[test]
    fn both_checksums_are_filled_in() {
        for payload in [0, 1, 5, 1000] {
            let frames = frames(tcp(payload, false), sums(false), context());
            assert_eq!(frames.len(), 1);
            let found = examine(&frames[0]);
            assert_eq!((found.ip_fits, found.layer_4_fits), (Some(true), Some(true)), "{payload}");
        }
    }

    #[test]
    fn segments_number_themselves_and_only_the_last_pushes() {
        let frames = frames(tcp(2500, true), sums(true), context());
        let lengths: Vec<usize> = frames.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1054, 1054, 554]);
        for (i, frame) in frames.iter().enumerate() {
            let found = examine(frame);
            assert_eq!((found.ip_fits, found.layer_4_fits), (Some(true), Some(true)), "{i}");
            assert_eq!(word(frame, 18), Some(0xFFFE_u16.wrapping_add(i as u16)), "identification");
            let number = u32::from_be_bytes(frame[38..42].try_into().unwrap());
            assert_eq!(number, 0xFFFF_FF00_u32.wrapping_add(i as u32 * 1000));
        }
        let flags: Vec<u8> = frames.iter().map(|frame| frame[34 + TCP_FLAGS]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19], "CWR in the first, FIN and PSH in the last");
        let payload: Vec<u8> = frames.iter().flat_map(|frame| &frame[54..]).copied().collect();
        assert_eq!(payload, tcp(2500, true)[54..]);
    }

    #[test]
    fn a_vlan_tag_goes_behind_the_addresses() {
        let command = sums(false).with_inserts_vlan(true);
        let frames = frames(tcp(100, false), command, context().with_vlan_tag(0x2005));
        assert_eq!(frames[0][12..18], [0x81, 0, 0x20, 5, 8, 0]);
        assert_eq!(examine(&frames[0]).layer_4_fits, Some(true));
    }

    #[test]
    fn headers_that_do_not_fit_make_no_frame_and_no_endless_stream() {
        let nothing: Vec<Vec<u8>> = Vec::new();
        assert_eq!(frames(vec![0; 8], TransmitData::new(), context()), nothing);
        assert_eq!(frames(vec![0; 50], sums(true), context()), nothing);
        let endless = context().with_segment_length(0);
        assert_eq!(frames(tcp(10, true), sums(true), endless), nothing);
        let far = context().with_mac_length(127).with_ip_length(511);
        assert_eq!(frames(tcp(10, false), sums(false), far).len(), 1);
    }

    #[test]
    fn short_frames_are_padded() {
        assert_eq!(frames(vec![7; 14], TransmitData::new(), context())[0].len(), LEAST_FRAME);
    }
}
