//! The virtual-APIC page. [SDM3 "Virtual-APIC Page"]

use crate::{PageInMemory, SharedMemory};
use arch::address::SystemPhysical;
use serde::{Deserialize, Serialize};

/// A vCPU's APIC page, by its system physical address. Other processors never write
/// it while the guest runs: they post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct VirtualApicPage(pub SystemPhysical);

impl VirtualApicPage {
    /// The page, and the memory that it lies in.
    #[inline]
    pub fn within<M: SharedMemory>(self, memory: &mut M) -> PageInMemory<'_, M> {
        PageInMemory::new(self.0, memory)
    }
}
