//! The mailbox, with a physical function at its other end that answers at once. What it grants
//! decides which frames are received. [82599 "VF to PF Mailbox"]
//!
//! DEVIATION(82599 "Receive Address Filtering"): the physical function has nothing else to do with
//! its port: it grants what it can, promiscuous reception too, and checks no sender's address.

use arch::intel_82599::mailbox::{
    Control, Head, MESSAGE_WORDS, Message, reception, request, version,
};
use arch::intel_82599::register;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Pairs of queues that a virtual function has where 64 share the part.
pub const QUEUES: usize = 2;
/// Bytes of the longest frame before a driver asks for more, check sequence included.
const USUAL_FRAME: u32 = 1518;
/// Bytes of the longest frame that the part takes. [82599 "Jumbo Frames"]
const LONGEST_FRAME: u32 = 9728;
const CHECK_SEQUENCE: u32 = 4;
const VLAN_TAG: u32 = 4;
/// Further addresses that are granted.
const MOST_ADDRESSES: usize = 15;
/// Hashes in a message: two a dword behind the first.
const MOST_HASHES: usize = 2 * (MESSAGE_WORDS - 1);
/// The kind of multicast hash: bits 47:36 of the address.
const HASH_KIND: u32 = 0;

type Address = [u8; 6];

/// Both sides' registers, and what was agreed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mailbox {
    control: Control,
    message: Message,
    grants: Grants,
    permanent: Address,
}

/// What the physical function has granted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Grants {
    is_clear_to_send: bool,
    version: u32,
    address: Address,
    further: Vec<Address>,
    hashes: Vec<u16>,
    vlans: BTreeSet<u16>,
    reception: u32,
    largest_frame: u32,
}

impl Grants {
    fn new(address: Address) -> Self {
        Self {
            is_clear_to_send: false,
            version: version::V1_0,
            address,
            further: Vec::new(),
            hashes: Vec::new(),
            vlans: BTreeSet::new(),
            reception: reception::MULTICAST,
            largest_frame: USUAL_FRAME,
        }
    }
}

impl Mailbox {
    /// After power-on; the virtual function gets this hardware address.
    pub fn new(permanent: Address) -> Self {
        Self {
            control: Control::new().with_has_reset(true),
            message: [0; MESSAGE_WORDS],
            grants: Grants::new(permanent),
            permanent,
        }
    }

    /// As after power-on.
    pub fn reset(&mut self) {
        *self = Self::new(self.permanent);
    }

    /// Reads the mailbox's register or a dword of the message.
    pub fn read(&mut self, offset: u64) -> u32 {
        if offset != register::MAILBOX {
            return self.word(offset).map_or(0, |word| *word);
        }
        let value = self.control.into_bits();
        let kept = self.control.with_has_message(false).with_has_acknowledged(false);
        self.control = kept.with_has_reset(false);
        value
    }

    /// Writes the same; whether the physical function has said something by that.
    pub fn write(&mut self, offset: u64, value: u32) -> bool {
        if offset != register::MAILBOX {
            if let Some(word) = self.word(offset) {
                *word = value;
            }
            return false;
        }
        let written = Control::from_bits(value);
        self.control.set_is_virtual_user(written.is_virtual_user());
        if written.requests() {
            self.control.set_has_acknowledged(true);
            self.answer();
        }
        written.requests()
    }

    fn word(&mut self, offset: u64) -> Option<&mut u32> {
        let at = offset.checked_sub(register::MESSAGE)? / 4;
        self.message.get_mut(usize::try_from(at).ok()?)
    }

    /// The physical function's answer takes the request's place.
    fn answer(&mut self) {
        let head = Head::from_bits(self.message[0]);
        if head.has_succeeded() || head.has_failed() {
            return;
        }
        self.control.set_has_message(true);
        if head.request() == request::RESET {
            return self.answer_reset(head);
        }
        let is_granted = self.grants.is_clear_to_send && self.grant(head);
        let head = head.with_has_succeeded(is_granted).with_has_failed(!is_granted);
        self.message[0] = head.with_is_clear_to_send(self.grants.is_clear_to_send).into_bits();
    }

    fn answer_reset(&mut self, head: Head) {
        self.grants = Grants { is_clear_to_send: true, ..Grants::new(self.permanent) };
        let [a, b, c, d, e, f] = self.permanent;
        self.message[0] = head.with_has_succeeded(true).into_bits();
        self.message[1] = u32::from_le_bytes([a, b, c, d]);
        self.message[2] = u32::from_le_bytes([e, f, 0, 0]);
        self.message[3] = HASH_KIND;
    }

    /// Whether a request is granted; an answer's dwords go into the message.
    fn grant(&mut self, head: Head) -> bool {
        let argument = self.message[1];
        match head.request() {
            request::SET_ADDRESS => {
                let address = self.address();
                let is_possible = is_unicast(address);
                if is_possible {
                    self.grants.address = address;
                }
                is_possible
            }
            request::SET_MULTICAST => {
                self.set_hashes(head.information().into());
                true
            }
            request::SET_VLAN => {
                let vlan = argument as u16 & 0xFFF;
                if head.information() == 0 {
                    self.grants.vlans.remove(&vlan);
                } else {
                    self.grants.vlans.insert(vlan);
                }
                true
            }
            request::SET_LARGEST_FRAME => {
                let is_possible = argument <= LONGEST_FRAME;
                if is_possible {
                    self.grants.largest_frame = argument;
                }
                is_possible
            }
            request::ADD_ADDRESS => self.add_address(head.information()),
            request::NEGOTIATE => {
                let known = [version::V1_0, version::V1_1, version::V1_2, version::V1_3];
                let is_known = known.contains(&argument);
                if is_known {
                    self.grants.version = argument;
                }
                is_known
            }
            request::QUERY_QUEUES if self.grants.version >= version::V1_1 => {
                self.message[1..5].copy_from_slice(&[QUEUES as u32, QUEUES as u32, 0, 0]);
                true
            }
            request::SET_RECEPTION if self.grants.version >= version::V1_2 => {
                self.grants.reception = argument.min(reception::EVERYTHING);
                true
            }
            _ => false,
        }
    }

    /// Dwords 1 and 2 as a hardware address.
    fn address(&self) -> Address {
        let [a, b, c, d] = self.message[1].to_le_bytes();
        let [e, f, ..] = self.message[2].to_le_bytes();
        [a, b, c, d, e, f]
    }

    fn set_hashes(&mut self, count: usize) {
        let words = self.message[1..].iter();
        let halves = words.flat_map(|word| [*word as u16, (*word >> 16) as u16]);
        self.grants.hashes = halves.take(count.min(MOST_HASHES)).map(|hash| hash & 0xFFF).collect();
    }

    fn add_address(&mut self, number: u8) -> bool {
        if number <= 1 {
            self.grants.further.clear();
        }
        let address = self.address();
        if number == 0 {
            return true;
        }
        let is_possible = is_unicast(address) && self.grants.further.len() < MOST_ADDRESSES;
        if is_possible {
            self.grants.further.push(address);
        }
        is_possible
    }

    /// Whether a frame on the wire is for this function. `vlan` is the tag in it.
    pub fn admits(&self, frame: &[u8], vlan: Option<u16>) -> bool {
        let Some((address, _)) = frame.split_first_chunk::<6>() else { return false };
        let tag = if vlan.is_some() { VLAN_TAG } else { 0 };
        let length = frame.len() as u64 + u64::from(CHECK_SEQUENCE);
        let is_short = length <= u64::from(self.grants.largest_frame + tag);
        let everything = self.grants.reception == reception::EVERYTHING;
        let is_of_vlan = vlan.is_none_or(|vlan| self.grants.vlans.contains(&(vlan & 0xFFF)));
        is_short && (everything || is_of_vlan && self.is_addressed(*address))
    }

    fn is_addressed(&self, address: Address) -> bool {
        let grants = &self.grants;
        if is_unicast(address) {
            return address == grants.address || grants.further.contains(&address);
        }
        if address == [0xFF; 6] {
            return grants.reception >= reception::MULTICAST;
        }
        let hash = u16::from(address[4]) >> 4 | u16::from(address[5]) << 4;
        let is_known = grants.hashes.contains(&(hash & 0xFFF));
        grants.reception >= reception::ALL_MULTICAST || is_known
    }
}

const fn is_unicast(address: Address) -> bool {
    address[0] & 1 == 0
        && (u32::from_le_bytes([address[0], address[1], address[2], address[3]]) != 0
            || address[4] != 0
            || address[5] != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Address = [2, 0, 0, 0, 3, 1];
    const SUCCESS: u32 = 0xA000_0000;
    const FAILURE: u32 = 0x6000_0000;

    /// Sends a request as drivers do and gives the answer's first dwords.
    fn ask(mailbox: &mut Mailbox, message: &[u32]) -> [u32; 4] {
        mailbox.write(register::MAILBOX, 4);
        assert_eq!(mailbox.read(register::MAILBOX) & 4, 4, "the driver has the message");
        for (word, at) in message.iter().zip((register::MESSAGE..).step_by(4)) {
            mailbox.write(at, *word);
        }
        assert!(mailbox.write(register::MAILBOX, 1));
        assert_eq!(mailbox.read(register::MAILBOX) & 0x34, 0x30, "acknowledged and answered");
        assert_eq!(mailbox.read(register::MAILBOX) & 0x30, 0, "reading clears");
        [0, 4, 8, 12].map(|at| mailbox.read(register::MESSAGE + at))
    }

    fn ready() -> Mailbox {
        let mut mailbox = Mailbox::new(OWN);
        assert_eq!(ask(&mut mailbox, &[1]), [0x8000_0001, 2, 0x0103, 0]);
        mailbox
    }

    #[test]
    fn nothing_is_granted_before_the_reset_message() {
        let mut mailbox = Mailbox::new(OWN);
        assert_eq!(mailbox.read(register::MAILBOX), 0x80, "the reset is over");
        assert_eq!(mailbox.read(register::MAILBOX), 0, "and that is said once");
        assert_eq!(ask(&mut mailbox, &[8, 4])[0], 0x4000_0008);
    }

    #[test]
    fn versions_up_to_1_3_are_granted_and_queues_from_1_1_on() {
        let mut mailbox = ready();
        for (version, answer) in
            [(7, FAILURE), (5, FAILURE), (1, FAILURE), (0, SUCCESS), (4, SUCCESS)]
        {
            assert_eq!(ask(&mut mailbox, &[8, version])[0], answer | 8, "version {version}");
        }
        assert_eq!(ask(&mut mailbox, &[9]), [SUCCESS | 9, 2, 2, 0]);
        assert_eq!(ask(&mut mailbox, &[8, 0])[0], SUCCESS | 8);
        assert_eq!(ask(&mut mailbox, &[9])[0], FAILURE | 9);
    }

    #[test]
    fn requests_that_cannot_be_are_refused() {
        let mut mailbox = ready();
        for message in [
            &[2, 0x0000_0001, 0][..],
            &[2, 0, 0],
            &[5, LONGEST_FRAME + 1],
            &[0x0A],
            &[0x0D],
            &[0x1234],
            &[0x0C, 1],
        ] {
            assert_eq!(ask(&mut mailbox, message)[0], FAILURE | message[0], "{message:x?}");
        }
        assert_eq!(ask(&mut mailbox, &[5, LONGEST_FRAME])[0], SUCCESS | 5);
    }

    #[test]
    fn frames_are_for_the_address_the_groups_and_the_vlans_that_were_granted() {
        let mut mailbox = ready();
        ask(&mut mailbox, &[8, 4]);
        let frame = |first: [u8; 6]| [&first[..], &[0; 54]].concat();
        let group = frame([1, 0, 0x5E, 0, 0x10, 0x02]);
        assert!(mailbox.admits(&frame(OWN), None) && mailbox.admits(&frame([0xFF; 6]), None));
        assert!(!mailbox.admits(&frame([2, 0, 0, 0, 3, 2]), None));
        assert!(!mailbox.admits(&group, None) && !mailbox.admits(&frame(OWN), Some(5)));
        ask(&mut mailbox, &[0x1_0003, 0x021]);
        ask(&mut mailbox, &[0x1_0004, 5]);
        assert!(mailbox.admits(&group, None) && mailbox.admits(&frame(OWN), Some(0x2005)));
        ask(&mut mailbox, &[4, 5]);
        assert!(!mailbox.admits(&frame(OWN), Some(5)));
        ask(&mut mailbox, &[0x1_0006, 2, 0x0203]);
        assert!(mailbox.admits(&frame([2, 0, 0, 0, 3, 2]), None));
        ask(&mut mailbox, &[6, 0, 0]);
        assert!(!mailbox.admits(&frame([2, 0, 0, 0, 3, 2]), None));
        ask(&mut mailbox, &[0x0C, reception::EVERYTHING]);
        assert!(mailbox.admits(&frame([2, 0, 0, 0, 3, 2]), Some(5)));
        assert!(!mailbox.admits(&[0xFF; 1515], None), "longer than was asked for");
        ask(&mut mailbox, &[1]);
        assert!(!mailbox.admits(&frame([2, 0, 0, 0, 3, 2]), None), "a reset takes it all back");
    }
}
