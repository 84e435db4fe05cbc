//! Published figures beside what their plans gave here, and how far they are apart.

use super::kept::{Found, Kept};
use super::published::{Origin, Published};
use super::role::Use;
use board::cost::CostProfile;
use cpu::CpuModel;
use report::document::{Document, Section, Severity};
use report::grid::{Grid, Value};
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure in the table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Of its file.
    pub figure: String,
    /// What was measured, in words.
    pub title: String,
    /// Of both values.
    pub unit: String,
    /// What the published value is.
    pub statistic: String,
    /// The published value.
    pub published: f64,
    /// What the plan gave here when it ran last.
    pub here: Option<Found>,
    /// How far that is from what was published: in percent of it, or in points where the unit is
    /// percent.
    pub error: Option<f64>,
    #[serde(rename = "use")]
    /// What the figure served for.
    pub served: Use,
    /// Why there is no value here.
    pub reason: Option<String>,
    /// What is known to be otherwise here.
    pub deviations: Vec<String>,
    /// Where it is from.
    pub origin: Origin,
    /// What is run for it.
    pub run: Option<String>,
}

/// How far predictions are from what was published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Figures, or sources.
    pub count: usize,
    /// Of the absolute errors.
    pub median: f64,
    /// Of the absolute errors.
    pub ninetieth: f64,
}

/// The table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Table {
    /// Version of this form.
    pub schema: u32,
    /// A figure each.
    pub rows: Vec<Row>,
    /// Errors of predicted values in percent.
    pub values: Option<Spread>,
    /// The same with each source's median for its figures.
    pub sources: Option<Spread>,
    /// Errors of what a feature changes and of shares, predicted or computed from predictions, in
    /// points of a percentage.
    pub changes: Option<Spread>,
}

impl Table {
    /// Version of this form: docs/schema/lab-evidence-1.json.
    pub const SCHEMA: u32 = 1;

    /// Of these figures. `missing` says what a figure needs that is not there.
    pub fn new(
        figures: &[Published],
        kept: &Kept,
        missing: impl Fn(&Published) -> Option<String>,
    ) -> Self {
        let rows: Vec<Row> = figures.iter().map(|one| row(one, kept, &missing)).collect();
        let is_in_points = |row: &&Row| row.unit == POINTS;
        let errors = |rows: Vec<&Row>| rows.iter().filter_map(|row| row.error).collect::<Vec<_>>();
        let predicted = |row: &&Row| row.served == Use::Prediction;
        let values: Vec<&Row> =
            rows.iter().filter(predicted).filter(|row| !is_in_points(row)).collect();
        let mut by_source: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in &values {
            let own = by_source.entry(&row.origin.source).or_default();
            own.extend(row.error.map(f64::abs));
        }
        let medians = by_source.values().filter_map(|errors| spread(errors)).map(|one| one.median);
        let medians: Vec<f64> = medians.collect();
        let names: BTreeMap<&str, &Row> =
            rows.iter().map(|row| (row.figure.as_str(), row)).collect();
        let is_independent = |figure: &Published| {
            figure.computed_from.iter().all(|name| {
                names.get(name.as_str()).is_none_or(|row| row.served == Use::Prediction)
            })
        };
        let changes = rows.iter().zip(figures).filter(|(row, figure)| {
            let computed = row.served == Use::Computed && is_independent(figure);
            is_in_points(row) && (predicted(row) || computed)
        });
        let changes = changes.map(|(row, _)| row).collect();
        Self {
            schema: Self::SCHEMA,
            values: spread(&errors(values)),
            sources: spread(&medians),
            changes: spread(&errors(changes)),
            rows,
        }
    }

    /// For readers.
    pub fn document(&self) -> Document {
        let mut document = Document::new("Published figures and what the lab gives for them");
        let mut section = Section::new("How far they are apart");
        for (what, unit, spread) in [
            ("predicted values", "%", self.values),
            ("predicted values, a median for each source", "%", self.sources),
            ("predicted changes and shares", " points", self.changes),
        ] {
            let text = match spread {
                Some(one) => format!(
                    "{what}, {}: median error {:.1}{unit}, 90th percentile {:.1}{unit}",
                    one.count, one.median, one.ninetieth
                ),
                None => format!("{what}: none was run; --run runs the plans"),
            };
            section.say(Severity::Note, text);
        }
        document.add(section);
        let mut sources: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sources.contains(&row.origin.source.as_str()) {
                sources.push(&row.origin.source);
            }
        }
        for source in sources {
            let own = self.rows.iter().filter(|row| row.origin.source == source);
            document.add(of_source(source, &own.collect::<Vec<_>>()));
        }
        document
    }
}

/// The unit of shares and changes, whose errors are differences.
const POINTS: &str = "percent";

fn row(figure: &Published, kept: &Kept, missing: &impl Fn(&Published) -> Option<String>) -> Row {
    let here = kept.of(figure).cloned();
    let error = here.as_ref().map(|found| match figure.unit.as_str() {
        POINTS => found.value - figure.value,
        _ => (found.value - figure.value) / figure.value.abs() * 100.0,
    });
    let reason = match &here {
        Some(_) => None,
        None => figure.unpredicted.clone().or_else(|| missing(figure)),
    };
    Row {
        figure: figure.name.clone(),
        title: figure.title.clone(),
        unit: figure.unit.clone(),
        statistic: figure.statistic.clone(),
        published: figure.value,
        error,
        here,
        served: figure.served(&fitted(&figure.cpu)),
        reason,
        deviations: figure.deviations.clone(),
        origin: figure.published.clone(),
        run: figure.plan.as_ref().map(|plan| plan.run.clone()),
    }
}

/// The cells that the costs of a model were fitted to.
fn fitted(cpu: &str) -> Vec<String> {
    let profile = CpuModel::named(cpu).ok().and_then(|one| CostProfile::named(one.costs()).ok());
    profile.map_or(Vec::new(), |profile| profile.provenance().fitted_to)
}

/// None of no errors.
fn spread(errors: &[f64]) -> Option<Spread> {
    let mut all: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    all.sort_by(f64::total_cmp);
    let median = match (all.len(), all.len() / 2) {
        (0, _) => return None,
        (count, half) if count.is_multiple_of(2) => f64::midpoint(all[half - 1], all[half]),
        (_, half) => all[half],
    };
    let rank = (all.len() * 9).div_ceil(10).max(1);
    Some(Spread { count: all.len(), median, ninetieth: all[rank - 1] })
}

fn of_source(source: &str, rows: &[&Row]) -> Section {
    let mut section = Section::new(format!("{source}: {}", rows[0].origin.document));
    let mut grid = Grid::new(
        format!("{}, {}", rows[0].origin.machine, rows[0].origin.clock),
        &["figure", "unit", "published", "here", "error", "use", "interval"],
    );
    for row in rows {
        let decimals = decimals(row.published);
        let number = |value: Option<f64>| {
            value.map_or(Value::Missing, |value| Value::Number(value, decimals))
        };
        let interval = row.here.as_ref().and_then(|found| found.interval);
        let sign = if row.unit == POINTS { " pt" } else { " %" };
        let error = row.error.map(|error| Value::text(format!("{error:+.1}{sign}")));
        grid.rows.push(vec![
            Value::text(row.figure.clone()),
            Value::text(row.unit.clone()),
            Value::Number(row.published, decimals),
            number(row.here.as_ref().map(|found| found.value)),
            error.unwrap_or(Value::Missing),
            Value::text(row.served.word()),
            interval.map_or(Value::Missing, |(least, most)| {
                let digits = usize::from(decimals);
                Value::text(format!("{least:.digits$} to {most:.digits$}"))
            }),
        ]);
    }
    section.show(grid);
    for row in rows {
        if let Some(reason) = &row.reason {
            section.say(Severity::Unknown, format!("{}: {reason}", row.figure));
        }
    }
    section
}

/// Those worth showing.
pub(crate) fn decimals(value: f64) -> u8 {
    match value.abs() {
        ..10.0 => 3,
        ..100.0 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(figure: &Published, value: f64) -> Found {
        let run = figure.plan.as_ref().map_or(String::new(), |plan| plan.run.clone());
        let (program, with) = ("avicenna".to_owned(), String::new());
        Found { value, interval: None, program, with, run }
    }

    #[test]
    fn only_predictions_count_and_changes_count_in_points() {
        let figures = Published::all();
        let mut kept = Kept::default();
        for (name, value) in [
            ("avic-ipi-off", 5708.0 * 1.1),
            // Fitted: however wrong it is, it is not counted.
            ("avic-ipi-on", 30270.0),
            ("ipiv-xapic-off", 6059.0 * 0.7),
            ("ipiv-xapic-change", -20.21),
        ] {
            let figure = figures.iter().find(|one| one.name == name).expect(name);
            kept.put(figure, found(figure, value));
        }
        let table = Table::new(&figures, &kept, |_| Some("not run".into()));
        let values = table.values.expect("two predictions");
        assert_eq!(values.count, 2);
        assert!((values.median - 20.0).abs() < 1e-6 && (values.ninetieth - 30.0).abs() < 1e-6);
        assert_eq!(table.sources.map(|one| one.count), Some(2));
        let changes = table.changes.expect("one change");
        assert_eq!(changes.count, 1);
        assert!((changes.median - 2.0).abs() < 1e-6, "{changes:?}");
        let of = |name: &str| table.rows.iter().find(|row| row.figure == name).expect(name);
        assert_eq!(of("avic-ipi-on").served, Use::Calibration);
        assert_eq!(of("exit-cpuid").reason.as_deref(), Some("not run"));
        assert_eq!(of("exit-cpuid").error, None);
    }

    #[test]
    fn a_change_of_what_was_fitted_is_not_counted() {
        let figures = Published::all();
        let figure = figures.iter().find(|one| one.name == "avic-ipi-change").expect("a figure");
        let mut kept = Kept::default();
        kept.put(figure, found(figure, 0.0));
        assert_eq!(Table::new(&figures, &kept, |_| None).changes, None);
    }

    #[test]
    fn the_ninetieth_percentile_is_the_least_that_nine_of_ten_do_not_exceed() {
        let errors: Vec<f64> = (1..=10).map(f64::from).collect();
        let all = spread(&errors).expect("ten errors");
        assert_eq!((all.median, all.ninetieth), (5.5, 9.0));
        assert_eq!(spread(&[]), None);
    }
}
