//! Faults and their records. [VTD "Fault Recording Registers"]

use crate::identity::RequesterId;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of a record.
pub const RECORD_SIZE: u64 = 16;

/// Why an access or an interrupt was refused. [VTD "Translation Fault Reason Encodings"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum FaultReason {
    /// There is no context table for the bus.
    RootAbsent = 0x01,
    /// There is no context entry for the function.
    ContextAbsent = 0x02,
    /// The context entry asks for what the unit cannot do.
    ContextInvalid = 0x03,
    /// The address is wider than the function's tables.
    AddressBeyond = 0x04,
    /// A write without the right to it.
    WriteRefused = 0x05,
    /// A read without the right to it.
    ReadRefused = 0x06,
    /// A second-level table is out of reach.
    TableUnreachable = 0x07,
    /// The root table is out of reach.
    RootUnreachable = 0x08,
    /// A context table is out of reach.
    ContextUnreachable = 0x09,
    /// The root entry has reserved bits.
    RootReserved = 0x0A,
    /// The context entry has reserved bits.
    ContextReserved = 0x0B,
    /// A second-level entry has reserved bits.
    TableReserved = 0x0C,
    /// The function's translation type does not allow the request.
    TypeBlocked = 0x0D,
    /// Not a write of four bytes into the interrupt window.
    WindowAccessed = 0x0E,
    /// The message has reserved bits.
    RequestReserved = 0x20,
    /// The index lies beyond the remapping table.
    IndexBeyond = 0x21,
    /// The remapping entry is not present.
    EntryAbsent = 0x22,
    /// The remapping table is out of reach.
    EntryUnreachable = 0x23,
    /// The remapping entry has reserved bits.
    EntryReserved = 0x24,
    /// An interrupt in compatibility format, which is blocked.
    CompatibilityBlocked = 0x25,
    /// The entry is another function's.
    SourceRefused = 0x26,
    /// The posted-interrupt descriptor is out of reach.
    DescriptorUnreachable = 0x27,
    /// The posted-interrupt descriptor has reserved bits.
    DescriptorReserved = 0x28,
}

impl FaultReason {
    /// Whether the function's or the entry's FPD bit keeps the fault out of the records.
    pub const fn is_qualified(self) -> bool {
        !matches!(
            self,
            Self::RootAbsent
                | Self::ContextAbsent
                | Self::RootUnreachable
                | Self::ContextUnreachable
                | Self::RootReserved
                | Self::RequestReserved
                | Self::IndexBeyond
                | Self::EntryUnreachable
                | Self::CompatibilityBlocked
        )
    }
}

/// [VTD "Fault Recording Registers"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    #[bits(12)]
    __: u16,
    /// `[63:12]` the page of an access; the index of an interrupt is in bits 63:48
    #[bits(52)]
    pub information: u64,
    /// `[79:64]`
    pub source: u16,
    #[bits(12)]
    __: u16,
    /// `[92]` T2
    pub has_second_type: bool,
    #[bits(3)]
    __: u8,
    /// `[103:96]` see [`FaultReason`]
    pub reason: u8,
    #[bits(22)]
    __: u32,
    /// `[126]` T1: a read
    pub is_read: bool,
    /// `[127]` F: the record holds a fault; write-1-clear
    pub is_valid: bool,
}

impl FaultRecord {
    /// The record of a refused access.
    pub const fn access(source: RequesterId, reason: FaultReason, page: u64, read: bool) -> Self {
        Self::new()
            .with_information(page >> 12)
            .with_source(source.0)
            .with_reason(reason as u8)
            .with_is_read(read)
            .with_is_valid(true)
    }

    /// The record of a refused interrupt.
    pub const fn interrupt(source: RequesterId, reason: FaultReason, index: u16) -> Self {
        Self::new()
            .with_information((index as u64) << 36)
            .with_source(source.0)
            .with_reason(reason as u8)
            .with_is_valid(true)
    }
}
