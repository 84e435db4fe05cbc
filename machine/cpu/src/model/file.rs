//! A model's file: TOML, listing only what is implemented. Everything in it is checked.

use super::word::Word;
use super::{Caches, CpuModel, Crystal, IommuPart, ModelError, Placement};
use crate::variant::{Behaviour, MODELLED_ERRATA};
use crate::vmx::CapabilityFile;
use arch::cpuid::{Feature, FeatureSet};
use serde::Deserialize;

/// A model file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    /// Where the values are from.
    sources: Vec<String>,
    /// The cost profile's name.
    costs: String,
    vendor: String,
    brand: String,
    family: u32,
    model: u32,
    stepping: u32,
    physical_bits: u8,
    linear_bits: u8,
    tsc_hertz: u64,
    core_hertz: u64,
    #[serde(default)]
    crystal: Option<Crystal>,
    /// The highest standard leaf of CPUID.
    #[serde(default = "last_leaf")]
    last_leaf: u32,
    /// The update revision that IA32_BIOS_SIGN_ID shows: systems look for errata by it.
    #[serde(default)]
    microcode: u32,
    caches: Caches,
    features: Vec<String>,
    /// Capability MSRs, for parts with VMX.
    #[serde(default, rename = "vmx")]
    virtualization: Option<CapabilityFile>,
    /// That of servers with the part.
    #[serde(default)]
    iommu: Option<Iommu>,
    /// Numbers of the vendor's errata that the part has here, of those that are modelled.
    #[serde(default)]
    errata: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "kind")]
enum Iommu {
    #[serde(rename = "amd-vi")]
    Vi { features: Word },
    #[serde(rename = "vt-d")]
    VtD { posts: bool },
}

/// XSAVE's, for models that say nothing else.
const fn last_leaf() -> u32 {
    0xD
}

impl CpuModel {
    /// Reads a model file.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file: File = toml::from_str(text).map_err(|e| ModelError::Syntax(e.to_string()))?;
        if file.vendor.len() != 12 {
            return Err(ModelError::Vendor { model: file.name, vendor: file.vendor });
        }
        if let Some(&number) = file.errata.iter().find(|number| !MODELLED_ERRATA.contains(number)) {
            return Err(ModelError::Erratum { model: file.name, number });
        }
        if file.sources.is_empty() {
            return Err(ModelError::Sources(file.name));
        }
        let mut features = FeatureSet::default();
        for feature in &file.features {
            let known = Feature::from_name(feature).ok_or_else(|| ModelError::Feature {
                model: file.name.clone(),
                feature: feature.clone(),
            })?;
            features.insert(known);
        }
        if features.contains(Feature::Vmx) != file.virtualization.is_some() {
            return Err(ModelError::Virtualization(file.name));
        }
        Ok(Self {
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
            core_hertz: file.core_hertz,
            crystal: file.crystal,
            last_leaf: file.last_leaf,
            microcode: file.microcode,
            caches: file.caches,
            features,
            virtualization: file.virtualization.map(Into::into),
            iommu: file.iommu.map(|iommu| match iommu {
                Iommu::Vi { features } => IommuPart::Vi(features.0),
                Iommu::VtD { posts } => IommuPart::VtD { posts },
            }),
            behaviour: Behaviour::with_errata(&file.errata),
            errata: file.errata,
            placement: Placement::default(),
        })
    }
}
