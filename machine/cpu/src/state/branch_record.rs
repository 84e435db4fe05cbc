//! What control-transfer recording leaves behind. [APM2 "Control-Transfer Recording"]

use serde::{Deserialize, Serialize};

/// The four recording MSRs; rIPs, not linear addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BranchRecords {
    #[doc(alias = "BR_FROM")]
    pub branch_from: u64,
    #[doc(alias = "BR_TO")]
    pub branch_to: u64,
    #[doc(alias = "LASTEXCPFROM")]
    pub exception_from: u64,
    #[doc(alias = "LASTEXCPTO")]
    pub exception_to: u64,
}
