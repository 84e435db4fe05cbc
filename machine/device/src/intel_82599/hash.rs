//! The hash that spreads received frames over the queues. [82599 "Receive-Side Scaling"]
//!
//! Key and table are the physical function's, as a virtual one of this part has none of its own:
//! frames alternate between the two queues, by the hash's lowest bit.

use crate::packet::{Contents, ETHERNET, VLAN_TAG};
use arch::intel_82599::descriptor::{HashType, PacketType};

/// The key that the definition of the hash is verified with.
const KEY: [u8; 40] = [
    0x6D, 0x5A, 0x56, 0xDA, 0x25, 0x5B, 0x0E, 0xC2, 0x41, 0x67, 0x25, 0x3D, 0x43, 0xA3, 0x8F, 0xB0,
    0xD0, 0xCA, 0x2B, 0xCB, 0xAE, 0x7B, 0x30, 0xB4, 0x77, 0xCB, 0x2D, 0xA3, 0x80, 0x30, 0xF2, 0x0C,
    0x6A, 0x42, 0xB7, 0x3B, 0xBE, 0xAC, 0x01, 0xFA,
];
/// Addresses and ports: where they begin in the IP header, and their bytes.
const IPV4_ADDRESSES: (usize, usize) = (12, 8);
const IPV6_ADDRESSES: (usize, usize) = (8, 32);
const PORTS: usize = 4;

/// What a frame is hashed to, and what of it. Only what has an IP header is.
pub(super) fn of(frame: &[u8], contents: &Contents, has_tag: bool) -> (HashType, u32) {
    found(frame, contents, has_tag).unwrap_or((HashType::None, 0))
}

fn found(frame: &[u8], contents: &Contents, has_tag: bool) -> Option<(HashType, u32)> {
    let ip = frame.get(ETHERNET + if has_tag { VLAN_TAG } else { 0 }..)?;
    let is_ipv4 = contents.kind.contains(PacketType::IPV4);
    let (kind, with_ports, (start, length), header) = if is_ipv4 {
        let header = usize::from(ip.first()? & 0xF) * 4;
        (HashType::Ipv4, HashType::Ipv4Tcp, IPV4_ADDRESSES, header)
    } else if contents.kind.contains(PacketType::IPV6) {
        (HashType::Ipv6, HashType::Ipv6Tcp, IPV6_ADDRESSES, crate::packet::IPV6)
    } else {
        return None;
    };
    let addresses = ip.get(start..start + length)?;
    if !contents.kind.contains(PacketType::TCP) {
        return Some((kind, toeplitz(addresses.iter())));
    }
    let ports = ip.get(header..header + PORTS)?;
    Some((with_ports, toeplitz(addresses.iter().chain(ports))))
}

/// For every bit of the input that is set, the 32 bits of the key that begin at its place.
fn toeplitz<'a>(input: impl Iterator<Item = &'a u8>) -> u32 {
    let mut hash = 0;
    for (byte, window) in input.zip(KEY.windows(5)) {
        let bits = window.iter().fold(0, |bits, next| bits << 8 | u64::from(*next));
        for bit in 0..8 {
            if byte & 0x80 >> bit != 0 {
                hash ^= (bits >> (8 - bit)) as u32;
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_its_definitions_examples() {
        for (input, addresses, with_ports) in [
            ([66, 9, 149, 187, 161, 142, 100, 80, 10, 234, 6, 230], 0x323E_8FC2, 0x51CC_C178),
            ([199, 92, 111, 2, 65, 69, 140, 83, 55, 150, 18, 131], 0xD718_262A, 0xC626_B0EA),
            ([24, 19, 198, 95, 12, 22, 207, 184, 50, 98, 148, 136], 0xD2D0_A5DE, 0x5C2B_394A),
        ] {
            assert_eq!(toeplitz(input[..8].iter()), addresses, "{input:?}");
            assert_eq!(toeplitz(input.iter()), with_ports, "{input:?}");
        }
    }

    #[test]
    fn ports_count_for_tcp_alone_and_nothing_without_an_ip_header() {
        let mut frame = [0; 60];
        frame[14] = 0x45;
        frame[26..38].copy_from_slice(&[66, 9, 149, 187, 161, 142, 100, 80, 10, 234, 6, 230]);
        let contents = |kind| Contents { kind, ip_fits: None, layer_4_fits: None };
        for (kind, expected) in [
            (PacketType::IPV4, (HashType::Ipv4, 0x323E_8FC2)),
            (PacketType::IPV4 | PacketType::UDP, (HashType::Ipv4, 0x323E_8FC2)),
            (PacketType::IPV4 | PacketType::TCP, (HashType::Ipv4Tcp, 0x51CC_C178)),
            (PacketType::empty(), (HashType::None, 0)),
        ] {
            assert_eq!(of(&frame, &contents(kind), false), expected, "{kind:?}");
        }
        assert_eq!(of(&frame[..20], &contents(PacketType::IPV4), false), (HashType::None, 0));
    }
}
