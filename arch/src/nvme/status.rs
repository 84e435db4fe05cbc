//! How a command ends. [NVME "Status Field Definition"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// The status field of a completion, without the phase below it.
#[bitfield(u16)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// `[7:0]` SC: the code
    pub code: u8,
    /// `[10:8]` SCT: what codes it is of
    #[bits(3)]
    pub kind: u8,
    /// `[12:11]` CRD: after which delay to try again
    #[bits(2)]
    pub delay: u8,
    /// `[13]` M: the error log has more
    pub has_more: bool,
    /// `[14]` DNR: trying again will not help
    pub is_final: bool,
    _reserved: bool,
}

impl Status {
    /// The command is done.
    pub const SUCCESS: Self = Self::new();
    /// No such command.
    pub const INVALID_OPCODE: Self = generic(0x01).with_is_final(true);
    /// A field is reserved, or not supported.
    pub const INVALID_FIELD: Self = generic(0x02).with_is_final(true);
    /// A command of that name is there already.
    pub const IDENTIFIER_CONFLICT: Self = generic(0x03).with_is_final(true);
    /// Memory refused an access to data or to a list of pages.
    pub const DATA_TRANSFER_ERROR: Self = generic(0x04);
    /// An Abort named it.
    pub const ABORT_REQUESTED: Self = generic(0x07).with_is_final(true);
    /// No such namespace.
    pub const INVALID_NAMESPACE: Self = generic(0x0B).with_is_final(true);
    /// Something else had to come before, or must not have.
    pub const SEQUENCE_ERROR: Self = generic(0x0C).with_is_final(true);
    /// An entry of a list of pages that does not begin one.
    pub const PRP_OFFSET_INVALID: Self = generic(0x13).with_is_final(true);
    /// The namespace takes no writes.
    pub const WRITE_PROTECTED: Self = generic(0x20).with_is_final(true);
    /// Beyond the namespace's end.
    pub const BLOCK_OUT_OF_RANGE: Self = generic(0x80).with_is_final(true);
    /// No such completion queue.
    pub const COMPLETION_QUEUE_INVALID: Self = specific(0x00);
    /// The queue is there already, is not there, or cannot be.
    pub const INVALID_QUEUE: Self = specific(0x01);
    /// Too many entries, or too few.
    pub const INVALID_QUEUE_SIZE: Self = specific(0x02);
    /// More event requests than the controller keeps.
    pub const EVENT_REQUEST_LIMIT: Self = specific(0x05);
    /// No such vector.
    pub const INVALID_VECTOR: Self = specific(0x08);
    /// No such log page.
    pub const INVALID_LOG_PAGE: Self = specific(0x09);
    /// A submission queue still uses it.
    pub const INVALID_QUEUE_DELETION: Self = specific(0x0C);
    /// The feature cannot be kept over a loss of power.
    pub const NOT_SAVEABLE: Self = specific(0x0D);
    /// The feature is the controller's, not a namespace's.
    pub const NOT_OF_A_NAMESPACE: Self = specific(0x0F);
    /// The medium did not take it.
    pub const WRITE_FAULT: Self = Self::new().with_kind(2).with_code(0x80);
    /// The medium did not give it.
    pub const READ_ERROR: Self = Self::new().with_kind(2).with_code(0x81);
}

const fn generic(code: u8) -> Status {
    Status::new().with_code(code)
}

const fn specific(code: u8) -> Status {
    Status::new().with_kind(1).with_code(code).with_is_final(true)
}
