//! The backing page. [APM2 "AVIC Backing Page"]

use crate::{PageInMemory, SharedMemory};
use arch::address::SystemPhysical;
use serde::{Deserialize, Serialize};

/// A vCPU's APIC page, by its system physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct BackingPage(pub SystemPhysical);

impl BackingPage {
    /// The page, and the memory that it lies in.
    #[inline]
    pub fn within<M: SharedMemory>(self, memory: &mut M) -> PageInMemory<'_, M> {
        PageInMemory::new(self.0, memory)
    }
}
