//! AVIC and x2AVIC: a guest's interrupt controller without exits.
//! [APM2 "Advanced Virtual Interrupt Controller"]
//!
//! A guest's APIC registers lie in a backing page. The processor serves most accesses from it,
//! sends fixed edge-triggered IPIs by setting a bit in the target's page and ringing the doorbell
//! of the core the target runs on, and takes the highest requested vector into service without an
//! exit. What AVIC cannot complete leaves the guest with exit 401h or 402h.
//!
//! Whatever another processor may observe between two accesses of an IPI is a step of its own in
//! [`IpiSend`].
//!
//! DEVIATION(APM2 "Secure AVIC"): guests own no backing page; the feature is not enumerated.

mod access;
mod behaviour;
mod context;
mod destination;
mod interrupt;
mod ipi;
mod page;

pub use access::{ReadOutcome, WriteOutcome};
pub use behaviour::{
    AvicBehaviour, ExitIndex, InvalidTargets, IrregularAccess, PriorityThreshold, ReadOnlyMsrWrite,
    SelfKey,
};
pub use context::{Avic, AvicCapabilities, AvicMode, IllegalAvic};
pub use interrupt::{DoorbellReception, EndOfInterrupt};
pub use ipi::{IpiOutcome, IpiSend, IpiStep};
pub use page::BackingPage;
