//! The profile that a fit leaves: figures with narrower ranges, and how they go together.

use super::measured::Measured;
use super::recording::recording;
use super::response::Model;
use super::sample::{Draws, quantile};
use board::cost::{CostError, CostProfile, Fit, Range};

/// A figure whose deviation fell to less than this share is fitted; of the others the times say
/// nothing, and they stay what they were.
pub const TOLD: f64 = 0.9;
/// What a range leaves out on each side.
const TAIL: f64 = 0.025;
/// Draws that a profile carries.
const CARRIED: usize = 60;

/// By what share of its prior deviation a figure is still uncertain.
pub fn width(model: &Model, draws: &Draws, figure: usize) -> f64 {
    let Range { low, likely, high } = model.ranges[figure];
    let square =
        low * low + likely * likely + high * high - low * likely - low * high - likely * high;
    draws.moments(figure).1 / (square / 18.0).sqrt().max(1e-12)
}

/// The base profile as it is after the fit.
pub fn narrowed(
    base: &CostProfile,
    measured: &Measured,
    model: &Model,
    draws: &Draws,
    is_misfit: bool,
) -> Result<CostProfile, CostError> {
    let (mut profile, place) = (base.clone(), measured.place());
    for (figure, (section, name)) in model.figures.iter().enumerate() {
        if width(model, draws, figure) > TOLD {
            continue;
        }
        let sorted = draws.of(figure);
        let (low, high) = (quantile(&sorted, TAIL), quantile(&sorted, 1.0 - TAIL));
        let likely = draws.moments(figure).0.clamp(low, high);
        profile.fit_figure(section, name, rounded(Range { low, likely, high }), &place)?;
    }
    let carried = draws.some(CARRIED).into_iter();
    profile.fit = Some(Fit {
        host: place,
        prior: base.name.clone(),
        misfit: is_misfit,
        off: digits(draws.off.iter().sum::<f64>() / draws.off.len().max(1) as f64),
        figures: model.figures.iter().map(|(section, name)| format!("{section}.{name}")).collect(),
        draws: carried.map(|draw| draw.iter().map(|value| digits(*value)).collect()).collect(),
        recording: recording(measured),
    });
    Ok(profile)
}

fn rounded(range: Range) -> Range {
    Range { low: digits(range.low), likely: digits(range.likely), high: digits(range.high) }
}

/// Five digits: more are not known.
fn digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fit::{fit, tests::data};
    use crate::calibrate::measured::tests::of_lathe;
    use crate::calibrate::response::tests::model;
    use crate::calibrate::sample::sample;
    use board::cost::Basis;

    #[test]
    fn figures_that_times_tell_of_are_fitted_and_the_others_stay_what_they_were() {
        let base = CostProfile::named("zen4").expect("a profile");
        let model = model();
        let data = data(&model.times(&[180.0, 130.0, 50.0]));
        let draws = sample(&model, &data, &fit(&model, &data), 200);
        let measured = of_lathe(Vec::new());
        let fitted =
            narrowed(&base, &measured, &model, &draws, false).expect("figures of the profile");
        assert_eq!(fitted.event.delivery.basis, Basis::Fitted);
        assert!(fitted.event.delivery.source.contains("lathe, 2026-01-02"));
        assert!((fitted.event.delivery.value - 180.0).abs() < 2.0);
        assert_eq!(fitted.message.device, base.message.device);
        let read = CostProfile::parse("own.toml", &fitted.to_toml()).expect("what was written");
        assert_eq!(read.fit, fitted.fit);
        assert!((read.drawn(3).event.delivery.value - 180.0).abs() < 3.0);
    }
}
