//! Logical destinations: LDR and DFR, and how the three models read them.
//! [APM2 "Logical Destination Mode"] [SDM3 "Logical Destination Mode"]

use bitfield_struct::bitfield;

/// The logical destination register of xAPIC mode, D0h.
#[doc(alias = "LDR")]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Ldr {
    #[bits(24)]
    __: u32,
    /// `[31:24]` flat: a mask of its own; cluster: cluster in 7:4, member mask in 3:0
    pub logical_id: u8,
}

impl Ldr {
    /// All else reads as zero.
    pub const WRITABLE: u32 = 0xFF00_0000;
}

/// The destination format register, E0h. It does not exist in x2APIC mode.
#[doc(alias = "DFR")]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Dfr {
    /// `[27:0]` all ones
    #[bits(28)]
    __: u32,
    /// `[31:28]`
    #[bits(4)]
    pub format: DestinationFormat,
}

impl Dfr {
    /// After reset: the flat model.
    pub const RESET: u32 = 0xFFFF_FFFF;
    /// Bits that read as one whatever is written.
    pub const FIXED_ONES: u32 = 0x0FFF_FFFF;
}

/// How a logical destination of eight bits is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationFormat {
    /// 0h: sixteen clusters of four; four bits name the cluster, four are a mask of its members.
    Cluster,
    /// Fh: each of eight bits is an APIC.
    Flat,
    /// A value the manuals leave undefined; nothing matches.
    Undefined(u8),
}

impl DestinationFormat {
    /// Decodes four bits; those above are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0xF {
            0 => Self::Cluster,
            0xF => Self::Flat,
            other => Self::Undefined(other),
        }
    }

    /// The four bits of the register.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::Cluster => 0,
            Self::Flat => 0xF,
            Self::Undefined(bits) => bits,
        }
    }

    /// Whether an APIC with `logical_id` is among those that `destination` names. The all-ones
    /// broadcast is not decided here.
    pub const fn matches(self, logical_id: u8, destination: u8) -> bool {
        match self {
            Self::Flat => logical_id & destination != 0,
            Self::Cluster => {
                logical_id >> 4 == destination >> 4 && logical_id & destination & 0xF != 0
            }
            Self::Undefined(_) => false,
        }
    }
}

/// The logical x2APIC identifier, MSR 80Dh: derived from the APIC ID, read-only.
/// [SDM3 "Deriving Logical x2APIC ID from the Local x2APIC ID"]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct X2Ldr {
    /// `[15:0]` the member, as a mask with one bit set
    pub members: u16,
    /// `[31:16]`
    pub cluster: u16,
}

impl X2Ldr {
    /// The logical identity of an APIC: ID bits 19:4 are the cluster, 3:0 the member.
    pub const fn of(apic_id: u32) -> Self {
        Self::new().with_cluster((apic_id >> 4) as u16).with_members(1 << (apic_id & 0xF))
    }

    /// Whether this APIC is among those that the logical `destination` names.
    pub const fn matches(self, destination: u32) -> bool {
        let destination = Self::from_bits(destination);
        self.cluster() == destination.cluster() && self.members() & destination.members() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x2apic_logical_id_is_cluster_and_one_bit() {
        for (id, ldr) in [(0, 1), (3, 8), (15, 0x8000), (16, 0x0001_0001), (0x12345, 0x1234_0020)] {
            assert_eq!(X2Ldr::of(id).into_bits(), ldr, "id {id:#x}");
        }
    }

    #[test]
    fn every_format_value_is_decoded_and_encoded() {
        for bits in 0..16 {
            assert_eq!(DestinationFormat::from_bits(bits).into_bits(), bits);
        }
        assert_eq!(Dfr::from_bits(Dfr::RESET).format(), DestinationFormat::Flat);
    }
}
