//! What a fit found, for readers: the verdict first, then each figure, then what the times do not
//! tell apart.

use super::closed_loop::Known;
use super::measured::Measured;
use super::misfit::{Misfit, OtherClock};
use super::mitigations::ALL_OFF;
use super::narrowed::{TOLD, width};
use report::grid::{Grid, Value};
use std::fmt::Write;

/// Figures that go together by so much are named.
const TOGETHER: f64 = 0.8;
/// Residuals that are shown, the greatest ones.
const SHOWN: usize = 6;

/// All of it.
pub fn to_text(measured: &Measured, known: &Known, columns: usize) -> String {
    let mut text = verdict(measured, known);
    text.push('\n');
    text.push_str(&figures(known).to_text_within(columns));
    text.push('\n');
    text.push_str(&untold(known));
    text.push_str(&residuals(measured, known).to_text_within(columns));
    text
}

fn verdict(measured: &Measured, known: &Known) -> String {
    let Known { model, draws, misfit, .. } = known;
    let told = (0..model.figures.len()).filter(|one| width(model, draws, *one) <= TOLD).count();
    let Misfit { chi2, freedom, probability, off, .. } = misfit;
    let said = match misfit.is_said() {
        true => "MISFIT: no costs within the ranges explain these times",
        false => "Costs within the ranges explain these times",
    };
    let mut text = format!(
        "{said} (chi-squared {chi2:.0}, {freedom} degrees of freedom, probability {}; they are \
         off by {:.1} % in the mean, where {:.1} % is allowed for each)\n",
        Short(*probability),
        off * 100.0,
        known.data.error * 100.0
    );
    if misfit.is_said() {
        text += &explanation(misfit);
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: {} times; {told} of {} figures are narrower than their sources have them",
        measured.place(),
        model.rows.len(),
        model.figures.len()
    );
    text
}

/// What explains a misfit's times better, if anything does.
fn explanation(misfit: &Misfit) -> String {
    let clock = misfit.clock.map(|OtherClock { ratio, off }| {
        let what = format!("A core clock of {ratio:.2} times the model's");
        (off, what, "see --clock".to_owned())
    });
    let mitigations = misfit.without_mitigations.map(|off| {
        let what = "A kernel without mitigations, of which the host says nothing,".to_owned();
        (off, what, format!("see --append {ALL_OFF}"))
    });
    let best = clock.into_iter().chain(mitigations).min_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((off, what, see)) => {
            format!("{what} explains them better (off by {:.1} %): {see}\n", off * 100.0)
        }
        None => "Another clock of the cores does not either: mitigations, the kernel or the part \
                 may be others than the lab's host has\n"
            .to_owned(),
    }
}

struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            small if small < 1e-4 => f.write_str("below 0.0001"),
            value => write!(f, "{value:.4}"),
        }
    }
}

fn figures(known: &Known) -> Grid {
    let Known { model, draws, .. } = known;
    let columns = ["figure", "before", "low", "likely", "high", "width_percent"];
    let mut grid =
        Grid::new("Costs (core cycles or nanoseconds) and how much of the width is left", &columns);
    for (figure, (section, name)) in model.figures.iter().enumerate() {
        let sorted = draws.of(figure);
        let at = |share| Value::Number(super::sample::quantile(&sorted, share), 2);
        grid.rows.push(vec![
            Value::text(format!("{section}.{name}")),
            Value::Number(model.ranges[figure].likely, 2),
            at(0.05),
            Value::Number(draws.moments(figure).0, 2),
            at(0.95),
            Value::Number(width(model, draws, figure) * 100.0, 0),
        ]);
    }
    grid
}

/// Which figures the times do not tell apart.
fn untold(known: &Known) -> String {
    let Known { model, draws, .. } = known;
    let name = |figure: usize| format!("{}.{}", model.figures[figure].0, model.figures[figure].1);
    let all = 0..model.figures.len();
    let silent: Vec<String> =
        all.clone().filter(|one| width(model, draws, *one) > TOLD).map(name).collect();
    let mut text = format!("The times say nothing of: {}\n", silent.join(", "));
    let mut pairs = Vec::new();
    for a in all.clone() {
        for b in a + 1..model.figures.len() {
            let together = draws.correlation(a, b);
            if together.abs() > TOGETHER {
                pairs.push(format!("{} and {} ({together:.2})", name(a), name(b)));
            }
        }
    }
    if !pairs.is_empty() {
        let _ = writeln!(text, "Not told apart: {}", pairs.join(", "));
    }
    text.push('\n');
    text
}

fn residuals(measured: &Measured, known: &Known) -> Grid {
    let columns = ["time", "measured_ns", "spread_ns", "samples", "fitted_ns", "deviations"];
    let mut grid = Grid::new("Times that the fit is furthest from", &columns);
    let mut order: Vec<usize> = (0..known.model.rows.len()).collect();
    let sigmas = known.data.sigmas(known.fitted.off);
    let away = &known.fitted.away;
    let residuals: Vec<f64> = away.iter().zip(&sigmas).map(|(away, sigma)| away / sigma).collect();
    order.sort_by(|a, b| residuals[*b].abs().total_cmp(&residuals[*a].abs()));
    for row in order.into_iter().take(SHOWN) {
        let name = &known.model.rows[row];
        let own = measured.row(name);
        let residual = residuals[row];
        grid.rows.push(vec![
            Value::text(name.as_str()),
            Value::Number(known.data.values[row], 1),
            own.and_then(|own| own.deviation).map_or(Value::Missing, |one| Value::Number(one, 1)),
            own.map_or(Value::Missing, |own| Value::Count(own.samples * own.repeats)),
            Value::Number(known.data.values[row] - away[row], 1),
            Value::Number(residual, 1),
        ]);
    }
    grid
}
