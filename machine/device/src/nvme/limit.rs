//! What the controller is and how much it takes: figures that several of its parts state.

/// Vendor and device identifier: of no maker, so that drivers go by the class.
pub(super) const IDENTITY: (u16, u16) = (0x1B36, 0x00F3);
/// Pairs of I/O queues, for as many processors.
pub const MAXIMUM_QUEUE_PAIRS: u16 = 128;
/// The admin queue's vector and one for each pair.
pub(super) const VECTORS: u16 = MAXIMUM_QUEUE_PAIRS + 1;
/// Entries of the largest I/O queue.
pub(super) const MAXIMUM_ENTRIES: u32 = 1024;
/// The longest transfer of a command, as a power of two pages.
pub(super) const LONGEST_TRANSFER: u8 = 7;
/// The same in bytes.
pub(super) const MAXIMUM_TRANSFER: u64 = arch::nvme::PAGE_SIZE << LONGEST_TRANSFER;
/// The only namespace.
pub(super) const NAMESPACE: u32 = 1;
/// The name of the firmware in the only slot.
pub(super) const FIRMWARE: &[u8; 8] = b"1       ";
/// The composite temperature in kelvins, always.
pub(super) const TEMPERATURE: u16 = 313;
/// Kelvins from which on it is warm.
pub(super) const WARM: u16 = 343;
/// Entries of the error log.
pub(super) const ERROR_ENTRIES: usize = 16;
