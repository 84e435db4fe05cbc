//! Registers and descriptors. [IOAT "Registers"]

use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// INTRCTRL, an [`InterruptControl`].
pub const INTERRUPT_CONTROL: u64 = 0x03;
/// XFERCAP: the longest copy is 1 MiB, a power of two.
pub const TRANSFER_LIMIT: u8 = 20;
/// CBVER.
pub const VERSION_3_2: u8 = 0x32;
/// Bytes of a channel's registers; those of the first follow as many that all share.
pub const CHANNEL_SIZE: u64 = 0x80;

/// INTRCTRL, how channels interrupt.
#[bitfield(u8)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptControl {
    /// `[0]` the pin may be asserted; messages do not ask
    pub is_pin_enabled: bool,
    /// `[1]` a channel has interrupted and was not rearmed; read-only
    pub is_pending: bool,
    /// `[2]` both of the above; read-only
    pub asserts_pin: bool,
    /// `[3]` MSI-X: channel n has vector n, where all have vector 0 otherwise
    pub has_vectors: bool,
    #[bits(4)]
    _reserved: u8,
}

impl InterruptControl {
    /// Takes what is writable.
    pub fn write(&mut self, value: u8) {
        let value = Self::from_bits(value);
        self.set_is_pin_enabled(value.is_pin_enabled());
        self.set_has_vectors(value.has_vectors());
    }
}

/// Offsets in a channel's registers.
pub mod channel {
    /// CHANCTRL, 16 bits, a [`super::ChannelControl`].
    pub const CONTROL: u64 = 0x00;
    /// CHANCMD, 8 bits, a [`super::ChannelCommand`].
    pub const COMMAND: u64 = 0x04;
    /// DMACOUNT, 16 bits: descriptors that may be worked off since the chain began.
    pub const COUNT: u64 = 0x06;
    /// CHANSTS, 64 bits: a [`super::State`] and the address of the last descriptor that is done.
    pub const STATUS: u64 = 0x08;
    /// CHAINADDR, 64 bits: the first descriptor.
    pub const CHAIN: u64 = 0x10;
    /// CHANCMP, 64 bits: where status is written to.
    pub const COMPLETION: u64 = 0x18;
    /// CDAR, 64 bits: the descriptor that is worked on; read-only.
    pub const CURRENT: u64 = 0x20;
    /// CHANERR, 32 bits, [`super::ChannelError`]s; writing ones clears them.
    pub const ERROR: u64 = 0x28;
    /// CHANERRMSK, 32 bits: errors that do not interrupt.
    pub const ERROR_MASK: u64 = 0x2C;
}

bitflags! {
    /// CHANCTRL; [`Self::INTERRUPT_DISABLE`] is set by each interrupt, and writing it clears it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ChannelControl: u16 {
        const INTERRUPT_DISABLE = 1 << 0;
        const ERROR_COMPLETION = 1 << 2;
        const ANY_ERROR_ABORT = 1 << 3;
        const ERROR_INTERRUPT = 1 << 4;
        const SNOOP = 1 << 5;
        const IN_USE = 1 << 8;
        const COMPLETION_DCA = 1 << 9;
        const PRIORITY = 0xF << 12;
    }
}

bitflags! {
    /// CHANCMD; all that it asks for is done before the next instruction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ChannelCommand: u8 {
        const SUSPEND = 1 << 2;
        const ABORT = 1 << 3;
        const RESUME = 1 << 4;
        const RESET = 1 << 5;
    }
}

/// The low bits of CHANSTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Descriptors are worked off.
    Active = 0,
    /// All are done.
    Done = 1,
    /// As the driver asked.
    Suspended = 2,
    /// After a reset, an abort or an error, until there is a new chain.
    Halted = 3,
}

bitflags! {
    /// CHANERR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ChannelError: u32 {
        const SOURCE_ADDRESS = 1 << 0;
        const DESTINATION_ADDRESS = 1 << 1;
        const NEXT_ADDRESS = 1 << 2;
        const NEXT_ALIGNMENT = 1 << 3;
        const CHAIN_ADDRESS = 1 << 4;
        const DESCRIPTOR_CONTROL = 1 << 10;
        const LENGTH = 1 << 11;
        const COMPLETION_ADDRESS = 1 << 12;
    }
}

/// Bytes of a descriptor, and what its address is a multiple of.
pub const DESCRIPTOR_SIZE: u64 = 64;

/// The second dword of a descriptor.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorControl {
    /// `[0]` interrupt when it is done
    pub interrupts: bool,
    #[bits(2)]
    pub no_snoop: u8,
    /// `[3]` write the status when it is done
    pub writes_status: bool,
    /// `[4]` all before it must have been written
    pub is_fence: bool,
    /// `[5]` nothing is copied
    pub is_null: bool,
    #[bits(18)]
    pub hints: u32,
    /// `[31:24]` 0 is a copy
    pub operation: u8,
}

/// Part of a descriptor: the rest is the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Bytes to copy.
    pub size: u32,
    pub control: DescriptorControl,
    pub source: u64,
    pub destination: u64,
    /// The descriptor behind it.
    pub next: u64,
}

impl Descriptor {
    pub fn from_bytes(bytes: &[u8; DESCRIPTOR_SIZE as usize]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        Self {
            size: word(0) as u32,
            control: DescriptorControl::from_bits((word(0) >> 32) as u32),
            source: word(1),
            destination: word(2),
            next: word(3),
        }
    }
}
