//! Published figures beside what this run found.

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
    value: f64,
    calibration: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Setting {
    Off,
    On,
    /// Of the number of exits, in percent.
    Change,
}

/// A published figure and this run's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub name: String,
    pub source: String,
    pub unit: String,
    pub published: f64,
    pub found: f64,
    /// Decimals worth showing.
    pub decimals: u8,
    /// Whether the figure served to choose costs; it then proves nothing.
    pub is_calibration: bool,
}

impl Prediction {
    /// Of this run, in percent of the published figure.
    pub fn error(&self) -> f64 {
        (self.found - self.published) / self.published.abs() * 100.0
    }
}

fn figures() -> Vec<Figure> {
    // The file is part of the program, and a test reads it.
    toml::from_str::<File>(include_str!("published.toml")).map_or(Vec::new(), |file| file.figure)
}

/// What was published about a workload and can be found in its comparisons.
pub fn predict(workload: &str, comparisons: &[Comparison]) -> Vec<Prediction> {
    figures()
        .into_iter()
        .filter(|figure| figure.workload == workload)
        .filter_map(|figure| {
            let found = find(&figure, comparisons)?;
            Some(Prediction {
                decimals: match figure.unit.as_str() {
                    "ratio" => 3,
                    "percent" => 1,
                    _ => 0,
                },
                name: figure.name,
                source: figure.source,
                unit: figure.unit,
                published: figure.value,
                found,
                is_calibration: figure.calibration,
            })
        })
        .collect()
}

fn find(figure: &Figure, comparisons: &[Comparison]) -> Option<f64> {
    if figure.setting == Setting::Change {
        return comparisons.iter().find(|one| one.name == figure.apic)?.change();
    }
    match figure.apic.strip_prefix("ratio ") {
        Some(sides) => {
            let (above, below) = sides.split_once(" / ")?;
            Some(value(figure, comparisons, above)? / value(figure, comparisons, below)?)
        }
        None => value(figure, comparisons, &figure.apic),
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

    #[test]
    fn at_most_half_of_the_figures_calibrate_and_each_has_a_source() {
        let figures = figures();
        assert!(figures.len() >= 6);
        assert!(figures.iter().all(|figure| !figure.source.is_empty()));
        let calibrating = figures.iter().filter(|figure| figure.calibration).count();
        assert!(calibrating * 2 <= figures.len());
    }
}
