//! Descriptors of frames, two quadwords each. [82599 "Advanced Transmit Data Descriptor"]
//! [82599 "Advanced Receive Descriptors"]

use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// The second quadword of a transmit descriptor with data. The first is the buffer's address.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmitData {
    /// `[15:0]` DTALEN: bytes of the buffer
    pub length: u16,
    #[bits(4)]
    _reserved: u8,
    /// `[23:20]` DTYP: [`KIND_CONTEXT`] or [`KIND_DATA`]
    #[bits(4)]
    pub kind: u8,
    /// `[24]` EOP: the frame's last buffer
    pub is_last: bool,
    /// `[25]` IFCS: the check sequence is put behind the frame
    pub inserts_check_sequence: bool,
    _reserved: bool,
    /// `[27]` RS: [`Self::is_done`] is written back
    pub reports: bool,
    _reserved: bool,
    /// `[29]` DEXT: an advanced descriptor
    pub is_advanced: bool,
    /// `[30]` VLE: the context's VLAN tag is put into the frame
    pub inserts_vlan: bool,
    /// `[31]` TSE: the frame is cut into segments
    pub is_segmented: bool,
    /// `[32]` DD
    pub is_done: bool,
    #[bits(3)]
    _reserved: u8,
    /// `[38:36]` IDX: which context; bit 36 counts
    #[bits(3)]
    pub context: u8,
    /// `[39]` CC
    pub checks_context: bool,
    /// `[40]` IXSM: the checksum of the IPv4 header is filled in
    pub inserts_ip_checksum: bool,
    /// `[41]` TXSM: the checksum of TCP or UDP is filled in
    pub inserts_l4_checksum: bool,
    #[bits(4)]
    _reserved: u8,
    /// `[63:46]` PAYLEN: bytes behind the headers that are cut, else of the whole frame
    #[bits(18)]
    pub payload_length: u32,
}

/// [`TransmitData::kind`] of a context.
pub const KIND_CONTEXT: u8 = 2;
/// [`TransmitData::kind`] of data.
pub const KIND_DATA: u8 = 3;

/// A transmit descriptor that says where headers are. [82599 "Advanced Transmit Context
/// Descriptor"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmitContext {
    /// `[8:0]` IPLEN
    #[bits(9)]
    pub ip_length: u16,
    /// `[15:9]` MACLEN: bytes before the IP header
    #[bits(7)]
    pub mac_length: u8,
    /// `[31:16]`
    pub vlan_tag: u16,
    #[bits(42)]
    _reserved: u64,
    /// `[74]` TUCMD.IPV4
    pub is_ipv4: bool,
    /// `[76:75]` TUCMD.L4T, decoded by [`Layer4::from_bits`]
    #[bits(2)]
    pub layer_4: u8,
    #[bits(7)]
    _reserved: u8,
    /// `[87:84]` [`KIND_CONTEXT`]
    #[bits(4)]
    pub kind: u8,
    #[bits(5)]
    _reserved: u8,
    /// `[93]` DEXT
    pub is_advanced: bool,
    #[bits(6)]
    _reserved: u8,
    /// `[102:100]` IDX: bit 100 counts
    #[bits(3)]
    pub index: u8,
    _reserved: bool,
    /// `[111:104]` L4LEN
    pub layer_4_length: u8,
    /// `[127:112]` MSS: bytes of a segment behind its headers
    pub segment_length: u16,
}

/// What is behind the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer4 {
    /// 0.
    Udp,
    /// 1.
    Tcp,
    /// 2.
    Sctp,
    /// 3.
    Reserved,
}

impl Layer4 {
    /// Decodes L4T; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Udp,
            1 => Self::Tcp,
            2 => Self::Sctp,
            _ => Self::Reserved,
        }
    }
}

bitflags! {
    /// What was found in a received frame, bits 16:4 of the first quadword.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PacketType: u16 {
        /// An IPv4 header.
        const IPV4 = 1 << 0;
        /// One with options.
        const IPV4_OPTIONS = 1 << 1;
        /// An IPv6 header.
        const IPV6 = 1 << 2;
        /// One with extension headers.
        const IPV6_EXTENSIONS = 1 << 3;
        /// TCP.
        const TCP = 1 << 4;
        /// UDP.
        const UDP = 1 << 5;
        /// SCTP.
        const SCTP = 1 << 6;
    }
}

/// What a received frame's hash is of: RSS type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashType {
    /// 0: there is none.
    None = 0,
    /// 1: addresses and ports.
    Ipv4Tcp = 1,
    /// 2: addresses.
    Ipv4 = 2,
    /// 3: addresses and ports.
    Ipv6Tcp = 3,
    /// 5: addresses.
    Ipv6 = 5,
}

/// The first quadword of a receive descriptor, as it is written back.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedHead {
    /// `[3:0]` What the hash is of, a [`HashType`]
    #[bits(4)]
    pub hash_type: u8,
    /// `[16:4]` A [`PacketType`]
    #[bits(13)]
    pub packet_type: u16,
    #[bits(15)]
    _reserved: u16,
    /// `[63:32]`
    pub hash: u32,
}

/// The second quadword of a receive descriptor, as it is written back.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedTail {
    /// `[0]` DD
    pub is_done: bool,
    /// `[1]` EOP: the frame's last buffer
    pub is_last: bool,
    _reserved: bool,
    /// `[3]` VP: [`Self::vlan_tag`] was in the frame
    pub has_vlan: bool,
    /// `[4]` UDPCS: the checksum that was looked at is UDP's
    pub is_udp_checked: bool,
    /// `[5]` L4CS: the checksum of TCP or UDP was looked at
    pub is_l4_checked: bool,
    /// `[6]` IPCS: the checksum of the IPv4 header was looked at
    pub is_ip_checked: bool,
    #[bits(23)]
    _reserved: u32,
    /// `[30]` TCPE: it is wrong
    pub has_bad_l4_checksum: bool,
    /// `[31]` IPE: it is wrong
    pub has_bad_ip_checksum: bool,
    /// `[47:32]` Bytes in this buffer
    pub length: u16,
    /// `[63:48]`
    pub vlan_tag: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_drivers_have_them() {
        let data = TransmitData::new().with_kind(KIND_DATA).with_is_last(true);
        let data = data.with_inserts_check_sequence(true).with_reports(true).with_is_advanced(true);
        assert_eq!(data.into_bits(), 0x2B30_0000);
        let data = TransmitData::new().with_is_segmented(true).with_inserts_vlan(true);
        assert_eq!(data.into_bits(), 0xC000_0000);
        let data =
            TransmitData::new().with_inserts_ip_checksum(true).with_inserts_l4_checksum(true);
        assert_eq!(data.into_bits() >> 32, 0x0300);
        let data = TransmitData::new().with_payload_length(1).with_checks_context(true);
        assert_eq!(data.with_is_done(true).into_bits() >> 32, 0x4081);
        let context = TransmitContext::new().with_mac_length(14).with_ip_length(20);
        assert_eq!(context.with_vlan_tag(7).into_bits(), 0x0007_1C14);
        let context = TransmitContext::new().with_kind(KIND_CONTEXT).with_is_advanced(true);
        let context = context.with_is_ipv4(true).with_layer_4(1);
        assert_eq!(context.into_bits() >> 64, 0x2020_0C00);
        let context = TransmitContext::new().with_segment_length(1448).with_layer_4_length(32);
        assert_eq!(context.with_index(1).into_bits() >> 96, 1448 << 16 | 32 << 8 | 0x10);
        let tail = ReceivedTail::new().with_is_done(true).with_is_last(true).with_has_vlan(true);
        let tail = tail.with_is_l4_checked(true).with_is_ip_checked(true);
        assert_eq!(tail.with_is_udp_checked(true).into_bits(), 0x7B);
        let tail =
            ReceivedTail::new().with_has_bad_ip_checksum(true).with_has_bad_l4_checksum(true);
        assert_eq!(tail.with_length(60).into_bits(), 60 << 32 | 0xC000_0000);
        let kind = (PacketType::IPV4 | PacketType::TCP).bits();
        assert_eq!(ReceivedHead::new().with_packet_type(kind).into_bits(), 0x110);
    }
}
