//! What guests measured, side by side.

use super::prices::Prices;
use super::spread::Spread;
use crate::plan::Setting;
use crate::workload::figure::Figure;
use serde::{Deserialize, Serialize};

/// A figure that the guest measured, off and on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measure {
    /// The test and its conditions.
    pub name: String,
    /// Of both values.
    pub unit: &'static str,
    /// None where that side was not run.
    pub off: Option<f64>,
    /// None where that side was not run.
    pub on: Option<f64>,
    /// How often it was measured on each side; what was measured once says nothing of how it
    /// varies.
    pub samples: u64,
    /// Where it was measured from several seeds: how the values of the two sides lie, whose means
    /// are `off` and `on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<Spreads>,
    /// Where it was measured under draws of the costs: how far they and seeds may carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_prices: Option<Prices>,
}

/// Of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spreads {
    /// Without the feature.
    pub off: Option<Spread>,
    /// With it.
    pub on: Option<Spread>,
}

impl Measure {
    /// Whether chance alone could have made the change, or prices that are off: its interval holds
    /// none, those of the two sides meet, or nothing is known of either.
    pub fn is_within_chance(&self) -> bool {
        if let Some(is_open) = self.over_prices.and_then(|prices| prices.leave_open()) {
            return is_open;
        }
        let spreads = self.over_seeds.and_then(|both| both.off.zip(both.on));
        spreads.is_none_or(|(off, on)| off.low <= on.high && on.low <= off.high)
    }

    /// Whether it is known how far a value of it may be off.
    pub fn has_interval(&self) -> bool {
        Setting::BOTH.iter().any(|setting| self.half(*setting).is_some())
    }

    /// How far a side's value may be off: by prices and seeds, or by seeds alone where prices were
    /// not drawn.
    pub fn half(&self, setting: Setting) -> Option<f64> {
        let is_on = setting.is_on();
        let value = if is_on { self.on } else { self.off }?;
        let prices = self.over_prices.and_then(|both| if is_on { both.on } else { both.off });
        let seeds = self.over_seeds.and_then(|both| if is_on { both.on } else { both.off });
        prices.map(|within| within.half(value)).or(seeds.map(|spread| spread.half()))
    }

    /// From off to on, in percent.
    pub fn change(&self) -> Option<f64> {
        let (off, on) = (self.off.filter(|off| *off > 0.0)?, self.on?);
        Some((on - off) / off * 100.0)
    }

    /// Whether less of it is better: of time, but not of a rate.
    pub fn is_better_when_less(&self) -> bool {
        !self.unit.ends_with("/s")
    }

    /// The change with its sign turned so that more is worse; none where chance or prices could
    /// have made it.
    pub fn worsening(&self) -> Option<f64> {
        let change = self.change().filter(|_| !self.is_within_chance());
        change.map(|change| if self.is_better_when_less() { change } else { -change })
    }
}

/// A measure for each figure of either side.
pub(crate) fn side_by_side(off: Option<Vec<Figure>>, on: Option<Vec<Figure>>) -> Vec<Measure> {
    let mut known: Vec<&Figure> = Vec::new();
    for figure in [&off, &on].into_iter().flatten().flatten() {
        if !known.iter().any(|other| other.name == figure.name) {
            known.push(figure);
        }
    }
    let value = |figures: &Option<Vec<Figure>>, name: &str| {
        figures.as_ref()?.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    };
    let measure = |figure: &Figure| Measure {
        off: value(&off, &figure.name),
        on: value(&on, &figure.name),
        name: figure.name.clone(),
        unit: figure.unit,
        samples: figure.samples,
        over_seeds: None,
        over_prices: None,
    };
    known.into_iter().map(measure).collect()
}
