//! What a model of a processor can virtualize.

use arch::cpuid::Feature;
use arch::vmx::control::TertiaryControls;
use cpu::CpuModel;
use cpu::decode::Dialect;
use rules::inhibit::Vendor;

/// Whose KVM module drives such a processor.
pub fn vendor(model: &CpuModel) -> Vendor {
    match model.dialect() {
        Dialect::Amd => Vendor::Amd,
        Dialect::Intel => Vendor::Intel,
    }
}

/// Whether VMX of such a processor virtualizes IPIs.
pub(crate) fn has_ipi_virtualization(model: &CpuModel) -> bool {
    let offered =
        model.virtualization().filter(|_| model.has(Feature::Vmx)).map(|part| part.tertiary);
    offered.is_some_and(|all| all.contains(TertiaryControls::IPI_VIRTUALIZATION))
}
