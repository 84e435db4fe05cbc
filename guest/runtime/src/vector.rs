//! The vectors that the runtime takes for itself.

/// Wakes a processor that waits for work.
pub const WAKE_VECTOR: u8 = 0xFD;
/// Counted and timed in assembly. See [`crate::interrupt`].
pub const COUNTED_VECTOR: u8 = 0xE1;
/// What the APIC gives when there is no interrupt after all.
pub const SPURIOUS_VECTOR: u8 = 0xFF;
