//! What a model of a processor can virtualize.

use arch::cpuid::Feature;
use arch::vmx::control::TertiaryControls;
use cpu::CpuModel;
use rules::inhibit::Vendor;

/// Whose KVM module drives such a processor.
pub fn vendor(model: &CpuModel) -> Vendor {
    if model.is_amd() { Vendor::Amd } else { Vendor::Intel }
}

/// Whether VMX of such a processor virtualizes IPIs.
pub(crate) fn has_ipi_virtualization(model: &CpuModel) -> bool {
    let parts = arch::vmx::model::MODELS.iter().filter(|(name, _)| *name == model.name());
    let mut offered = parts.map(|(_, part)| part.tertiary);
    model.has(Feature::Vmx) && offered.any(|all| all.contains(TertiaryControls::IPI_VIRTUALIZATION))
}
