//! The seam between the processor and hardware virtualization.
//!
//! The flow of instructions and events names no vendor. It says what it is about to do, and what
//! stands behind the seam says whether that leaves the guest, in five places:
//!
//! - [`sensitive`]: an instruction that a hypervisor may look at passes `Cpu::before`;
//! - [`arrival`]: an event that a hypervisor may look at passes `Cpu::arrives`, what has been
//!   written `Cpu::after_write`;
//! - [`boundary`]: what waits between two instructions, as a table in order of priority;
//! - [`memory`]: what a guest takes for a physical address;
//! - [`register`]: registers that a guest sees in another form.
//!
//! Outside a guest each is one test. SVM and VMX stand behind it ([`crate::svm`], [`crate::vmx`]);
//! a processor has one of them at most.

pub(crate) mod arrival;
pub(crate) mod boundary;
pub(crate) mod memory;
pub(crate) mod pause;
pub(crate) mod register;
pub(crate) mod sensitive;

pub(crate) use arrival::{Arrival, Written};
pub(crate) use memory::Located;
pub(crate) use sensitive::{Form, Io, Sensitive, Table};

use crate::svm::Svm;
use crate::vmx::Vmx;
use crate::{Bus, Cpu, CpuModel};
use serde::{Deserialize, Serialize};

/// Hardware virtualization's registers, and the guest while there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// AMD's part; inert on a model without SVM.
    pub svm: Svm,
    /// Intel's part; inert on a model without VMX.
    pub vmx: Vmx,
    /// The linear address that a guest's access is being translated for; `None` where there is
    /// none.
    pub(crate) linear: Option<u64>,
    /// What the guest's own tables say of that address, once it is translated.
    pub(crate) own: OwnRights,
}

/// What the running software's tables grant to a linear address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnRights {
    /// A user-mode address: the privilege level does not matter.
    pub is_user: bool,
    pub is_writable: bool,
    pub is_executable: bool,
}

impl OwnRights {
    /// Without paging every address is a user-mode address that may be written and executed.
    /// [SDM3 "Exit Qualification for EPT Violations"]
    pub const UNPAGED: Self = Self { is_user: true, is_writable: true, is_executable: true };
}

impl Guest {
    /// The registers at power-on.
    pub fn new(model: &CpuModel) -> Self {
        let own = OwnRights::UNPAGED;
        Self { svm: Svm::new(model), vmx: Vmx::new(model), linear: None, own }
    }

    /// Whether a guest runs: the processor is between an entry and an exit.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.svm.current.is_some() || self.vmx.current.is_some()
    }

    /// INIT ends whatever runs.
    pub(crate) fn initialize(&mut self) {
        self.svm.current = None;
        self.vmx.current = None;
        self.vmx.vmxon = None;
        self.vmx.vmcs = None;
        self.svm.global_interrupts = true;
    }
}

impl Cpu {
    /// Whether a guest runs.
    pub fn is_guest(&self) -> bool {
        self.guest.is_running()
    }

    /// Leaves the guest for the reason recorded.
    pub(crate) fn leave_virtual_machine(&mut self, bus: &mut Bus<'_>) {
        if self.guest.svm.current.is_some() {
            self.leave_guest(bus);
        } else {
            self.vmx_leave(bus);
        }
    }

    /// A VM exit interrupted the delivery of a software interrupt that returns to `next`.
    pub(crate) fn report_next_ip(&mut self, next: u64) {
        self.svm_report_next_ip(next);
    }
}
