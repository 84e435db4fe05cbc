//! From a model's file to the model.

use super::schema::{File, Iommu};
use super::{CpuModel, IommuPart, ModelError, Placement};
use crate::variant::Behaviour;
use arch::cpuid::{Feature, FeatureSet};
use arch::msr::ArchCapabilities;

impl CpuModel {
    /// Reads a model file.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file = File::read(text).map_err(ModelError::File)?;
        let mut features = FeatureSet::default();
        file.features.iter().filter_map(|name| Feature::from_name(name)).for_each(|feature| {
            features.insert(feature);
        });
        let model = Self {
            name: file.name,
            description: file.description,
            sources: file.sources,
            costs: file.costs,
            vendor: file.vendor,
            brand: file.brand,
            family: file.family,
            model: file.model,
            stepping: file.stepping,
            physical_bits: file.physical_bits,
            linear_bits: file.linear_bits,
            tsc_hertz: file.tsc_hertz,
            core_hertz: file.clock.boost.hertz,
            clocks: file.clock,
            crystal: file.crystal,
            last_leaf: file.last_leaf,
            microcode: file.microcode,
            arch_capabilities: file
                .arch_capabilities
                .map_or_else(Default::default, |word| ArchCapabilities::from_bits_retain(word.0)),
            caches: file.caches,
            features,
            raw_leaves: file.leaves.raw,
            virtualization: file.virtualization.map(Into::into),
            iommu: file.iommu.map(|iommu| match iommu {
                Iommu::Vi { features } => IommuPart::Vi(features.0),
                Iommu::VtD { posts } => IommuPart::VtD { posts },
            }),
            behaviour: Behaviour::with_errata(&file.errata),
            errata: file.errata,
            placement: Placement::default(),
        };
        let made = model.raw_leaves.iter().find(|raw| model.makes_leaf(raw.leaf));
        match made {
            Some(raw) => Err(ModelError::MadeLeaf { model: model.name.clone(), leaf: raw.leaf }),
            None => Ok(model),
        }
    }
}
