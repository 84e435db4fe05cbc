//! What is counted: an exit by its reason and what it was about, or one of the accesses that
//! `perf kvm stat` tables apart.

use crate::table::{HashKey, mix};
use arch::apic::{DeliveryMode, DestinationMode};
use arch::identity::Vector;
use serde::{Deserialize, Serialize};

/// The four tables of `perf kvm stat report --event=…`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Exits by reason.
    #[default]
    Vmexit,
    /// Accesses to emulated memory, by address and direction.
    Mmio,
    /// Accesses to I/O ports, by port and direction.
    Ioport,
    /// Accesses to MSRs, by index and direction.
    Msr,
}

impl View {
    /// In the order of `--view`'s values.
    pub const ALL: [Self; 4] = [Self::Vmexit, Self::Mmio, Self::Ioport, Self::Msr];

    /// The heading of the first column, the peer's words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vmexit => "VM-EXIT",
            Self::Mmio => "MMIO Access",
            Self::Ioport => "IO Port Access",
            Self::Msr => "MSR Access",
        }
    }

    /// As `--view` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmexit => "vmexit",
            Self::Mmio => "mmio",
            Self::Ioport => "ioport",
            Self::Msr => "msr",
        }
    }
}

/// What an interrupt command asks for, apart from its vector and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InterruptCommand {
    /// Bits 10:8.
    pub delivery_mode: DeliveryMode,
    /// Bit 11.
    pub destination_mode: DestinationMode,
    /// Bits 19:18.
    pub shorthand: Shorthand,
    /// Bit 15, the trigger mode.
    pub is_level: bool,
    /// Written to MSR 830h rather than to offset 300h of the APIC page.
    pub is_x2apic: bool,
}

/// Who is meant without naming a destination. [SDM3 "Interrupt Command Register (ICR)"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shorthand {
    /// The destination is named.
    None,
    /// Self.
    OnlySelf,
    /// All, including self.
    All,
    /// All, excluding self.
    AllButSelf,
}

impl InterruptCommand {
    /// Decodes the low half of an ICR.
    pub const fn from_icr(low: u32, is_x2apic: bool) -> Self {
        Self {
            delivery_mode: DeliveryMode::from_bits((low >> 8) as u8),
            destination_mode: if low >> 11 & 1 == 0 {
                DestinationMode::Physical
            } else {
                DestinationMode::Logical
            },
            shorthand: match low >> 18 & 3 {
                0 => Shorthand::None,
                1 => Shorthand::OnlySelf,
                2 => Shorthand::All,
                _ => Shorthand::AllButSelf,
            },
            is_level: low >> 15 & 1 != 0,
            is_x2apic,
        }
    }

    pub(crate) const ICR_BITS: u32 = 7 << 8 | 1 << 11 | 1 << 15 | 3 << 18;
}

/// What an exit was about, as far as the recording tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Detail {
    /// Nothing recorded tells.
    Unknown,
    /// An MSR that is not an APIC register.
    Msr {
        /// As in ECX.
        index: u32,
        /// WRMSR rather than RDMSR.
        is_write: bool,
    },
    /// A register of the local APIC by its offset; of an x2APIC, by the offset its MSR stands for.
    Register {
        /// Within the 4 KiB of the APIC page, a multiple of 10h.
        offset: u16,
        /// A write rather than a read.
        is_write: bool,
    },
    /// A write of the interrupt command register.
    Icr(InterruptCommand),
    /// IN, OUT, INS or OUTS.
    Port {
        /// As the instruction named it.
        port: u16,
        /// Out of the guest rather than into it.
        is_write: bool,
    },
    /// Memory-mapped, but not the local APIC.
    OtherMmio,
    /// Why AVIC could not complete an IPI. [APM2 "AVIC IPI Delivery Not Completed"]
    IncompleteIpi {
        /// Bits 63:32 of EXITINFO2.
        cause: u32,
    },
    /// What the guest asked for, by the number of KVM or of Hyper-V.
    Hypercall {
        /// As the interface numbers it.
        number: u32,
        /// Hyper-V's numbers, not KVM's.
        is_hyperv: bool,
    },
    /// The host's vector of an external interrupt, or the vector of a virtual EOI.
    Vector {
        /// 0 to 255.
        vector: Vector,
    },
}

/// A row of a table before it is named: packed, since it is compared for every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// View in 35:32; below, the exit reason or whether the access is a write.
    subject: u64,
    /// Kind in 63:60, value below; of an access, the plain address, port or index.
    detail: u64,
}

impl HashKey for Key {
    #[inline]
    fn hash(&self) -> u64 {
        // One multiplication: the few keys of a thread differ in their low halves.
        mix(self.subject ^ self.detail.rotate_left(20))
    }
}

const WRITE: u64 = 1 << 59;

impl Key {
    /// A row of [`View::Vmexit`].
    #[inline]
    pub const fn exit(reason: u32, detail: PackedDetail) -> Self {
        Self { subject: reason as u64, detail: detail.0 }
    }

    /// A row of another view: `address` is a guest-physical address, port or MSR index.
    #[inline]
    pub const fn access(view: View, address: u64, is_write: bool) -> Self {
        Self { subject: (view as u64) << 32 | is_write as u64, detail: address }
    }

    /// Which table the row belongs to.
    pub const fn view(self) -> View {
        match self.subject >> 32 {
            0 => View::Vmexit,
            1 => View::Mmio,
            2 => View::Ioport,
            _ => View::Msr,
        }
    }

    /// The exit reason; meaningful in the `vmexit` view only.
    pub const fn reason(self) -> u32 {
        self.subject as u32
    }

    /// What the exit was about, unpacked.
    pub const fn detail(self) -> Detail {
        self.packed_detail().unpack()
    }

    /// What the exit was about, as it is kept.
    pub const fn packed_detail(self) -> PackedDetail {
        PackedDetail(self.detail)
    }

    /// The address, port or MSR of an access.
    pub const fn address(self) -> u64 {
        self.detail
    }

    /// Of an access: its direction.
    pub const fn is_write(self) -> bool {
        self.subject & 1 != 0
    }

    /// The same exit reason, whatever it was about; an access is left as it is.
    pub const fn without_detail(self) -> Self {
        match self.view() {
            View::Vmexit => Self { detail: 0, ..self },
            _ => self,
        }
    }

    /// The number `perf kvm stat` hashes a row by, which decides among rows of equal count.
    pub const fn peer_value(self) -> u64 {
        match self.view() {
            View::Vmexit => self.reason() as u64,
            _ => self.detail,
        }
    }
}

/// A [`Detail`] as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedDetail(u64);

impl PackedDetail {
    /// Nothing recorded tells.
    pub const UNKNOWN: Self = Self(0);

    const fn tagged(kind: u64, value: u64, is_write: bool) -> Self {
        Self(kind << 60 | if is_write { WRITE } else { 0 } | value)
    }

    /// See [`Detail::Msr`].
    pub const fn msr(index: u32, is_write: bool) -> Self {
        Self::tagged(1, index as u64, is_write)
    }

    /// See [`Detail::Register`].
    pub const fn register(offset: u16, is_write: bool) -> Self {
        Self::tagged(2, offset as u64, is_write)
    }

    /// See [`Detail::Icr`]; `low` is what was written to the low half.
    pub const fn icr(low: u32, is_x2apic: bool) -> Self {
        Self::tagged(3, (low & InterruptCommand::ICR_BITS) as u64, is_x2apic)
    }

    /// See [`Detail::Port`].
    pub const fn port(port: u16, is_write: bool) -> Self {
        Self::tagged(4, port as u64, is_write)
    }

    /// See [`Detail::OtherMmio`].
    pub const OTHER_MMIO: Self = Self(5 << 60);

    /// See [`Detail::IncompleteIpi`].
    pub const fn incomplete_ipi(cause: u32) -> Self {
        Self::tagged(6, cause as u64, false)
    }

    /// See [`Detail::Vector`].
    pub const fn vector(vector: u8) -> Self {
        Self::tagged(7, vector as u64, false)
    }

    /// See [`Detail::Hypercall`]; the low 32 bits of the number are kept.
    pub const fn hypercall(number: u64, is_hyperv: bool) -> Self {
        Self::tagged(8, number & 0xffff_ffff, is_hyperv)
    }

    /// Nothing recorded tells.
    pub const fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// What it stands for.
    pub const fn unpack(self) -> Detail {
        let is_write = self.0 & WRITE != 0;
        let value = self.0 as u32;
        match self.0 >> 60 {
            1 => Detail::Msr { index: value, is_write },
            2 => Detail::Register { offset: value as u16, is_write },
            3 => Detail::Icr(InterruptCommand::from_icr(value, is_write)),
            4 => Detail::Port { port: value as u16, is_write },
            5 => Detail::OtherMmio,
            6 => Detail::IncompleteIpi { cause: value },
            8 => Detail::Hypercall { number: value, is_hyperv: is_write },
            7 => Detail::Vector { vector: Vector(value as u8) },
            _ => Detail::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_detail_is_what_went_in() {
        let rows = [
            (PackedDetail::UNKNOWN, Detail::Unknown),
            (
                PackedDetail::msr(0xc000_0080, true),
                Detail::Msr { index: 0xc000_0080, is_write: true },
            ),
            (PackedDetail::register(0xb0, true), Detail::Register { offset: 0xb0, is_write: true }),
            (PackedDetail::port(0xffff, false), Detail::Port { port: 0xffff, is_write: false }),
            (PackedDetail::OTHER_MMIO, Detail::OtherMmio),
            (PackedDetail::incomplete_ipi(1), Detail::IncompleteIpi { cause: 1 }),
            (
                PackedDetail::hypercall(0x15, true),
                Detail::Hypercall { number: 0x15, is_hyperv: true },
            ),
            (PackedDetail::vector(0xec), Detail::Vector { vector: Vector(0xec) }),
            (
                PackedDetail::icr(0xc08fb, true),
                Detail::Icr(InterruptCommand {
                    delivery_mode: DeliveryMode::Fixed,
                    destination_mode: DestinationMode::Logical,
                    shorthand: Shorthand::AllButSelf,
                    is_level: false,
                    is_x2apic: true,
                }),
            ),
        ];
        for (packed, detail) in rows {
            assert_eq!(packed.unpack(), detail);
            assert_eq!(Key::exit(0x7c, packed).detail(), detail);
            assert_eq!(Key::exit(0x7c, packed).view(), View::Vmexit);
        }
    }

    #[test]
    fn an_access_keeps_its_whole_address() {
        let key = Key::access(View::Mmio, u64::MAX, true);
        assert_eq!((key.view(), key.address(), key.is_write()), (View::Mmio, u64::MAX, true));
    }
}
