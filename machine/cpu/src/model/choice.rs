//! Models by their names, with features taken away or added: `NAME[,+FEATURE|,-FEATURE]...`.

use super::{CpuModel, ModelError};
use arch::cpuid::{Feature, FeatureSet};

/// Made from the folder of models when this is compiled.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/models.rs"));

impl CpuModel {
    /// The names of the models that come with the machine.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The names of those that come with the machine and are so, for messages.
    pub fn names_where(is_so: impl Fn(&Self) -> bool) -> String {
        let models = FILES.iter().filter_map(|(_, text)| Self::parse(text).ok());
        models.filter(|model| is_so(model)).map(|model| model.name).collect::<Vec<_>>().join(", ")
    }

    /// A model that comes with the machine, `NAME[,+FEATURE|,-FEATURE]...`.
    pub fn named(description: &str) -> Result<Self, ModelError> {
        let (name, changes) = description.split_once(',').unwrap_or((description, ""));
        Self::as_it_comes(name)?.with_changes(changes)
    }

    /// The same with features taken away or added: `+FEATURE` and `-FEATURE` between commas.
    pub fn with_changes(mut self, changes: &str) -> Result<Self, ModelError> {
        let mut added = FeatureSet::default();
        for change in changes.split(',').filter(|_| !changes.is_empty()) {
            self.change_feature(change, &mut added)?;
        }
        self.settle_features(&added)?;
        Ok(self)
    }

    /// What was taken away takes along what needs it; what was added must have what it needs.
    fn settle_features(&mut self, added: &FeatureSet) -> Result<(), ModelError> {
        let lacks = |features: &FeatureSet| {
            let has = |feature| features.contains(feature);
            let pairs = NEEDS
                .iter()
                .flat_map(|(needed, features)| features.iter().map(|feature| (*feature, *needed)));
            pairs.into_iter().find(|(feature, needed)| has(*feature) && !has(*needed))
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

    pub(super) fn as_it_comes(name: &str) -> Result<Self, ModelError> {
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text),
            None => Err(ModelError::Unknown(
                name.to_owned(),
                Self::names().collect::<Vec<_>>().join(", "),
            )),
        }
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

/// Features, and those that mean nothing without them.
const NEEDS: &[(Feature, &[Feature])] = &[
    (
        Feature::Svm,
        &[
            Feature::Npt,
            Feature::Lbrv,
            Feature::SvmLock,
            Feature::NripSave,
            Feature::TscScale,
            Feature::VmcbClean,
            Feature::FlushByAsid,
            Feature::DecodeAssists,
            Feature::PauseFilter,
            Feature::Avic,
            Feature::Vgif,
            Feature::Vnmi,
            Feature::SvmeAddressCheck,
            Feature::IdleHlt,
        ],
    ),
    (Feature::Xsave, &[Feature::Avx]),
    (
        Feature::Avx,
        &[Feature::Avx2, Feature::Fma, Feature::F16c, Feature::Vaes, Feature::Vpclmulqdq],
    ),
    (Feature::Npt, &[Feature::VirtualVmsaveVmload]),
    (Feature::PauseFilter, &[Feature::PauseFilterThreshold]),
    (Feature::Avic, &[Feature::X2avic, Feature::ExtLvtAvicAccessChange]),
    (Feature::X2apic, &[Feature::X2avic]),
    (Feature::X2avic, &[Feature::X2avicExt]),
];

/// Implemented, though no model's real part announces it.
const UNSEEN: &[Feature] = &[Feature::X2avicExt];
