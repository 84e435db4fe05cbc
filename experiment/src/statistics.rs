//! Paired statistics over blocks: each block gives one difference between its two arms, so what
//! drifts from block to block falls out.
//!
//! Nothing here assumes a distribution: under no effect the two arms of a block could be exchanged,
//! since their order was drawn, which is all that the permutation test needs; the interval needs
//! differences that are symmetric about their centre.

mod change_point;
mod holm;
mod location;
mod normal;
mod permutation;
mod spending;
mod verdict;

pub use change_point::warm_up;
pub use holm::holm;
pub use location::{Interval, hodges_lehmann, interval, median};
pub use normal::{cumulative, quantile};
pub use permutation::{Kind, MOST_EXACT, Test, least_blocks, sign_flips};
pub use spending::{levels, spent};
pub use verdict::{Effect, Margin, Verdict, decide, effect};
