//! One logical x86-64 processor.
//!
//! The rooms, from below: `state` is plain data; [`operation`] is what bytes become once;
//! `memory` is segmentation, paging and the TLB; `system` is privileged state and event
//! delivery; `guest` is the seam to hardware virtualization, behind which [`svm`] and [`vmx`]
//! stand; `execute` holds what operations do, a file per family of instructions; `engine` runs
//! them, and has the flow. The processor knows neither devices nor other processors: it reaches
//! them through [`bus::Platform`] for the time of one run.
//!
//! AMD's manual is followed (APM1, APM2, APM3); where Intel's differ the CPU model decides.

#![warn(missing_docs)]

mod costs;
mod difference;
mod engine;
mod execute;
mod flags;
pub mod float;
mod guest;
mod memory;
mod model;
mod observation;
pub mod operation;
mod state;
mod stop;
pub mod svm;
mod system;
pub mod variant;
pub mod vector;
pub mod vmx;
mod width;

pub use costs::{Step, StepCosts};
pub use engine::{Classes, CodeCache, Covered, Round, Waiting, blocks, native};
pub use flags::Flags;
pub use guest::{Guest, Running};
pub use memory::{BadTranslation, Tlb, Translation};
pub use model::{CoreClock, CpuModel, IommuPart, ModelError, Placement};
pub use observation::{Interest, Observation, Observed, Range, Touch};
pub use operation::decode;
pub use state::{
    Activity, Attention, Clock, Control, Cpu, Debug, Pending, Registers, Spent, UserInterrupts, X87,
};
pub use stop::RunEnd;
pub use width::GeneralRegisters;

pub(crate) use memory::Access;
pub(crate) use operation::Op;
pub(crate) use stop::{Kind as StopKind, Stop};

/// What a processor is lent for the time of one run.
pub struct Bus<'a> {
    /// The board's RAM.
    pub memory: &'a mut bus::GuestMemory,
    /// Whatever is not RAM: devices, other processors, the outbox.
    pub platform: &'a mut dyn bus::Platform,
}
