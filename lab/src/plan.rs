//! What is compared, as data: the arms of an experiment, alike but for one thing.

mod arm;
mod experiment;
mod needs;
mod processor;
mod recipe;

pub use arm::{Arm, ModuleParameter, Setting};
pub use experiment::{Experiment, Request};
pub use needs::{Function, LinuxGuest, Needs};
pub(crate) use processor::has_ipi_virtualization;
pub use processor::vendor;
pub use recipe::{Recipe, Verb};
