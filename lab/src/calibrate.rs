//! Calibration: the cost profile of a real host, from what a guest measured there.
//!
//! `avicenna bench calibrate` measures on the host (`measured`); the rest runs anywhere. What each
//! measured time is made of is found in the emulated machine, where the same program runs under the
//! model's profile, and again with one figure after the other changed (`response`): a time is
//! linear in costs as long as they do not change the order of events. The figures are fitted to the
//! host's times, with the sourced ranges as prior knowledge (`fit`), and what is known afterwards
//! is kept as draws (`sample`), which a profile carries (`narrowed`) and `predict` runs. By the
//! prices of a profile (`pricing`), and by what recordings are found to lack (`recording`), a
//! recording says what the feature would save (`recorded`); a hidden host shows what it does
//! (`saving`).

pub mod closed_loop;
mod collect;
mod fit;
mod measured;
mod misfit;
pub mod mitigations;
mod narrowed;
mod place;
mod predict;
mod pricing;
mod recorded;
mod recording;
mod response;
mod sample;
pub mod saving;
mod square;
mod table;

pub use crate::interval::Interval;
pub use collect::{Collected, collect};
pub use fit::{Data, Fitted, fit};
pub use measured::{Measured, MeasuredHost, Row};
pub use misfit::{Misfit, OtherClock};
pub use narrowed::narrowed;
pub use place::{Bench, Moment, OPTIONS, Place};
pub use predict::{Predicted, predict, steps};
pub use recorded::{Saved, SavedRow, saved};
pub use recording::Recorded;
pub use response::Model;
pub use sample::{Draws, sample};
pub use table::to_text;
