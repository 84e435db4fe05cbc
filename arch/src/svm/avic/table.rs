//! Entries of the physical and logical APIC ID tables, and the pointer to the former.

use crate::address::SystemPhysical;
use crate::identity::ApicId;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// An entry of the physical APIC ID table, whose index is the guest's physical APIC ID.
/// [APM2 "Physical APIC ID Table"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalEntry {
    /// \[11:0\] of the core the vCPU runs on; meaningful while it runs.
    #[bits(12)]
    pub host_apic_id: u16,
    /// \[51:12\]
    #[bits(40)]
    pub backing_page_number: u64,
    #[bits(10)]
    __: u16,
    /// \[62\] IR
    #[doc(alias = "IR")]
    pub is_running: bool,
    /// \[63\] V
    pub is_valid: bool,
}

impl PhysicalEntry {
    /// Address of the vCPU's page of APIC registers.
    pub const fn backing_page(self) -> SystemPhysical {
        SystemPhysical(self.backing_page_number() << 12)
    }

    /// Bits 51:12 of `page`; the others are dropped.
    pub const fn with_backing_page(self, page: SystemPhysical) -> Self {
        self.with_backing_page_number(page.0 >> 12 & 0xFF_FFFF_FFFF)
    }

    /// Whom to send a doorbell, or an IOMMU an interrupt.
    pub const fn host(self) -> ApicId {
        ApicId(self.host_apic_id() as u32)
    }
}

/// An entry of the logical APIC ID table. [APM2 "Logical APIC ID Table"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalEntry {
    /// \[7:0\]
    pub guest_apic_id: u8,
    #[bits(23)]
    __: u32,
    /// \[31\] V
    pub is_valid: bool,
}

impl LogicalEntry {
    /// The index of the entry of `member` (0–7) in the flat model.
    pub const fn flat_index(member: u8) -> u16 {
        member as u16
    }

    /// The index of the entry of `member` (0–3) of `cluster` (0–14) in the cluster model.
    pub const fn cluster_index(cluster: u8, member: u8) -> u16 {
        cluster as u16 * 4 + member as u16
    }
}

/// VMCB 0F8h: where the physical table lies and how far it reaches.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "AVIC_PHYSICAL_MAX_INDEX")]
pub struct PhysicalTablePointer {
    /// \[11:0\] the last index that is a legal destination.
    #[bits(12)]
    pub max_index: u16,
    /// \[51:12\]
    #[bits(40)]
    pub page_number: u64,
    #[bits(12)]
    __: u16,
}

impl PhysicalTablePointer {
    /// Address of the physical APIC ID table.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.page_number() << 12)
    }

    /// Bits 51:12 of `table`; the others are dropped.
    pub const fn with_table(self, table: SystemPhysical) -> Self {
        self.with_page_number(table.0 >> 12 & 0xFF_FFFF_FFFF)
    }
}

const _: () = {
    let running = PhysicalEntry::new().with_is_valid(true).with_is_running(true);
    assert!(running.with_host_apic_id(0xABC).into_bits() == 0xC000_0000_0000_0ABC);
    let page = PhysicalEntry::new().with_backing_page(SystemPhysical(0x000F_FFFF_FFFF_F000));
    assert!(page.into_bits() == 0x000F_FFFF_FFFF_F000);
    assert!(
        LogicalEntry::new().with_is_valid(true).with_guest_apic_id(7).into_bits() == 0x8000_0007
    );
    assert!(LogicalEntry::cluster_index(14, 3) as u64 * super::LOGICAL_ENTRY_SIZE == 0xEC);
};
