//! APICv, IPI virtualization and posted interrupts: a guest's interrupt controller without exits.
//! [SDM3 "APIC Virtualization and Virtual Interrupts"]
//!
//! A guest's APIC registers lie in a virtual-APIC page. Which accesses the processor serves from
//! it depends on the VM-execution controls; the rest leaves the guest, before the access or after
//! the write. RVI and SVI say what is requested and in service. Other agents never touch the page:
//! they post into a descriptor and send a notification, on which the processor that runs the guest
//! takes the requests into the page. Out of the guest the hypervisor does.
//!
//! Whatever another agent may observe between two accesses is a step of its own in [`Posting`],
//! [`PostedInterruptProcessing`] and [`IpiSend`].

mod access;
mod behaviour;
mod command;
mod completion;
mod context;
mod ipi;
mod page;
mod posted_descriptor;
mod virtual_interrupt;

pub use access::{MsrRead, MsrWrite};
pub use behaviour::{ApicvBehaviour, CommandHalves, HoleRead, PostedRequest};
pub use completion::Completion;
pub use context::{Apicv, ApicvControls, ApicvExit, PidPointerTable};
pub use ipi::{IpiOutcome, IpiSend, IpiStep};
pub use page::VirtualApicPage;
pub use posted_descriptor::{
    Notification, PostedInterruptProcessing, Posting, PostingStep, ProcessingStep, ReservedBits,
    post_from_device,
};
