//! What an IOMMU can do. [IOMMU "IOMMU Extended Feature Register"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Offset 30h; the firmware table holds a copy, which kernels trust before the register.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "EFR")]
pub struct ExtendedFeatures {
    /// `[0]` PreFSup: PREFETCH_IOMMU_PAGES
    pub has_prefetch: bool,
    /// `[1]` PPRSup
    pub has_page_requests: bool,
    /// `[2]` XTSup: destinations of 32 bits
    #[doc(alias = "XTSup")]
    pub has_x2apic: bool,
    /// `[3]` NXSup
    pub has_no_execute: bool,
    /// `[4]` GTSup
    pub has_guest_translation: bool,
    /// `[5]` GAPPISup
    pub has_posted_physical_interrupts: bool,
    /// `[6]` IASup: INVALIDATE_IOMMU_ALL
    pub has_invalidate_all: bool,
    /// `[7]` GASup: remapping entries of 128 bits
    #[doc(alias = "GASup")]
    pub has_guest_apic: bool,
    /// `[8]` HESup: hardware error registers
    pub has_error_registers: bool,
    /// `[9]` PCSup
    pub has_counters: bool,
    /// `[11:10]` HATS: levels of host translation less four; 3 is reserved
    #[bits(2)]
    pub host_levels: u8,
    /// `[13:12]` GATS: levels of guest translation less four
    #[bits(2)]
    pub guest_levels: u8,
    /// `[15:14]` GLXSup
    #[bits(2)]
    pub guest_table_levels: u8,
    /// `[17:16]` SmiFSup
    #[bits(2)]
    pub smi_filter: u8,
    /// `[20:18]` SmiFRC
    #[bits(3)]
    pub smi_filter_registers: u8,
    /// `[23:21]` GAMSup: 1 is a guest's virtual APIC
    #[bits(3)]
    #[doc(alias = "GAMSup")]
    pub guest_apic_modes: u8,
    /// `[25:24]` DualPprLogSup
    #[bits(2)]
    pub dual_page_request_log: u8,
    #[bits(2)]
    __: u8,
    /// `[29:28]` DualEventLogSup
    #[bits(2)]
    pub dual_event_log: u8,
    #[bits(1)]
    __: u8,
    /// `[31]` SATSup
    pub has_secure_translation_services: bool,
    /// `[36:32]` PASmax: bits of a process's address space identifier, less one
    #[bits(5)]
    pub process_bits: u8,
    /// `[37]` USSup
    pub has_user_supervisor: bool,
    /// `[39:38]` DevTblSegSup
    #[bits(2)]
    pub device_table_segments: u8,
    /// `[40]` PprOvrflwEarlySup
    pub has_early_overflow: bool,
    /// `[41]` PPRAutoRspSup
    pub has_automatic_response: bool,
    /// `[43:42]` MarcSup
    #[bits(2)]
    pub aperture_registers: u8,
    /// `[44]` BlkStopMrkSup
    pub has_stop_mark_blocking: bool,
    /// `[45]` PerfOptSup
    pub has_performance_control: bool,
    /// `[46]` MsiCapMmioSup: the MSI capability is among the registers too
    pub has_mirrored_msi: bool,
    #[bits(1)]
    __: u8,
    /// `[48]` GIoSup
    pub has_guest_io_protection: bool,
    /// `[49]` HASup
    pub has_host_accessed: bool,
    /// `[50]` EPHSup
    pub has_enhanced_page_requests: bool,
    /// `[51]` AttrFWSup
    pub has_forwarded_attributes: bool,
    /// `[52]` HDSup
    pub has_host_dirty: bool,
    #[bits(1)]
    __: u8,
    /// `[54]` InvIotlbTypeSup
    pub has_invalidation_types: bool,
    #[bits(6)]
    __: u8,
    /// `[61]` GAUpdateDisSup
    pub has_guest_update_disable: bool,
    /// `[62]` ForcePhyDestSup
    pub has_forced_physical_destination: bool,
    /// `[63]` SNPSup
    pub has_secure_nested_paging: bool,
}

impl ExtendedFeatures {
    /// [`Self::guest_apic_modes`]: interrupts of devices go to a guest's virtual APIC.
    pub const VIRTUAL_APIC: u8 = 1;
}

/// Offset 1A0h.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "EFR2")]
pub struct ExtendedFeatures2 {
    __: bool,
    /// `[1]` SEVSNPIOSup
    pub has_secure_nested_io: bool,
    __: bool,
    /// `[3]` GCR3TRPMODE
    pub has_guest_root_translation: bool,
    __: bool,
    /// `[7:5]` SNPAVICSup
    #[bits(3)]
    pub secure_avic: u8,
    /// `[9:8]` NumIntRemapSup: 1 is 2,048 entries a table
    #[bits(2)]
    pub remapping_table_mode: u8,
    #[bits(54)]
    __: u64,
}
