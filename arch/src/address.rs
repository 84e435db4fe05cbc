//! The four address spaces of a machine with nested guests and IOMMUs, as distinct types.

use serde::{Deserialize, Serialize};

/// Bytes in the smallest page.
pub const PAGE_SIZE: u64 = 4096;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address of the 4 KiB page that holds this address.
            #[inline]
            pub const fn page(self) -> Self {
                Self(self.0 & !(PAGE_SIZE - 1))
            }

            /// The offset inside the 4 KiB page.
            #[inline]
            pub const fn page_offset(self) -> u64 {
                self.0 & (PAGE_SIZE - 1)
            }

            /// This address plus `bytes`, wrapping at 2^64.
            #[inline]
            pub const fn offset(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// An address after segmentation, before paging.
    Linear
}
address! {
    /// An address that a guest of a hypervisor takes for physical, before nested paging.
    GuestPhysical
}
address! {
    /// An address on the machine's bus.
    SystemPhysical
}
address! {
    /// An address that a device puts on the bus (IOVA), before IOMMU translation.
    Device
}
