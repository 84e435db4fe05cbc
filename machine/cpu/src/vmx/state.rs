//! What VMX adds to a processor's state.

use super::check::Controls;
use crate::CpuModel;
use arch::address::SystemPhysical;
use arch::time::Picoseconds;
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
    pub feature_control: FeatureControl,
    /// The VMXON region: `None` outside VMX operation.
    pub vmxon: Option<SystemPhysical>,
    /// The current VMCS.
    pub vmcs: Option<SystemPhysical>,
    pub costs: VmxCosts,
    pub current: Option<Box<Guest>>,
    /// The root of the extended page tables that each VPID last ran with.
    pub(super) roots: std::collections::BTreeMap<u16, u64>,
}

/// What the steps that are no instructions take; nothing until a board says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VmxCosts {
    /// From VMLAUNCH or VMRESUME to the guest's first instruction.
    pub entry: Picoseconds,
    /// From the guest's last instruction to the host's first.
    pub exit: Picoseconds,
}

impl Vmx {
    /// The registers at power-on. Firmware locks feature control with VMX on.
    pub fn new(model: &CpuModel) -> Self {
        Self {
            capabilities: super::capability::of(model),
            feature_control: FeatureControl::new().with_is_locked(true).with_vmx_outside_smx(true),
            vmxon: None,
            vmcs: None,
            costs: VmxCosts::default(),
            current: None,
            roots: std::collections::BTreeMap::new(),
        }
    }

    /// In VMX operation, whose root has no guest.
    pub fn is_root(&self) -> bool {
        self.vmxon.is_some() && self.current.is_none()
    }
}

/// A guest between a VM entry and a VM exit: what the processor remembers of its VMCS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    pub vmcs: SystemPhysical,
    pub controls: Controls,
    pub exceptions: u32,
    pub page_fault_mask: u32,
    pub page_fault_match: u32,
    pub cr0: Shadowed,
    pub cr4: Shadowed,
    /// Values that MOV to CR3 may load without an exit.
    pub cr3_targets: [u64; 4],
    pub cr3_target_count: u8,
    pub io_bitmaps: [SystemPhysical; 2],
    pub msr_bitmaps: SystemPhysical,
    pub tsc_offset: u64,
    pub tsc_multiplier: u64,
    pub vpid: u16,
    pub ept: Option<Ept>,
    pub blocks_virtual_nmis: bool,
    /// The count of the time-stamp counter, shifted by the timer's rate, at which it expires.
    pub timer: Option<u64>,
    pub pause: PauseLoop,
    pub injection: Option<Injection>,
    pub apicv: Option<Apicv>,
    /// The exit of a task priority that the entry found below its threshold.
    pub due_after_injection: Option<ApicvExit>,
    /// Instructions that had been completed when the monitor trap flag began to wait for one.
    pub monitor_trap: Option<u64>,
    /// Instructions that had been completed when the guest was woken from HLT.
    pub halted_at: Option<u64>,
    /// Why the guest is about to leave.
    pub exit: Option<Exit>,
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
    pub pointer: EptPointer,
    /// The page-modification log.
    pub log: Option<SystemPhysical>,
    pub log_index: u16,
    /// What the last translation of an operand grants: writes, fetches.
    pub(crate) grants: (bool, bool),
}

/// Times between PAUSEs. [SDM3 "PAUSE-Loop Exiting"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PauseLoop {
    pub gap: u32,
    pub window: u32,
    /// The time stamp of the first PAUSE of the loop, and of the last.
    pub first: Option<u64>,
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
    pub event: InterruptionInfo,
    pub error_code: u32,
    pub length: u32,
}

/// Why a guest leaves, and what the exit-information fields are going to say. Fields that an exit
/// does not define are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub reason: ExitReason,
    pub qualification: u64,
    pub interruption: InterruptionInfo,
    pub error_code: u32,
    pub instruction_length: u32,
    pub instruction_information: u32,
    pub linear: u64,
    pub physical: u64,
    /// RFLAGS.RF as it is saved; `None` leaves it.
    pub resume_flag: Option<bool>,
}

impl Exit {
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

    pub fn qualified(reason: ExitReason, qualification: u64) -> Self {
        Self { qualification, ..Self::new(reason) }
    }
}
