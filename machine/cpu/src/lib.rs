//! One logical x86-64 processor.
//!
//! The flow is in [`step`]: what waits at an instruction boundary, then blocks, then the delivery
//! of what stopped them. [`operation`] is what bytes become once; [`dispatch`] finds decoded blocks
//! and runs their operations; [`execute`] holds their meaning, a file per family of instructions;
//! [`memory`] is segmentation, paging and the TLB; [`system`] is privileged state and event
//! delivery. The processor knows neither devices nor other processors: it reaches them through
//! [`bus::Platform`] for the time of one run.
//!
//! [APM1] [APM2] [APM3] are followed; where Intel's manuals differ the CPU model decides.

#![warn(missing_docs)]

mod costs;
mod dispatch;
mod execute;
mod flags;
pub mod float;
mod guest;
mod memory;
mod model;
pub mod native;
mod observation;
pub mod operation;
mod state;
mod step;
mod stop;
pub mod svm;
mod system;
pub mod variant;
pub mod vector;
pub mod vmx;
mod width;

pub use costs::{ApicCosts, Costs};
pub use execute::x87::X87;
pub use flags::Flags;
pub use guest::Guest;
pub use memory::{BadTranslation, Tlb};
pub use model::{CpuModel, ModelError, Placement};
pub use observation::{Observation, Observed, Range};
pub use operation::cache::CodeCache;
pub use operation::{cache, decode};
pub use state::{Activity, Attention, Control, Cpu, Debug, Pending, Registers, Segments};
pub use step::RunEnd;
pub use width::GeneralRegisters;

pub(crate) use memory::Access;
pub(crate) use operation::{Handler, Op};
pub(crate) use stop::{Kind as StopKind, Stop};

/// What a processor is lent for the time of one run.
pub struct Bus<'a> {
    /// The board's RAM.
    pub memory: &'a mut bus::GuestMemory,
    /// Whatever is not RAM: devices, other processors, the outbox.
    pub platform: &'a mut dyn bus::Platform,
}
