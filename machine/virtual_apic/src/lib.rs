//! What hardware does for a guest's interrupts without its hypervisor, over an APIC page and
//! [`SharedMemory`]. Nothing here knows a processor: the caller says what the guest did, and is
//! told what comes of it.

#![warn(missing_docs)]

pub mod apicv;
pub mod avic;
mod memory;
mod page;

pub use memory::SharedMemory;
pub use page::PageInMemory;
