//! Figures that others measured and published, a file each in `lab/evidence`: what was measured,
//! where and by whom, the plan that reproduces it here, and what to take of the plan's output.

use super::cell::{Cell, FENCE, Formula, Setting};
use super::output::Take;
use super::plan::Plan;
use crate::plan::Experiment;
use serde::{Deserialize, Serialize};

/// Those that come with the program, by name.
const OWN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/evidence.rs"));

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Of its file.
    #[serde(skip)]
    pub name: String,
    /// What was measured, in words.
    pub title: String,
    /// In its unit.
    pub value: f64,
    /// `cycles` of the time-stamp counter, `ns`, `µs`, `percent`, `ratio`, `IPIs/s`, `M IPIs/s`.
    pub unit: String,
    /// What the value is of what was measured: a mean, a median, of how many.
    pub statistic: String,
    /// How far single runs were apart, where that was published.
    pub spread: Option<String>,
    /// The CPU model that stands for the part.
    pub cpu: String,
    /// The feature's name that `setting` is about; none of those that `lab run` switches.
    #[serde(default)]
    pub feature: String,
    /// With it off or on, or how it changes what is measured.
    pub setting: Setting,
    /// Names of figures from which this one's value follows.
    #[serde(default)]
    pub computed_from: Vec<String>,
    /// Why the lab has no value for it.
    pub unpredicted: Option<String>,
    /// What is known to be otherwise here.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// Who published it, and of what.
    pub published: Origin,
    /// What is run for it.
    pub plan: Option<Plan>,
    /// What is taken of what that prints.
    pub take: Take,
}

/// Where a figure is from, and the conditions that it was measured under.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Origin {
    /// A short name that figures of the same source share.
    pub source: String,
    /// Author, title and date.
    pub document: String,
    /// The part of the document, or the test.
    pub section: String,
    /// Whether the text was read for this figure.
    pub text: Text,
    /// The host.
    pub machine: String,
    /// Of its cores.
    pub clock: String,
    /// Of the host.
    pub kernel: String,
    /// Of speculation, which cost time at each exit.
    pub mitigations: String,
}

/// How a published figure came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Text {
    /// From the document itself.
    Read,
    /// From memory: the document is to be read before the figure is cited.
    FromMemory,
}

impl Published {
    /// All that come with the program, by name. A test reads them.
    pub fn all() -> Vec<Self> {
        OWN.iter().filter_map(|(name, text)| Self::parse(name, text).ok()).collect()
    }

    fn parse(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text).map(|figure: Self| Self { name: name.to_owned(), ..figure })
    }

    /// Whether a run on such processors has this figure: it switches the feature, or has it on with
    /// all else that the processor has.
    pub(super) fn is_of(&self, cpu: &str, experiment: &Experiment) -> bool {
        // What a recipe switches is none of the features that others measured.
        let is_feature = experiment.own.is_none();
        let has = experiment.features.iter().any(|feature| feature.name() == self.feature);
        let is_alone = experiment.features.len() == 1;
        self.cpu == cpu && is_feature && has && (is_alone || self.setting == Setting::On)
    }

    /// Whether it is one of the workload, with whatever else.
    pub(crate) fn is_about(&self, workload: &str) -> bool {
        matches!(&self.take, Take::Measure(place) if place.workload == workload)
    }

    /// How it follows from what `lab run` finds; None where another command's output has it.
    pub(super) fn formula(&self) -> Option<Formula> {
        let Take::Measure(place) = &self.take else { return None };
        // The name of a comparison, with " fence" behind it for sends with the fence.
        let cell = |name: &str| {
            let (apic, measure) = match name.strip_suffix(FENCE) {
                Some(apic) => (apic.trim_end(), format!("{}, {FENCE}", place.measure)),
                None => (name, place.measure.clone()),
            };
            let workload = place.workload.clone();
            Cell { workload, apic: apic.into(), measure, setting: self.setting }
        };
        let pair = |kind: &str, sign: &str| {
            let (first, second) = place.apic.strip_prefix(kind)?.split_once(sign)?;
            Some((cell(first), cell(second)))
        };
        Some(match (pair("ratio ", " / "), pair("difference ", " - ")) {
            (Some((above, below)), _) => Formula::Ratio(above, below),
            (_, Some((more, less))) => Formula::Difference(more, less),
            _ => Formula::Value(cell(&place.apic)),
        })
    }

    /// Whether the costs of interrupt virtualization itself are on the way that it measures. What
    /// the host does at an exit, and how many there are, has none of them.
    pub(super) fn crosses_hardware(&self) -> bool {
        let of_exits =
            matches!(&self.take, Take::Measure(place) if place.measure.starts_with("exits"));
        self.setting != Setting::Off && !of_exits
    }
}

#[cfg(test)]
mod tests;
