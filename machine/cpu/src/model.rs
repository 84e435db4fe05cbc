//! CPU models: one data file each, listing only what is implemented; CPUID follows from it.

use crate::operation::decode::Dialect;
use crate::variant::{Behaviour, MODELLED_ERRATA, VariantError};
use arch::cpuid::{Feature, FeatureSet};
use serde::{Deserialize, Serialize};

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
    /// Bits that number threads in a package.
    pub package_bits: u8,
}

/// Bytes of the caches that CPUID reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// Per core.
    pub l1_data: u32,
    /// Per core.
    pub l1_code: u32,
    /// Per core.
    pub l2: u32,
    /// Per core complex.
    pub l3: u32,
}

/// The crystal from which the time-stamp counter and the local APIC's timer are derived: CPUID leaf
/// 15H. [SDM2 "CPUID"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crystal {
    /// How fast it oscillates.
    pub hertz: u64,
    /// ECX says the frequency; otherwise it follows from leaf 16H.
    pub is_shown: bool,
}

/// A CPU model's capability value: CPUID, MSRs and behaviour derive from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuModel {
    name: String,
    description: String,
    vendor: String,
    brand: String,
    family: u32,
    model: u32,
    stepping: u32,
    physical_bits: u8,
    linear_bits: u8,
    tsc_hertz: u64,
    core_hertz: u64,
    crystal: Option<Crystal>,
    last_leaf: u32,
    microcode: u32,
    caches: Caches,
    features: FeatureSet,
    errata: Vec<u32>,
    behaviour: Behaviour,
    /// Where the processor sits; set by the board.
    pub placement: Placement,
}

/// A model file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
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
    /// Numbers of the vendor's errata that the part has here, of those that are modelled.
    #[serde(default)]
    errata: Vec<u32>,
}

/// XSAVE's, for models that say nothing else.
const fn last_leaf() -> u32 {
    0xD
}

/// Why there is no such model.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// What was asked for, and the names that there are.
    #[error("no CPU model is named {0:?}; there are {1}")]
    Unknown(String, String),
    /// What the TOML reader says.
    #[error("CPU model file: {0}")]
    Syntax(String),
    /// A name in the file or behind a sign.
    #[error("CPU model {model}: no feature is named {feature:?}")]
    Feature {
        /// Of which model.
        model: String,
        /// What was written.
        feature: String,
    },
    /// The file lists an erratum that the machine cannot show.
    #[error("CPU model {model}: erratum {number} is not modelled")]
    Erratum {
        /// Of which model.
        model: String,
        /// The vendor's number.
        number: u32,
    },
    /// A word behind the model's name has no sign.
    #[error("CPU model {model}: {change:?} must be +FEATURE or -FEATURE")]
    Change {
        /// Of which model.
        model: String,
        /// The word.
        change: String,
    },
    /// A feature was added that no model has; those that can be.
    #[error("CPU model {model}: {feature} is not implemented; what can be added: {known}")]
    Absent {
        /// Of which model.
        model: String,
        /// What was to be added.
        feature: &'static str,
        /// What the model lacks and could have.
        known: String,
    },
    /// A feature was added without another that it rests on.
    #[error("CPU model {model}: {feature} needs {needed}, which the model lacks; add +{needed}")]
    Needs {
        /// Of which model.
        model: String,
        /// What was to be added.
        feature: &'static str,
        /// What it rests on.
        needed: &'static str,
    },
    /// A variant's choice is none.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// CPUID has three registers for the vendor's name.
    #[error("CPU model {model}: vendor string {vendor:?} must be 12 characters")]
    Vendor {
        /// Of which model.
        model: String,
        /// As the file has it.
        vendor: String,
    },
}

const FILES: &[(&str, &str)] = &[
    ("generic", include_str!("../models/generic.toml")),
    ("generic-intel", include_str!("../models/generic-intel.toml")),
    ("ivy-bridge-ep", include_str!("../models/ivy-bridge-ep.toml")),
    ("haswell-ep", include_str!("../models/haswell-ep.toml")),
    ("skylake-sp", include_str!("../models/skylake-sp.toml")),
    ("ice-lake-sp", include_str!("../models/ice-lake-sp.toml")),
    ("sapphire-rapids", include_str!("../models/sapphire-rapids.toml")),
    ("zen2", include_str!("../models/zen2.toml")),
    ("zen3", include_str!("../models/zen3.toml")),
    ("zen4", include_str!("../models/zen4.toml")),
    ("zen5", include_str!("../models/zen5.toml")),
];

impl CpuModel {
    /// The names of the models that come with the machine.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// A model that comes with the machine, `NAME[,+FEATURE|,-FEATURE]...`.
    pub fn named(description: &str) -> Result<Self, ModelError> {
        let mut words = description.split(',');
        let mut model = Self::as_it_comes(words.next().unwrap_or_default())?;
        let mut added = FeatureSet::default();
        for change in words {
            model.change_feature(change, &mut added)?;
        }
        model.settle_features(&added)?;
        Ok(model)
    }

    /// What was taken away takes along what needs it; what was added must have what it needs.
    fn settle_features(&mut self, added: &FeatureSet) -> Result<(), ModelError> {
        let lacks = |features: &FeatureSet| {
            let has = |feature| features.contains(feature);
            NEEDS.iter().copied().find(|(feature, needed)| has(*feature) && !has(*needed))
        };
        // Each turn takes one away.
        while let Some((feature, needed)) = lacks(&self.features) {
            if added.contains(feature) {
                let (feature, needed) = (feature.name(), needed.name());
                return Err(ModelError::Needs { model: self.name.clone(), feature, needed });
            }
            self.features.remove(feature);
        }
        Ok(())
    }

    fn change_feature(&mut self, change: &str, added: &mut FeatureSet) -> Result<(), ModelError> {
        let model = || self.name.clone();
        let (is_added, name) = match (change.strip_prefix('+'), change.strip_prefix('-')) {
            (Some(name), _) => (true, name),
            (_, Some(name)) => (false, name),
            _ => return Err(ModelError::Change { model: model(), change: change.to_owned() }),
        };
        let feature = Feature::from_name(name)
            .ok_or_else(|| ModelError::Feature { model: model(), feature: name.to_owned() })?;
        if !is_added {
            self.features.remove(feature);
            added.remove(feature);
            return Ok(());
        }
        let implemented = implemented_features();
        if !implemented.contains(feature) {
            let known: Vec<_> = implemented
                .iter()
                .filter(|feature| !self.features.contains(*feature))
                .map(Feature::name)
                .collect();
            let feature = feature.name();
            return Err(ModelError::Absent { model: model(), feature, known: known.join(", ") });
        }
        self.features.insert(feature);
        added.insert(feature);
        Ok(())
    }

    fn as_it_comes(name: &str) -> Result<Self, ModelError> {
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text),
            None => Err(ModelError::Unknown(
                name.to_owned(),
                Self::names().collect::<Vec<_>>().join(", "),
            )),
        }
    }

    /// Reads a model file.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file: File = toml::from_str(text).map_err(|e| ModelError::Syntax(e.to_string()))?;
        if file.vendor.len() != 12 {
            return Err(ModelError::Vendor { model: file.name, vendor: file.vendor });
        }
        if let Some(&number) = file.errata.iter().find(|number| !MODELLED_ERRATA.contains(number)) {
            return Err(ModelError::Erratum { model: file.name, number });
        }
        let mut features = FeatureSet::default();
        for feature in &file.features {
            let known = Feature::from_name(feature).ok_or_else(|| ModelError::Feature {
                model: file.name.clone(),
                feature: feature.clone(),
            })?;
            features.insert(known);
        }
        Ok(Self {
            name: file.name,
            description: file.description,
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
            behaviour: Behaviour::with_errata(&file.errata),
            errata: file.errata,
            placement: Placement::default(),
        })
    }

    /// As on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which part the model follows, in a few words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// CPUID Fn0000_0000's twelve characters.
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// Whether AMD's manuals decide where the vendors differ.
    pub fn is_amd(&self) -> bool {
        self.vendor == "AuthenticAMD"
    }

    /// How its instructions are decoded.
    pub fn dialect(&self) -> Dialect {
        if self.is_amd() { Dialect::Amd } else { Dialect::Intel }
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

    /// Takes a choice `NAME=VALUE` of [`crate::variant::VARIANTS`].
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

    /// The nominal core clock: a cost profile's cycles are its.
    pub fn core_hertz(&self) -> u64 {
        self.core_hertz
    }

    /// `None` where CPUID does not enumerate it.
    pub fn crystal(&self) -> Option<Crystal> {
        self.crystal
    }

    /// The revision of the microcode update.
    pub fn microcode(&self) -> u32 {
        self.microcode
    }

    /// The highest standard leaf of CPUID.
    pub fn last_leaf(&self) -> u32 {
        self.last_leaf
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

/// What some model that comes with the machine has, or could.
fn implemented_features() -> FeatureSet {
    let mut features = FeatureSet::default();
    let models = FILES.iter().filter_map(|(_, text)| CpuModel::parse(text).ok());
    models.flat_map(|model| model.features.iter().collect::<Vec<_>>()).for_each(|feature| {
        features.insert(feature);
    });
    UNSEEN.iter().for_each(|feature| features.insert(*feature));
    features
}

/// Features that mean nothing without another.
const NEEDS: &[(Feature, Feature)] = &[
    (Feature::Npt, Feature::Svm),
    (Feature::Lbrv, Feature::Svm),
    (Feature::SvmLock, Feature::Svm),
    (Feature::NripSave, Feature::Svm),
    (Feature::TscScale, Feature::Svm),
    (Feature::VmcbClean, Feature::Svm),
    (Feature::FlushByAsid, Feature::Svm),
    (Feature::DecodeAssists, Feature::Svm),
    (Feature::PauseFilter, Feature::Svm),
    (Feature::PauseFilterThreshold, Feature::PauseFilter),
    (Feature::Avic, Feature::Svm),
    (Feature::VirtualVmsaveVmload, Feature::Npt),
    (Feature::Vgif, Feature::Svm),
    (Feature::X2avic, Feature::Avic),
    (Feature::X2avic, Feature::X2apic),
    (Feature::Vnmi, Feature::Svm),
    (Feature::ExtLvtAvicAccessChange, Feature::Avic),
    (Feature::SvmeAddressCheck, Feature::Svm),
    (Feature::IdleHlt, Feature::Svm),
    (Feature::X2avicExt, Feature::X2avic),
];

/// Implemented, though no model's real part announces it.
const UNSEEN: &[Feature] = &[Feature::X2avicExt];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svm::AVIC_IPI_ERRATUM;

    #[test]
    fn every_model_that_comes_with_the_machine_parses_bears_its_name_and_lacks_nothing() {
        for name in CpuModel::names() {
            let as_it_comes = CpuModel::as_it_comes(name).unwrap().features;
            assert_eq!(CpuModel::named(name).unwrap().features, as_it_comes);
            assert_eq!(CpuModel::named(name).map(|model| model.name), Ok(name.to_owned()));
        }
    }

    #[test]
    fn the_signature_of_zen_4_is_split_as_real_parts_show_it() {
        assert_eq!(CpuModel::named("zen4").unwrap().signature(), 0x00A1_0F11);
    }

    #[test]
    fn signatures_of_intel_parts_are_split_as_real_parts_show_them() {
        let rows = [
            ("ivy-bridge-ep", 0x0003_06E4),
            ("haswell-ep", 0x0003_06F2),
            ("skylake-sp", 0x0005_0654),
            ("ice-lake-sp", 0x0006_06A6),
            ("sapphire-rapids", 0x0008_06F8),
        ];
        for (name, signature) in rows {
            assert_eq!(CpuModel::named(name).unwrap().signature(), signature, "{name}");
        }
    }

    #[test]
    fn models_announce_vmx_where_the_capabilities_of_their_parts_are_known() {
        for name in CpuModel::names() {
            let model = CpuModel::named(name).unwrap();
            let is_known = arch::vmx::model::MODELS.iter().any(|(part, _)| *part == name);
            assert_eq!(model.has(Feature::Vmx), is_known, "{name}");
            assert_eq!(crate::vmx::Vmx::new(&model).capabilities.is_some(), is_known, "{name}");
        }
    }

    #[test]
    fn each_generation_has_the_avic_that_its_parts_show() {
        let rows = [
            ("zen2", true, false, false, true),
            ("zen3", false, false, false, false),
            ("zen4", true, true, true, false),
            ("zen5", true, true, true, false),
        ];
        for (name, avic, x2avic, vnmi, erratum) in rows {
            let model = CpuModel::named(name).unwrap();
            let has = |feature| model.has(feature);
            let shown = (has(Feature::Avic), has(Feature::X2avic), has(Feature::Vnmi));
            assert_eq!(shown, (avic, x2avic, vnmi), "{name}");
            assert_eq!(model.has_erratum(AVIC_IPI_ERRATUM), erratum, "{name}");
        }
    }

    #[test]
    fn an_erratum_that_is_not_modelled_is_refused() {
        let text = include_str!("../models/zen2.toml").replace("1235", "1");
        let error = CpuModel::parse(&text).unwrap_err();
        assert_eq!(error, ModelError::Erratum { model: "zen2".to_owned(), number: 1 });
    }

    #[test]
    fn features_can_be_taken_away_and_those_that_are_implemented_added() {
        let rows = [
            ("zen4,-avic,-x2avic", Feature::Avic, false),
            ("zen3,+avic", Feature::Avic, true),
            ("zen5,+x2avic_ext", Feature::X2avicExt, true),
            ("zen5", Feature::X2avicExt, false),
            ("zen5", Feature::ExtLvtAvicAccessChange, true),
            ("zen5,-svm", Feature::X2avic, false),
            ("zen4,-x2apic", Feature::X2avic, false),
            ("zen4,-x2apic", Feature::Avic, true),
            ("generic,+avic,+svm", Feature::Avic, true),
        ];
        for (name, feature, expected) in rows {
            assert_eq!(CpuModel::named(name).unwrap().has(feature), expected, "{name}");
        }
        for (name, part) in [
            ("zen4,avic", "must be +FEATURE or -FEATURE"),
            ("zen4,+avx2", "avx2 is not implemented"),
            ("zen4,-avick", "no feature is named"),
            ("generic,+avic", "avic needs svm, which the model lacks; add +svm"),
            ("zen4,-avic,+x2avic", "x2avic needs avic"),
        ] {
            let error = CpuModel::named(name).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_unknown_model_is_refused_with_the_list() {
        let error = CpuModel::named("zen9").unwrap_err().to_string();
        assert!(error.contains("zen9") && error.contains("generic"), "{error}");
    }
}
