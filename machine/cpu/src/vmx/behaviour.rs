//! Where processors with VMX may differ.

use super::apicv::ApicvBehaviour;
use serde::{Deserialize, Serialize};

/// How one processor model resolves what the manual leaves open about VMX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VmxBehaviour {
    /// Of APIC virtualization.
    pub apicv: ApicvBehaviour,
}
