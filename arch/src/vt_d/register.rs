//! Memory-mapped registers: where they are, and what their bits mean.
//! [VTD "Register Descriptions"]

use crate::address::SystemPhysical;
use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// Bytes of registers: those of the unit, its fault record and the invalidation registers.
pub const SIZE: u64 = 0x1000;

/// Architecture version: major in bits 7:4, minor in 3:0. From major 6 on there is no
/// invalidation by registers.
pub const VERSION: u64 = 0x00;
/// See [`Capability`].
pub const CAPABILITY: u64 = 0x08;
/// See [`ExtendedCapability`].
pub const EXTENDED_CAPABILITY: u64 = 0x10;
/// See [`GlobalCommand`]; reads zero.
pub const GLOBAL_COMMAND: u64 = 0x18;
/// See [`GlobalCommand`]; read-only.
pub const GLOBAL_STATUS: u64 = 0x1C;
/// See [`RootTableAddress`].
pub const ROOT_TABLE_ADDRESS: u64 = 0x20;
/// Invalidation of context entries by a register.
pub const CONTEXT_COMMAND: u64 = 0x28;
/// See [`FaultStatus`].
pub const FAULT_STATUS: u64 = 0x34;
/// See [`EventControl`].
pub const FAULT_EVENT_CONTROL: u64 = 0x38;
/// Data of the fault event's message; 16 bits.
pub const FAULT_EVENT_DATA: u64 = 0x3C;
/// Lower half of the address of the fault event's message.
pub const FAULT_EVENT_ADDRESS: u64 = 0x40;
/// Upper half of the address of the fault event's message.
pub const FAULT_EVENT_UPPER_ADDRESS: u64 = 0x44;
/// Protected memory: bit 31 asks, bit 0 says.
pub const PROTECTED_MEMORY_ENABLE: u64 = 0x64;
/// Offset in the invalidation queue of the next descriptor that is taken; read-only.
pub const QUEUE_HEAD: u64 = 0x80;
/// Offset in the invalidation queue of the next descriptor that software writes.
pub const QUEUE_TAIL: u64 = 0x88;
/// See [`QueueAddress`].
pub const QUEUE_ADDRESS: u64 = 0x90;
/// Bit 0: a wait descriptor has asked for an interrupt; write-1-clear.
pub const INVALIDATION_COMPLETION: u64 = 0x9C;
/// See [`EventControl`].
pub const INVALIDATION_EVENT_CONTROL: u64 = 0xA0;
/// Data of the completion event's message; 16 bits.
pub const INVALIDATION_EVENT_DATA: u64 = 0xA4;
/// Lower half of the address of the completion event's message.
pub const INVALIDATION_EVENT_ADDRESS: u64 = 0xA8;
/// Upper half of the address of the completion event's message.
pub const INVALIDATION_EVENT_UPPER_ADDRESS: u64 = 0xAC;
/// See [`RemappingTableAddress`].
pub const REMAPPING_TABLE_ADDRESS: u64 = 0xB8;

/// [VTD "Capability Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "CAP")]
pub struct Capability {
    /// `[2:0]` 2^(4 + 2n) domains
    #[bits(3)]
    pub domains: u8,
    /// `[3]` AFL
    pub has_fault_log: bool,
    /// `[4]` RWBF: software flushes write buffers
    pub needs_write_buffer_flush: bool,
    /// `[5]` PLMR
    pub has_protected_low_memory: bool,
    /// `[6]` PHMR
    pub has_protected_high_memory: bool,
    /// `[7]` CM: entries that are not present are cached too
    pub caches_absent_entries: bool,
    /// `[12:8]` SAGAW: bit 1 is three levels (39 bits), bit 2 four (48), bit 3 five (57)
    #[bits(5)]
    pub levels: u8,
    #[bits(3)]
    __: u8,
    /// `[21:16]` MGAW: bits of devices' addresses, less one
    #[bits(6)]
    pub address_bits: u8,
    /// `[22]` ZLR: zero-length reads of write-only pages
    pub has_zero_length_reads: bool,
    __: bool,
    /// `[33:24]` offset of the first fault record, in 16 bytes
    #[bits(10)]
    pub fault_records: u16,
    /// `[37:34]` SLLPS: bit 0 is 2 MiB, bit 1 is 1 GiB
    #[bits(4)]
    pub large_pages: u8,
    __: bool,
    /// `[39]` PSI: page-selective invalidation
    pub has_page_invalidation: bool,
    /// `[47:40]` fault records, less one
    pub last_fault_record: u8,
    /// `[53:48]` the most that an address mask of an invalidation may be
    #[bits(6)]
    pub most_mask: u8,
    /// `[54]` DWD
    pub drains_writes: bool,
    /// `[55]` DRD
    pub drains_reads: bool,
    #[bits(3)]
    __: u8,
    /// `[59]` PI: remapping entries may be posted
    #[doc(alias = "PI")]
    pub has_posting: bool,
    #[bits(2)]
    __: u8,
    /// `[62]` ESIRTPS: setting the remapping table invalidates
    pub invalidates_with_remapping_table: bool,
    /// `[63]` ESRTPS: setting the root table invalidates
    pub invalidates_with_root_table: bool,
}

/// [VTD "Extended Capability Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "ECAP")]
pub struct ExtendedCapability {
    /// `[0]` C: tables are read coherently
    pub is_coherent: bool,
    /// `[1]` QI
    pub has_queue: bool,
    /// `[2]` DT: devices may hold translations
    pub has_device_caches: bool,
    /// `[3]` IR
    pub has_remapping: bool,
    /// `[4]` EIM: destinations of 32 bits
    #[doc(alias = "EIM")]
    pub has_x2apic: bool,
    __: bool,
    /// `[6]` PT: context entries may pass through
    pub has_pass_through: bool,
    /// `[7]` SC: bit 11 of second-level leaves
    pub has_snoop_control: bool,
    /// `[17:8]` offset of the registers for IOTLB invalidation, in 16 bytes
    #[bits(10)]
    pub invalidation_registers: u16,
    #[bits(2)]
    __: u8,
    /// `[23:20]` MHMV: the most that an index mask of an invalidation may be
    #[bits(4)]
    pub most_index_mask: u8,
    #[bits(19)]
    __: u32,
    /// `[43]` SMTS: scalable mode
    pub has_scalable_mode: bool,
    #[bits(20)]
    __: u32,
}

bitflags! {
    /// Bits of the command register, and of the status register that follows it.
    /// [VTD "Global Command Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[doc(alias = "GCMD")]
    pub struct GlobalCommand: u32 {
        /// CFI: interrupts in compatibility format pass.
        const COMPATIBILITY_FORMAT = 1 << 23;
        /// SIRTP: the remapping table is the one of its register from now on; one-shot.
        const SET_REMAPPING_TABLE = 1 << 24;
        /// IRE
        const REMAPPING_ENABLE = 1 << 25;
        /// QIE
        const QUEUE_ENABLE = 1 << 26;
        /// WBF; one-shot.
        const WRITE_BUFFER_FLUSH = 1 << 27;
        /// EAFL
        const FAULT_LOG_ENABLE = 1 << 28;
        /// SFL; one-shot.
        const SET_FAULT_LOG = 1 << 29;
        /// SRTP: the root table is the one of its register from now on; one-shot.
        const SET_ROOT_TABLE = 1 << 30;
        /// TE
        const TRANSLATION_ENABLE = 1 << 31;
    }
}

impl GlobalCommand {
    /// What acts when it is written and has no level; the status keeps that it was done.
    pub const ONE_SHOT: Self = Self::SET_REMAPPING_TABLE
        .union(Self::WRITE_BUFFER_FLUSH)
        .union(Self::SET_FAULT_LOG)
        .union(Self::SET_ROOT_TABLE);
}

/// [VTD "Root Table Address Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct RootTableAddress {
    #[bits(10)]
    __: u16,
    /// `[11:10]` 0 legacy, 1 scalable, 3 abort all
    #[bits(2)]
    pub mode: u8,
    /// `[63:12]`
    #[bits(52)]
    pub frame: u64,
}

impl RootTableAddress {
    /// Address of the table.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }
}

bitflags! {
    /// [VTD "Fault Status Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct FaultStatus: u32 {
        /// PFO: a fault found no record free; write-1-clear.
        const OVERFLOW = 1 << 0;
        /// PPF: a record holds a fault.
        const PENDING = 1 << 1;
        /// IQE: a descriptor has no meaning, the queue stands still; write-1-clear.
        const QUEUE_ERROR = 1 << 4;
        /// ICE; write-1-clear.
        const COMPLETION_ERROR = 1 << 5;
        /// ITE; write-1-clear.
        const TIMEOUT_ERROR = 1 << 6;
    }
}

impl FaultStatus {
    /// What software clears by writing ones.
    pub const WRITE_1_CLEAR: Self = Self::OVERFLOW
        .union(Self::QUEUE_ERROR)
        .union(Self::COMPLETION_ERROR)
        .union(Self::TIMEOUT_ERROR);
}

bitflags! {
    /// Control of the messages for faults and completions. [VTD "Fault Event Control Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct EventControl: u32 {
        /// IP: masked and waiting; read-only.
        const PENDING = 1 << 30;
        /// IM: set at reset.
        const MASKED = 1 << 31;
    }
}

/// [VTD "Invalidation Queue Address Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAddress {
    /// `[2:0]` QS: pages of 4 KiB, log2
    #[bits(3)]
    pub pages: u8,
    __: u8,
    /// `[11]` DW: descriptors of 32 bytes, in scalable mode
    pub has_wide_descriptors: bool,
    /// `[63:12]`
    #[bits(52)]
    pub frame: u64,
}

impl QueueAddress {
    /// Address of the first descriptor.
    pub const fn base(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }

    /// Bytes of the queue, 4 KiB to 512 KiB.
    pub const fn bytes(self) -> u64 {
        0x1000 << self.pages()
    }
}

/// [VTD "Interrupt Remapping Table Address Register"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct RemappingTableAddress {
    /// `[3:0]` S: 2^(n + 1) entries
    #[bits(4)]
    pub size: u8,
    #[bits(7)]
    __: u8,
    /// `[11]` EIME: destinations have 32 bits, and no interrupt in compatibility format passes
    #[doc(alias = "EIME")]
    pub is_x2apic: bool,
    /// `[63:12]`
    #[bits(52)]
    pub frame: u64,
}

impl RemappingTableAddress {
    /// Address of the first entry.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }

    /// Entries of the table, 2 to 65,536.
    pub const fn entries(self) -> u32 {
        2 << self.size()
    }
}
