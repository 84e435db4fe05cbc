//! The switch of memory's order: a processor's stores show at once, or wait in its store buffer.

use super::row::{Variant, choice};
use serde::{Deserialize, Serialize};

/// When others see what a processor stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MemoryOrder {
    /// At once: memory is sequentially consistent, and no fence is ever missed.
    #[default]
    Sequential,
    /// Later, in order: total store order ([`bus::StoreBuffer`]).
    Tso,
}

/// All of them.
pub(crate) const VARIANTS: &[Variant] = &[choice!("memory",
    "whether others see stores at once, or by way of a buffer of the processor that stores",
    "SDM3 \"Store Buffer\": parts have buffers; without them no fence is ever missed",
    memory_order: "sequential" = MemoryOrder::Sequential, "tso" = MemoryOrder::Tso)];
