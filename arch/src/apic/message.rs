//! What travels from a source of interrupts (ICR, I/O APIC, MSI) to local APICs.

use crate::identity::Vector;
use serde::{Deserialize, Serialize};

/// How the destination treats the message. [APM2 "Interrupt Command Register"] [SDM3 "Local APIC"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DeliveryMode {
    /// The vector, at each of the destinations.
    Fixed = 0,
    /// The vector, at the one destination that runs at the lowest priority.
    LowestPriority = 1,
    /// System management interrupt; the vector is ignored.
    Smi = 2,
    /// Remote read in an ICR of old parts, reserved elsewhere.
    RemoteRead = 3,
    /// Non-maskable interrupt; the vector is ignored.
    Nmi = 4,
    /// The processor is set to its state after INIT; an application processor then waits for SIPI.
    Init = 5,
    /// SIPI: a processor that waits after INIT begins at real-mode address vector · 1000h.
    Startup = 6,
    /// The vector is fetched from the 8259 by an acknowledge cycle.
    ExtInt = 7,
}

impl DeliveryMode {
    /// Decodes the three-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Fixed,
            1 => Self::LowestPriority,
            2 => Self::Smi,
            3 => Self::RemoteRead,
            4 => Self::Nmi,
            5 => Self::Init,
            6 => Self::Startup,
            _ => Self::ExtInt,
        }
    }

    /// The three bits of an ICR, local vector, redirection entry or message.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// How `InterruptMessage::destination` is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DestinationMode {
    /// By APIC ID.
    Physical = 0,
    /// By logical ID, which is a mask within a model: see [`super::DestinationFormat`].
    Logical = 1,
}

impl DestinationMode {
    /// Decodes one bit: 0 is physical.
    pub const fn from_bits(bits: u8) -> Self {
        if bits & 1 == 0 { Self::Physical } else { Self::Logical }
    }

    /// The bit of an ICR, redirection entry or message.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The ICR's destination shorthand: whether a message goes where its destination says, or to a set
/// that follows from the sender. [SDM3 "Interrupt Command Register"]
#[doc(alias = "destination shorthand")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Scope {
    /// Wherever `InterruptMessage::destination` points, possibly including the sender.
    Destination = 0,
    /// 01b: the sender alone.
    SelfOnly = 1,
    /// 10b: everyone, the sender too.
    All = 2,
    /// 11b: everyone but the sender.
    AllButSelf = 3,
}

impl Scope {
    /// Decodes the two-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Destination,
            1 => Self::SelfOnly,
            2 => Self::All,
            _ => Self::AllButSelf,
        }
    }

    /// The two bits 19:18 of an ICR.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// An interrupt on its way: after remapping, before any local APIC has looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InterruptMessage {
    /// APIC ID or logical mask; `broadcast` says whether all ones means everyone.
    pub destination: u32,
    /// Whether `destination` is an ID or a mask.
    pub destination_mode: DestinationMode,
    /// What the receiver does with it.
    pub delivery_mode: DeliveryMode,
    /// Counts where the delivery mode has a vector: fixed, lowest priority and SIPI.
    pub vector: Vector,
    /// Level-triggered: the receiver sets TMR and broadcasts its EOI.
    pub is_level: bool,
    /// INIT level de-assert is the only message with `false`; it is ignored by current parts.
    pub is_asserted: bool,
    /// The sender's width of destination: an 8-bit FFh and a 32-bit FFFF_FFFFh are both broadcast,
    /// an x2APIC sender's 0000_00FFh is APIC 255.
    pub is_x2apic: bool,
}
