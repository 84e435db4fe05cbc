//! How one model resolves what the manuals leave open, and where it departs from them: a part for
//! each vendor's virtualization, as the state of the processor has one.

use super::memory_order::{self, MemoryOrder};
use super::row::Variant;
use crate::model::schema::MODELLED_ERRATA;
use crate::svm::{self, SvmBehaviour};
use crate::vmx::{self, VmxBehaviour};
use serde::{Deserialize, Serialize};

/// How one model resolves what the manuals leave open, and where it departs from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Behaviour {
    /// Where SVM leaves something open.
    pub svm: SvmBehaviour,
    /// Where VMX leaves something open.
    pub vmx: VmxBehaviour,
    /// When others see what a processor stores.
    pub memory_order: MemoryOrder,
}

/// What a file may list is what has an effect here.
const _: () = assert!(matches!(MODELLED_ERRATA, [svm::AVIC_IPI_ERRATUM]));

/// All switches.
pub fn variants() -> impl Iterator<Item = &'static Variant> {
    svm::VARIANTS.iter().chain(vmx::VARIANTS).chain(memory_order::VARIANTS)
}

impl Behaviour {
    /// That of a part with these errata.
    pub fn with_errata(numbers: &[u32]) -> Self {
        Self { svm: SvmBehaviour::with_errata(numbers), ..Self::default() }
    }
}
