//! Hardware virtualization's registers, and the guest while there is one.

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
}

impl Guest {
    /// The registers at power-on.
    pub fn new(model: &CpuModel) -> Self {
        Self { running: Running::Bare, svm: Svm::new(model), vmx: Vmx::new(model) }
    }

    /// INIT ends whatever runs.
    pub(crate) fn initialize(&mut self) {
        self.running = Running::Bare;
        self.svm.initialize();
        self.vmx.initialize();
    }
}
