//! What an instruction is once it has been decoded, apart from what it does (`execute`).
//!
//! [`decode`] turns bytes into an `Op`; [`Kind`] says which instruction it was, [`Cost`] what
//! class of them it belongs to.

mod code;
mod cost;
pub mod decode;
mod extension;
mod kind;
mod op;
mod operands;

pub use code::{CodeSize, Dialect};
pub use cost::{Cost, InstructionCosts};
pub(crate) use extension::Extension;
pub use kind::Kind;
pub(crate) use op::{FLAT, FLAT_STACK, Op};
