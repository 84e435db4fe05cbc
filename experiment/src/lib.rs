//! Experiments: something is switched, work runs, figures are compared.
//!
//! A [`plan::Plan`] says what is switched and what is measured. [`schedule`] makes trials of it in
//! randomised complete blocks; a [`place::Place`] (the lab, a host) performs them; [`proof`] finds
//! whether the switch took effect, without which a trial is void; [`journal`] keeps each step, so
//! that what was interrupted goes on; [`answer`] is what came of it, by [`statistics`].

#![warn(missing_docs)]

pub mod answer;
pub mod journal;
pub mod page;
pub mod place;
pub mod plan;
pub mod proof;
mod random;
pub mod reading;
pub mod run;
pub mod schedule;
pub mod shipped;
pub mod statistics;
