//! The seam between the processor and hardware virtualization.
//!
//! The flow of instructions and events names no vendor. It says what it is about to do, and what
//! stands behind the seam says whether that leaves the guest:
//!
//! - [`sensitive`]: an instruction that a hypervisor may look at passes `Cpu::before`;
//! - [`arrival`]: an event that a hypervisor may look at passes `Cpu::arrives`, what has been
//!   written `Cpu::after_write`;
//! - [`boundary`]: what waits between two instructions, as a table in order of priority;
//! - [`vendor`]: all that a vendor has to answer, memory and registers among it;
//! - [`dispatch`]: who answers.
//!
//! Outside a guest each is one test. SVM and VMX stand behind it ([`crate::svm`], [`crate::vmx`]);
//! a processor has one of them at most.

pub(crate) mod arrival;
pub(crate) mod boundary;
mod dispatch;
pub(crate) mod pause;
pub(crate) mod rounds;
pub(crate) mod row;
mod running;
pub(crate) mod sensitive;
mod state;
pub(crate) mod vendor;

pub(crate) use arrival::{Arrival, Written};
pub(crate) use dispatch::FAMILIES;
pub use running::Running;
pub(crate) use sensitive::{Form, Io, Sensitive, Table};
pub use state::Guest;
