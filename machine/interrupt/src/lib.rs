//! Interrupt controllers as pure state machines: the local APIC, the I/O APIC, the 8259 pair, and
//! the routing between them. Whatever one causes in another is an [`bus::Effect`]; time is handed
//! in with each access.

#![warn(missing_docs)]

pub mod io_apic;
pub mod legacy;
pub mod local_apic;
pub mod page;
pub mod route;

pub use io_apic::{IoApic, IoApicModel};
pub use legacy::PicPair;
pub use local_apic::{Acceptance, LocalApic, LocalApicModel, LocalSource, Refused};
pub use page::{ApicPage, Bank, VectorSet};
