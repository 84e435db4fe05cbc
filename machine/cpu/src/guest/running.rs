//! Whether a guest runs, and whose.

use crate::{svm, vmx};
use serde::{Deserialize, Serialize};

/// What runs on the processor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum Running {
    /// No guest: a hypervisor, or a system without one.
    #[default]
    Bare,
    /// A guest between VMRUN and #VMEXIT.
    Svm(Box<svm::Guest>),
    /// A guest between a VM entry and a VM exit.
    Vmx(Box<vmx::Guest>),
}

impl Running {
    /// Whether it is a guest.
    #[inline(always)]
    pub fn is_guest(&self) -> bool {
        !matches!(self, Self::Bare)
    }

    /// The guest, if SVM runs one.
    #[inline(always)]
    pub fn svm(&self) -> Option<&svm::Guest> {
        if let Self::Svm(guest) = self { Some(guest) } else { None }
    }

    /// As [`Self::svm`], to be changed.
    #[inline(always)]
    pub fn svm_mut(&mut self) -> Option<&mut svm::Guest> {
        if let Self::Svm(guest) = self { Some(guest) } else { None }
    }

    /// The guest, if VMX runs one.
    #[inline(always)]
    pub fn vmx(&self) -> Option<&vmx::Guest> {
        if let Self::Vmx(guest) = self { Some(guest) } else { None }
    }

    /// As [`Self::vmx`], to be changed.
    #[inline(always)]
    pub fn vmx_mut(&mut self) -> Option<&mut vmx::Guest> {
        if let Self::Vmx(guest) = self { Some(guest) } else { None }
    }
}
