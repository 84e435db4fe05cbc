//! What a server with processors of a model has beside them.

use arch::amd_vi::ExtendedFeatures;
use cpu::{CpuModel, IommuPart};
use device::map;
use iommu::{Model, Part, amd_vi, vt_d};

/// The IOMMU of servers with these processors; nothing for models that are not a server's.
pub fn server_iommu(cpu: &CpuModel) -> Option<Model> {
    let part = match cpu.iommu()? {
        IommuPart::Vi(features) => Part::AmdVi(amd_vi::Model::of(
            ExtendedFeatures::from_bits(features),
            map::IOMMU_FUNCTION.requester(),
        )),
        IommuPart::VtD { posts } => Part::VtD(vt_d::Model::server(posts)),
    };
    Some(part.into())
}
