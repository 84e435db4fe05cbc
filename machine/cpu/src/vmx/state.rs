//! What VMX adds to a processor's state.

use super::check::Controls;
use crate::CpuModel;
use arch::address::SystemPhysical;
use arch::vmx::ept::EptPointer;
use arch::vmx::msr::FeatureControl;
use arch::vmx::{ExitReason, InterruptionInfo, VmxCapabilities};
use serde::{Deserialize, Serialize};
use virtual_apic::apicv::{Apicv, ApicvExit};

/// VMX's registers, and the guest while there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vmx {
    /// `None` on a processor without VMX.
    pub capabilities: Option<VmxCapabilities>,
    /// IA32_FEATURE_CONTROL as firmware left it.
    pub feature_control: FeatureControl,
    /// The VMXON region: `None` outside VMX operation.
    pub vmxon: Option<SystemPhysical>,
    /// The current VMCS's address; `None` where VMCLEAR or nothing made it so. [SDM3 "VMPTRLD—Load
    /// Pointer"]
    pub vmcs: Option<SystemPhysical>,
    /// The root of the extended page tables that each VPID last ran with.
    pub(super) roots: std::collections::BTreeMap<u16, u64>,
}

impl Vmx {
    /// The registers at power-on. Firmware locks feature control with VMX on.
    pub fn new(model: &CpuModel) -> Self {
        Self {
            capabilities: super::capability::of(model),
            feature_control: FeatureControl::new().with_is_locked(true).with_vmx_outside_smx(true),
            vmxon: None,
            vmcs: None,
            roots: std::collections::BTreeMap::new(),
        }
    }

    /// What INIT resets.
    pub(crate) fn initialize(&mut self) {
        self.vmxon = None;
        self.vmcs = None;
    }
}

/// A guest between a VM entry and a VM exit: what the processor remembers of its VMCS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// The region that holds its VMCS.
    pub vmcs: SystemPhysical,
    /// VM-execution, exit and entry controls as the entry found them.
    pub controls: Controls,
    /// Bit n: exception of vector n exits.
    pub exceptions: u32,
    /// With [`Self::page_fault_match`]: which error codes of page faults exit.
    pub page_fault_mask: u32,
    /// What the masked error code is compared with.
    pub page_fault_match: u32,
    /// Bits of CR0 that are the hypervisor's, and what the guest reads there.
    pub cr0: Shadowed,
    /// The same of CR4.
    pub cr4: Shadowed,
    /// Values that MOV to CR3 may load without an exit.
    pub cr3_targets: [u64; 4],
    /// How many of [`Self::cr3_targets`] count, at most four.
    pub cr3_target_count: u8,
    /// Bitmaps of ports 0000H–7FFFH and 8000H–FFFFH; used where the controls say so.
    pub io_bitmaps: [SystemPhysical; 2],
    /// Bitmaps of MSRs: reads of low and high ones, then writes; used where the controls say so.
    pub msr_bitmaps: SystemPhysical,
    /// VMREAD and VMWRITE of the guest; `None` if they exit.
    pub shadowing: Option<Shadowing>,
    /// The physical address of the EPT pointers that VMFUNC chooses from; `None` without.
    pub ept_pointers: Option<SystemPhysical>,
    /// Where EPT violations become #VE; `None` if they all exit.
    pub exception_area: Option<SystemPhysical>,
    /// Added to the time-stamp counter that the guest reads, after it is scaled.
    pub tsc_offset: u64,
    /// The guest's counts per count of the host, with 48 fractional bits; 2^48 is one to one.
    pub tsc_multiplier: u64,
    /// Tags its translations; zero is the host's, and that of guests without a tag.
    pub vpid: u16,
    /// Extended paging; `None` where the control is off.
    pub ept: Option<Ept>,
    /// Virtual NMIs are blocked until the guest's IRET.
    pub blocks_virtual_nmis: bool,
    /// The count of the time-stamp counter, shifted by the timer's rate, at which it expires.
    pub timer: Option<u64>,
    /// What PAUSE-loop exiting remembers.
    pub pause: PauseLoop,
    /// What the entry has still to inject.
    pub injection: Option<Injection>,
    /// APIC virtualization's state; `None` where no control of it is on.
    pub apicv: Option<Apicv>,
    /// The exit of a task priority that the entry found below its threshold.
    pub due_after_injection: Option<ApicvExit>,
    /// What the monitor trap flag waits for; `None` without it.
    pub monitor_trap: Option<MonitorTrap>,
    /// Instructions that had been completed when the guest was woken from HLT.
    pub halted_at: Option<u64>,
    /// Why the guest is about to leave.
    pub exit: Option<Exit>,
}

/// What the monitor trap flag waits for. [SDM3 "Monitor Trap Flag"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MonitorTrap {
    /// The end of the entry.
    Entry,
    /// An instruction, or the delivery of an event: so many instructions had been completed.
    Instruction(u64),
    /// Nothing: the exit is due at this boundary.
    Due,
}

/// VMCS shadowing as the entry found it. [SDM3 "VMCS Shadowing Bitmap Addresses"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadowing {
    /// A bit for each encoding whose VMREAD exits.
    pub reads: SystemPhysical,
    /// As `reads`, for VMWRITE.
    pub writes: SystemPhysical,
    /// The shadow VMCS; `None` without a link pointer.
    pub vmcs: Option<SystemPhysical>,
}

/// A control register that a hypervisor owns in part. [SDM3 "Guest/Host Masks and Read Shadows"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shadowed {
    /// Bits that are the hypervisor's.
    pub mask: u64,
    /// What the guest reads there.
    pub shadow: u64,
}

impl Shadowed {
    /// What the guest reads.
    pub const fn shown(self, actual: u64) -> u64 {
        actual & !self.mask | self.shadow & self.mask
    }

    /// What becomes of a write that does not exit.
    pub const fn written(self, actual: u64, value: u64) -> u64 {
        actual & self.mask | value & !self.mask
    }

    /// Whether a write of `value` tries to change what the hypervisor owns.
    pub const fn refuses(self, value: u64) -> bool {
        (value ^ self.shadow) & self.mask != 0
    }
}

/// Extended paging as the entry found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ept {
    /// The extended-page-table pointer of the VMCS.
    pub pointer: EptPointer,
    /// The page-modification log.
    pub log: Option<SystemPhysical>,
    /// Entry of the log that is written next, 511 downwards; beyond that the log is full.
    pub log_index: u16,
    /// Mode-based execute control: fetches from user-mode addresses have a permission of their own.
    pub separates_users: bool,
    /// What the last translation of an operand grants: writes, fetches.
    pub(crate) grants: (bool, bool),
}

/// Times between PAUSEs. [SDM3 "PAUSE-Loop Exiting"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PauseLoop {
    /// Counts of the time stamp within which two PAUSEs belong to one loop (PLE_Gap).
    pub gap: u32,
    /// Counts of the time stamp that a loop may take before it exits (PLE_Window).
    pub window: u32,
    /// The time stamp of the first PAUSE of the loop.
    pub first: Option<u64>,
    /// The time stamp of the last PAUSE.
    pub last: u64,
}

impl PauseLoop {
    /// Whether a PAUSE at time stamp `now` exits.
    pub fn exits(&mut self, now: u64) -> bool {
        let first = self.first.filter(|_| now.wrapping_sub(self.last) <= self.gap.into());
        self.last = now;
        self.first = Some(first.unwrap_or(now));
        first.is_some_and(|first| now.wrapping_sub(first) > self.window.into())
    }
}

/// The event to be injected before the first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// Type, vector and whether an error code goes with it.
    pub event: InterruptionInfo,
    /// The error code, where `event` says that there is one.
    pub error_code: u32,
    /// Bytes of the instruction that a software event stands for, 0 to 15.
    pub length: u32,
}

/// Why a guest leaves, and what the exit-information fields are going to say. Fields that an exit
/// does not define are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The basic reason, and whether it is a failed entry.
    pub reason: ExitReason,
    /// Exit qualification; its form depends on the reason.
    pub qualification: u64,
    /// VM-exit interruption information.
    pub interruption: InterruptionInfo,
    /// VM-exit interruption error code.
    pub error_code: u32,
    /// Bytes of the instruction that exits.
    pub instruction_length: u32,
    /// VM-exit instruction information.
    pub instruction_information: u32,
    /// Guest-linear address.
    pub linear: u64,
    /// Guest-physical address.
    pub physical: u64,
    /// RFLAGS.RF as it is saved; `None` leaves it.
    pub resume_flag: Option<bool>,
}

impl Exit {
    /// An exit about which nothing but its reason is told.
    pub fn new(reason: ExitReason) -> Self {
        Self {
            reason,
            qualification: 0,
            interruption: InterruptionInfo::new(),
            error_code: 0,
            instruction_length: 0,
            instruction_information: 0,
            linear: 0,
            physical: 0,
            resume_flag: None,
        }
    }

    /// An exit with a qualification and nothing else.
    pub fn qualified(reason: ExitReason, qualification: u64) -> Self {
        Self { qualification, ..Self::new(reason) }
    }
}
