//! CPU models: what a processor is and has, from which CPUID, MSRs and behaviour follow.

use crate::operation::decode::Dialect;
use crate::variant::{Behaviour, VariantError};
use crate::vmx::Capabilities;
use arch::cpuid::{Feature, FeatureSet};
use arch::msr::ArchCapabilities;
use serde::{Deserialize, Serialize};

mod choice;
mod clock;
mod error;
mod file;
pub(crate) mod schema;

pub use clock::CoreClock;
pub use error::ModelError;
pub use schema::{Caches, Clocks, Crystal, RawLeaf};

/// Where a processor sits. Widths are bits of the APIC ID, from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// The initial APIC ID, in x2APIC mode all 32 bits of it.
    pub apic_id: u32,
    /// Logical processors in the package.
    pub package_cpus: u32,
    /// Bits of the APIC ID that number threads in a core.
    pub thread_bits: u8,
    /// Bits that number threads in a core complex (sharing the last-level cache).
    pub complex_bits: u8,
    /// Bits that number threads in a die.
    pub die_bits: u8,
    /// Bits that number threads in a package.
    pub package_bits: u8,
    /// Logical processors in a core.
    pub core_cpus: u16,
    /// Logical processors in a core complex.
    pub complex_cpus: u16,
    /// Logical processors in a die.
    pub die_cpus: u16,
}

/// The IOMMU of servers with the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IommuPart {
    /// AMD's, with the value of its extended feature register.
    Vi(u64),
    /// Intel's.
    VtD {
        /// Whether it posts interrupts.
        posts: bool,
    },
}

/// A CPU model's capability value: CPUID, MSRs and behaviour derive from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuModel {
    name: String,
    description: String,
    sources: Vec<String>,
    costs: String,
    vendor: String,
    brand: String,
    family: u32,
    model: u32,
    stepping: u32,
    physical_bits: u8,
    linear_bits: u8,
    tsc_hertz: u64,
    clocks: Clocks,
    core_hertz: u64,
    crystal: Option<Crystal>,
    last_leaf: u32,
    microcode: u32,
    arch_capabilities: ArchCapabilities,
    caches: Caches,
    features: FeatureSet,
    raw_leaves: Vec<RawLeaf>,
    virtualization: Option<Capabilities>,
    iommu: Option<IommuPart>,
    errata: Vec<u32>,
    behaviour: Behaviour,
    /// Where the processor sits; set by the board.
    pub placement: Placement,
}

impl CpuModel {
    /// As on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which part the model follows, in a few words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Where the values are from.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The cost profile that the part has, its own or that of one alike.
    pub fn costs(&self) -> &str {
        &self.costs
    }

    /// What VMX of the real part can do, as its capability MSRs say.
    pub fn virtualization(&self) -> Option<&Capabilities> {
        self.virtualization.as_ref()
    }

    /// The IOMMU of servers with the part.
    pub fn iommu(&self) -> Option<IommuPart> {
        self.iommu
    }

    /// CPUID Fn0000_0000's twelve characters.
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// Whose manuals decide where the vendors differ.
    pub fn dialect(&self) -> Dialect {
        Dialect::of_vendor(&self.vendor)
    }

    /// CPUID Fn8000_0002 to 4: the name that systems show.
    pub fn brand(&self) -> &str {
        &self.brand
    }

    /// Base family and extended family added.
    pub fn family(&self) -> u32 {
        self.family
    }

    /// Whether the model announces a feature; what it does not announce does not work either.
    #[inline(always)]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(feature)
    }

    /// All features that the model announces.
    pub fn features(&self) -> &FeatureSet {
        &self.features
    }

    /// How the part resolves what the manuals leave open.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Takes a choice `NAME=VALUE` of [`crate::variant::variants`].
    pub fn choose(&mut self, choice: &str) -> Result<(), VariantError> {
        self.behaviour.choose(choice)
    }

    /// Takes a feature away, as firmware options do.
    pub fn remove_feature(&mut self, feature: Feature) {
        self.features.remove(feature);
    }

    /// Whether the part has one of its vendor's errata.
    pub fn has_erratum(&self, number: u32) -> bool {
        self.errata.contains(&number)
    }

    /// Bits of a physical address.
    pub fn physical_bits(&self) -> u8 {
        self.physical_bits
    }

    /// Bits of a linear address.
    pub fn linear_bits(&self) -> u8 {
        self.linear_bits
    }

    /// The rate of the time-stamp counter, whatever the core's clock.
    pub fn tsc_hertz(&self) -> u64 {
        self.tsc_hertz
    }

    /// What the part's cores can be clocked at.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// What they are clocked at: a cost profile's cycles are these.
    pub fn core_hertz(&self) -> u64 {
        self.core_hertz
    }

    /// `None` where CPUID does not enumerate it.
    pub fn crystal(&self) -> Option<Crystal> {
        self.crystal
    }

    /// Which weaknesses of speculative execution the part says that it does not have.
    pub fn arch_capabilities(&self) -> ArchCapabilities {
        self.arch_capabilities
    }

    /// The revision of the microcode update.
    pub fn microcode(&self) -> u32 {
        self.microcode
    }

    /// The highest standard leaf of CPUID.
    pub fn last_leaf(&self) -> u32 {
        self.last_leaf
    }

    /// Leaves of CPUID that are answered as the file has them.
    pub fn raw_leaves(&self) -> &[RawLeaf] {
        &self.raw_leaves
    }

    /// What CPUID says of caches; none is modelled.
    pub fn caches(&self) -> Caches {
        self.caches
    }

    /// CPUID Fn0000_0001 EAX: family, model and stepping in their split encoding.
    pub fn signature(&self) -> u32 {
        let (base_family, extended_family) =
            if self.family > 15 { (15, self.family - 15) } else { (self.family, 0) };
        (extended_family << 20)
            | (self.model >> 4) << 16
            | base_family << 8
            | (self.model & 15) << 4
            | self.stepping
    }
}

#[cfg(test)]
mod tests;
