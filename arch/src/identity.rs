//! Names of agents: processors, APICs, vectors, devices, address-space tags.

use serde::{Deserialize, Serialize};

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
            Deserialize,
        )]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

identity! {
    /// The position of a logical processor on the board, 0 for the bootstrap processor.
    CpuIndex(u16)
}
identity! {
    /// A local APIC's identifier: 8 bits in xAPIC mode, 32 in x2APIC mode.
    ApicId(u32)
}
identity! {
    /// An interrupt vector. [APM2 "Vectors"]
    Vector(u8)
}
identity! {
    /// A PCI bus (15:8), device (7:3) and function (2:0) as seen by an IOMMU.
    RequesterId(u16)
}
identity! {
    /// An SVM address space identifier; 0 is the host's. [APM2 "TLB Control"]
    Asid(u32)
}
identity! {
    /// A VMX virtual-processor identifier; 0 is the host's. [SDM3 "VPIDs"]
    Vpid(u16)
}
