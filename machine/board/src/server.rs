//! What a server with processors of a model has beside them.

use arch::amd_vi::{ExtendedFeatures, model};
use cpu::CpuModel;
use device::map;
use iommu::{Model, Part, amd_vi, vt_d};

/// The IOMMU of servers with these processors; nothing for models that are no server's.
pub fn server_iommu(cpu: &CpuModel) -> Option<Model> {
    let part = match cpu.name() {
        "zen2" => of_amd(model::ZEN_2),
        "zen3" => of_amd(model::ZEN_3),
        "zen4" => of_amd(model::ZEN_4),
        "zen5" => of_amd(model::ZEN_5),
        // Posting came with Broadwell-EP.
        "ivy-bridge-ep" | "haswell-ep" => Part::VtD(vt_d::Model::server(false)),
        "skylake-sp" | "ice-lake-sp" | "sapphire-rapids" => Part::VtD(vt_d::Model::server(true)),
        _ => return None,
    };
    Some(part.into())
}

fn of_amd(part: ExtendedFeatures) -> Part {
    Part::AmdVi(amd_vi::Model::of(part, map::IOMMU_FUNCTION.requester()))
}
