//! Will this configuration let interrupts be accelerated? Rules with stable identifiers, judged on
//! what an input means, not on its text.
//!
//! [`lint`] judges [`Contents`](crate::configuration::Contents); every [`Diagnostic`] names its
//! rule, its place and, where one exists, the change that repairs it. [`fix::fixed`] applies the
//! changes to the text. A rule that cannot be decided says so.

mod decision;
mod diagnostic;
pub mod fix;
mod judge;
mod outcome;
pub mod rule;
pub mod rules;
mod subject;
mod suppression;
#[cfg(test)]
mod tests;

pub use crate::configuration::edit::Edit;
pub use diagnostic::{Diagnostic, Remedy, Report, Target};
pub use judge::{MAX_DIAGNOSTICS, lint};
