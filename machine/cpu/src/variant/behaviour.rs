//! How one model resolves what the manuals leave open, and where it departs from them.

use crate::svm::SvmBehaviour;
use crate::vmx::VmxBehaviour;
use serde::{Deserialize, Serialize};

/// How one model resolves what the manuals leave open, and where it departs from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Behaviour {
    /// Where SVM leaves something open.
    pub svm: SvmBehaviour,
    /// Where VMX leaves something open.
    pub vmx: VmxBehaviour,
}

impl Behaviour {
    /// That of a part with these errata.
    pub fn with_errata(numbers: &[u32]) -> Self {
        Self { svm: SvmBehaviour::with_errata(numbers), ..Self::default() }
    }
}
