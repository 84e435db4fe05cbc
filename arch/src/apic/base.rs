//! IA32_APIC_BASE, MSR 1Bh, and the modes it selects.

use bitfield_struct::bitfield;

/// Where the register page is and in which mode the local APIC works.
/// [APM2 "APIC Base Address Register"] [SDM3 "Local APIC Status and Location"]
#[doc(alias = "IA32_APIC_BASE")]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct ApicBase {
    #[bits(8)]
    __: u8,
    /// `[8]` this is the bootstrap processor (BSC, BSP)
    pub is_bootstrap: bool,
    #[bits(1)]
    __: u8,
    /// `[10]` x2APIC mode (EXTD); only together with `is_enabled`
    pub is_x2apic: bool,
    /// `[11]` the local APIC is enabled (AE, EN)
    pub is_enabled: bool,
    /// `[63:12]` page frame of the register page; bits from the physical address width up are zero
    #[bits(52)]
    pub frame: u64,
}

/// What the two mode bits of [`ApicBase`] mean together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// EN is clear: the processor is as one without a local APIC.
    Disabled,
    /// EN: the registers are a page of memory, identities have eight bits.
    XApic,
    /// EN and EXTD: the registers are MSRs 800h–8FFh, identities have 32 bits.
    X2Apic,
    /// EXTD without EN.
    Invalid,
}

impl ApicBase {
    /// IA32_APIC_BASE.
    pub const MSR: u32 = 0x1B;
    /// Where the register page is after reset.
    pub const RESET_ADDRESS: u64 = 0xFEE0_0000;

    /// The mode that EN and EXTD select.
    pub const fn mode(self) -> Mode {
        match (self.is_enabled(), self.is_x2apic()) {
            (false, false) => Mode::Disabled,
            (true, false) => Mode::XApic,
            (true, true) => Mode::X2Apic,
            (false, true) => Mode::Invalid,
        }
    }

    /// Physical address of the register page; without effect in x2APIC mode.
    pub const fn address(self) -> u64 {
        self.frame() << 12
    }

    /// Bits that no processor with `physical_bits` of address defines.
    pub const fn reserved(physical_bits: u8) -> u64 {
        let above = if physical_bits >= 64 { 0 } else { !0 << physical_bits };
        above | 0xFF | 1 << 9
    }
}

impl Mode {
    /// Whether a write to IA32_APIC_BASE may lead from `self` to `next`; if not it raises #GP.
    /// [SDM3 "x2APIC State Transitions"] [APM2 "x2APIC Mode"]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Disabled | Self::XApic, Self::Disabled | Self::XApic)
                | (Self::XApic | Self::X2Apic, Self::X2Apic)
                | (Self::X2Apic, Self::Disabled)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_value_of_the_bootstrap_processor_is_fee00900() {
        let base = ApicBase::new()
            .with_is_bootstrap(true)
            .with_is_enabled(true)
            .with_frame(ApicBase::RESET_ADDRESS >> 12);
        assert_eq!(base.into_bits(), 0xFEE0_0900);
        assert_eq!(base.address(), ApicBase::RESET_ADDRESS);
    }

    #[test]
    fn all_sixteen_mode_transitions() {
        use Mode::*;
        let rows = [
            (Disabled, [true, true, false, false]),
            (XApic, [true, true, true, false]),
            (X2Apic, [true, false, true, false]),
            (Invalid, [false, false, false, false]),
        ];
        for (from, legal) in rows {
            for (to, legal) in [Disabled, XApic, X2Apic, Invalid].into_iter().zip(legal) {
                assert_eq!(from.may_become(to), legal, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn reserved_bits_follow_the_physical_address_width() {
        assert_eq!(ApicBase::reserved(36), 0xFFFF_FFF0_0000_02FF);
        assert_eq!(ApicBase::reserved(52), 0xFFF0_0000_0000_02FF);
    }
}
