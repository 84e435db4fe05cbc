//! The local vector table and the timer's divide configuration.
//! [APM2 "Local Interrupts"] [SDM3 "Local Vector Table"]

use super::message::DeliveryMode;
use bitfield_struct::bitfield;

/// One entry of the local vector table. Not every entry has every field: see
/// [`LocalVector::writable`].
#[doc(alias = "LVT")]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Lvt {
    /// `[7:0]`
    pub vector: u8,
    /// `[10:8]` (message type)
    #[bits(3)]
    pub delivery_mode: DeliveryMode,
    #[bits(1)]
    __: u8,
    /// `[12]` delivery status; read-only
    pub is_send_pending: bool,
    /// `[13]` LINT pins: active low
    pub is_active_low: bool,
    /// `[14]` LINT pins: accepted as level-triggered and awaiting EOI; read-only
    pub remote_irr: bool,
    /// `[15]` LINT pins: trigger mode, 0 edge, 1 level
    pub is_level: bool,
    /// `[16]`
    pub is_masked: bool,
    /// `[18:17]` timer
    #[bits(2)]
    pub timer_mode: TimerMode,
    #[bits(13)]
    __: u16,
}

impl Lvt {
    /// Masked, all else zero.
    pub const RESET: u32 = 1 << 16;
    /// Bit 16; a disabled APIC forces it to one in every entry.
    pub const MASK: u32 = 1 << 16;
    /// The upper timer-mode bit, which selects the TSC deadline.
    pub const TSC_DEADLINE: u32 = 1 << 18;
    /// Delivery status and remote IRR: writes leave them alone.
    pub const READ_ONLY: u32 = 1 << 12 | 1 << 14;
}

/// What the timer counts. [SDM3 "APIC Timer"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// 00b: once from the initial count to zero.
    OneShot,
    /// 01b: from the initial count to zero again and again.
    Periodic,
    /// 10b: an interrupt when the TSC reaches the value of MSR 6E0h.
    TscDeadline,
    /// 11b.
    Reserved,
}

impl TimerMode {
    /// Decodes bits 18:17 of an entry.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::OneShot,
            1 => Self::Periodic,
            2 => Self::TscDeadline,
            _ => Self::Reserved,
        }
    }

    /// Bits 18:17 of an entry.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The entries of the local vector table, with their register offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum LocalVector {
    /// Corrected machine checks; Intel, where the version register counts seven entries.
    #[doc(alias = "CMCI")]
    CorrectedMachineCheck = 0x2F0,
    /// The APIC's own timer.
    Timer = 0x320,
    /// The thermal sensor.
    Thermal = 0x330,
    /// Overflows of performance counters.
    Performance = 0x340,
    /// The pin LINT0, where firmware leaves the 8259 (ExtINT).
    Lint0 = 0x350,
    /// The pin LINT1, by convention NMI.
    Lint1 = 0x360,
    /// Errors that [`super::Esr`] tells apart.
    Error = 0x370,
}

impl LocalVector {
    /// In the order of their offsets.
    pub const ALL: [Self; 7] = [
        Self::CorrectedMachineCheck,
        Self::Timer,
        Self::Thermal,
        Self::Performance,
        Self::Lint0,
        Self::Lint1,
        Self::Error,
    ];

    /// Offset of the register on the page.
    pub const fn offset(self) -> u16 {
        self as u16
    }

    /// As the manual's table of the APIC's registers has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CorrectedMachineCheck => "LVT CMCI",
            Self::Timer => "LVT timer",
            Self::Thermal => "LVT thermal",
            Self::Performance => "LVT performance",
            Self::Lint0 => "LVT LINT0",
            Self::Lint1 => "LVT LINT1",
            Self::Error => "LVT error",
        }
    }

    /// Bits that software can write; [`Lvt::READ_ONLY`] and reserved bits are outside.
    ///
    /// DEVIATION(APM2 "Error Interrupts"): the error entry has no message type; errors are Fixed.
    pub const fn writable(self) -> u32 {
        match self {
            Self::Timer => 0x0007_00FF,
            Self::Error => 0x0001_00FF,
            Self::Lint0 | Self::Lint1 => 0x0001_A7FF,
            Self::CorrectedMachineCheck | Self::Thermal | Self::Performance => 0x0001_07FF,
        }
    }
}

/// By how much the timer's clock is divided, 3E0h; bits 3, 1 and 0.
/// [SDM3 "APIC Timer"] [APM2 "Divide Configuration Register"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivideConfiguration(pub u32);

impl DivideConfiguration {
    /// Bits 3, 1 and 0.
    pub const WRITABLE: u32 = 0xB;

    /// 1, 2, 4, 8, 16, 32, 64 or 128.
    pub const fn divisor(self) -> u32 {
        let code = (self.0 & 3) | (self.0 & 8) >> 1;
        if code == 7 { 1 } else { 2 << code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divide_codes() {
        for (code, divisor) in
            [(0, 2), (1, 4), (2, 8), (3, 16), (8, 32), (9, 64), (0xA, 128), (0xB, 1), (0xF, 1)]
        {
            assert_eq!(DivideConfiguration(code).divisor(), divisor, "code {code:#x}");
        }
    }

    #[test]
    fn fields_sit_where_the_manual_puts_them() {
        let rows = [
            (Lvt::new().with_delivery_mode(DeliveryMode::ExtInt), 7 << 8),
            (Lvt::new().with_is_send_pending(true), 1 << 12),
            (Lvt::new().with_is_active_low(true), 1 << 13),
            (Lvt::new().with_remote_irr(true), 1 << 14),
            (Lvt::new().with_is_level(true), 1 << 15),
            (Lvt::new().with_is_masked(true), Lvt::MASK),
            (Lvt::new().with_timer_mode(TimerMode::Periodic), 1 << 17),
            (Lvt::new().with_timer_mode(TimerMode::TscDeadline), Lvt::TSC_DEADLINE),
        ];
        for (entry, bits) in rows {
            assert_eq!(entry.into_bits(), bits, "{entry:?}");
        }
    }

    #[test]
    fn no_entry_lets_software_write_status_bits() {
        for entry in LocalVector::ALL {
            assert_eq!(entry.writable() & Lvt::READ_ONLY, 0, "{entry:?}");
            assert_ne!(entry.writable() & Lvt::MASK, 0, "{entry:?}");
        }
    }
}
