//! What a server with processors of a model has beside them.

use arch::amd_vi::{ExtendedFeatures, model};
use cpu::CpuModel;
use device::map;
use iommu::amd_vi::Model;

/// The IOMMU of servers with these processors; nothing for models that are no server's.
///
/// DEVIATION(VTD "Architecture Overview"): Intel's servers have none here.
pub fn server_iommu(cpu: &CpuModel) -> Option<Model> {
    let part: ExtendedFeatures = match cpu.name() {
        "zen2" => model::ZEN_2,
        "zen3" => model::ZEN_3,
        "zen4" => model::ZEN_4,
        "zen5" => model::ZEN_5,
        _ => return None,
    };
    Some(Model::of(part, map::IOMMU_FUNCTION.requester()))
}
