//! Cells of the lab's results, and how a published figure follows from them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which side of a comparison a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// With the feature off.
    Off,
    /// With it on.
    On,
    /// Of the number of exits or of a measure, in percent.
    Change,
}

/// What a run finds in one place: of a workload, in a mode of the APIC, a measure with the feature
/// off or on. Cost profiles name what they were fitted to by the text of it,
/// `ipi xAPIC ipi_acknowledged physical on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) workload: String,
    pub(super) apic: String,
    pub(super) measure: String,
    pub(super) setting: Setting,
}

/// Behind a measure's name, and behind a comparison's in the file.
pub(super) const FENCE: &str = "fence";

/// How a figure follows from its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    Value(Cell),
    Ratio(Cell, Cell),
    Difference(Cell, Cell),
}

impl Formula {
    pub(super) fn cells(&self) -> Vec<&Cell> {
        match self {
            Self::Value(cell) => vec![cell],
            Self::Ratio(first, second) | Self::Difference(first, second) => vec![first, second],
        }
    }
}

impl Cell {
    /// Whether a cost was fitted to this cell, or to its like in another mode of the APIC or with
    /// the fence: the same costs make all of them.
    pub(super) fn is_fitted(&self, fitted: &[String]) -> bool {
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

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Change => "change",
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.workload, self.apic, self.measure, self.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
