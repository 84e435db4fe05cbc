//! What this program does with the Linux that it is the first process of: an emulated host's, or a
//! guest's there.

pub(crate) mod console;
pub(crate) mod function;
pub(crate) mod interface;
pub(crate) mod module;
pub(crate) mod mounts;
pub(crate) mod place;
pub(crate) mod together;
