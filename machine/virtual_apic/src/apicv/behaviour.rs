//! Where the manual is silent or a chip departs from it: one named switch a point, with the choice
//! that unmodified kernels need as its default.

use serde::{Deserialize, Serialize};

/// How one processor model resolves what the manual leaves open about APIC virtualization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApicvBehaviour {
    /// Which halves of the ICR IPI virtualization makes writable by memory where neither
    /// virtual-interrupt delivery nor APIC-register virtualization does. KVM never sets it alone.
    pub ipi_virtualization_alone: CommandHalves,
    /// An IPI by memory is virtualized whatever the reserved bits of the ICR hold. The manual lists
    /// them for an IPI to the processor itself and not, where it could be read, for other IPIs.
    pub ignores_reserved_command_bits: bool,
    /// The processor sets the delivery status (bit 12) of the ICR in the virtual-APIC page before
    /// the APIC-write exit for it. Linux found it set on some parts and clears it since 6.6.
    pub leaves_busy_set: bool,
    /// An IPI to itself by MSR is stored at 3F0h before it is virtualized. Guests cannot tell.
    pub stores_self_ipi: bool,
    /// RDMSR of an index of 800h–8FFh that is not a register, with APIC-register virtualization.
    pub hole_read: HoleRead,
    /// How posted-interrupt processing finds the highest requested vector. The two differ where a
    /// hypervisor left RVI below a vector in VIRR.
    pub posted_request: PostedRequest,
    /// Guest-physical accesses to the APIC-access page, such as to paging structures in it, cause
    /// APIC-access VM exits instead of reaching memory.
    pub physical_access_exits: bool,
}

impl ApicvBehaviour {
    /// What unmodified kernels need.
    pub const DEFAULT: Self = Self {
        ipi_virtualization_alone: CommandHalves::Both,
        ignores_reserved_command_bits: false,
        leaves_busy_set: false,
        stores_self_ipi: false,
        hole_read: HoleRead::Page,
        posted_request: PostedRequest::Maximum,
        physical_access_exits: false,
    };
}

impl Default for ApicvBehaviour {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Dwords of the ICR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CommandHalves {
    /// 300h and 310h.
    Both,
    /// 300h alone.
    Low,
    /// None: writes of both exit.
    Neither,
}

/// What RDMSR of a hole gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HoleRead {
    /// The virtual-APIC page's bytes.
    Page,
    /// \#GP(0).
    GeneralProtection,
}

/// The new RVI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PostedRequest {
    /// The higher of RVI and the highest vector in PIR.
    Maximum,
    /// The highest vector in VIRR.
    HighestInPage,
}
