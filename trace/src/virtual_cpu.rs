//! vCPUs.

use arch::address::SystemPhysical;
use core::fmt::{Display, Formatter, Result};
use serde::{Deserialize, Serialize};

/// A vCPU of a guest hypervisor, named by the physical address of its VMCB or VMCS.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct VirtualCpu(pub SystemPhysical);

impl Display for VirtualCpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(&self.0, f)
    }
}
