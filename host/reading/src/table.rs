//! ACPI tables that describe IOMMUs and interrupt controllers.

use crate::iommu::Efr;
use serde::Serialize;

/// I/O virtualization reporting structure. [IOMMU "I/O Virtualization ACPI table"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ivrs {
    /// Of the table's header.
    pub revision: u8,
    /// All bytes of the table sum up to zero.
    pub checksum_is_right: bool,
    /// IVinfo: bit 0 says that the blocks' EFR copies are valid.
    pub iv_info: u32,
    /// In the order of the table; a unit may have one of each type.
    pub blocks: Vec<Ivhd>,
}

/// I/O virtualization hardware definition block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ivhd {
    /// 10h, 11h or 40h.
    pub kind: u8,
    /// Bits that depend on the type, as they are.
    pub flags: u8,
    /// Requester identifier of the unit's own PCI function.
    pub device_id: u16,
    /// PCI segment group.
    pub segment: u16,
    /// System physical address of the unit's registers.
    pub base: u64,
    /// Feature reporting (type 10h) or attributes (11h, 40h).
    pub attributes: u32,
    /// Copy of the extended feature register; types 11h and 40h have it.
    pub efr: Option<u64>,
    /// Copy of the second extended feature register; types 11h and 40h have it.
    pub efr2: Option<u64>,
    /// Identifiers of I/O APICs with a special device entry.
    pub io_apics: Vec<u8>,
}

impl Ivhd {
    /// Guest virtual APIC: EFR bit 7, or bit 6 of type 10h's feature reporting.
    pub fn has_guest_apic(&self) -> bool {
        match self.efr {
            Some(efr) => Efr(efr).has_guest_apic(),
            None => self.attributes >> 6 & 1 == 1,
        }
    }

    /// Guest virtual APIC mode; type 10h does not report it.
    pub fn has_guest_apic_mode(&self) -> Option<bool> {
        self.efr.map(|efr| Efr(efr).has_guest_apic_mode())
    }

    /// 32-bit destinations: EFR bit 2, or bit 0 of type 10h's feature reporting.
    pub fn has_x2apic(&self) -> bool {
        match self.efr {
            Some(efr) => Efr(efr).has_x2apic(),
            None => self.attributes & 1 == 1,
        }
    }
}

impl Ivrs {
    /// The blocks Linux uses: the type of the first unit's last block, for every unit
    /// (get_highest_supported_ivhd_type in drivers/iommu/amd/init.c, 6.1 to 7.3).
    pub fn blocks_in_use(&self) -> impl Iterator<Item = &Ivhd> {
        let first = self.blocks.first().map(|block| (block.segment, block.device_id));
        let kind = self
            .blocks
            .iter()
            .filter(|block| Some((block.segment, block.device_id)) == first)
            .filter(|block| matches!(block.kind, 0x10 | 0x11 | 0x40))
            .map(|block| block.kind)
            .next_back();
        self.blocks.iter().filter(move |block| Some(block.kind) == kind)
    }
}

/// DMA remapping reporting table. [VTD "DMA Remapping Reporting Structure"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dmar {
    /// All bytes of the table sum up to zero.
    pub checksum_is_right: bool,
    /// Bits of a physical address that DMA can reach; the table holds one less.
    pub host_address_width: u8,
    /// Bit 0 INTR_REMAP, bit 1 X2APIC_OPT_OUT, bit 2 DMA_CTRL_PLATFORM_OPT_IN_FLAG.
    pub flags: u8,
    /// In the order of the table.
    pub units: Vec<Drhd>,
}

impl Dmar {
    /// INTR_REMAP: the platform supports interrupt remapping.
    pub fn has_interrupt_remapping(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The firmware asks the operating system not to use x2APIC.
    pub fn opts_out_of_x2apic(&self) -> bool {
        self.flags >> 1 & 1 == 1
    }

    /// DMA_CTRL_PLATFORM_OPT_IN_FLAG: firmware asks for protection against DMA.
    pub fn opts_in_to_dma_control(&self) -> bool {
        self.flags >> 2 & 1 == 1
    }
}

/// DMA remapping hardware unit definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drhd {
    /// Bit 0 INCLUDE_PCI_ALL: it covers what no other unit of its segment does.
    pub flags: u8,
    /// PCI segment group.
    pub segment: u16,
    /// System physical address of the unit's registers.
    pub base: u64,
    /// Enumeration identifiers of I/O APICs in its scope.
    pub io_apics: Vec<u8>,
}

/// Multiple APIC description table. [ACPI "Multiple APIC Description Table"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Madt {
    /// All bytes of the table sum up to zero.
    pub checksum_is_right: bool,
    /// Their identifiers, in the order of the table.
    pub io_apics: Vec<u8>,
    /// Enabled processors.
    pub processors: u32,
    /// Of an enabled processor; zero where there is none.
    pub highest_apic_id: u32,
}
