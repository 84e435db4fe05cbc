//! Figures that others measured and published, and the cell of the lab's results that each is set
//! beside.

use crate::plan::Experiment;
use serde::Deserialize;
use std::fmt;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Published>,
}

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) name: String,
    pub(crate) source: String,
    /// The CPU model that stands for the part.
    cpu: String,
    /// The feature's name that `setting` is about.
    feature: String,
    pub(crate) workload: String,
    /// A comparison's name; or two of them, `ratio A / B` or `difference A - B`.
    apic: String,
    measure: String,
    pub(crate) setting: Setting,
    pub(crate) unit: String,
    /// How many sent at once, where the figure is the sum of all.
    pub(crate) senders: Option<u16>,
    pub(crate) value: f64,
    /// Names of rows from which this one's value follows.
    #[serde(default)]
    pub(crate) computed_from: Vec<String>,
    /// Why the lab has no value for it.
    pub(crate) unpredicted: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Setting {
    Off,
    On,
    /// Of the number of exits or of a measure, in percent.
    Change,
}

/// What a run finds in one place: of a workload, in a mode of the APIC, a measure with the feature
/// off or on. Cost profiles name what they were fitted to by the text of it,
/// `ipi xAPIC ipi_acknowledged physical on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) apic: String,
    pub(crate) measure: String,
    pub(crate) setting: Setting,
}

/// Behind a measure's name, and behind a comparison's in the file.
const FENCE: &str = "fence";

/// How a figure follows from its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    Value(Cell),
    Ratio(Cell, Cell),
    Difference(Cell, Cell),
}

impl Published {
    /// All there are. The file is part of the program, and a test reads it.
    pub(crate) fn all() -> Vec<Self> {
        toml::from_str::<File>(include_str!("published.toml"))
            .map_or(Vec::new(), |file| file.figure)
    }

    /// Whether a run on such processors has this figure: it switches the feature, or has it on with
    /// all else that the processor has.
    pub(crate) fn is_of(&self, cpu: &str, experiment: &Experiment) -> bool {
        // What a recipe switches is none of the features that others measured.
        let is_feature = experiment.own.is_none();
        let has = experiment.features.iter().any(|feature| feature.name() == self.feature);
        let is_alone = experiment.features.len() == 1;
        self.cpu == cpu && is_feature && has && (is_alone || self.setting == Setting::On)
    }

    /// Whether it is one of the workload on this processor, with whatever feature.
    pub(crate) fn is_about(&self, cpu: &str, workload: &str) -> bool {
        self.cpu == cpu && self.workload == workload
    }

    pub(crate) fn formula(&self) -> Formula {
        let pair = |text: &str, sign: &str| {
            let (first, second) = text.split_once(sign)?;
            Some((self.cell(first), self.cell(second)))
        };
        let ratio = self.apic.strip_prefix("ratio ").and_then(|rest| pair(rest, " / "));
        let difference = self.apic.strip_prefix("difference ").and_then(|rest| pair(rest, " - "));
        match (ratio, difference) {
            (Some((above, below)), _) => Formula::Ratio(above, below),
            (_, Some((more, less))) => Formula::Difference(more, less),
            _ => Formula::Value(self.cell(&self.apic)),
        }
    }

    /// `place` is the name of a comparison, with " fence" behind it for sends with the fence.
    fn cell(&self, place: &str) -> Cell {
        let (apic, measure) = match place.strip_suffix(FENCE) {
            Some(apic) => (apic.trim_end(), format!("{}, {FENCE}", self.measure)),
            None => (place, self.measure.clone()),
        };
        Cell { workload: self.workload.clone(), apic: apic.into(), measure, setting: self.setting }
    }
}

impl Formula {
    pub(crate) fn cells(&self) -> Vec<&Cell> {
        match self {
            Self::Value(cell) => vec![cell],
            Self::Ratio(first, second) | Self::Difference(first, second) => vec![first, second],
        }
    }
}

impl Cell {
    /// Whether a cost was fitted to this cell, or to its like in another mode of the APIC or with
    /// the fence: the same costs make all of them.
    pub(crate) fn is_fitted(&self, fitted: &[String]) -> bool {
        let words = |text: &str| -> Vec<String> {
            let known = text.replace(',', " ");
            let words = known.split_whitespace().filter(|word| *word != FENCE);
            words.map(str::to_owned).collect()
        };
        let own = words(&self.to_string());
        fitted.iter().map(|cell| words(cell)).any(|other| {
            // The second word is the APIC's mode.
            own.len() == other.len()
                && own.iter().zip(&other).enumerate().all(|(at, (a, b))| at == 1 || a == b)
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = match self.setting {
            Setting::Off => "off",
            Setting::On => "on",
            Setting::Change => "change",
        };
        write!(f, "{} {} {} {setting}", self.workload, self.apic, self.measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_beside_runs_that_switch_its_feature_or_have_it_on() {
        let all = Published::all();
        let named = |name: &str| all.iter().find(|one| one.name.starts_with(name)).expect(name);
        let (without, with) = (named("IPI, xAPIC, APICv alone"), named("IPI, xAPIC, with IPI"));
        for (feature, off, on) in
            [("ipi=off,on", true, true), ("both", false, true), ("apicv=on", false, false)]
        {
            let model = cpu::CpuModel::named("sapphire-rapids").expect("a model of the machine");
            let request: crate::plan::Request = feature.parse().expect(feature);
            let experiment = request.on(&model).expect(feature);
            assert_eq!(without.is_of("sapphire-rapids", &experiment), off, "{feature}");
            assert_eq!(with.is_of("sapphire-rapids", &experiment), on, "{feature}");
            assert!(!with.is_of("skylake-sp", &experiment), "{feature}");
        }
        for one in &all {
            assert!(cpu::CpuModel::named(&one.cpu).is_ok(), "{}", one.name);
        }
    }

    #[test]
    fn every_figure_has_a_source_and_names_rows_that_exist() {
        let all = Published::all();
        assert!(all.len() >= 10);
        for figure in &all {
            assert!(!figure.source.is_empty(), "{}", figure.name);
            for name in &figure.computed_from {
                assert!(all.iter().any(|other| other.name == *name), "{}: {name}", figure.name);
            }
        }
    }

    /// Two figures of the same runs: a rate that is the number of senders by a latency, a ratio, a
    /// difference or a change of two rows.
    #[test]
    fn a_row_whose_value_follows_from_others_says_so() {
        let all: Vec<_> = Published::all();
        let told: Vec<_> = all.iter().filter(|row| row.unpredicted.is_none()).collect();
        let first: Vec<_> = told.iter().filter(|row| row.computed_from.is_empty()).collect();
        let is_close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.0005;
        for row in &told {
            let senders = f64::from(row.senders.unwrap_or(0));
            let of_latency = |other: &&&Published| {
                other.unit == "ns" && is_close(row.value * other.value, senders * 1000.0)
            };
            let rate = told.iter().any(|other| of_latency(&other));
            let pair = first.iter().any(|a| {
                first.iter().any(|b| {
                    let is_other = a.name != b.name && a.name != row.name && b.name != row.name;
                    is_other
                        && a.unit == b.unit
                        && a.workload == row.workload
                        && (is_close(a.value / b.value, row.value)
                            || is_close((a.value / b.value - 1.0) * 100.0, row.value)
                            || is_close(a.value - b.value, row.value))
                })
            });
            assert_eq!(rate || pair, !row.computed_from.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn a_cell_is_fitted_with_its_likes_of_the_other_apic_mode() {
        let cell = |apic: &str, measure: &str, setting| Cell {
            workload: "ipi".into(),
            apic: apic.into(),
            measure: measure.into(),
            setting,
        };
        let fitted = ["ipi xAPIC ipi_acknowledged physical on".to_owned()];
        for (cell, is_fitted) in [
            (cell("xAPIC", "ipi_acknowledged physical", Setting::On), true),
            (cell("x2APIC", "ipi_acknowledged physical", Setting::On), true),
            (cell("x2APIC", "ipi_acknowledged physical, fence", Setting::On), true),
            (cell("xAPIC", "ipi_acknowledged physical", Setting::Off), false),
            (cell("xAPIC", "ipi_one_way physical", Setting::On), false),
        ] {
            assert_eq!(cell.is_fitted(&fitted), is_fitted, "{cell}");
            assert!(!cell.is_fitted(&[]), "{cell}");
        }
    }
}
