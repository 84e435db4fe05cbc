//! Exploring: the machine looks for faults of a hypervisor in interrupt virtualization.
//!
//! A workload runs plainly; from moments of it short windows run again and again, in each of which
//! processors are held up elsewhere ([`choice`]), and what the silicon then shows is judged
//! ([`oracle`]); a window that showed events in a new order ([`coverage`]) is varied ([`guide`]). A
//! window is what it began from and the list of its decisions, and nothing else, so
//! a [`finding`] can be repeated bit by bit, and reduced to the decisions that it needs
//! ([`minimise`]).

pub mod bisect;
pub mod choice;
mod conflict;
pub mod contest;
mod coverage;
pub mod finding;
mod forms;
mod guide;
mod lanes;
mod meter;
mod minimise;
mod moment;
pub mod oracle;
mod report;
pub mod reproducer;
mod search;
mod sight;
mod spot;
mod stage;
mod story;
pub mod swarm;
mod tally;
pub mod window;

pub use choice::Strategy;
pub use finding::Finding;
pub use forms::{Forms, Told};
pub use minimise::minimise;
pub use report::{Found, Report, Row, WindowRow};
pub use search::{Search, search};
pub use stage::{Kept, Mix, Prepared, Stage, Subject};
pub use tally::Coverage;

#[cfg(test)]
mod tests;
