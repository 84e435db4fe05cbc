//! What a published figure serves for: a prediction only if nothing of it went into the costs.

use super::cell::Formula;
use super::published::Published;
use serde::{Deserialize, Serialize};

/// What a figure served for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Costs were fitted to its cell, or such costs are on its way, and then it proves nothing.
    Calibration,
    /// It follows from other rows.
    Computed,
    /// Nothing of it went into the costs.
    Prediction,
    /// The lab has no value for it.
    None,
}

impl Use {
    /// As tables say it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Calibration => "calibration",
            Self::Computed => "computed",
            Self::Prediction => "prediction",
            Self::None => "not predicted",
        }
    }
}

impl Published {
    /// What it serves for where costs were `fitted` to cells.
    pub fn served(&self, fitted: &[String]) -> Use {
        let formula = self.formula();
        let cells = formula.iter().flat_map(Formula::cells);
        // All fitted costs are of interrupt virtualization, so whatever crosses it has met them.
        let has_fitted = !fitted.is_empty() && self.crosses_hardware();
        if self.unpredicted.is_some() {
            Use::None
        } else if !self.computed_from.is_empty() {
            Use::Computed
        } else if has_fitted || cells.into_iter().any(|cell| cell.is_fitted(fitted)) {
            Use::Calibration
        } else {
            Use::Prediction
        }
    }
}
