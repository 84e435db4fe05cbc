//! The mailbox between a virtual and the physical function, and the messages in it, which drivers
//! agree on. [82599 "VF Mailbox Register"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Dwords of a message.
pub const MESSAGE_WORDS: usize = 16;

/// What both sides share: the first dword says what it is.
pub type Message = [u32; MESSAGE_WORDS];

/// VFMAILBOX.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// `[0]` REQ, write-only: the message is for the physical function
    pub requests: bool,
    /// `[1]` ACK, write-only: its message was read
    pub acknowledges: bool,
    /// `[2]` VFU: the virtual function uses the message
    pub is_virtual_user: bool,
    /// `[3]` PFU: the physical function uses it; read-only
    pub is_physical_user: bool,
    /// `[4]` PFSTS: a message of the physical function; clears when read
    pub has_message: bool,
    /// `[5]` PFACK: it has read the request; clears when read
    pub has_acknowledged: bool,
    /// `[6]` RSTI: the physical function is not ready yet; read-only
    pub is_in_reset: bool,
    /// `[7]` RSTD: its reset is over; clears when read
    pub has_reset: bool,
    #[bits(24)]
    _reserved: u32,
}

/// The first dword of a message.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// `[15:0]` See [`request`]
    pub request: u16,
    /// `[23:16]` By request
    pub information: u8,
    #[bits(5)]
    _reserved: u8,
    /// `[29]` CTS: the virtual function may send requests
    pub is_clear_to_send: bool,
    /// `[30]` The request was refused
    pub has_failed: bool,
    /// `[31]` The request was granted
    pub has_succeeded: bool,
}

/// Requests of a virtual function.
pub mod request {
    /// Starts over. The answer: hardware address in two dwords, then the kind of multicast hash.
    pub const RESET: u16 = 0x01;
    /// The hardware address is to be that of dwords 1 and 2.
    pub const SET_ADDRESS: u16 = 0x02;
    /// Multicast hashes of 12 bits, two a dword; how many, the information says.
    pub const SET_MULTICAST: u16 = 0x03;
    /// The VLAN of dword 1 is received, or no longer where the information is 0.
    pub const SET_VLAN: u16 = 0x04;
    /// Bytes of the longest frame, check sequence included, in dword 1.
    pub const SET_LARGEST_FRAME: u16 = 0x05;
    /// A further hardware address, of dwords 1 and 2. Information 0: none any more, 1: the first.
    pub const ADD_ADDRESS: u16 = 0x06;
    /// The version of these messages is to be that of dword 1.
    pub const NEGOTIATE: u16 = 0x08;
    /// The answer: transmit queues, receive queues, whether there is a VLAN of the port, default.
    pub const QUERY_QUEUES: u16 = 0x09;
    /// What else is received: dword 1 is one of [`super::reception`].
    pub const SET_RECEPTION: u16 = 0x0C;
}

/// Versions of the messages, by the numbers that [`request::NEGOTIATE`] has for them.
pub mod version {
    /// Version 1.0.
    pub const V1_0: u32 = 0;
    /// Version 1.1: queues can be asked for.
    pub const V1_1: u32 = 2;
    /// Version 1.2: what is received beyond the own address.
    pub const V1_2: u32 = 3;
    /// Version 1.3.
    pub const V1_3: u32 = 4;
}

/// What is received beyond the own address, each with what is before it.
pub mod reception {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// Broadcasts, and multicasts whose hash was set.
    pub const MULTICAST: u32 = 1;
    /// Every multicast.
    pub const ALL_MULTICAST: u32 = 2;
    /// Everything.
    pub const EVERYTHING: u32 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_drivers_have_them() {
        assert_eq!(Control::new().with_is_virtual_user(true).with_requests(true).into_bits(), 5);
        let read_to_clear = Control::new().with_has_message(true).with_has_acknowledged(true);
        assert_eq!(read_to_clear.with_has_reset(true).into_bits(), 0xB0);
        let head = Head::new().with_request(request::NEGOTIATE).with_has_succeeded(true);
        assert_eq!(head.with_is_clear_to_send(true).into_bits(), 0xA000_0008);
        assert_eq!(Head::new().with_has_failed(true).into_bits(), 0x4000_0000);
        assert_eq!(Head::new().with_information(1).into_bits(), 0x1_0000);
    }
}
