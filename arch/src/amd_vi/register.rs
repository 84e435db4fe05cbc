//! Memory-mapped registers: where they are, and what their bits mean.
//! [IOMMU "MMIO Registers"]

use crate::address::SystemPhysical;
use crate::apic::DestinationMode;
use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// Bytes of registers without performance counters.
pub const SIZE: u64 = 0x4000;
/// Bytes of registers with performance counters; the base is aligned to as many.
pub const SIZE_WITH_COUNTERS: u64 = 0x8_0000;

/// See [`DeviceTableBase`].
pub const DEVICE_TABLE_BASE: u64 = 0x0000;
/// See [`RingBase`]: entries of 16 bytes.
pub const COMMAND_BASE: u64 = 0x0008;
/// See [`RingBase`]: entries of 16 bytes.
pub const EVENT_BASE: u64 = 0x0010;
/// See [`Control`].
pub const CONTROL: u64 = 0x0018;
/// First address of a range that is excluded from translation.
pub const EXCLUSION_BASE: u64 = 0x0020;
/// Last page of the excluded range.
pub const EXCLUSION_LIMIT: u64 = 0x0028;
/// See [`super::ExtendedFeatures`]; read-only.
#[doc(alias = "EFR")]
pub const EXTENDED_FEATURE: u64 = 0x0030;
/// See [`RingBase`]: the log of peripheral page requests.
pub const PAGE_REQUEST_BASE: u64 = 0x0038;
/// See [`RingBase`]: entries of 8 bytes.
pub const GUEST_LOG_BASE: u64 = 0x00E0;
/// Where the tail of the GA log is stored too: bits 51:3.
pub const GUEST_LOG_TAIL_ADDRESS: u64 = 0x00E8;
/// See [`InterruptDestination`]: of events and completions, under [`Control::has_x2apic_messages`].
pub const EVENT_INTERRUPT: u64 = 0x0170;
/// See [`InterruptDestination`]: of page requests.
pub const PAGE_REQUEST_INTERRUPT: u64 = 0x0178;
/// See [`InterruptDestination`]: of the GA log.
pub const GUEST_LOG_INTERRUPT: u64 = 0x0180;
/// See [`super::ExtendedFeatures2`]; read-only.
#[doc(alias = "EFR2")]
pub const EXTENDED_FEATURE_2: u64 = 0x01A0;
/// Where the IOMMU takes the next command: bits 18:4.
pub const COMMAND_HEAD: u64 = 0x2000;
/// Where software puts the next command: bits 18:4.
pub const COMMAND_TAIL: u64 = 0x2008;
/// Where software takes the next event: bits 18:4.
pub const EVENT_HEAD: u64 = 0x2010;
/// Where the IOMMU puts the next event: bits 18:4.
pub const EVENT_TAIL: u64 = 0x2018;
/// See [`Status`].
pub const STATUS: u64 = 0x2020;
/// Where software takes the next entry of the GA log: bits 18:3.
pub const GUEST_LOG_HEAD: u64 = 0x2040;
/// Where the IOMMU puts the next entry of the GA log: bits 18:3.
pub const GUEST_LOG_TAIL: u64 = 0x2048;

/// The bits of [`COMMAND_HEAD`], [`COMMAND_TAIL`], [`EVENT_HEAD`] and [`EVENT_TAIL`].
pub const RING_OFFSET: u64 = 0x7_FFF0;
/// The bits of [`GUEST_LOG_HEAD`] and [`GUEST_LOG_TAIL`].
pub const GUEST_LOG_OFFSET: u64 = 0x7_FFF8;

/// [IOMMU "Device Table Base Address Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTableBase {
    /// `[8:0]` pages of 4 KiB, less one
    #[bits(9)]
    pub last_page: u16,
    #[bits(3)]
    __: u8,
    /// `[51:12]`
    #[bits(40)]
    pub frame: u64,
    #[bits(12)]
    __: u16,
}

impl DeviceTableBase {
    /// The bits that software may set.
    pub const WRITABLE: u64 = super::ADDRESS | 0x1FF;

    /// Address of the first entry.
    pub const fn base(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }

    /// Bytes of the table, 4 KiB to 2 MiB.
    pub const fn bytes(self) -> u64 {
        (self.last_page() as u64 + 1) << 12
    }
}

/// Base and length of the command buffer, of the event log and of the GA log.
/// [IOMMU "Command Buffer Base Address Register"] [IOMMU "Guest Virtual APIC Log Base Address
/// Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct RingBase {
    #[bits(12)]
    __: u16,
    /// `[51:12]`
    #[bits(40)]
    pub frame: u64,
    #[bits(4)]
    __: u8,
    /// `[59:56]` log2 of the entries of 16 bytes, 8 to 15; others are reserved
    #[bits(4)]
    pub length: u8,
    #[bits(4)]
    __: u8,
}

impl RingBase {
    /// The bits that software may set.
    pub const WRITABLE: u64 = super::ADDRESS | 0x0F00_0000_0000_0000;

    /// Address of the first entry.
    pub const fn base(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }

    /// Bytes of the ring, 4 KiB to 512 KiB. Reserved lengths mean the least. The GA log has as
    /// many bytes for the same code, and twice the entries.
    pub const fn bytes(self) -> u64 {
        let length = if self.length() < 8 { 8 } else { self.length() };
        16 << length
    }
}

/// Control register. [IOMMU "IOMMU Control Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// `[0]` IommuEn: devices' accesses and interrupts are looked up
    pub is_enabled: bool,
    /// `[1]`
    pub has_tunnel_translation: bool,
    /// `[2]` EventLogEn
    pub logs_events: bool,
    /// `[3]` EventIntEn
    pub interrupts_for_events: bool,
    /// `[4]` ComWaitIntEn
    pub interrupts_for_completion: bool,
    /// `[7:5]`
    #[bits(3)]
    pub invalidation_timeout: u8,
    /// `[8]`
    pub passes_posted_writes: bool,
    /// `[9]`
    pub responses_pass_posted_writes: bool,
    /// `[10]`
    pub is_coherent: bool,
    /// `[11]`
    pub is_isochronous: bool,
    /// `[12]` CmdBufEn
    pub processes_commands: bool,
    /// `[13]`
    pub logs_page_requests: bool,
    /// `[14]`
    pub interrupts_for_page_requests: bool,
    /// `[15]`
    pub handles_page_requests: bool,
    /// `[16]` GTEn
    pub translates_guest_addresses: bool,
    /// `[17]` GAEn: remapping entries have 128 bits
    #[doc(alias = "GAEn")]
    pub has_wide_remapping_entries: bool,
    /// `[21:18]`
    #[bits(4)]
    pub cache_read_write: u8,
    /// `[22]`
    pub filters_smi: bool,
    /// `[23]`
    pub has_self_write_back_disabled: bool,
    /// `[24]`
    pub logs_filtered_smi: bool,
    /// `[27:25]` GAMEn: 1 is [`Self::VIRTUAL_APIC`]
    #[bits(3)]
    #[doc(alias = "GAMEn")]
    pub guest_mode: u8,
    /// `[28]` GALogEn
    pub logs_guest_interrupts: bool,
    /// `[29]` GAIntEn
    pub interrupts_for_guest_log: bool,
    /// `[31:30]`
    #[bits(2)]
    pub dual_page_request_log: u8,
    /// `[33:32]`
    #[bits(2)]
    pub dual_event_log: u8,
    /// `[36:34]` segments of the device table, log2
    #[bits(3)]
    pub device_table_segments: u8,
    /// `[38:37]`
    #[bits(2)]
    pub private_abort: u8,
    /// `[42:39]`
    #[bits(4)]
    pub page_request_response: u8,
    /// `[44:43]` NumIntRemapMode: 1 is 2,048 entries a table
    #[bits(2)]
    pub remapping_table_mode: u8,
    /// `[45]`
    pub has_enhanced_page_requests: bool,
    /// `[47:46]`
    #[bits(2)]
    pub host_access_update: u8,
    /// `[48]`
    pub has_guest_dirty_update_disabled: bool,
    #[bits(1)]
    __: u8,
    /// `[50]` XTEn: remapped destinations have 32 bits
    #[doc(alias = "XTEn")]
    pub has_x2apic_destinations: bool,
    /// `[51]` IntCapXTEn: the IOMMU's own interrupts go where [`InterruptDestination`]s say
    #[doc(alias = "INTCAPXT")]
    pub has_x2apic_messages: bool,
    #[bits(2)]
    __: u8,
    /// `[54]`
    pub has_virtual_iommu: bool,
    /// `[55]` GAPPIEn
    pub posts_physical_interrupts: bool,
    #[bits(3)]
    __: u8,
    /// `[59]` IRTCacheDis
    pub has_remapping_cache_disabled: bool,
    /// `[60]`
    pub has_guest_buffer_translation: bool,
    /// `[63:61]`
    #[bits(3)]
    pub secure_avic: u8,
}

impl Control {
    /// [`Self::guest_mode`]: guest entries reach a virtual APIC.
    pub const VIRTUAL_APIC: u8 = 1;
}

bitflags! {
    /// Status register. [IOMMU "IOMMU Status Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct Status: u32 {
        /// The event log is full; write-1-clear.
        const EVENT_OVERFLOW = 1 << 0;
        /// An event was logged; write-1-clear.
        const EVENT_INTERRUPT = 1 << 1;
        /// A COMPLETION_WAIT asked for an interrupt; write-1-clear.
        const COMPLETION_INTERRUPT = 1 << 2;
        /// Events are being logged.
        const EVENT_LOG_RUN = 1 << 3;
        /// Commands are being processed.
        const COMMAND_RUN = 1 << 4;
        /// The log of page requests is full; write-1-clear.
        const PAGE_REQUEST_OVERFLOW = 1 << 5;
        /// A page request was logged; write-1-clear.
        const PAGE_REQUEST_INTERRUPT = 1 << 6;
        /// Page requests are being logged.
        const PAGE_REQUEST_RUN = 1 << 7;
        /// Interrupts for guests are being logged.
        const GUEST_LOG_RUN = 1 << 8;
        /// The GA log is full; write-1-clear.
        const GUEST_LOG_OVERFLOW = 1 << 9;
        /// An interrupt for a guest was logged; write-1-clear.
        const GUEST_LOG_INTERRUPT = 1 << 10;
    }
}

impl Status {
    /// What software clears by writing ones.
    pub const WRITE_1_CLEAR: Self = Self::EVENT_OVERFLOW
        .union(Self::EVENT_INTERRUPT)
        .union(Self::COMPLETION_INTERRUPT)
        .union(Self::PAGE_REQUEST_OVERFLOW)
        .union(Self::PAGE_REQUEST_INTERRUPT)
        .union(Self::GUEST_LOG_OVERFLOW)
        .union(Self::GUEST_LOG_INTERRUPT);
}

/// Where an interrupt of the IOMMU itself goes in x2APIC mode.
/// [IOMMU "IOMMU X2APIC General Interrupt Control Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "INTCAPXT")]
pub struct InterruptDestination {
    #[bits(2)]
    __: u8,
    /// `[2]`
    #[bits(1)]
    pub destination_mode: DestinationMode,
    #[bits(5)]
    __: u8,
    /// `[31:8]`
    #[bits(24)]
    pub destination_low: u32,
    /// `[39:32]`
    pub vector: u8,
    /// `[40]` 0 is fixed, 1 arbitrated
    pub is_arbitrated: bool,
    #[bits(15)]
    __: u16,
    /// `[63:56]`
    pub destination_high: u8,
}

impl InterruptDestination {
    /// The bits that software may set.
    pub const WRITABLE: u64 = 0xFF00_01FF_FFFF_FF04;

    /// All 32 bits.
    pub const fn destination(self) -> u32 {
        (self.destination_high() as u32) << 24 | self.destination_low()
    }
}
