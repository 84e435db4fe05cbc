//! The virtual machine control block: 4 KiB, addressed by RAX in VMRUN.
//! [APM2 "Layout of VMCB"]
//!
//! A [`Field`] is an offset with the type of what lies there, so that a VMCB in guest memory is
//! read and written in place, with no copy of a page and no pointer cast.

use super::avic;
use super::event::Injection;
use super::intercept::{Intercepts, Vector3, Vector4, Vector5};
use super::segment::{Segment, SegmentAttributes};
use bitfield_struct::bitfield;
use bitflags::bitflags;
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
    /// From exactly [`Self::SIZE`] bytes.
    fn load(bytes: &[u8]) -> Self;
    /// Into exactly [`Self::SIZE`] bytes.
    fn store(self, bytes: &mut [u8]);
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
    ($($name:ty: $integer:ty, $from:ident, $into:ident;)*) => {$(
        impl Value for $name {
            const SIZE: usize = size_of::<$integer>();
            fn load(bytes: &[u8]) -> Self {
                Self::$from(<$integer>::load(bytes))
            }
            fn store(self, bytes: &mut [u8]) {
                self.$into().store(bytes);
            }
        }
    )*};
}

integer_value!(u8, u16, u32, u64);
bits_value! {
    InterruptControl: u64, from_bits, into_bits;
    InterruptState: u64, from_bits, into_bits;
    Injection: u64, from_bits, into_bits;
    NestedControl: u64, from_bits, into_bits;
    VirtualizationExtensions: u64, from_bits, into_bits;
    avic::PhysicalTablePointer: u64, from_bits, into_bits;
    CleanBits: u32, from_bits_retain, bits;
    Vector3: u32, from_bits_retain, bits;
    Vector4: u32, from_bits_retain, bits;
    Vector5: u32, from_bits_retain, bits;
}

impl Value for Segment {
    const SIZE: usize = 16;
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

/// The control area, 000h–3FFh. [APM2 "VMCB Layout, Control Area"]
pub mod control {
    use super::*;

    /// 000h–017h
    pub const INTERCEPTS: Field<Intercepts> = Field::at(0x000);
    /// Cycles between two PAUSEs that restart the count; 0 is never.
    pub const PAUSE_FILTER_THRESHOLD: Field<u16> = Field::at(0x03C);
    /// PAUSEs that pass before one exits.
    pub const PAUSE_FILTER_COUNT: Field<u16> = Field::at(0x03E);
    /// The I/O permission map, bits 51:12: see [`crate::svm::msr::IO_PERMISSION_MAP_SIZE`].
    pub const IOPM_BASE_PA: Field<u64> = Field::at(0x040);
    /// The MSR permission map, bits 51:12: see [`crate::svm::msr::permission_bit`].
    pub const MSRPM_BASE_PA: Field<u64> = Field::at(0x048);
    /// Added to the scaled TSC that the guest reads.
    pub const TSC_OFFSET: Field<u64> = Field::at(0x050);
    /// Tags the guest's translations; 0 is the host's and illegal.
    pub const GUEST_ASID: Field<u32> = Field::at(0x058);
    /// See [`TlbControl`].
    pub const TLB_CONTROL: Field<u8> = Field::at(0x05C);
    /// V_TPR, V_IRQ and their kin, and V_INTR_VECTOR.
    pub const INTERRUPT_CONTROL: Field<InterruptControl> = Field::at(0x060);
    /// Whether the guest is in an interrupt shadow.
    pub const INTERRUPT_STATE: Field<InterruptState> = Field::at(0x068);
    /// See [`crate::svm::ExitCode`].
    pub const EXITCODE: Field<u64> = Field::at(0x070);
    /// By exit code.
    pub const EXITINFO1: Field<u64> = Field::at(0x078);
    /// By exit code.
    pub const EXITINFO2: Field<u64> = Field::at(0x080);
    /// The event whose delivery the exit interrupted.
    pub const EXITINTINFO: Field<Injection> = Field::at(0x088);
    /// 090h: nested paging and encryption.
    pub const NESTED_CONTROL: Field<NestedControl> = Field::at(0x090);
    /// Guest physical base of the APIC page, bits 51:12.
    pub const AVIC_APIC_BAR: Field<u64> = Field::at(0x098);
    /// The event that VMRUN delivers before the guest's first instruction.
    pub const EVENTINJ: Field<Injection> = Field::at(0x0A8);
    /// CR3 of the nested tables.
    pub const N_CR3: Field<u64> = Field::at(0x0B0);
    /// 0B8h: last-branch records, VMLOAD and VMSAVE.
    pub const VIRTUALIZATION_EXTENSIONS: Field<VirtualizationExtensions> = Field::at(0x0B8);
    /// What the processor may keep from the last run of this VMCB.
    pub const CLEAN_BITS: Field<CleanBits> = Field::at(0x0C0);
    /// RIP of the next instruction, at exits of instructions; 0 at others.
    pub const N_RIP: Field<u64> = Field::at(0x0C8);
    /// 0D0h–0DFh: what decode assists have fetched.
    pub const FETCHED_BYTES: Field<FetchedBytes> = Field::at(0x0D0);
    /// Bits 51:12.
    pub const AVIC_BACKING_PAGE: Field<u64> = Field::at(0x0E0);
    /// Bits 51:12.
    pub const AVIC_LOGICAL_TABLE: Field<u64> = Field::at(0x0F0);
    /// The table's base, and the last index in use.
    pub const AVIC_PHYSICAL_TABLE: Field<avic::PhysicalTablePointer> = Field::at(0x0F8);
    /// Bus locks that the guest has left; an exit at 0.
    pub const BUS_LOCK_THRESHOLD: Field<u16> = Field::at(0x120);
}

/// The state save area, from 400h. [APM2 "VMCB Layout, State Save Area"]
pub mod save {
    use super::*;

    /// ES
    pub const ES: Field<Segment> = Field::at(0x400);
    /// CS
    pub const CS: Field<Segment> = Field::at(0x410);
    /// SS
    pub const SS: Field<Segment> = Field::at(0x420);
    /// DS
    pub const DS: Field<Segment> = Field::at(0x430);
    /// FS; VMLOAD and VMSAVE move the hidden part.
    pub const FS: Field<Segment> = Field::at(0x440);
    /// GS; VMLOAD and VMSAVE move the hidden part.
    pub const GS: Field<Segment> = Field::at(0x450);
    /// Base and limit alone count.
    pub const GDTR: Field<Segment> = Field::at(0x460);
    /// Moved by VMLOAD and VMSAVE.
    pub const LDTR: Field<Segment> = Field::at(0x470);
    /// Base and limit alone count.
    pub const IDTR: Field<Segment> = Field::at(0x480);
    /// Moved by VMLOAD and VMSAVE.
    pub const TR: Field<Segment> = Field::at(0x490);
    /// Current privilege level; VMRUN takes it, and not SS.DPL.
    pub const CPL: Field<u8> = Field::at(0x4CB);
    /// SVME must be set.
    pub const EFER: Field<u64> = Field::at(0x4D0);
    /// See [`crate::control::Cr4`].
    pub const CR4: Field<u64> = Field::at(0x548);
    /// Of the guest's own tables.
    pub const CR3: Field<u64> = Field::at(0x550);
    /// See [`crate::control::Cr0`].
    pub const CR0: Field<u64> = Field::at(0x558);
    /// Bits 63:32 must be zero.
    pub const DR7: Field<u64> = Field::at(0x560);
    /// Bits 63:32 must be zero.
    pub const DR6: Field<u64> = Field::at(0x568);
    /// See [`crate::control::rflags`].
    pub const RFLAGS: Field<u64> = Field::at(0x570);
    /// The instruction at which the guest goes on.
    pub const RIP: Field<u64> = Field::at(0x578);
    /// The stack pointer; other general registers but RAX are software's to swap.
    pub const RSP: Field<u64> = Field::at(0x5D8);
    /// Control-flow enforcement at CPL 0–2.
    pub const S_CET: Field<u64> = Field::at(0x5E0);
    /// The shadow stack's pointer.
    pub const SSP: Field<u64> = Field::at(0x5E8);
    /// Linear address of the interrupt shadow-stack table.
    pub const ISST_ADDR: Field<u64> = Field::at(0x5F0);
    /// The only general register, beside RSP, that VMRUN and #VMEXIT swap.
    pub const RAX: Field<u64> = Field::at(0x5F8);
    /// Moved by VMLOAD and VMSAVE.
    pub const STAR: Field<u64> = Field::at(0x600);
    /// Moved by VMLOAD and VMSAVE.
    pub const LSTAR: Field<u64> = Field::at(0x608);
    /// Moved by VMLOAD and VMSAVE.
    pub const CSTAR: Field<u64> = Field::at(0x610);
    /// Moved by VMLOAD and VMSAVE.
    pub const SFMASK: Field<u64> = Field::at(0x618);
    /// Moved by VMLOAD and VMSAVE.
    pub const KERNEL_GS_BASE: Field<u64> = Field::at(0x620);
    /// Moved by VMLOAD and VMSAVE.
    pub const SYSENTER_CS: Field<u64> = Field::at(0x628);
    /// Moved by VMLOAD and VMSAVE.
    pub const SYSENTER_ESP: Field<u64> = Field::at(0x630);
    /// Moved by VMLOAD and VMSAVE.
    pub const SYSENTER_EIP: Field<u64> = Field::at(0x638);
    /// Linear address of the last page fault.
    pub const CR2: Field<u64> = Field::at(0x640);
    /// The guest's PAT; counts under nested paging alone.
    pub const G_PAT: Field<u64> = Field::at(0x668);
    /// DebugCtl, under last-branch virtualization.
    pub const DBGCTL: Field<u64> = Field::at(0x670);
    /// Source of the last branch, under last-branch virtualization.
    pub const BR_FROM: Field<u64> = Field::at(0x678);
    /// Target of the last branch, under last-branch virtualization.
    pub const BR_TO: Field<u64> = Field::at(0x680);
    /// Source of the last branch before an exception or interrupt, likewise.
    pub const LAST_EXCEPTION_FROM: Field<u64> = Field::at(0x688);
    /// Target of the last branch before an exception or interrupt, likewise.
    pub const LAST_EXCEPTION_TO: Field<u64> = Field::at(0x690);
    /// SPEC_CTRL, where that is virtualized.
    pub const SPEC_CTRL: Field<u64> = Field::at(0x6E0);
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
