//! Events that are injected and reported, and what holds them up.
//! [SDM3 "VM-Entry Controls for Event Injection"] [SDM3 "Guest Non-Register State"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// The VM-entry, VM-exit and IDT-vectoring information fields (4016h, 4404h, 4408h), which newer
/// editions call injected-, exiting- and original-event identification.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IDT-vectoring information")]
pub struct InterruptionInfo {
    /// \[7:0\]
    pub vector: u8,
    /// \[10:8\]
    #[bits(3)]
    pub kind: InterruptionType,
    /// \[11\] an error code is to be, or was, delivered.
    pub has_error_code: bool,
    /// \[12\] in the VM-exit field alone: an IRET that faulted had unblocked NMIs.
    pub unblocked_nmi_by_iret: bool,
    #[bits(18)]
    __: u32,
    /// \[31\]
    pub is_valid: bool,
}

impl InterruptionInfo {
    /// Bits that a VM entry with a valid field refuses.
    pub const ENTRY_RESERVED: u32 = 0x7FFF_F000;

    /// An event as an entry or exit reports it.
    pub const fn event(kind: InterruptionType, vector: u8, has_error_code: bool) -> Self {
        Self::new()
            .with_vector(vector)
            .with_kind(kind)
            .with_has_error_code(has_error_code)
            .with_is_valid(true)
    }
}

/// What kind of event a vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum InterruptionType {
    /// A maskable interrupt from outside.
    External = 0,
    /// Illegal in the VM-entry field, and never reported.
    Reserved = 1,
    /// Vector 2.
    Nmi = 2,
    /// A fault, trap or abort that the processor raised itself.
    HardwareException = 3,
    /// INT n
    SoftwareInterrupt = 4,
    /// INT1
    PrivilegedSoftwareException = 5,
    /// INT3 and INTO
    SoftwareException = 6,
    /// With vector 0 in the VM-entry field: a monitor trap flag exit is pending.
    Other = 7,
}

impl InterruptionType {
    /// Decodes bits 10:8.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::External,
            1 => Self::Reserved,
            2 => Self::Nmi,
            3 => Self::HardwareException,
            4 => Self::SoftwareInterrupt,
            5 => Self::PrivilegedSoftwareException,
            6 => Self::SoftwareException,
            _ => Self::Other,
        }
    }

    /// Bits 10:8.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }

    /// Made by an instruction, whose length matters.
    pub const fn is_software(self) -> bool {
        matches!(
            self,
            Self::SoftwareInterrupt | Self::PrivilegedSoftwareException | Self::SoftwareException
        )
    }
}

/// Interruptibility state, field 4824h.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruptibility {
    /// \[0\]
    pub blocked_by_sti: bool,
    /// \[1\]
    pub blocked_by_mov_ss: bool,
    /// \[2\]
    pub blocked_by_smi: bool,
    /// \[3\] of NMIs, or of virtual NMIs under that control.
    pub blocked_by_nmi: bool,
    /// \[4\]
    pub is_enclave_interruption: bool,
    /// \[31:5\]
    #[bits(27)]
    pub reserved: u32,
}

impl Interruptibility {
    /// Interrupts are held up for one instruction.
    pub const fn has_shadow(self) -> bool {
        self.blocked_by_sti() || self.blocked_by_mov_ss()
    }
}

/// Activity state, field 4826h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activity {
    /// 0: executing instructions.
    Active,
    /// 1: HLT was executed; an event ends it.
    Hlt,
    /// 2: a triple fault or the like happened.
    Shutdown,
    /// 3: INIT was taken; a SIPI ends it.
    WaitForSipi,
    /// A number that the manual does not list.
    Unknown(u32),
}

impl Activity {
    /// Decodes the 32 bits of the field.
    pub const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::Active,
            1 => Self::Hlt,
            2 => Self::Shutdown,
            3 => Self::WaitForSipi,
            other => Self::Unknown(other),
        }
    }

    /// The 32 bits of the field.
    pub const fn into_bits(self) -> u32 {
        match self {
            Self::Active => 0,
            Self::Hlt => 1,
            Self::Shutdown => 2,
            Self::WaitForSipi => 3,
            Self::Unknown(bits) => bits,
        }
    }
}

/// Pending debug exceptions, field 6822h.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingDebug {
    /// \[3:0\] B0–B3: breakpoints whose conditions were met, enabled or not.
    #[bits(4)]
    pub breakpoints: u8,
    #[bits(7)]
    __: u8,
    /// \[11\] BLD
    pub bus_lock: bool,
    /// \[12\] at least one of the breakpoints was enabled.
    pub has_enabled_breakpoint: bool,
    __: bool,
    /// \[14\] BS
    pub single_step: bool,
    __: bool,
    /// \[16\] RTM
    pub in_transaction: bool,
    #[bits(47)]
    __: u64,
}

impl PendingDebug {
    /// Bits that a VM entry refuses: 11:4, 13, 15, 63:17. With bus-lock detection 11 is legal.
    pub const RESERVED: u64 = !(0xF | 1 << 12 | 1 << 14 | 1 << 16);

    /// Whether a #DB is pending.
    pub const fn is_pending(self) -> bool {
        self.single_step() || self.has_enabled_breakpoint()
    }
}
