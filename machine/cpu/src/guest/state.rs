//! Hardware virtualization's registers, and what a guest's translation leaves behind.

use super::running::Running;
use crate::CpuModel;
use crate::svm::Svm;
use crate::vmx::Vmx;
use serde::{Deserialize, Serialize};

/// Hardware virtualization's registers, and the guest while there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// What runs.
    pub running: Running,
    /// AMD's part; inert on a model without SVM.
    pub svm: Svm,
    /// Intel's part; inert on a model without VMX.
    pub vmx: Vmx,
    /// The linear address that a guest's access is being translated for; `None` where there is
    /// none.
    pub(crate) linear: Option<u64>,
    /// What the guest's own tables say of that address, once it is translated.
    pub(crate) own: OwnRights,
}

/// What the running software's tables grant to a linear address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnRights {
    /// A user-mode address: the privilege level does not matter.
    pub is_user: bool,
    pub is_writable: bool,
    pub is_executable: bool,
}

impl OwnRights {
    /// Without paging every address is a user-mode address that may be written and executed.
    /// [SDM3 "Exit Qualification for EPT Violations"]
    pub const UNPAGED: Self = Self { is_user: true, is_writable: true, is_executable: true };
}

impl Guest {
    /// The registers at power-on.
    pub fn new(model: &CpuModel) -> Self {
        let own = OwnRights::UNPAGED;
        Self {
            running: Running::Bare,
            svm: Svm::new(model),
            vmx: Vmx::new(model),
            linear: None,
            own,
        }
    }

    /// INIT ends whatever runs.
    pub(crate) fn initialize(&mut self) {
        self.running = Running::Bare;
        self.svm.initialize();
        self.vmx.initialize();
    }
}
