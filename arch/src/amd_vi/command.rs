//! Commands, 16 bytes each. [IOMMU "Commands"]

use crate::address::{Device, SystemPhysical};
use crate::identity::RequesterId;

/// Bytes of a command.
pub const SIZE: u64 = 16;

/// What software asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// 1: everything before it is complete. [IOMMU "COMPLETION_WAIT"]
    CompletionWait {
        /// Where `data` is stored, a multiple of 8, if anywhere.
        store: Option<SystemPhysical>,
        /// Eight bytes.
        data: u64,
        /// An interrupt is asked for.
        interrupts: bool,
    },
    /// 2: an entry of the device table has changed. [IOMMU "INVALIDATE_DEVTAB_ENTRY"]
    InvalidateDevice(RequesterId),
    /// 3: translations of a domain have changed. [IOMMU "INVALIDATE_IOMMU_PAGES"]
    InvalidatePages {
        /// Whose.
        domain: u16,
        /// The first byte of what has changed.
        address: Device,
        /// Log2 of the bytes that have changed, 12 to 64.
        bits: u32,
    },
    /// 4: a device's own translations have changed. [IOMMU "INVALIDATE_IOTLB_PAGES"]
    InvalidateRemote(RequesterId),
    /// 5: entries of a function's interrupt remapping table have changed.
    /// [IOMMU "INVALIDATE_INTERRUPT_TABLE"]
    InvalidateInterrupts(RequesterId),
    /// 6: a hint. [IOMMU "PREFETCH_IOMMU_PAGES"]
    Prefetch,
    /// 7: an answer to a page request. [IOMMU "COMPLETE_PPR_REQUEST"]
    CompletePageRequest,
    /// 8: all of it has changed. [IOMMU "INVALIDATE_IOMMU_ALL"]
    InvalidateAll,
    /// No command has this number.
    Unknown(u8),
}

impl Command {
    /// Decodes two quadwords, the lower first.
    pub const fn from_quadwords(raw: [u64; 2]) -> Self {
        let [low, high] = raw;
        let device = RequesterId(low as u16);
        match (low >> 60) as u8 {
            1 => Self::CompletionWait {
                store: if low & 1 != 0 {
                    Some(SystemPhysical(low & 0x000F_FFFF_FFFF_FFF8))
                } else {
                    None
                },
                data: high,
                interrupts: low & 2 != 0,
            },
            2 => Self::InvalidateDevice(device),
            3 => {
                let bits = if high & 1 != 0 { 12 + (high >> 12).trailing_ones() + 1 } else { 12 };
                let bits = if bits > 64 { 64 } else { bits };
                let address = if bits == 64 { 0 } else { high >> bits << bits };
                Self::InvalidatePages { domain: (low >> 32) as u16, address: Device(address), bits }
            }
            4 => Self::InvalidateRemote(device),
            5 => Self::InvalidateInterrupts(device),
            6 => Self::Prefetch,
            7 => Self::CompletePageRequest,
            8 => Self::InvalidateAll,
            other => Self::Unknown(other),
        }
    }

    /// Two quadwords, the lower first. Commands that are not carried out have their number alone.
    pub const fn into_quadwords(self) -> [u64; 2] {
        match self {
            Self::CompletionWait { store, data, interrupts } => {
                let at = match store {
                    Some(at) => at.0 & 0x000F_FFFF_FFFF_FFF8 | 1,
                    None => 0,
                };
                [1 << 60 | at | (interrupts as u64) << 1, data]
            }
            Self::InvalidateDevice(device) => [2 << 60 | device.0 as u64, 0],
            Self::InvalidatePages { domain, address, bits } => {
                let low = 3 << 60 | (domain as u64) << 32;
                match bits {
                    0..=12 => [low, address.0 & !0xFFF],
                    64.. => [low, 0x7FFF_FFFF_FFFF_F001],
                    _ => {
                        let ones = (1u64 << (bits - 1)) - 1;
                        [low, (address.0 >> bits << bits | ones) & !0xFFF | 1]
                    }
                }
            }
            Self::InvalidateRemote(device) => [4 << 60 | device.0 as u64, 0],
            Self::InvalidateInterrupts(device) => [5 << 60 | device.0 as u64, 0],
            Self::Prefetch => [6 << 60, 0],
            Self::CompletePageRequest => [7 << 60, 0],
            Self::InvalidateAll => [8 << 60, 0],
            Self::Unknown(number) => [(number as u64) << 60, 0],
        }
    }
}
