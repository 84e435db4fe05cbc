//! The virtual machine control block: 4 KiB, addressed by RAX in VMRUN.
//! [APM2 "Layout of VMCB"]
//!
//! A [`Field`] is an offset with the type of what lies there, so that a VMCB in guest memory is
//! read and written in place, with no copy of a page and no pointer cast.

use super::avic;
use super::clean::Covered;
use super::event::Injection;
use super::intercept::{Intercepts, Vector3, Vector4, Vector5};
use super::listing::Listed;
use super::segment::{Segment, SegmentAttributes};
use bitfield_struct::bitfield;
use bitflags::bitflags;
use core::fmt;
use core::marker::PhantomData;
use serde::{Deserialize, Serialize};

/// Bytes in a VMCB.
pub const SIZE: usize = 0x1000;

/// Where in a VMCB a value of type `T` lies.
pub struct Field<T> {
    offset: u16,
    value: PhantomData<T>,
}

impl<T: Value> Field<T> {
    const fn at(offset: u16) -> Self {
        assert!(offset as usize + T::SIZE <= SIZE);
        Self { offset, value: PhantomData }
    }

    /// Bytes from the VMCB's start.
    pub const fn offset(self) -> u16 {
        self.offset
    }
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

/// What can lie in a VMCB, little-endian.
pub trait Value: Copy {
    /// Bytes that the value takes.
    const SIZE: usize;
    /// Where the manual explains it, if not with the area that it lies in.
    const SECTION: Option<&'static str> = None;
    /// From exactly [`Self::SIZE`] bytes.
    fn load(bytes: &[u8]) -> Self;
    /// Into exactly [`Self::SIZE`] bytes.
    fn store(self, bytes: &mut [u8]);
    /// Its parts by name, for readers; nothing of a plain number.
    fn describe(self, _: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

macro_rules! integer_value {
    ($($integer:ty),*) => {$(
        impl Value for $integer {
            const SIZE: usize = size_of::<Self>();
            fn load(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<Self>()];
                raw.copy_from_slice(bytes);
                Self::from_le_bytes(raw)
            }
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

macro_rules! bits_value {
    ($($name:ty: $integer:ty, $from:ident, $into:ident, $section:literal;)*) => {$(
        impl Value for $name {
            const SIZE: usize = size_of::<$integer>();
            const SECTION: Option<&'static str> = Some($section);
            fn load(bytes: &[u8]) -> Self {
                Self::$from(<$integer>::load(bytes))
            }
            fn store(self, bytes: &mut [u8]) {
                self.$into().store(bytes);
            }
            fn describe(self, out: &mut dyn fmt::Write) -> fmt::Result {
                write!(out, "{self:?}")
            }
        }
    )*};
}

integer_value!(u8, u16, u32, u64);
bits_value! {
    InterruptControl: u64, from_bits, into_bits, "APM2 \"Virtual Interrupts\"";
    InterruptState: u64, from_bits, into_bits, "APM2 \"Interrupt Shadows\"";
    Injection: u64, from_bits, into_bits, "APM2 \"Event Injection\"";
    NestedControl: u64, from_bits, into_bits, "APM2 \"Enabling Nested Paging\"";
    VirtualizationExtensions: u64, from_bits, into_bits, "APM2 \"LBR Virtualization\"";
    avic::PhysicalTablePointer: u64, from_bits, into_bits, "APM2 \"Physical APIC ID Table\"";
    CleanBits: u32, from_bits_retain, bits, "APM2 \"VMCB State Caching\"";
    Vector3: u32, from_bits_retain, bits, "APM2 \"Instruction Intercepts\"";
    Vector4: u32, from_bits_retain, bits, "APM2 \"Instruction Intercepts\"";
    Vector5: u32, from_bits_retain, bits, "APM2 \"Instruction Intercepts\"";
}

impl Value for Segment {
    const SIZE: usize = 16;
    fn describe(self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { selector, attributes, limit, base } = self;
        let attributes = attributes.into_bits();
        write!(
            out,
            "selector {selector:#x}, attributes {attributes:#x}, limit {limit:#x}, base {base:#x}"
        )
    }
    fn load(bytes: &[u8]) -> Self {
        Self {
            selector: u16::load(&bytes[0..2]),
            attributes: SegmentAttributes::from_bits(u16::load(&bytes[2..4])),
            limit: u32::load(&bytes[4..8]),
            base: u64::load(&bytes[8..16]),
        }
    }
    fn store(self, bytes: &mut [u8]) {
        self.selector.store(&mut bytes[0..2]);
        self.attributes.into_bits().store(&mut bytes[2..4]);
        self.limit.store(&mut bytes[4..8]);
        self.base.store(&mut bytes[8..16]);
    }
}

impl Value for Intercepts {
    const SIZE: usize = 24;
    const SECTION: Option<&'static str> = Some("APM2 \"Instruction Intercepts\"");
    fn describe(self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{self:?}")
    }
    fn load(bytes: &[u8]) -> Self {
        Self {
            control_registers: u32::load(&bytes[0..4]),
            debug_registers: u32::load(&bytes[4..8]),
            exceptions: u32::load(&bytes[8..12]),
            vector3: Vector3::load(&bytes[12..16]),
            vector4: Vector4::load(&bytes[16..20]),
            vector5: Vector5::load(&bytes[20..24]),
        }
    }
    fn store(self, bytes: &mut [u8]) {
        self.control_registers.store(&mut bytes[0..4]);
        self.debug_registers.store(&mut bytes[4..8]);
        self.exceptions.store(&mut bytes[8..12]);
        self.vector3.store(&mut bytes[12..16]);
        self.vector4.store(&mut bytes[16..20]);
        self.vector5.store(&mut bytes[20..24]);
    }
}

/// The bytes of a fetched instruction that decode assists report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FetchedBytes {
    /// How many of `bytes` were fetched: 0–15.
    pub count: u8,
    /// From the guest's RIP on.
    pub bytes: [u8; 15],
}

impl Value for FetchedBytes {
    const SIZE: usize = 16;
    fn load(bytes: &[u8]) -> Self {
        let mut fetched = Self { count: bytes[0], bytes: [0; 15] };
        fetched.bytes.copy_from_slice(&bytes[1..16]);
        fetched
    }
    fn store(self, bytes: &mut [u8]) {
        bytes[0] = self.count;
        bytes[1..16].copy_from_slice(&self.bytes);
    }
}

/// Fields, a row each: its type, its offset and the clean bit that says that the processor may keep
/// it from the last run, if one does. [APM2 "VMCB Clean Bits"]
macro_rules! fields {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $offset:literal $(, kept by $bit:ident)?;
    )*) => {
        $(
            $(#[$doc])*
            pub const $name: Field<$type> = Field::at($offset);
        )*

        /// What clean bits cover.
        pub(in crate::svm) const KEPT: &[Covered] =
            &[$($(Covered::by(CleanBits::$bit, $name),)?)*];

        /// All of them, for readers.
        pub(in crate::svm) const LISTED: &[Listed] =
            &[$(Listed::of(stringify!($name), $name, SECTION),)*];
    };
}

/// The control area, 000h–3FFh. [APM2 "VMCB Layout, Control Area"]
pub mod control {
    use super::*;

    /// Where the manual lists them.
    pub const SECTION: &str = "APM2 \"VMCB Layout, Control Area\"";

    fields! {
        /// 000h–017h
        INTERCEPTS: Intercepts = 0x000, kept by INTERCEPTS;
        /// Cycles between two PAUSEs that restart the count; 0 is never.
        PAUSE_FILTER_THRESHOLD: u16 = 0x03C, kept by INTERCEPTS;
        /// PAUSEs that pass before one exits.
        PAUSE_FILTER_COUNT: u16 = 0x03E, kept by INTERCEPTS;
        /// The I/O permission map, bits 51:12: see [`crate::svm::msr::IO_PERMISSION_MAP_SIZE`].
        IOPM_BASE_PA: u64 = 0x040, kept by PERMISSION_MAPS;
        /// The MSR permission map, bits 51:12: see [`crate::svm::msr::permission_bit`].
        MSRPM_BASE_PA: u64 = 0x048, kept by PERMISSION_MAPS;
        /// Added to the scaled TSC that the guest reads.
        TSC_OFFSET: u64 = 0x050, kept by INTERCEPTS;
        /// Tags the guest's translations; 0 is the host's and illegal.
        GUEST_ASID: u32 = 0x058, kept by ASID;
        /// See [`TlbControl`].
        TLB_CONTROL: u8 = 0x05C;
        /// V_TPR, V_IRQ and their kin, and V_INTR_VECTOR.
        INTERRUPT_CONTROL: InterruptControl = 0x060, kept by INTERRUPT_CONTROL;
        /// Whether the guest is in an interrupt shadow.
        INTERRUPT_STATE: InterruptState = 0x068;
        /// See [`crate::svm::ExitCode`].
        EXITCODE: u64 = 0x070;
        /// By exit code.
        EXITINFO1: u64 = 0x078;
        /// By exit code.
        EXITINFO2: u64 = 0x080;
        /// The event whose delivery the exit interrupted.
        EXITINTINFO: Injection = 0x088;
        /// 090h: nested paging and encryption.
        NESTED_CONTROL: NestedControl = 0x090, kept by NESTED_PAGING;
        /// Guest physical base of the APIC page, bits 51:12.
        AVIC_APIC_BAR: u64 = 0x098, kept by AVIC;
        /// The event that VMRUN delivers before the guest's first instruction.
        EVENTINJ: Injection = 0x0A8;
        /// CR3 of the nested tables.
        N_CR3: u64 = 0x0B0, kept by NESTED_PAGING;
        /// 0B8h: last-branch records, VMLOAD and VMSAVE.
        VIRTUALIZATION_EXTENSIONS: VirtualizationExtensions = 0x0B8;
        /// What the processor may keep from the last run of this VMCB.
        CLEAN_BITS: CleanBits = 0x0C0;
        /// RIP of the next instruction, at exits of instructions; 0 at others.
        N_RIP: u64 = 0x0C8;
        /// 0D0h–0DFh: what decode assists have fetched.
        FETCHED_BYTES: FetchedBytes = 0x0D0;
        /// Bits 51:12.
        AVIC_BACKING_PAGE: u64 = 0x0E0, kept by AVIC;
        /// Bits 51:12.
        AVIC_LOGICAL_TABLE: u64 = 0x0F0, kept by AVIC;
        /// The table's base, and the last index in use.
        AVIC_PHYSICAL_TABLE: avic::PhysicalTablePointer = 0x0F8, kept by AVIC;
        /// Bus locks that the guest has left; an exit at 0.
        BUS_LOCK_THRESHOLD: u16 = 0x120;
    }
}

/// The state save area, from 400h. [APM2 "VMCB Layout, State Save Area"]
pub mod save {
    use super::*;

    /// Where the manual lists them.
    pub const SECTION: &str = "APM2 \"VMCB Layout, State Save Area\"";

    fields! {
        /// ES
        ES: Segment = 0x400, kept by SEGMENTS;
        /// CS
        CS: Segment = 0x410, kept by SEGMENTS;
        /// SS
        SS: Segment = 0x420, kept by SEGMENTS;
        /// DS
        DS: Segment = 0x430, kept by SEGMENTS;
        /// FS; VMLOAD and VMSAVE move the hidden part.
        FS: Segment = 0x440;
        /// GS; VMLOAD and VMSAVE move the hidden part.
        GS: Segment = 0x450;
        /// Base and limit alone count.
        GDTR: Segment = 0x460, kept by DESCRIPTOR_TABLES;
        /// Moved by VMLOAD and VMSAVE.
        LDTR: Segment = 0x470;
        /// Base and limit alone count.
        IDTR: Segment = 0x480, kept by DESCRIPTOR_TABLES;
        /// Moved by VMLOAD and VMSAVE.
        TR: Segment = 0x490;
        /// Current privilege level; VMRUN takes it, and not SS.DPL.
        CPL: u8 = 0x4CB, kept by SEGMENTS;
        /// SVME must be set.
        EFER: u64 = 0x4D0, kept by CONTROL_REGISTERS;
        /// See [`crate::control::Cr4`].
        CR4: u64 = 0x548, kept by CONTROL_REGISTERS;
        /// Of the guest's own tables.
        CR3: u64 = 0x550, kept by CONTROL_REGISTERS;
        /// See [`crate::control::Cr0`].
        CR0: u64 = 0x558, kept by CONTROL_REGISTERS;
        /// Bits 63:32 must be zero.
        DR7: u64 = 0x560, kept by DEBUG_REGISTERS;
        /// Bits 63:32 must be zero.
        DR6: u64 = 0x568, kept by DEBUG_REGISTERS;
        /// See [`crate::control::rflags`].
        RFLAGS: u64 = 0x570;
        /// The instruction at which the guest goes on.
        RIP: u64 = 0x578;
        /// The stack pointer; other general registers but RAX are software's to swap.
        RSP: u64 = 0x5D8;
        /// Control-flow enforcement at CPL 0–2.
        S_CET: u64 = 0x5E0, kept by CET;
        /// The shadow stack's pointer.
        SSP: u64 = 0x5E8, kept by CET;
        /// Linear address of the interrupt shadow-stack table.
        ISST_ADDR: u64 = 0x5F0, kept by CET;
        /// The only general register, beside RSP, that VMRUN and #VMEXIT swap.
        RAX: u64 = 0x5F8;
        /// Moved by VMLOAD and VMSAVE.
        STAR: u64 = 0x600;
        /// Moved by VMLOAD and VMSAVE.
        LSTAR: u64 = 0x608;
        /// Moved by VMLOAD and VMSAVE.
        CSTAR: u64 = 0x610;
        /// Moved by VMLOAD and VMSAVE.
        SFMASK: u64 = 0x618;
        /// Moved by VMLOAD and VMSAVE.
        KERNEL_GS_BASE: u64 = 0x620;
        /// Moved by VMLOAD and VMSAVE.
        SYSENTER_CS: u64 = 0x628;
        /// Moved by VMLOAD and VMSAVE.
        SYSENTER_ESP: u64 = 0x630;
        /// Moved by VMLOAD and VMSAVE.
        SYSENTER_EIP: u64 = 0x638;
        /// Linear address of the last page fault.
        CR2: u64 = 0x640, kept by CR2;
        /// The guest's PAT; counts under nested paging alone.
        G_PAT: u64 = 0x668, kept by NESTED_PAGING;
        /// DebugCtl, under last-branch virtualization.
        DBGCTL: u64 = 0x670, kept by LAST_BRANCH_RECORDS;
        /// Source of the last branch, under last-branch virtualization.
        BR_FROM: u64 = 0x678, kept by LAST_BRANCH_RECORDS;
        /// Target of the last branch, under last-branch virtualization.
        BR_TO: u64 = 0x680, kept by LAST_BRANCH_RECORDS;
        /// Source of the last branch before an exception or interrupt, likewise.
        LAST_EXCEPTION_FROM: u64 = 0x688, kept by LAST_BRANCH_RECORDS;
        /// Target of the last branch before an exception or interrupt, likewise.
        LAST_EXCEPTION_TO: u64 = 0x690, kept by LAST_BRANCH_RECORDS;
        /// SPEC_CTRL, where that is virtualized.
        SPEC_CTRL: u64 = 0x6E0;
    }
}

/// A VMCB, over its bytes.
#[derive(Clone, Copy)]
pub struct Vmcb<B>(B);

impl<B: AsRef<[u8]>> Vmcb<B> {
    /// None unless there are exactly 4 KiB.
    pub fn new(bytes: B) -> Option<Self> {
        (bytes.as_ref().len() == SIZE).then_some(Self(bytes))
    }

    /// The bytes, with all that was set.
    pub fn into_inner(self) -> B {
        self.0
    }

    /// Reads in place.
    pub fn get<T: Value>(&self, field: Field<T>) -> T {
        let offset = field.offset as usize;
        T::load(&self.0.as_ref()[offset..offset + T::SIZE])
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Vmcb<B> {
    /// Writes in place; the clean bits are the caller's to clear.
    pub fn set<T: Value>(&mut self, field: Field<T>, value: T) {
        let offset = field.offset as usize;
        value.store(&mut self.0.as_mut()[offset..offset + T::SIZE]);
    }
}

/// VMCB 060h–067h: virtual interrupts. [APM2 "Virtual Interrupts"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "int_ctl")]
pub struct InterruptControl {
    /// \[3:0\] V_TPR: CR8 of the guest.
    #[bits(4)]
    pub task_priority: u8,
    #[bits(4)]
    __: u8,
    /// \[8\] V_IRQ; ignored with AVIC.
    pub is_interrupt_pending: bool,
    /// \[9\] V_GIF
    pub virtual_gif: bool,
    __: bool,
    /// \[11\] V_NMI
    pub is_nmi_pending: bool,
    /// \[12\] V_NMI_MASK
    pub is_nmi_masked: bool,
    #[bits(3)]
    __: u8,
    /// \[19:16\] V_INTR_PRIO; ignored with AVIC.
    #[bits(4)]
    pub interrupt_priority: u8,
    /// \[20\] V_IGN_TPR; ignored with AVIC.
    pub ignores_task_priority: bool,
    #[bits(3)]
    __: u8,
    /// \[24\] V_INTR_MASKING
    pub masks_interrupts: bool,
    /// \[25\] AMD virtual GIF enabled
    pub virtual_gif_enabled: bool,
    /// \[26\] V_NMI_ENABLE
    pub virtual_nmi_enabled: bool,
    #[bits(3)]
    __: u8,
    /// \[30\]
    pub x2avic_enabled: bool,
    /// \[31\]
    pub avic_enabled: bool,
    /// \[39:32\] V_INTR_VECTOR; ignored with AVIC.
    pub interrupt_vector: u8,
    #[bits(24)]
    __: u32,
}

/// VMCB 068h. [APM2 "Interrupt Shadows"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "int_state")]
pub struct InterruptState {
    /// \[0\]
    pub interrupt_shadow: bool,
    /// \[1\] RFLAGS.IF of an SEV-ES guest.
    pub guest_interrupt_mask: bool,
    #[bits(62)]
    __: u64,
}

/// VMCB 090h. [APM2 "Enabling Nested Paging"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedControl {
    /// \[0\] NP_ENABLE
    pub nested_paging: bool,
    /// \[1\] SEV
    pub encrypted: bool,
    /// \[2\] SEV-ES
    pub encrypted_state: bool,
    /// \[3\] GMET
    pub guest_mode_execute_trap: bool,
    /// \[4\] SSS
    pub supervisor_shadow_stack_check: bool,
    /// \[5\] VTE
    pub virtual_transparent_encryption: bool,
    /// \[6\] ROGPT
    pub read_only_guest_page_tables: bool,
    /// \[7\]
    pub invlpgb_enabled: bool,
    #[bits(3)]
    __: u8,
    /// \[11\]
    pub page_modification_logging: bool,
    #[bits(52)]
    __: u64,
}

/// VMCB 0B8h. [APM2 "LBR Virtualization"] [APM2 "Virtual VMLOAD and VMSAVE"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualizationExtensions {
    /// \[0\]
    pub last_branch_records: bool,
    /// \[1\]
    pub virtual_vmload_vmsave: bool,
    /// \[2\]
    pub instruction_based_sampling: bool,
    /// \[3\]
    pub performance_counters: bool,
    #[bits(60)]
    __: u64,
}

/// TLB_CONTROL (VMCB 05Ch). [APM2 "TLB Flush"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TlbControl {
    /// 0: cached translations stay.
    Nothing,
    /// 1: those of every ASID, global ones and the host's too.
    FlushAll,
    /// All entries of this guest's ASID.
    FlushAsid,
    /// The entries of this guest's ASID that are not global.
    FlushAsidNonGlobal,
    /// Any other value.
    Reserved(u8),
}

impl TlbControl {
    /// Decodes the byte at 05Ch.
    pub const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Nothing,
            1 => Self::FlushAll,
            3 => Self::FlushAsid,
            7 => Self::FlushAsidNonGlobal,
            other => Self::Reserved(other),
        }
    }

    /// The byte at 05Ch.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::FlushAll => 1,
            Self::FlushAsid => 3,
            Self::FlushAsidNonGlobal => 7,
            Self::Reserved(bits) => bits,
        }
    }
}

bitflags! {
    /// VMCB 0C0h: what has not changed since the last #VMEXIT. [APM2 "VMCB State Caching"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct CleanBits: u32 {
        /// I: intercepts, TSC offset, pause filter.
        const INTERCEPTS = 1 << 0;
        /// IOPM: the bases of both permission maps.
        const PERMISSION_MAPS = 1 << 1;
        /// ASID: 058h.
        const ASID = 1 << 2;
        /// TPR: 060h–067h.
        const INTERRUPT_CONTROL = 1 << 3;
        /// NP: nCR3, G_PAT, 090h.
        const NESTED_PAGING = 1 << 4;
        /// CRx: CR0, CR3, CR4, EFER.
        const CONTROL_REGISTERS = 1 << 5;
        /// DRx: DR6, DR7.
        const DEBUG_REGISTERS = 1 << 6;
        /// DT: GDTR, IDTR.
        const DESCRIPTOR_TABLES = 1 << 7;
        /// SEG: CS, DS, SS, ES, CPL.
        const SEGMENTS = 1 << 8;
        /// CR2: 640h.
        const CR2 = 1 << 9;
        /// LBR: DBGCTL and the branch records.
        const LAST_BRANCH_RECORDS = 1 << 10;
        /// AVIC: 098h, 0E0h, 0F0h, 0F8h.
        const AVIC = 1 << 11;
        /// S_CET, SSP, ISST_ADDR.
        const CET = 1 << 12;

        const _ = !0;
    }
}

const _: () = {
    assert!(control::INTERRUPT_CONTROL.offset() == 0x060);
    assert!(control::EXITCODE.offset() == 0x070);
    assert!(control::EVENTINJ.offset() == 0x0A8);
    assert!(control::AVIC_PHYSICAL_TABLE.offset() == 0x0F8);
    assert!(save::EFER.offset() == 0x4D0);
    assert!(save::RAX.offset() == 0x5F8);
    assert!(InterruptControl::new().with_avic_enabled(true).into_bits() == 0x8000_0000);
    assert!(InterruptControl::new().with_x2avic_enabled(true).into_bits() == 0x4000_0000);
    assert!(InterruptControl::new().with_masks_interrupts(true).into_bits() == 0x0100_0000);
};
