//! What is in an Ethernet frame: which headers, and whether their checksums fit.
//! [RFC791 "Internet Header Format"] [RFC1071 "Computing the Internet Checksum"]

use arch::intel_82599::descriptor::PacketType;

/// Bytes of an Ethernet header without a VLAN tag.
pub const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6: usize = 40;
/// Bytes of a VLAN tag.
pub const VLAN_TAG: usize = 4;
/// The type of an Ethernet frame with IPv4.
pub const ETHER_TYPE_IPV4: u16 = 0x0800;
/// The type of an Ethernet frame with IPv6.
pub const ETHER_TYPE_IPV6: u16 = 0x86DD;
/// The type of an Ethernet frame with a VLAN tag.
pub const ETHER_TYPE_VLAN: u16 = 0x8100;
/// The protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Where TCP has its checksum.
pub const TCP_CHECKSUM: usize = 16;
/// Where UDP has its checksum.
pub const UDP_CHECKSUM: usize = 6;
/// Where IPv4 has its checksum.
pub const IPV4_CHECKSUM: usize = 10;
const LEAST_TCP: usize = 20;
const LEAST_UDP: usize = 8;
/// More fragments, and the offset of this one.
const FRAGMENT_MASK: u16 = 0x3FFF;

/// The sum of big-endian 16-bit words; an odd byte counts as if a zero followed.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// A sum with its carries added in: a ones' complement sum.
pub const fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The Internet checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// A big-endian word of a frame.
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// What a frame was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its headers.
    pub kind: PacketType,
    /// Whether the checksum of its IPv4 header fits.
    pub ip_fits: Option<bool>,
    /// Whether the checksum of TCP or UDP fits; nothing where there is none, or a fragment.
    pub layer_4_fits: Option<bool>,
}

impl Contents {
    const NOTHING: Self = Self { kind: PacketType::empty(), ip_fits: None, layer_4_fits: None };

    /// Whether a checksum was found that does not fit.
    pub fn is_damaged(&self) -> bool {
        self.ip_fits == Some(false) || self.layer_4_fits == Some(false)
    }
}

/// Looks at a frame's headers and checksums; headers that do not fit it are as if absent.
pub fn examine(frame: &[u8]) -> Contents {
    let (at, ether_type) = match word(frame, 12) {
        Some(ETHER_TYPE_VLAN) => (ETHERNET + VLAN_TAG, word(frame, 12 + VLAN_TAG)),
        found => (ETHERNET, found),
    };
    let packet = frame.get(at..).unwrap_or_default();
    let found = match ether_type {
        Some(ETHER_TYPE_IPV4) => examine_ipv4(packet),
        Some(ETHER_TYPE_IPV6) => examine_ipv6(packet),
        _ => None,
    };
    found.unwrap_or(Contents::NOTHING)
}

fn examine_ipv4(packet: &[u8]) -> Option<Contents> {
    let first = *packet.first()?;
    let header = usize::from(first & 0xF) * 4;
    let total = usize::from(word(packet, 2)?);
    if first >> 4 != 4 || header < IPV4 || total < header || total > packet.len() {
        return None;
    }
    let mut kind = PacketType::IPV4;
    kind.set(PacketType::IPV4_OPTIONS, header > IPV4);
    let ip_fits = Some(fold(sum(&packet[..header])) == 0xFFFF);
    let whole = Contents { kind, ip_fits, layer_4_fits: None };
    if word(packet, 6)? & FRAGMENT_MASK != 0 {
        return Some(whole);
    }
    Some(examine_layer_4(whole, packet[9], sum(&packet[12..20]), &packet[header..total]))
}

/// DEVIATION(82599 "Packet Types"): behind extension headers of IPv6 nothing is looked for.
fn examine_ipv6(packet: &[u8]) -> Option<Contents> {
    let end = IPV6 + usize::from(word(packet, 4)?);
    if packet[0] >> 4 != 6 || end > packet.len() {
        return None;
    }
    let whole = Contents { kind: PacketType::IPV6, ..Contents::NOTHING };
    Some(examine_layer_4(whole, packet[6], sum(&packet[8..40]), &packet[IPV6..end]))
}

/// `addresses` is their sum, which is part of the checksum.
fn examine_layer_4(found: Contents, protocol: u8, addresses: u64, segment: &[u8]) -> Contents {
    let (kind, least) = match protocol {
        PROTOCOL_TCP => (PacketType::TCP, LEAST_TCP),
        PROTOCOL_UDP => (PacketType::UDP, LEAST_UDP),
        _ => return found,
    };
    if segment.len() < least {
        return found;
    }
    let is_unchecked = protocol == PROTOCOL_UDP && word(segment, UDP_CHECKSUM) == Some(0);
    let total = addresses + u64::from(protocol) + segment.len() as u64 + sum(segment);
    let fits = (!is_unchecked).then(|| fold(total) == 0xFFFF);
    Contents { kind: found.kind | kind, layer_4_fits: fits, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 datagram with UDP; the checksums fit.
    fn datagram() -> Vec<u8> {
        let mut frame = [[2; 12].as_slice(), &[8, 0]].concat();
        frame.extend([0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 9, 0, 9, 0, 11, 0, 0, b'a', b'b', b'c']);
        let ip = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&ip.to_be_bytes());
        let layer_4 = !fold(sum(&frame[26..34]) + 17 + 11 + sum(&frame[34..]));
        frame[40..42].copy_from_slice(&layer_4.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn a_changed_byte_is_found_in_the_checksum_that_covers_it() {
        let good = examine(&datagram());
        assert_eq!(good.kind, PacketType::IPV4 | PacketType::UDP);
        assert_eq!((good.ip_fits, good.layer_4_fits), (Some(true), Some(true)));
        for (at, ip, layer_4) in
            [(18, false, true), (27, false, false), (44, true, false), (45, true, true)]
        {
            let mut frame = datagram();
            frame[at] ^= 0x40;
            let found = examine(&frame);
            assert_eq!((found.ip_fits, found.layer_4_fits), (Some(ip), Some(layer_4)), "byte {at}");
        }
    }

    #[test]
    fn what_has_no_checksum_is_neither_good_nor_bad() {
        let mut frame = datagram();
        frame[40..42].fill(0);
        assert_eq!(examine(&frame).layer_4_fits, None, "UDP without one");
        let mut frame = datagram();
        frame[20] = 0x20;
        assert_eq!(examine(&frame).layer_4_fits, None, "a fragment");
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        assert_eq!(examine(&tagged).kind, PacketType::IPV4);
    }

    #[test]
    fn no_length_of_a_frame_is_too_short_to_look_at() {
        let frame = datagram();
        for length in 0..45 {
            assert_eq!(examine(&frame[..length]).layer_4_fits, None, "{length} bytes");
        }
    }
}
