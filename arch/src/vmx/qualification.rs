//! What the exit-qualification field (6400h) says per exit reason.
//! [SDM3 "Exit Qualification"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// A debug exception: what DR6 would have held.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugException {
    /// \[3:0\] B0–B3
    #[bits(4)]
    pub breakpoints: u8,
    #[bits(7)]
    __: u8,
    /// \[11\] BLD
    pub bus_lock: bool,
    __: bool,
    /// \[13\] BD
    pub debug_register_access: bool,
    /// \[14\] BS
    pub single_step: bool,
    __: bool,
    /// \[16\] RTM
    pub in_transaction: bool,
    #[bits(47)]
    __: u64,
}

/// [`super::ExitReason::TaskSwitch`]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSwitch {
    /// \[15:0\] of the new TSS.
    pub selector: u16,
    #[bits(14)]
    __: u16,
    /// \[31:30\]
    #[bits(2)]
    pub source: TaskSwitchSource,
    __: u32,
}

/// What began a task switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum TaskSwitchSource {
    /// CALL.
    Call = 0,
    /// IRET.
    Iret = 1,
    /// JMP.
    Jump = 2,
    /// A task gate in the IDT.
    Gate = 3,
}

impl TaskSwitchSource {
    /// Decodes bits 31:30.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Call,
            1 => Self::Iret,
            2 => Self::Jump,
            _ => Self::Gate,
        }
    }

    /// Bits 31:30.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// [`super::ExitReason::ControlRegister`]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlAccess {
    /// \[3:0\] 0 for CLTS and LMSW.
    #[bits(4)]
    pub register: u8,
    /// \[5:4\]
    #[bits(2)]
    pub kind: ControlAccessKind,
    /// \[6\] of LMSW.
    pub is_memory_operand: bool,
    __: bool,
    /// \[11:8\] of MOV.
    #[bits(4)]
    pub general_register: u8,
    #[bits(4)]
    __: u8,
    /// \[31:16\] of LMSW.
    pub machine_status: u16,
    __: u32,
}

/// How a control register was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ControlAccessKind {
    /// MOV to CR.
    MoveTo = 0,
    /// MOV from CR.
    MoveFrom = 1,
    /// CLTS.
    Clts = 2,
    /// LMSW.
    Lmsw = 3,
}

impl ControlAccessKind {
    /// Decodes bits 5:4.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::MoveTo,
            1 => Self::MoveFrom,
            2 => Self::Clts,
            _ => Self::Lmsw,
        }
    }

    /// Bits 5:4.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// [`super::ExitReason::DebugRegister`]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugAccess {
    /// \[2:0\]
    #[bits(3)]
    pub register: u8,
    __: bool,
    /// \[4\]
    pub is_read: bool,
    #[bits(3)]
    __: u8,
    /// \[11:8\]
    #[bits(4)]
    pub general_register: u8,
    #[bits(52)]
    __: u64,
}

/// [`super::ExitReason::IoInstruction`]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct IoInstruction {
    /// \[2:0\] bytes less one: 0, 1 or 3.
    #[bits(3)]
    pub size_less_one: u8,
    /// \[3\]
    pub is_input: bool,
    /// \[4\]
    pub is_string: bool,
    /// \[5\]
    pub is_repeated: bool,
    /// \[6\] the port stands in the instruction, not in DX.
    pub is_immediate: bool,
    #[bits(9)]
    __: u16,
    /// \[31:16\]
    pub port: u16,
    __: u32,
}

/// [`super::ExitReason::EptViolation`] [SDM3 "EPT Violations"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct EptViolation {
    /// \[0\]
    pub is_read: bool,
    /// \[1\] set with bit 0 for an access to a guest table while EPT keeps accessed flags.
    pub is_write: bool,
    /// \[2\]
    pub is_fetch: bool,
    /// \[3\] all entries of the walk allow reads; 0 if any was not present.
    pub is_readable: bool,
    /// \[4\]
    pub is_writable: bool,
    /// \[5\] for supervisor-mode addresses, with mode-based execute control.
    pub is_executable: bool,
    /// \[6\] with mode-based execute control.
    pub is_user_executable: bool,
    /// \[7\] not so when MOV to CR loads PDPTEs.
    pub has_linear_address: bool,
    /// \[8\] the translation of a linear address, not of a guest table's address.
    pub is_final_translation: bool,
    /// \[9\] the guest's tables make it a user-mode address; 11:9 need capability bit 22 and bits
    /// 7, 8.
    pub guest_is_user: bool,
    /// \[10\]
    pub guest_is_writable: bool,
    /// \[11\]
    pub guest_is_execute_disabled: bool,
    /// \[12\] an IRET that faulted had unblocked NMIs.
    pub unblocked_nmi_by_iret: bool,
    /// \[13\]
    pub is_shadow_stack_access: bool,
    /// \[14\]
    pub guest_is_shadow_stack: bool,
    /// \[15\]
    pub failed_paging_verification: bool,
    /// \[16\] asynchronous to the instruction.
    pub is_asynchronous: bool,
    #[bits(47)]
    __: u64,
}

/// [`super::ExitReason::PageModificationLogFull`]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFull {
    #[bits(12)]
    __: u16,
    /// \[12\] an IRET that faulted had unblocked NMIs.
    pub unblocked_nmi_by_iret: bool,
    #[bits(51)]
    __: u64,
}

/// [`super::ExitReason::ApicAccess`] [SDM3 "Exit Qualification for APIC-Access VM Exits"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ApicAccess {
    /// \[11:0\] within the page; undefined for guest-physical accesses.
    #[bits(12)]
    pub offset: u16,
    /// \[15:12\]
    #[bits(4)]
    pub kind: ApicAccessKind,
    /// \[16\]
    pub is_asynchronous: bool,
    #[bits(47)]
    __: u64,
}

/// How the APIC-access page was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ApicAccessKind {
    /// A data read, through a linear address.
    LinearRead,
    /// A data write, through a linear address.
    LinearWrite,
    /// An instruction fetch, through a linear address.
    LinearFetch,
    /// While an event was delivered.
    LinearDelivery,
    /// By MONITOR.
    LinearMonitor,
    /// While an event was delivered.
    PhysicalDelivery,
    /// A fetch, or while an instruction was executed.
    PhysicalInstruction,
    /// A number that the manual does not list.
    Unknown(u8),
}

impl ApicAccessKind {
    /// Decodes bits 15:12.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 15 {
            0 => Self::LinearRead,
            1 => Self::LinearWrite,
            2 => Self::LinearFetch,
            3 => Self::LinearDelivery,
            4 => Self::LinearMonitor,
            10 => Self::PhysicalDelivery,
            15 => Self::PhysicalInstruction,
            other => Self::Unknown(other),
        }
    }

    /// Bits 15:12.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::LinearRead => 0,
            Self::LinearWrite => 1,
            Self::LinearFetch => 2,
            Self::LinearDelivery => 3,
            Self::LinearMonitor => 4,
            Self::PhysicalDelivery => 10,
            Self::PhysicalInstruction => 15,
            Self::Unknown(bits) => bits & 15,
        }
    }
}

/// [`super::ExitReason::Mwait`]: whether address-range monitoring was armed.
pub const MWAIT_ARMED: u64 = 1;

/// [`super::ExitReason::InstructionTimeout`]: the VMCS's guest state is corrupt.
pub const TIMEOUT_CONTEXT_INVALID: u64 = 1;

/// [`super::ExitReason::InvalidGuestState`]: which check failed.
/// [SDM3 "VM-Entry Failures During or After Loading Guest State"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum GuestStateFailure {
    /// Any of the checks that have no number of their own.
    Other = 0,
    /// The page-directory pointers of a PAE guest.
    Pdptes = 2,
    /// An NMI was to be injected while STI blocks.
    NmiUnderSti = 3,
    /// The VMCS link pointer.
    LinkPointer = 4,
}
