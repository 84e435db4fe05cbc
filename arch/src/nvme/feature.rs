//! Features of Set Features and Get Features. [NVME "Feature Specific Information"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// How many commands of a queue are taken at a time, and weights.
pub const ARBITRATION: u8 = 0x01;
/// Which power state.
pub const POWER_MANAGEMENT: u8 = 0x02;
/// A [`TemperatureThreshold`].
pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
/// How long errors are tried to be recovered from.
pub const ERROR_RECOVERY: u8 = 0x05;
/// Whether writes may be lost with power until they are flushed: bit 0.
pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
/// How many I/O queues there are: submission queues, less one, and completion queues above.
pub const NUMBER_OF_QUEUES: u8 = 0x07;
/// How long and for how many completions an interrupt may wait.
pub const INTERRUPT_COALESCING: u8 = 0x08;
/// Whether a vector's may not: an [`InterruptVector`].
pub const INTERRUPT_VECTOR: u8 = 0x09;
/// Whether writes are atomic beyond what power failures need: bit 0.
pub const WRITE_ATOMICITY: u8 = 0x0A;
/// Which events are told: bits of the critical warning of [`super::identify::health`], and more.
pub const EVENT_CONFIGURATION: u8 = 0x0B;

/// Dword 11 of [`TEMPERATURE_THRESHOLD`].
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TemperatureThreshold {
    /// `[15:0]` TMPTH, in kelvins
    pub kelvins: u16,
    /// `[19:16]` TMPSEL: 0 is the composite temperature, 15 all (Set Features)
    #[bits(4)]
    pub sensor: u8,
    /// `[21:20]` THSEL: 0 warns above, 1 warns below
    #[bits(2)]
    pub direction: u8,
    #[bits(10)]
    _reserved: u16,
}

/// Dword 11 of [`INTERRUPT_VECTOR`].
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptVector {
    /// `[15:0]` IV
    pub vector: u16,
    /// `[16]` CD: completions do not wait for one another
    pub is_immediate: bool,
    #[bits(15)]
    _reserved: u16,
}
