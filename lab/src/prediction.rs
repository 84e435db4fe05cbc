//! Published figures beside what this run found, and those that it cannot find, with the reason.

use crate::comparison::Comparison;
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    source: String,
    workload: String,
    apic: String,
    measure: String,
    setting: Setting,
    unit: String,
    /// How many sent at once, where the figure is the sum of all.
    senders: Option<u16>,
    value: f64,
    #[serde(default)]
    calibration: bool,
    unpredicted: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Setting {
    Off,
    On,
    /// Of the number of exits, in percent.
    Change,
}

/// What a figure served for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// It served to choose costs, and then proves nothing.
    Calibration,
    Prediction,
    /// The lab has no value for it.
    None,
}

/// A published figure and this run's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub name: String,
    pub source: String,
    pub unit: String,
    pub published: f64,
    pub found: Option<f64>,
    /// Of what was found, in percent of the published figure.
    pub error: Option<f64>,
    #[serde(rename = "use")]
    pub served: Use,
    /// Why nothing was found.
    pub reason: Option<String>,
}

/// What turns the guest's figures into those of the published machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub tsc_hertz: u64,
    pub guest_cpus: u16,
}

fn figures() -> Vec<Figure> {
    // The file is part of the program, and a test reads it.
    toml::from_str::<File>(include_str!("published.toml")).map_or(Vec::new(), |file| file.figure)
}

/// What was published about a workload and can be found in its comparisons, or why it cannot.
pub fn predict(workload: &str, comparisons: &[Comparison], scale: Scale) -> Vec<Prediction> {
    let mine = figures().into_iter().filter(|figure| figure.workload == workload);
    mine.filter_map(|figure| prediction(figure, comparisons, scale)).collect()
}

fn prediction(figure: Figure, comparisons: &[Comparison], scale: Scale) -> Option<Prediction> {
    let found = match figure.unpredicted {
        Some(_) => None,
        // What this run did not measure, such as one setting only, is passed over.
        None => Some(find(&figure, comparisons, scale)?),
    };
    Some(Prediction {
        served: match (found, figure.calibration) {
            (None, _) => Use::None,
            (_, true) => Use::Calibration,
            (_, false) => Use::Prediction,
        },
        error: found.map(|found| (found - figure.value) / figure.value.abs() * 100.0),
        name: figure.name,
        source: figure.source,
        unit: figure.unit,
        published: figure.value,
        found,
        reason: figure.unpredicted,
    })
}

fn find(figure: &Figure, comparisons: &[Comparison], scale: Scale) -> Option<f64> {
    if figure.setting == Setting::Change {
        return comparisons.iter().find(|one| one.name == figure.apic)?.change();
    }
    match figure.apic.strip_prefix("ratio ") {
        Some(sides) => {
            let (above, below) = sides.split_once(" / ")?;
            Some(value(figure, comparisons, above)? / value(figure, comparisons, below)?)
        }
        None => {
            let value = value(figure, comparisons, &figure.apic)?;
            let in_unit = match figure.unit.as_str() {
                "ns" => value * 1e9 / scale.tsc_hertz as f64,
                "M IPIs/s" => value / 1e6,
                _ => value,
            };
            // Pairs of processors of their own share nothing.
            let own = f64::from((scale.guest_cpus / 2).max(1));
            Some(figure.senders.map_or(in_unit, |senders| in_unit / own * f64::from(senders)))
        }
    }
}

/// `place` is the name of a comparison, with " fence" behind it for sends with the fence.
fn value(figure: &Figure, comparisons: &[Comparison], place: &str) -> Option<f64> {
    let (name, fence) = match place.strip_suffix(" fence") {
        Some(name) => (name, ", fence"),
        None => (place, ""),
    };
    let measure = format!("{}{fence}", figure.measure);
    let comparison = comparisons.iter().find(|one| one.name == name)?;
    let measure = comparison.measures.iter().find(|one| one.name == measure)?;
    if figure.setting == Setting::On { measure.on } else { measure.off }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Measure;

    #[test]
    fn at_most_half_of_the_figures_calibrate_and_each_has_a_source() {
        let figures = figures();
        assert!(figures.len() >= 10);
        assert!(figures.iter().all(|figure| !figure.source.is_empty()));
        let has_value = figures.iter().filter(|figure| figure.unpredicted.is_none()).count();
        let calibrating = figures.iter().filter(|figure| figure.calibration).count();
        assert!(calibrating * 2 <= has_value);
    }

    fn comparison(name: &str, measures: &[(&str, f64)]) -> Comparison {
        let measure = |(name, on): &(&str, f64)| Measure {
            name: (*name).into(),
            unit: "",
            off: None,
            on: Some(*on),
        };
        Comparison {
            name: name.into(),
            measures: measures.iter().map(measure).collect(),
            ..Comparison::default()
        }
    }

    #[test]
    fn cycles_become_time_at_the_clock_and_one_pair_stands_for_all() {
        let scale = Scale { tsc_hertz: 2_000_000_000, guest_cpus: 4 };
        let ipi = [comparison("xAPIC", &[("ipi_acknowledged physical", 2400.0)])];
        let found = predict("ipi", &ipi, scale);
        let names: Vec<_> = found.iter().map(|one| (one.unit.as_str(), one.found)).collect();
        assert_eq!(names, [("cycles", Some(2400.0)), ("ns", Some(1200.0))]);
        assert_eq!((found[0].served, found[1].served), (Use::Calibration, Use::Prediction));

        let mesh = [comparison("xAPIC", &[("ipi_pairs physical", 2e6)])];
        let found = predict("mesh", &mesh, scale);
        assert_eq!(found[0].found, Some(48.0), "two pairs have sent 2 M/s together");
        let without: Vec<_> = found.iter().filter(|one| one.found.is_none()).collect();
        assert!(without.iter().all(|one| one.reason.is_some() && one.served == Use::None));
        assert_eq!(without.len(), 2);
    }
}
