//! The spurious-interrupt vector register.

use bitfield_struct::bitfield;

/// Software enable and the vector of a spurious interrupt, F0h.
/// [APM2 "Spurious Interrupts"] [SDM3 "Spurious Interrupt"]
#[doc(alias = "SVR")]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Svr {
    /// `[7:0]`
    pub vector: u8,
    /// `[8]` the APIC is enabled by software (ASE)
    pub is_enabled: bool,
    /// `[9]` focus processor checking is off
    pub skips_focus_check: bool,
    #[bits(2)]
    __: u8,
    /// `[12]` the EOI of a level-triggered vector is not broadcast
    pub suppresses_eoi_broadcast: bool,
    #[bits(19)]
    __: u32,
}

impl Svr {
    /// Disabled by software, vector FFh.
    pub const RESET: u32 = 0xFF;
    /// Bits that exist everywhere.
    pub const WRITABLE: u32 = 0x3FF;
    /// The bit that exists where the version register announces it.
    pub const EOI_BROADCAST_SUPPRESSION: u32 = 1 << 12;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_sit_where_the_manual_puts_them() {
        assert_eq!(Svr::new().with_vector(0xFF).into_bits(), Svr::RESET);
        assert_eq!(Svr::new().with_is_enabled(true).into_bits(), 0x100);
        assert_eq!(Svr::new().with_skips_focus_check(true).into_bits(), 0x200);
        assert_eq!(Svr::new().with_suppresses_eoi_broadcast(true).into_bits(), 0x1000);
    }
}
