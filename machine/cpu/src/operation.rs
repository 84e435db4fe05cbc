//! What an instruction is once it has been decoded, apart from what it does ([`crate::execute`]).
//!
//! [`decode`] turns bytes into an [`Op`], which a handler executes without further decisions;
//! [`Kind`] says which instruction it was; [`cache`] keeps blocks of them by the place of their
//! bytes.

pub mod cache;
pub mod decode;
mod kind;
mod op;

pub use kind::Kind;
pub(crate) use op::{FLAT, FLAT_STACK, Handler, Op};
