//! What was fitted to a host: figures that are narrower than their sources say, and how they go
//! together. Two figures whose sum alone was measured are each uncertain, and their sum is not; so
//! the profile has draws of all of them at once, and a seed chooses one.

use super::{Basis, CostError, CostProfile, Figure, Range};
use serde::{Deserialize, Serialize};

/// How fitted figures go together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The host, and when it was measured.
    pub host: String,
    /// The profile whose ranges were the prior knowledge.
    pub prior: String,
    /// Whether no costs within those ranges explain the host's times.
    #[serde(default)]
    pub misfit: bool,
    /// The share by which times are off although costs are right, as those that were fitted are:
    /// no emulated kernel is the host's to the last instruction.
    #[serde(default)]
    pub off: f64,
    /// Section and figure, with a dot between, of each column of the draws.
    pub figures: Vec<String>,
    /// Draws from what is known after the fit, each a value for every figure.
    pub draws: Vec<Vec<f64>>,
    /// What recordings of exits that were made there lack, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

/// What an exit takes that is not recorded, beside what is: the switch there and back, less what
/// recording takes between the two events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// How exits are recorded, in the recordings' own words.
    pub by: String,
    /// An exit that accesses no MSR.
    pub exit: Beside,
    /// One that does, of which the access is recorded, too.
    pub msr: Beside,
}

/// Nanoseconds; less than none where recording takes more than the switch does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// In the mean over kinds.
    pub mean: f64,
    /// By how much kinds differ: their standard deviation.
    pub deviation: f64,
}

impl CostProfile {
    /// Gives a figure what a fit found of it: the likely value and a range.
    pub fn fit_figure(
        &mut self,
        section: &str,
        name: &str,
        range: Range,
        host: &str,
    ) -> Result<(), CostError> {
        let (profile, full_name) = (self.name.clone(), format!("{section}.{name}"));
        let Range { low, likely, high } = range;
        if !(0.0 <= low && low <= likely && likely <= high && high.is_finite()) {
            let figure = full_name;
            return Err(CostError::Range { profile, figure, value: likely, low, high });
        }
        let Some(figure) = self.figure_mut(section, name) else {
            return Err(CostError::NoFigure { profile, figure: full_name });
        };
        *figure = Figure {
            value: likely,
            low: Some(low),
            high: Some(high),
            basis: Basis::Fitted,
            source: format!("measured on {host}; before: {}", figure.source),
            fitted_to: vec![format!("benchmarks of {host}")],
        };
        self.inherited.remove(&(section.to_owned(), name.to_owned()));
        Ok(())
    }

    /// The profile as one of the fit's draws has it; `None` if it was not fitted.
    pub(super) fn drawn_together(&self, seed: u64) -> Option<Self> {
        let fit = self.fit.as_ref().filter(|fit| !fit.draws.is_empty())?;
        let values = &fit.draws[(seed % fit.draws.len() as u64) as usize];
        let mut drawn = self.with_own_ranges();
        for (name, value) in fit.figures.iter().zip(values) {
            let figure =
                name.split_once('.').and_then(|(section, name)| drawn.figure_mut(section, name));
            // They are there: the profile was checked when it was read.
            if let Some(figure) = figure {
                figure.value = *value;
            }
        }
        drawn.draw = Some(seed);
        Some(drawn)
    }

    /// Whether what its fit says is about its figures.
    pub(super) fn check_fit(&self) -> Result<(), CostError> {
        let Some(fit) = &self.fit else { return Ok(()) };
        if !(0.0..=1.0).contains(&fit.off) {
            let (profile, figure) = (self.name.clone(), "fit.off".to_owned());
            return Err(CostError::Value { profile, figure, value: fit.off });
        }
        let beside = fit.recording.iter().flat_map(|one| [one.exit, one.msr]);
        let is_none = |one: &Beside| !(one.mean.is_finite() && one.deviation.is_finite());
        if let Some(one) = beside.into_iter().find(|one| is_none(one) || one.deviation < 0.0) {
            let (profile, figure) = (self.name.clone(), "fit.recording".to_owned());
            let value = if one.mean.is_finite() { one.deviation } else { one.mean };
            return Err(CostError::Value { profile, figure, value });
        }
        let is_known = |name: &String| {
            self.figures()
                .any(|((section, figure), _)| name.split_once('.') == Some((section, figure)))
        };
        let are_known = fit.figures.iter().all(is_known);
        let is_bad = |draw: &Vec<f64>| {
            draw.len() != fit.figures.len()
                || draw.iter().any(|value| !value.is_finite() || *value < 0.0)
        };
        let bad = fit.draws.iter().position(|draw| !are_known || is_bad(draw));
        match bad {
            Some(draw) => Err(CostError::Draw {
                profile: self.name.clone(),
                draw,
                figures: fit.figures.len(),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Entry, IN_CORE_CYCLES};
    use cpu::{CoreClock, CpuModel};

    fn fitted() -> CostProfile {
        let mut profile = CostProfile::named("zen4").expect("a profile");
        let range = Range { low: 40.0, likely: 50.0, high: 60.0 };
        profile.fit_figure("event", "iret", range, "a host").expect("a figure");
        profile.fit = Some(Fit {
            host: "a host".into(),
            prior: "zen4".into(),
            misfit: false,
            off: 0.004,
            figures: vec!["event.iret".into(), "event.delivery".into()],
            draws: vec![vec![41.0, 100.0], vec![59.0, 90.0]],
            recording: Some(Recording {
                by: "summed up".into(),
                exit: Beside { mean: 312.5, deviation: 10.5 },
                msr: Beside { mean: -500.0, deviation: 20.0 },
            }),
        });
        profile
    }

    #[test]
    fn a_seed_of_a_fitted_profile_is_a_draw_of_all_figures_together_and_is_read_back() {
        let read = CostProfile::parse("mine.toml", &fitted().to_toml()).expect("what was written");
        assert_eq!(read.fit, fitted().fit);
        for (seed, iret, delivery) in [(0, 41.0, 100.0), (1, 59.0, 90.0), (3, 59.0, 90.0)] {
            let drawn = read.drawn(seed);
            assert_eq!((drawn.event.iret.value, drawn.event.delivery.value), (iret, delivery));
            assert_eq!(drawn.device, read.device, "what the draw does not name stays as it is");
        }
    }

    #[test]
    fn draws_of_other_figures_or_of_too_few_are_refused() {
        let good = fitted().to_toml();
        for (from, to) in [("\"event.iret\"", "\"event.none\""), ("41.0", "-41.0"), ("41.0, ", "")]
        {
            let bad = good.replace(from, to);
            // Whichever way numbers are laid out.
            let bad = if bad == good { good.replace("41.0,", "") } else { bad };
            let error = CostProfile::parse("mine.toml", &bad).expect_err(to).to_string();
            assert!(error.contains("draw 0 of its fit"), "{error}");
        }
    }

    #[test]
    fn recording_of_which_kinds_differ_by_less_than_nothing_is_refused() {
        let good = fitted().to_toml();
        let bad = good.replace("10.5", "-10.5");
        assert_ne!(bad, good);
        let error = CostProfile::parse("mine.toml", &bad).expect_err("-10.5").to_string();
        assert!(error.contains("fit.recording"), "{error}");
    }

    #[test]
    fn figures_in_core_cycles_follow_the_clock_and_the_others_do_not() {
        let base = CostProfile::named("zen4").expect("a profile");
        let at = |hertz: u64, profile: &CostProfile| {
            let mut model = CpuModel::named("zen4").expect("a model");
            model.set_clock(CoreClock::Hertz(hertz)).expect("a possible clock");
            let instructions = profile.instruction_costs(&model).0.map(u64::from);
            let steps = profile.step_costs(&model).0.map(|step| step.0);
            instructions.iter().chain(&steps).sum::<u64>() as f64
        };
        let mut told = 0;
        for Entry { section, name, range, .. } in base.entries() {
            let mut dearer = base.clone();
            dearer.set(section, name, range.likely * 20.0 + 2000.0).expect("a figure");
            let more = |hertz| at(hertz, &dearer) - at(hertz, &base);
            let (fast, slow) = (more(4_000_000_000), more(1_000_000_000));
            // Messages make no step, and a serializing instruction is contained in others.
            if fast == 0.0 || name == "serializing" || name == "system" {
                continue;
            }
            told += 1;
            let is_in_core_cycles = IN_CORE_CYCLES.contains(&section);
            assert_eq!(slow / fast > 2.0, is_in_core_cycles, "{section}.{name}: {fast} {slow}");
        }
        assert!(told > 30, "{told}");
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        let mut profile = fitted();
        let range = Range { low: 60.0, likely: 50.0, high: 70.0 };
        assert!(profile.fit_figure("event", "iret", range, "a host").is_err());
        let range = Range { low: 40.0, likely: 50.0, high: 70.0 };
        assert!(profile.fit_figure("event", "none", range, "a host").is_err());
    }
}
