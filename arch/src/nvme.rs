//! NVM Express controllers: registers, queue entries, and what Identify answers.
//! [NVME "Controller Registers"] [NVME "Data Structures"]

pub mod command;
pub mod feature;
pub mod identify;
pub mod register;
pub mod status;

/// Programming interface of an I/O controller, below the class of non-volatile memory.
pub const PROGRAMMING_INTERFACE: u8 = 2;
/// The region with the registers, which takes two base address registers.
pub const REGISTERS_BAR: usize = 0;
/// Bytes of a memory page where CC.MPS is 0.
pub const PAGE_SIZE: u64 = 4096;
/// Bytes of a submission queue entry.
pub const SUBMISSION_SIZE: u64 = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_SIZE: u64 = 16;
/// The namespace identifier that means all of them.
pub const ALL_NAMESPACES: u32 = 0xFFFF_FFFF;
