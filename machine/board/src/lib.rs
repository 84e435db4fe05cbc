//! The emulated computer: everything that knows all of its parts.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod channel;
mod clocked;
pub mod composition;
mod console;
pub mod cost;
mod coverage;
pub mod debugger;
mod delivery;
pub mod firmware;
pub mod image_file;
pub mod inspection;
pub mod journal;
pub mod load;
mod machine;
mod mark;
mod marks;
mod moments;
mod outcome;
pub mod perturb;
mod post_mortem;
mod power_on;
mod recall;
mod record;
mod reset;
mod schedule;
mod server;
pub mod shared_folder;
pub mod snapshot;
mod store_buffers;
pub mod topology;
mod translated;
mod turn;
mod waits;
mod wiring;

pub use coverage::Covered;
/// What an IOMMU is: the part, and how it behaves.
pub use iommu::{Behaviour as IommuBehaviour, Iommu, Model as IommuModel, Part as IommuPart};
pub use machine::{Configuration, Images, Machine, MachineError, State};
pub use mark::Mark;
pub use marks::{Marks, Sought};
pub use outcome::Outcome;
pub use recall::Recall;
pub use record::Recorder;
pub use schedule::Limits;
pub use server::server_iommu;
pub use wiring::Wiring;
