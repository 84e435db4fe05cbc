//! The register page and its MSR image.
//! [APM2 "APIC Registers"] [SDM3 "Local APIC Register Address Map"]

use super::local_vector::LocalVector;
use bitfield_struct::bitfield;

/// First MSR of x2APIC mode.
pub const MSR_FIRST: u32 = 0x800;
/// Last MSR of the range that x2APIC mode claims.
pub const MSR_LAST: u32 = 0x8FF;
/// Vectors below this are illegal in a Fixed or lowest-priority interrupt.
pub const FIRST_LEGAL_VECTOR: u8 = 16;

/// A register of the local APIC. Numbered variants are one dword of a larger register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// 020h: the APIC ID, in bits 31:24 or in all of x2APIC mode's register.
    Id,
    /// 030h: see [`ApicVersion`].
    Version,
    /// 080h: vectors of this class and below are held back. CR8 is its bits 7:4.
    #[doc(alias = "TPR")]
    TaskPriority,
    /// 090h: what competes for a lowest-priority interrupt; AMD and old Intel parts.
    #[doc(alias = "APR")]
    ArbitrationPriority,
    /// 0A0h: the higher of the task priority and the highest class in service.
    #[doc(alias = "PPR")]
    ProcessorPriority,
    /// 0B0h: a write ends the highest vector in service.
    #[doc(alias = "EOI")]
    EndOfInterrupt,
    /// 0C0h: the result of a remote read, on old parts.
    #[doc(alias = "RRR")]
    RemoteRead,
    /// 0D0h: see [`super::Ldr`] and [`super::X2Ldr`].
    #[doc(alias = "LDR")]
    LogicalDestination,
    /// 0E0h: see [`super::Dfr`].
    #[doc(alias = "DFR")]
    DestinationFormat,
    /// 0F0h: see [`super::Svr`].
    #[doc(alias = "SVR")]
    SpuriousVector,
    /// 100h–170h: 32 of the vectors whose handlers have not written EOI.
    #[doc(alias = "ISR")]
    InService(u8),
    /// 180h–1F0h: of 32 vectors, those whose last interrupt was level-triggered.
    #[doc(alias = "TMR")]
    TriggerMode(u8),
    /// 200h–270h: 32 of the vectors that wait for their delivery.
    #[doc(alias = "IRR")]
    Request(u8),
    /// 280h: see [`super::Esr`].
    #[doc(alias = "ESR")]
    ErrorStatus,
    /// 2F0h and 320h–370h: see [`super::Lvt`].
    LocalVector(LocalVector),
    /// 300h, the low dword of [`super::Icr`]; all 64 bits as an MSR.
    #[doc(alias = "ICR")]
    Command,
    /// 310h, the high dword of [`super::Icr`].
    CommandHigh,
    /// 380h: what the timer starts from; a write starts it, 0 stops it.
    InitialCount,
    /// 390h: what is left for the timer to count.
    CurrentCount,
    /// 3E0h: see [`super::DivideConfiguration`].
    DivideConfiguration,
    /// An MSR only.
    SelfIpi,
    /// AMD's extended space, from here on.
    ExtendedFeature,
    /// 410h: see [`ExtendedControl`].
    ExtendedControl,
    /// 420h: a write ends the vector written, whatever else is in service.
    #[doc(alias = "SEOI")]
    SpecificEndOfInterrupt,
    /// 480h–4F0h: of 32 vectors, those that may be delivered at all.
    #[doc(alias = "IER")]
    InterruptEnable(u8),
    /// 500h–530h: local vectors of AMD's own, such as of instruction-based sampling.
    ExtendedLocalVector(u8),
}

impl Register {
    /// The register whose 16 bytes hold `offset`, or `None` where there is none. [`Self::SelfIpi`]
    /// has an offset of its own here though it is not on the page.
    pub const fn at(offset: u16) -> Option<Self> {
        let index = ((offset >> 4) & 7) as u8;
        Some(match offset & 0xFFF0 {
            0x020 => Self::Id,
            0x030 => Self::Version,
            0x080 => Self::TaskPriority,
            0x090 => Self::ArbitrationPriority,
            0x0A0 => Self::ProcessorPriority,
            0x0B0 => Self::EndOfInterrupt,
            0x0C0 => Self::RemoteRead,
            0x0D0 => Self::LogicalDestination,
            0x0E0 => Self::DestinationFormat,
            0x0F0 => Self::SpuriousVector,
            0x100..=0x170 => Self::InService(index),
            0x180..=0x1F0 => Self::TriggerMode(index),
            0x200..=0x270 => Self::Request(index),
            0x280 => Self::ErrorStatus,
            0x2F0 => Self::LocalVector(LocalVector::CorrectedMachineCheck),
            0x300 => Self::Command,
            0x310 => Self::CommandHigh,
            0x320 => Self::LocalVector(LocalVector::Timer),
            0x330 => Self::LocalVector(LocalVector::Thermal),
            0x340 => Self::LocalVector(LocalVector::Performance),
            0x350 => Self::LocalVector(LocalVector::Lint0),
            0x360 => Self::LocalVector(LocalVector::Lint1),
            0x370 => Self::LocalVector(LocalVector::Error),
            0x380 => Self::InitialCount,
            0x390 => Self::CurrentCount,
            0x3E0 => Self::DivideConfiguration,
            0x3F0 => Self::SelfIpi,
            0x400 => Self::ExtendedFeature,
            0x410 => Self::ExtendedControl,
            0x420 => Self::SpecificEndOfInterrupt,
            0x480..=0x4F0 => Self::InterruptEnable(index),
            0x500..=0x530 => Self::ExtendedLocalVector(index),
            _ => return None,
        })
    }

    /// The register behind an MSR of x2APIC mode. Four registers of the page have none.
    pub const fn of_msr(msr: u32) -> Option<Self> {
        if msr < MSR_FIRST || msr > MSR_LAST {
            return None;
        }
        match Self::at(((msr - MSR_FIRST) << 4) as u16) {
            Some(
                Self::ArbitrationPriority
                | Self::RemoteRead
                | Self::DestinationFormat
                | Self::CommandHigh,
            ) => None,
            register => register,
        }
    }

    /// Where the register is on the page.
    pub const fn offset(self) -> u16 {
        match self {
            Self::Id => 0x020,
            Self::Version => 0x030,
            Self::TaskPriority => 0x080,
            Self::ArbitrationPriority => 0x090,
            Self::ProcessorPriority => 0x0A0,
            Self::EndOfInterrupt => 0x0B0,
            Self::RemoteRead => 0x0C0,
            Self::LogicalDestination => 0x0D0,
            Self::DestinationFormat => 0x0E0,
            Self::SpuriousVector => 0x0F0,
            Self::InService(index) => 0x100 + ((index as u16) << 4),
            Self::TriggerMode(index) => 0x180 + ((index as u16) << 4),
            Self::Request(index) => 0x200 + ((index as u16) << 4),
            Self::ErrorStatus => 0x280,
            Self::LocalVector(entry) => entry.offset(),
            Self::Command => 0x300,
            Self::CommandHigh => 0x310,
            Self::InitialCount => 0x380,
            Self::CurrentCount => 0x390,
            Self::DivideConfiguration => 0x3E0,
            Self::SelfIpi => 0x3F0,
            Self::ExtendedFeature => 0x400,
            Self::ExtendedControl => 0x410,
            Self::SpecificEndOfInterrupt => 0x420,
            Self::InterruptEnable(index) => 0x480 + ((index as u16) << 4),
            Self::ExtendedLocalVector(index) => 0x500 + ((index as u16) << 4),
        }
    }

    /// The manual's short name; of a numbered one without the number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::Version => "VERSION",
            Self::TaskPriority => "TPR",
            Self::ArbitrationPriority => "APR",
            Self::ProcessorPriority => "PPR",
            Self::EndOfInterrupt => "EOI",
            Self::RemoteRead => "RRR",
            Self::LogicalDestination => "LDR",
            Self::DestinationFormat => "DFR",
            Self::SpuriousVector => "SVR",
            Self::InService(_) => "ISR",
            Self::TriggerMode(_) => "TMR",
            Self::Request(_) => "IRR",
            Self::ErrorStatus => "ESR",
            Self::LocalVector(entry) => entry.name(),
            Self::Command => "ICR low",
            Self::CommandHigh => "ICR high",
            Self::InitialCount => "initial count",
            Self::CurrentCount => "current count",
            Self::DivideConfiguration => "DCR",
            Self::SelfIpi => "SELF IPI",
            Self::ExtendedFeature => "extended feature",
            Self::ExtendedControl => "extended control",
            Self::SpecificEndOfInterrupt => "SEOI",
            Self::InterruptEnable(_) => "IER",
            Self::ExtendedLocalVector(_) => "extended LVT",
        }
    }

    /// The MSR of x2APIC mode, where the register has one.
    pub const fn msr(self) -> Option<u32> {
        let msr = MSR_FIRST + (self.offset() >> 4) as u32;
        if Self::of_msr(msr).is_some() { Some(msr) } else { None }
    }

    /// Writes to it raise #GP in x2APIC mode and are dropped in xAPIC mode.
    pub const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::Version
                | Self::ArbitrationPriority
                | Self::ProcessorPriority
                | Self::RemoteRead
                | Self::InService(_)
                | Self::TriggerMode(_)
                | Self::Request(_)
                | Self::CurrentCount
                | Self::ExtendedFeature
        )
    }
}

/// The version register, 30h.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ApicVersion {
    /// `[7:0]` 10h on AMD parts, 14h or 15h on Intel parts
    pub version: u8,
    __: u8,
    /// `[23:16]` entries of the local vector table, less one
    pub last_local_vector: u8,
    /// `[24]` [`super::Svr::suppresses_eoi_broadcast`] exists
    pub has_eoi_broadcast_suppression: bool,
    #[bits(6)]
    __: u8,
    /// `[31]` AMD's extended space exists (EAS)
    pub has_extended_space: bool,
}

/// AMD's extended APIC feature register, 400h.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ExtendedFeature {
    /// `[0]` (INC)
    pub has_interrupt_enable: bool,
    /// `[1]` (SNC)
    pub has_specific_eoi: bool,
    /// `[2]` (XAIDC)
    pub has_eight_bit_id: bool,
    #[bits(13)]
    __: u16,
    /// `[23:16]` (XLC)
    pub extended_local_vectors: u8,
    __: u8,
}

/// AMD's extended APIC control register, 410h.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ExtendedControl {
    /// `[0]` the interrupt enable registers count (IERN)
    pub enables_interrupt_enable: bool,
    /// `[1]` the specific EOI register works (SN)
    pub enables_specific_eoi: bool,
    /// `[2]` (XAIDN)
    pub enables_eight_bit_id: bool,
    #[bits(29)]
    __: u32,
}

impl ExtendedControl {
    /// The three enables; all else is reserved.
    pub const WRITABLE: u32 = 7;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_and_decode_agree_on_the_whole_page() {
        let mut registers = 0;
        for offset in (0..0x1000).step_by(16) {
            if let Some(register) = Register::at(offset) {
                assert_eq!(register.offset(), offset, "{register:?}");
                registers += 1;
            }
        }
        // Ten before ISR, 24 vector dwords, ESR, seven LVTs, two ICRs, three of the timer and
        // SELF_IPI, fifteen of the extended space.
        assert_eq!(registers, 10 + 24 + 1 + 7 + 2 + 4 + 15);
    }

    #[test]
    fn msr_is_800h_plus_offset_over_16_and_four_registers_have_none() {
        for (register, msr) in [
            (Register::Id, Some(0x802)),
            (Register::TaskPriority, Some(0x808)),
            (Register::EndOfInterrupt, Some(0x80B)),
            (Register::ArbitrationPriority, None),
            (Register::RemoteRead, None),
            (Register::DestinationFormat, None),
            (Register::Request(7), Some(0x827)),
            (Register::Command, Some(0x830)),
            (Register::CommandHigh, None),
            (Register::LocalVector(LocalVector::Error), Some(0x837)),
            (Register::DivideConfiguration, Some(0x83E)),
            (Register::SelfIpi, Some(0x83F)),
            (Register::ExtendedLocalVector(3), Some(0x853)),
        ] {
            assert_eq!(register.msr(), msr, "{register:?}");
        }
        assert_eq!(Register::of_msr(0x7FF), None);
        assert_eq!(Register::of_msr(0x900), None);
    }

    #[test]
    fn version_values_of_known_parts() {
        let amd = ApicVersion::new()
            .with_version(0x10)
            .with_last_local_vector(5)
            .with_has_extended_space(true);
        assert_eq!(amd.into_bits(), 0x8005_0010);
        let intel = ApicVersion::new()
            .with_version(0x15)
            .with_last_local_vector(6)
            .with_has_eoi_broadcast_suppression(true);
        assert_eq!(intel.into_bits(), 0x0106_0015);
    }

    #[test]
    fn extended_feature_reset_value() {
        let feature = ExtendedFeature::new()
            .with_has_interrupt_enable(true)
            .with_has_specific_eoi(true)
            .with_has_eight_bit_id(true)
            .with_extended_local_vectors(4);
        assert_eq!(feature.into_bits(), 0x0004_0007);
    }
}
