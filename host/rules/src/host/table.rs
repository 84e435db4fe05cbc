//! ACPI tables that describe IOMMUs and interrupt controllers.

use super::iommu::Efr;
use serde::Serialize;

/// I/O virtualization reporting structure. [IOMMU "I/O Virtualization ACPI table"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ivrs {
    pub revision: u8,
    pub checksum_is_right: bool,
    /// IVinfo: bit 0 says that the blocks' EFR copies are valid.
    pub iv_info: u32,
    pub blocks: Vec<Ivhd>,
}

/// I/O virtualization hardware definition block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ivhd {
    /// 10h, 11h or 40h.
    pub kind: u8,
    pub flags: u8,
    pub device_id: u16,
    pub segment: u16,
    pub base: u64,
    /// Feature reporting (type 10h) or attributes (11h, 40h).
    pub attributes: u32,
    pub efr: Option<u64>,
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
    pub checksum_is_right: bool,
    pub host_address_width: u8,
    pub flags: u8,
    pub units: Vec<Drhd>,
}

impl Dmar {
    pub fn has_interrupt_remapping(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The firmware asks the operating system not to use x2APIC.
    pub fn opts_out_of_x2apic(&self) -> bool {
        self.flags >> 1 & 1 == 1
    }

    pub fn opts_in_to_dma_control(&self) -> bool {
        self.flags >> 2 & 1 == 1
    }
}

/// DMA remapping hardware unit definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drhd {
    pub flags: u8,
    pub segment: u16,
    pub base: u64,
    /// Enumeration identifiers of I/O APICs in its scope.
    pub io_apics: Vec<u8>,
}

/// Multiple APIC description table. [ACPI "Multiple APIC Description Table"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Madt {
    pub checksum_is_right: bool,
    pub io_apics: Vec<u8>,
    /// Enabled processors.
    pub processors: u32,
    pub highest_apic_id: u32,
}
