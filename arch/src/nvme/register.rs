//! Registers in the first region. [NVME "Register Definition"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// CAP, a [`Capabilities`] of 64 bits.
pub const CAPABILITIES: u64 = 0x00;
/// VS, a [`VERSION_1_4`].
pub const VERSION: u64 = 0x08;
/// INTMS: ones mask vectors of a pin or of MSI. Not for MSI-X.
pub const MASK_SET: u64 = 0x0C;
/// INTMC: ones unmask them.
pub const MASK_CLEAR: u64 = 0x10;
/// CC, a [`Configuration`].
pub const CONFIGURATION: u64 = 0x14;
/// CSTS, a [`Status`].
pub const STATUS: u64 = 0x1C;
/// AQA, an [`AdminAttributes`].
pub const ADMIN_ATTRIBUTES: u64 = 0x24;
/// ASQ: where the admin submission queue is, 64 bits.
pub const ADMIN_SUBMISSION: u64 = 0x28;
/// ACQ: where the admin completion queue is, 64 bits.
pub const ADMIN_COMPLETION: u64 = 0x30;
/// The tail of submission queue 0; heads of completion queues and tails take turns from here on.
pub const DOORBELLS: u64 = 0x1000;
/// Bytes of a doorbell where CAP.DSTRD is 0.
pub const DOORBELL_SIZE: u64 = 4;

/// VS of a controller of version 1.4: major, minor, tertiary.
pub const VERSION_1_4: u32 = 0x0001_0400;

/// CAP: what the controller supports.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "CAP")]
pub struct Capabilities {
    /// `[15:0]` MQES: entries of the largest queue, less one
    pub last_entry: u16,
    /// `[16]` CQR: queues must be contiguous
    pub needs_contiguous_queues: bool,
    /// `[18:17]` AMS: ways to choose among queues beside taking turns
    #[bits(2)]
    pub arbitration: u8,
    #[bits(5)]
    _reserved: u8,
    /// `[31:24]` TO: the longest wait for CSTS.RDY, in 500 ms
    pub timeout: u8,
    /// `[35:32]` DSTRD: bytes from doorbell to doorbell are 4 shifted left by this
    #[bits(4)]
    pub doorbell_stride: u8,
    /// `[36]` NSSRS: the subsystem can be reset
    pub has_subsystem_reset: bool,
    /// `[44:37]` CSS: a bit for each command set; bit 0 is NVM's
    pub command_sets: u8,
    #[bits(3)]
    _reserved: u8,
    /// `[51:48]` MPSMIN: the smallest page is 4 KiB shifted left by this
    #[bits(4)]
    pub least_page: u8,
    /// `[55:52]` MPSMAX: the largest page, alike
    #[bits(4)]
    pub greatest_page: u8,
    _reserved: u8,
}

/// CC: what the driver wants.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "CC")]
pub struct Configuration {
    /// `[0]` EN; from 1 to 0 the controller is reset
    pub is_enabled: bool,
    #[bits(3)]
    _reserved: u8,
    /// `[6:4]` CSS: 0 is the NVM command set
    #[bits(3)]
    pub command_set: u8,
    /// `[10:7]` MPS: pages are 4 KiB shifted left by this
    #[bits(4)]
    pub page: u8,
    /// `[13:11]` AMS: 0 lets queues take turns
    #[bits(3)]
    pub arbitration: u8,
    /// `[15:14]` SHN: 1 and 2 announce that power goes, normally or abruptly
    #[bits(2)]
    pub shutdown: u8,
    /// `[19:16]` IOSQES: entries of I/O submission queues are 2 to the power of this
    #[bits(4)]
    pub submission_size: u8,
    /// `[23:20]` IOCQES: entries of I/O completion queues, alike
    #[bits(4)]
    pub completion_size: u8,
    _reserved: u8,
}

/// CSTS: how the controller is.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "CSTS")]
pub struct Status {
    /// `[0]` RDY: commands are taken
    pub is_ready: bool,
    /// `[1]` CFS: something happened that no completion can tell
    pub has_failed: bool,
    /// `[3:2]` SHST: [`SHUTDOWN_COMPLETE`], or 0 in normal operation
    #[bits(2)]
    pub shutdown: u8,
    #[bits(28)]
    _reserved: u32,
}

/// [`Status::shutdown`] when all that was to be done before power goes is done.
pub const SHUTDOWN_COMPLETE: u8 = 2;

/// AQA: sizes of the admin queues.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "AQA")]
pub struct AdminAttributes {
    /// `[11:0]` ASQS: entries of the submission queue, less one
    #[bits(12)]
    pub last_submission: u16,
    #[bits(4)]
    _reserved: u8,
    /// `[27:16]` ACQS: entries of the completion queue, less one
    #[bits(12)]
    pub last_completion: u16,
    #[bits(4)]
    _reserved: u8,
}

const _: () = {
    assert!(Capabilities::new().with_needs_contiguous_queues(true).into_bits() == 1 << 16);
    assert!(Capabilities::new().with_command_sets(1).into_bits() == 1 << 37);
    assert!(Capabilities::new().with_greatest_page(1).into_bits() == 1 << 52);
    assert!(Configuration::new().with_shutdown(1).into_bits() == 1 << 14);
    assert!(Configuration::new().with_completion_size(1).into_bits() == 1 << 20);
    assert!(AdminAttributes::new().with_last_completion(1).into_bits() == 1 << 16);
};
