//! What runs a processor: from bytes to blocks of bound operations, and from block to block.
//!
//! The flow is in [`step`]: what waits at an instruction boundary, then blocks, then the delivery
//! of what stopped them. [`bind`] finds what executes an instruction, [`blocks`] keeps blocks by
//! the place of their bytes, [`dispatch`] runs them one after the other, [`native`] has the host
//! execute those that run often. [`round`] finds out what a loop does that only waits, and
//! [`waiting`] where a processor stands in one.

mod bind;
pub mod blocks;
mod cache;
mod coverage;
mod dispatch;
mod drain;
mod ending;
pub mod native;
mod prediction;
mod room;
mod round;
mod runs;
mod step;
mod waiting;

pub use cache::CodeCache;
pub use coverage::Covered;
pub use round::Round;
pub use runs::Classes;
pub use waiting::Waiting;
