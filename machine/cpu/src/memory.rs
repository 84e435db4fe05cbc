//! Memory as instructions see it: segmentation, paging, the TLB, RAM and devices.

mod access;
mod area;
pub(crate) mod format;
mod operand;
mod outside;
pub(crate) mod paging;
mod place;
pub(crate) mod segment;
pub(crate) mod tlb;
mod translation;
mod withheld;

pub(crate) use self::tlb as sets;
pub(crate) use access::Access;
pub(crate) use place::{Located, Place};
pub(crate) use segment::within_limit;
pub use tlb::{BadTranslation, Tlb};
pub(crate) use translation::OwnRights;
pub use translation::Translation;
pub(crate) use withheld::Pages;
