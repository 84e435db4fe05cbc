//! Registers in the first region, each a dword. [82599 "Virtual Function Register Descriptions"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// VFCTRL: see [`CONTROL_RESET`].
pub const CONTROL: u64 = 0x0000;
/// VFSTATUS; drivers read it to see that writes before have arrived.
pub const STATUS: u64 = 0x0008;
/// VFLINKS, a [`Links`].
pub const LINKS: u64 = 0x0010;
/// VFFRTIMER, a [`FreeRunningTimer`].
pub const TIMER: u64 = 0x0048;
/// VTEICR: vectors with a cause. Reading clears, writing ones too.
pub const CAUSE: u64 = 0x0100;
/// VTEICS: ones set causes.
pub const CAUSE_SET: u64 = 0x0104;
/// VTEIMS: ones let vectors send; reads which may.
pub const MASK_SET: u64 = 0x0108;
/// VTEIMC: ones keep vectors from sending.
pub const MASK_CLEAR: u64 = 0x010C;
/// VTEIAC: causes that sending clears.
pub const AUTO_CLEAR: u64 = 0x0110;
/// VTEIAM: vectors that sending masks.
pub const AUTO_MASK: u64 = 0x0114;
/// The first VTIVAR, an [`Allocation`] of the vectors of two pairs of queues.
pub const ALLOCATION: u64 = 0x0120;
/// First offset after the last VTIVAR.
pub const ALLOCATION_END: u64 = 0x0130;
/// VTIVAR_MISC: the mailbox's vector, in the lowest byte of an [`Allocation`].
pub const ALLOCATION_OTHER: u64 = 0x0140;
/// VFMBMEM, a [`super::mailbox::Message`] that both sides share.
pub const MESSAGE: u64 = 0x0200;
/// First offset after the message.
pub const MESSAGE_END: u64 = 0x0240;
/// VFMAILBOX, a [`super::mailbox::Control`].
pub const MAILBOX: u64 = 0x02FC;
/// VFPSRTYPE: headers that are split off.
pub const SPLIT_TYPE: u64 = 0x0300;
/// The first VTEITR, a [`Throttle`]; one a vector.
pub const THROTTLE: u64 = 0x0820;
/// Registers of the first receive queue.
pub const RECEIVE: u64 = 0x1000;
/// Registers of the first transmit queue.
pub const TRANSMIT: u64 = 0x2000;
/// Bytes from one queue's registers to the next's.
pub const QUEUE_STRIDE: u64 = 0x40;
/// VFMRQC: hashing of received frames.
pub const HASH_CONTROL: u64 = 0x3000;
/// VFRSSRK: the hash's key, ten dwords.
pub const HASH_KEY: u64 = 0x3100;
/// First offset after the key.
pub const HASH_KEY_END: u64 = 0x3128;
/// VFRETA: the table that a hash leads to a queue by, 16 dwords.
pub const REDIRECTION: u64 = 0x3200;
/// First offset after the table.
pub const REDIRECTION_END: u64 = 0x3240;

/// VFGPRC: good frames received, 32 bits that wrap.
pub const FRAMES_RECEIVED: u64 = 0x101C;
/// VFGORC: their bytes with check sequences, 36 bits that wrap: low half.
pub const BYTES_RECEIVED: u64 = 0x1020;
/// The upper four bits of [`BYTES_RECEIVED`].
pub const BYTES_RECEIVED_HIGH: u64 = 0x1024;
/// VFMPRC: received multicast frames.
pub const MULTICAST_RECEIVED: u64 = 0x1034;
/// VFGPTC: frames sent.
pub const FRAMES_SENT: u64 = 0x201C;
/// VFGOTC: their bytes with check sequences, 36 bits that wrap: low half.
pub const BYTES_SENT: u64 = 0x2020;
/// The upper four bits of [`BYTES_SENT`].
pub const BYTES_SENT_HIGH: u64 = 0x2024;

/// Offsets within a queue's registers, at [`RECEIVE`] and [`TRANSMIT`] alike but where it says.
pub mod queue {
    /// RDBAL, TDBAL: where the descriptors are, a multiple of 128.
    pub const BASE: u64 = 0x00;
    /// RDBAH, TDBAH.
    pub const BASE_HIGH: u64 = 0x04;
    /// RDLEN, TDLEN: bytes of all descriptors, a multiple of 128.
    pub const LENGTH: u64 = 0x08;
    /// DCA_RXCTRL, DCA_TXCTRL.
    pub const CACHE_ACCESS: u64 = 0x0C;
    /// RDH, TDH: the descriptor that the function uses next.
    pub const HEAD: u64 = 0x10;
    /// SRRCTL, a [`super::ReceiveControl`]; receive only.
    pub const RECEIVE_CONTROL: u64 = 0x14;
    /// RDT, TDT: the first descriptor that is not the function's.
    pub const TAIL: u64 = 0x18;
    /// RXDCTL, TXDCTL: a [`super::QueueControl`].
    pub const CONTROL: u64 = 0x28;
    /// RSCCTL: coalescing; receive only.
    pub const COALESCING: u64 = 0x2C;
    /// TDWBAL: where the head is written to; transmit only.
    pub const HEAD_WRITE_BACK: u64 = 0x38;
    /// TDWBAH.
    pub const HEAD_WRITE_BACK_HIGH: u64 = 0x3C;
}

/// VFCTRL: queues off, interrupts masked, mailbox as after power-on.
pub const CONTROL_RESET: u32 = 1 << 26;
/// Bits of RDLEN and TDLEN that count.
pub const LENGTH_MASK: u32 = 0x000F_FF80;
/// Bits of RDBAL and TDBAL that count.
pub const BASE_MASK: u32 = 0xFFFF_FF80;

/// VFLINKS: the state of the wire.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    #[bits(28)]
    _reserved: u32,
    /// `[29:28]` 1: 100 Mb/s, 2: 1 Gb/s, 3: 10 Gb/s
    #[bits(2)]
    pub speed: u8,
    /// `[30]`
    pub is_up: bool,
    _reserved: bool,
}

/// [`Links::speed`] of 10 Gb/s.
pub const SPEED_10_GIGABIT: u8 = 3;

/// VFFRTIMER: time since power-on.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeRunningTimer {
    /// `[9:0]`
    #[bits(10)]
    pub microseconds: u16,
    /// `[19:10]`
    #[bits(10)]
    pub milliseconds: u16,
    /// `[31:20]`
    #[bits(12)]
    pub seconds: u16,
}

/// VTIVAR: four causes, each with the vector that serves it. Of the pair of queues 2n: receive,
/// transmit; then those of 2n + 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation(pub u32);

impl Allocation {
    /// The vector of the cause in byte `index` (0 to 3), if it has one.
    pub const fn vector(self, index: usize) -> Option<u8> {
        let byte = self.0.to_le_bytes()[index & 3];
        if byte & 0x80 != 0 { Some(byte & 7) } else { None }
    }
}

/// VTEITR: how far apart messages of a vector are.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    #[bits(3)]
    _reserved: u8,
    /// `[11:3]` In [`THROTTLE_UNIT_NS`]; 0 for no throttling.
    #[bits(9)]
    pub interval: u16,
    #[bits(9)]
    _reserved: u16,
    /// `[27:21]` What is left of the interval.
    #[bits(7)]
    pub counter: u8,
    #[bits(3)]
    _reserved: u8,
    /// `[31]` CNT_WDIS: a write leaves the counter as it is.
    pub keeps_counter: bool,
}

/// Nanoseconds of a step of [`Throttle::interval`] at 10 Gb/s.
pub const THROTTLE_UNIT_NS: u64 = 2_000;

/// SRRCTL: the form of receive descriptors.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveControl {
    /// `[6:0]` BSIZEPACKET, in KiB
    #[bits(7)]
    pub buffer_kib: u8,
    #[bits(18)]
    _reserved: u32,
    /// `[27:25]` 1: advanced, one buffer
    #[bits(3)]
    pub kind: u8,
    /// `[28]` Frames for a queue without descriptors are dropped.
    pub drops: bool,
    #[bits(3)]
    _reserved: u8,
}

/// RXDCTL and TXDCTL.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueControl {
    #[bits(25)]
    pub thresholds: u32,
    /// `[25]`
    pub is_enabled: bool,
    /// `[26]` SWFLSH, transmit only: all descriptors that are done are written back; clears itself.
    pub flushes: bool,
    #[bits(3)]
    _reserved: u8,
    /// `[30]` VME, receive only: a frame's VLAN tag goes into its descriptor.
    pub strips_vlan: bool,
    _reserved: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_drivers_have_them() {
        let links = Links::new().with_is_up(true).with_speed(SPEED_10_GIGABIT);
        assert_eq!(links.into_bits(), 0x7000_0000);
        assert_eq!(QueueControl::new().with_is_enabled(true).into_bits(), 0x0200_0000);
        assert_eq!(QueueControl::new().with_flushes(true).into_bits(), 0x0400_0000);
        assert_eq!(QueueControl::new().with_strips_vlan(true).into_bits(), 0x4000_0000);
        let control = ReceiveControl::new().with_buffer_kib(3).with_kind(1).with_drops(true);
        assert_eq!(control.into_bits(), 0x1200_0003);
        assert_eq!(Throttle::new().with_interval(511).into_bits(), 0x0000_0FF8);
        assert_eq!(Throttle::new().with_keeps_counter(true).into_bits(), 0x8000_0000);
    }

    #[test]
    fn an_allocation_names_a_vector_where_it_is_valid() {
        let allocation = Allocation(0x0182_0081);
        assert_eq!([0, 1, 2, 3].map(|i| allocation.vector(i)), [Some(1), None, Some(2), None]);
    }
}
