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
mod state;

pub(crate) use arrival::{Arrival, Written};
pub(crate) use sensitive::{Form, Io, Sensitive, Table};
pub use state::Guest;
pub(crate) use state::OwnRights;

use crate::execute::Family;
use crate::{Bus, Cpu};

/// The vendors' own instructions.
pub(crate) const FAMILIES: &[Family] =
    &[crate::svm::instruction::bind, crate::vmx::instruction::bind];

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
