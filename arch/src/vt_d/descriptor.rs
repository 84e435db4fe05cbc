//! Descriptors of the invalidation queue, 16 bytes each. [VTD "Queued Invalidation Interface"]

use crate::address::{Device, SystemPhysical};
use crate::identity::RequesterId;

/// Bytes of a descriptor.
pub const SIZE: u64 = 16;

/// How much an invalidation covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// 0: has no meaning.
    Reserved,
    /// 1: everything.
    Global,
    /// 2: a domain.
    Domain,
    /// 3: a function, or pages of a domain.
    Selective,
}

impl Granularity {
    /// Decodes the two-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Reserved,
            1 => Self::Global,
            2 => Self::Domain,
            _ => Self::Selective,
        }
    }
}

/// What software asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// 1: context entries have changed. [VTD "Context-cache Invalidate Descriptor"]
    Context {
        /// All, or those of a domain or of a function.
        granularity: Granularity,
        /// Of the domain.
        domain: u16,
        /// Of the function.
        source: RequesterId,
    },
    /// 2: translations have changed. [VTD "IOTLB Invalidate Descriptor"]
    Translations {
        /// All, or those of a domain or of some of its pages.
        granularity: Granularity,
        /// Of the domain.
        domain: u16,
        /// Of the first page.
        address: Device,
        /// Log2 of the pages.
        mask: u8,
    },
    /// 4: remapping entries have changed. [VTD "Interrupt Entry Cache Invalidate Descriptor"]
    Interrupts {
        /// The first index, or nothing for all.
        index: Option<u16>,
        /// Log2 of the entries.
        mask: u8,
    },
    /// 5: everything before it is complete. [VTD "Invalidation Wait Descriptor"]
    Wait {
        /// Where `data` is stored, a multiple of 4, if anywhere.
        store: Option<SystemPhysical>,
        /// Four bytes.
        data: u32,
        /// An interrupt is asked for.
        interrupts: bool,
    },
    /// No descriptor has this type, or none of what this unit can do.
    Unknown(u8),
}

impl Descriptor {
    /// Decodes two quadwords, the lower first.
    pub const fn from_quadwords(raw: [u64; 2]) -> Self {
        let [low, high] = raw;
        let granularity = Granularity::from_bits(low >> 4);
        match (low & 0xF) as u8 {
            1 => Self::Context {
                granularity,
                domain: (low >> 16) as u16,
                source: RequesterId((low >> 32) as u16),
            },
            2 => Self::Translations {
                granularity,
                domain: (low >> 16) as u16,
                address: Device(high & !0xFFF),
                mask: (high & 0x3F) as u8,
            },
            4 => Self::Interrupts {
                index: if low & 1 << 4 != 0 { Some((low >> 32) as u16) } else { None },
                mask: (low >> 27 & 0x1F) as u8,
            },
            5 => Self::Wait {
                store: if low & 1 << 5 != 0 { Some(SystemPhysical(high & !3)) } else { None },
                data: (low >> 32) as u32,
                interrupts: low & 1 << 4 != 0,
            },
            other => Self::Unknown(other),
        }
    }
}
