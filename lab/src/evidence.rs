//! Published figures beside what this run found, and those that it cannot find, with the reason.
//!
//! A figure is a prediction only if nothing of it went into the costs: one whose cell a cost was
//! fitted to is none, and one that follows from other rows says nothing that these do not.

mod cell;
mod estimate;
pub mod kept;
mod output;
pub mod plan;
mod published;
mod role;
pub mod table;

pub use cell::Setting;
pub use output::Take;
pub use published::{Origin, Published, Text};
pub use role::Use;

use crate::comparison::{Comparison, ExitRow};
use crate::drive::counters::Count;
use crate::plan::Experiment;
use cell::{Cell, Formula};
use estimate::Estimate;
use serde::Serialize;

/// What stands for the number of exits among the measures.
const EXITS: &str = "exits";

/// A published figure and this run's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    /// What was measured, in words.
    pub name: String,
    /// Who published it, and of what.
    pub source: String,
    /// Of the values.
    pub unit: String,
    /// Its value.
    pub published: f64,
    /// This run's, where it has one.
    pub found: Option<f64>,
    /// Between what it lies by the intervals of the seeds, where it was measured from several.
    pub interval: Option<(f64, f64)>,
    /// Of what was found, in percent of the published figure.
    pub error: Option<f64>,
    #[serde(rename = "use")]
    /// Whether the row proves anything.
    pub served: Use,
    /// Why nothing was found.
    pub reason: Option<String>,
}

/// What turns the guest's figures into those of the published machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Of the time-stamp counter, in hertz.
    pub tsc_hertz: u64,
    /// vCPUs of the guest.
    pub guest_cpus: u16,
}

/// What was run, of which something may have been published.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The CPU model as it was asked for: one that was changed is none that others measured.
    pub cpu: &'a str,
    /// What was switched.
    pub experiment: &'a Experiment,
    /// Its name.
    pub workload: &'a str,
}

/// What was published about a workload and can be found in its comparisons, or why it cannot.
/// `fitted` names the cells that the machine's costs were fitted to.
pub fn predict(
    subject: Subject<'_>,
    comparisons: &[Comparison],
    scale: Scale,
    fitted: &[String],
) -> Vec<Prediction> {
    let mine = Published::all().into_iter().filter(|figure| {
        figure.is_about(subject.workload) && figure.is_of(subject.cpu, subject.experiment)
    });
    mine.filter_map(|figure| prediction(figure, comparisons, scale, fitted)).collect()
}

fn prediction(
    figure: Published,
    comparisons: &[Comparison],
    scale: Scale,
    fitted: &[String],
) -> Option<Prediction> {
    let found = match figure.unpredicted {
        Some(_) => None,
        // What this run did not measure, such as one setting only, is passed over.
        None => Some(find(&figure, comparisons, scale)?),
    };
    Some(Prediction {
        served: figure.served(fitted),
        error: found.map(|found| (found.value - figure.value) / figure.value.abs() * 100.0),
        name: figure.title,
        source: format!("{}: {}", figure.published.document, figure.published.section),
        unit: figure.unit,
        published: figure.value,
        found: found.map(|found| found.value),
        interval: found.and_then(|found| found.interval),
        reason: figure.unpredicted,
    })
}

fn find(figure: &Published, comparisons: &[Comparison], scale: Scale) -> Option<Estimate> {
    let of = |cell: &Cell| value(cell, comparisons);
    let value = match &figure.formula()? {
        Formula::Value(cell) => of(cell)?,
        Formula::Ratio(above, below) => of(above)?.with(of(below)?, |above, below| above / below),
        Formula::Difference(more, less) => of(more)?.with(of(less)?, |more, less| more - less),
    };
    let in_unit = value.map(|value| match figure.unit.as_str() {
        "ns" => value * 1e9 / scale.tsc_hertz as f64,
        "M IPIs/s" => value / 1e6,
        _ => value,
    });
    // Pairs of processors of their own share nothing.
    let own = f64::from((scale.guest_cpus / 2).max(1));
    let Take::Measure(place) = &figure.take else { return None };
    Some(match place.senders {
        Some(senders) => in_unit.map(|rate| rate / own * f64::from(senders)),
        None => in_unit,
    })
}

fn value(cell: &Cell, comparisons: &[Comparison]) -> Option<Estimate> {
    let comparison = comparisons.iter().find(|one| one.name == cell.apic)?;
    if let Some(words) = cell.measure.strip_prefix("exits ") {
        let (reason, what) = words.rsplit_once(' ')?;
        return of_exits(comparison, reason, what, cell.setting).map(Estimate::exact);
    }
    if cell.setting == Setting::Change && cell.measure == EXITS {
        return comparison.change().map(Estimate::exact);
    }
    let measure = comparison.measures.iter().find(|one| one.name == cell.measure)?;
    let spreads = measure.over_seeds;
    let on = || Some(Estimate::of(measure.on?, spreads.and_then(|both| both.on)));
    let off = || Some(Estimate::of(measure.off?, spreads.and_then(|both| both.off)));
    match cell.setting {
        Setting::On => on(),
        Setting::Off => off(),
        // As [`Measure::change`] has it, which knows what has none.
        Setting::Change => {
            measure.change()?;
            Some(on()?.with(off()?, |on, off| (on - off) / off * 100.0))
        }
    }
}

/// What the exits of a reason are: their share of all in percent, or microseconds of their mean
/// time until the vCPU is entered again.
fn of_exits(comparison: &Comparison, reason: &str, what: &str, setting: Setting) -> Option<f64> {
    let side = |row: &ExitRow| if setting == Setting::Off { row.off } else { row.on };
    let row = comparison.exits.iter().find(|row| row.name == reason);
    let count: Count = side(row?)?;
    match what {
        "microseconds" if count.completed > 0 => {
            Some(count.handled.0 as f64 / count.completed as f64 / 1e6)
        }
        "share" => {
            let all = comparison.exits.iter().filter_map(side);
            let all: u64 = all.map(|count| count.exits).sum();
            Some(count.exits as f64 / all as f64 * 100.0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Measure;
    use std::sync::LazyLock;

    fn zen4(workload: &'static str) -> Subject<'static> {
        static AVIC: LazyLock<Experiment> = LazyLock::new(Experiment::default);
        Subject { cpu: "zen4", experiment: &AVIC, workload }
    }

    fn comparison(name: &str, measures: &[(&str, f64)]) -> Comparison {
        let measure = |(name, on): &(&str, f64)| Measure {
            name: (*name).into(),
            unit: "",
            off: None,
            on: Some(*on),
            samples: 1,
            over_seeds: None,
            over_prices: None,
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
        let modes = [("xAPIC", 2400.0), ("x2APIC", 2500.0)];
        let ipi = modes.map(|(name, on)| comparison(name, &[("ipi_acknowledged physical", on)]));
        let found = predict(zen4("ipi"), &ipi, scale, &[]);
        let values: Vec<_> = found.iter().map(|one| (one.unit.as_str(), one.found)).collect();
        // kvm-unit-tests send through MSRs; ipi-bench was run in both modes.
        assert_eq!(values, [("cycles", Some(2500.0)), ("ns", Some(1200.0)), ("ns", Some(1250.0))]);

        let mesh = [comparison("xAPIC", &[("ipi_pairs physical", 2e6)])];
        let found = predict(zen4("mesh"), &mesh, scale, &[]);
        let of_all = found.iter().find_map(|one| one.found);
        assert_eq!(of_all, Some(48.0), "two pairs have sent 2 M/s together");
        let without: Vec<_> = found.iter().filter(|one| one.found.is_none()).collect();
        assert!(without.iter().all(|one| one.reason.is_some() && one.served == Use::None));
        assert_eq!(without.len(), 2);
    }

    #[test]
    fn a_difference_is_that_of_two_cells() {
        let scale = Scale { tsc_hertz: 1_000_000_000, guest_cpus: 2 };
        let measures =
            [("ipi_acknowledged physical", 1000.0), ("ipi_acknowledged physical, fence", 1016.0)];
        let found = predict(zen4("ipi"), &[comparison("x2APIC", &measures)], scale, &[]);
        let fence = found.iter().find(|one| one.name.contains("adds")).expect("the fence's row");
        assert_eq!((fence.found, fence.served), (Some(16.0), Use::Computed));
        assert_eq!(fence.interval, None, "one seed");
    }

    #[test]
    fn no_row_of_a_fitted_cell_and_none_computed_from_others_is_a_prediction() {
        let fitted = ["ipi xAPIC ipi_acknowledged physical on".to_owned()];
        for figure in Published::all() {
            let is_fitted = figure.formula().is_some_and(|formula| {
                formula.cells().iter().any(|cell| cell.to_string() == fitted[0])
            });
            let served = figure.served(&fitted);
            if is_fitted || !figure.computed_from.is_empty() {
                assert_ne!(served, Use::Prediction, "{}", figure.title);
            }
        }
        let of = |name: &str, fitted: &[String]| {
            let all = Published::all();
            all.iter().find(|row| row.title.contains(name)).expect(name).served(fitted)
        };
        // The same cell in nanoseconds, and the same path in the other mode.
        assert_eq!(of("ipi-bench inside a core complex", &fitted), Use::Calibration);
        assert_eq!(of("AVIC on (kvm-unit-tests", &fitted), Use::Calibration);
        assert_eq!(of("AVIC on (kvm-unit-tests", &[]), Use::Prediction);
        assert_eq!(of("48 senders, AVIC", &[]), Use::Computed);
    }
}
