//! The tables of a result.

use crate::between::Between;
use crate::breakdown::Breakdown;
use crate::comparison::{Comparison, Counted};
use crate::counters::Count;
use crate::prediction::{Prediction, Use};
use report::grid::{Grid, Value};

/// What is known of one virtual machine, off and on.
pub(crate) fn of_comparison(comparison: &Comparison) -> Vec<Grid> {
    let mut grids = vec![exit_grid(comparison)];
    if !comparison.measures.is_empty() {
        grids.push(measure_grid(comparison));
    }
    for arm in &comparison.between {
        grids.push(between_grid(comparison, arm));
        if !arm.measures.is_empty() {
            grids.push(between_measures(comparison, arm));
        }
    }
    if !comparison.device_interrupts.is_empty() {
        grids.push(device_grid(comparison));
        grids.extend(device_latency_grid(comparison));
    }
    if !comparison.traffic.is_empty() {
        grids.push(traffic_grid(comparison));
    }
    let scope = comparison.scope.words();
    for (what, column, rows) in [
        ("IPIs that AVIC could not complete".to_owned(), "reason", &comparison.left_incomplete),
        (
            format!("APIC accesses that {} left to software", comparison.hardware),
            "register",
            &comparison.left_unaccelerated,
        ),
    ] {
        if !rows.is_empty() {
            let title = format!("{}: {what} {scope}", comparison.name);
            grids.push(counted_grid(title, column, rows));
        }
    }
    if !comparison.breakdown.is_empty() {
        grids.push(breakdown_grid(comparison));
    }
    if let Some(history) = &comparison.inhibit_history {
        grids.push(report::exits::inhibits(history));
    }
    grids
}

fn exit_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: VM exits {}", comparison.name, comparison.scope.words()),
        &["reason", "off", "share %", "avg µs", "on", "share %", "avg µs", "change %"],
    );
    let (all_off, all_on) = (comparison.exits_off(), comparison.exits_on());
    for row in &comparison.exits {
        let side = |count: Option<Count>, all: Option<u64>| match (count, all) {
            (Some(count), Some(all)) => [
                Value::Count(count.exits),
                Value::Number(100.0 * count.exits as f64 / (all as f64).max(1.0), 1),
                average(count),
            ],
            _ => [Value::Missing, Value::Missing, Value::Missing],
        };
        let mut cells = vec![Value::text(row.name.clone())];
        cells.extend(side(row.off, all_off));
        cells.extend(side(row.on, all_on));
        cells.push(change(exits(row.off), exits(row.on)));
        grid.rows.push(cells);
    }
    let count = |count: Option<u64>| count.map_or(Value::Missing, Value::Count);
    let (work_off, work_on) = comparison.work();
    let wait = comparison.exits.iter().find(|row| row.is_wait).map_or("hlt", |row| &row.name);
    let work = format!("all but {wait}");
    for (name, off, on) in [(work.as_str(), work_off, work_on), ("total", all_off, all_on)] {
        grid.rows.push(vec![
            Value::text(name),
            count(off),
            Value::Missing,
            Value::Missing,
            count(on),
            Value::Missing,
            Value::Missing,
            change(off, on),
        ]);
    }
    grid
}

/// Exits of an arm between off and on.
fn between_grid(comparison: &Comparison, arm: &Between) -> Grid {
    let mut grid = Grid::new(
        format!("{}: VM exits with {}", comparison.name, arm.arm),
        &["reason", "off", "exits", "share %", "avg µs", "change %"],
    );
    let total = arm.total();
    let of_row = |code: u64| {
        let row = comparison.exits.iter().find(|row| row.code == code);
        row.map_or(Some(0), |row| exits(row.off))
    };
    let shown = |off: Option<u64>| off.map_or(Value::Missing, Value::Count);
    for row in &arm.exits {
        let off = of_row(row.code);
        grid.rows.push(vec![
            Value::text(row.name.clone()),
            shown(off),
            Value::Count(row.count.exits),
            Value::Number(100.0 * row.count.exits as f64 / (total as f64).max(1.0), 1),
            average(row.count),
            change(off, Some(row.count.exits)),
        ]);
    }
    let off = comparison.exits_off();
    let (missing, all) = (Value::Missing, change(off, Some(total)));
    grid.rows.push(vec![
        Value::text("total"),
        shown(off),
        Value::Count(total),
        missing.clone(),
        missing,
        all,
    ]);
    grid
}

/// What the guest measured in an arm between off and on.
fn between_measures(comparison: &Comparison, arm: &Between) -> Grid {
    let mut grid = Grid::new(
        format!("{}: what the guest measured with {}", comparison.name, arm.arm),
        &["measure", "unit", "off", "value", "change %", "samples"],
    );
    for figure in &arm.measures {
        let first = comparison.measures.iter().find(|one| one.name == figure.name);
        let off = first.and_then(|one| one.off);
        let percent = off.filter(|off| *off > 0.0).map(|off| (figure.value - off) / off * 100.0);
        grid.rows.push(vec![
            Value::text(figure.name.clone()),
            Value::text(figure.unit),
            number(off),
            number(Some(figure.value)),
            percent.map_or(Value::Missing, |percent| Value::Number(percent, 1)),
            Value::Count(figure.samples),
        ]);
    }
    grid
}

/// A figure of the guest's.
fn number(value: Option<f64>) -> Value {
    value.map_or(Value::Missing, |value| Value::Number(value, if value < 10.0 { 6 } else { 0 }))
}

/// What became of the interrupts of a device.
fn device_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: interrupts of the device {}", comparison.name, comparison.scope.words()),
        &[
            "side",
            "sent",
            "arrived",
            "exits each",
            "posted",
            "merged",
            "late",
            "logged",
            "KVM woke",
            "routes",
        ],
    );
    for side in &comparison.device_interrupts {
        let known = |count: Option<u64>| count.map_or(Value::Missing, Value::Count);
        grid.rows.push(vec![
            Value::text(if side.is_on { "on" } else { "off" }),
            Value::Count(side.sent),
            Value::Count(side.arrived),
            Value::Number(side.exits, 2),
            Value::Count(side.posted),
            Value::Count(side.merged),
            Value::Count(side.late),
            Value::Count(side.logged),
            known(side.woken),
            known(side.routes),
        ]);
    }
    grid
}

/// What a guest moved over a network function of the host's.
fn traffic_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: the network function {}", comparison.name, comparison.scope.words()),
        &[
            "side",
            "MB",
            "Mb/s",
            "round trip µs",
            "interrupts",
            "host took",
            "exits each",
            "posted, IPIs too",
            "logged",
        ],
    );
    for side in &comparison.traffic {
        grid.rows.push(vec![
            Value::text(if side.is_on { "on" } else { "off" }),
            Value::Number(side.received as f64 / 1e6, 1),
            Value::Number(side.megabits, 0),
            Value::Number(side.round_trip, 1),
            Value::Count(side.interrupts),
            Value::Count(side.taken),
            Value::Number(side.exits, 2),
            Value::Count(side.posted),
            Value::Count(side.logged),
        ]);
    }
    grid
}

/// How long they took.
fn device_latency_grid(comparison: &Comparison) -> Option<Grid> {
    let sides = comparison.device_interrupts.iter();
    let known: Vec<_> = sides.filter_map(|side| Some((side.is_on, side.latency?))).collect();
    let title = format!("{}: from the device's write to the guest's handler, ns", comparison.name);
    let columns = ["side", "min", "p50", "p90", "p99", "max", "samples"];
    let mut grid = Grid::new(title, &columns);
    for (is_on, one) in &known {
        let side = Value::text(if *is_on { "on" } else { "off" });
        let figures = [one.min, one.p50, one.p90, one.p99, one.max, one.samples];
        grid.rows.push(std::iter::once(side).chain(figures.map(Value::Count)).collect());
    }
    (!known.is_empty()).then_some(grid)
}

/// As the machine counted them, with the feature on.
fn counted_grid(title: String, column: &'static str, rows: &[Counted]) -> Grid {
    let mut grid = Grid::new(title, &["number", column, "on"]);
    for Counted { number, name, count } in rows {
        let cells =
            vec![Value::text(format!("{number:#x}")), Value::text(name), Value::Count(*count)];
        grid.rows.push(cells);
    }
    grid
}

fn average(count: Count) -> Value {
    if count.completed == 0 {
        return Value::Missing;
    }
    Value::Number(count.handled.0 as f64 / count.completed as f64 / 1e6, 2)
}

fn change(off: Option<u64>, on: Option<u64>) -> Value {
    match (off, on) {
        (Some(off), Some(on)) if off > 0 => {
            Value::Number((on as f64 - off as f64) / off as f64 * 100.0, 1)
        }
        _ => Value::Missing,
    }
}

fn measure_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: what the guest measured", comparison.name),
        &["measure", "unit", "off", "on", "change %", "samples"],
    );
    for measure in &comparison.measures {
        grid.rows.push(vec![
            Value::text(measure.name.clone()),
            Value::text(measure.unit),
            number(measure.off),
            number(measure.on),
            measure.change().map_or(Value::Missing, |change| Value::Number(change, 1)),
            Value::Count(measure.samples),
        ]);
    }
    grid
}

/// Parts of a figure that is not set beside a published one are in the JSON.
fn breakdown_grid(comparison: &Comparison) -> Grid {
    const SHOWN: &str = "ipi_acknowledged physical";
    // Columns have names that do not change while the program runs.
    let steps = match comparison.hardware {
        "APICv" => "APICv's steps",
        _ => "AVIC's steps",
    };
    let mut grid = Grid::new(
        format!("{}: what the times are made of, in cycles", comparison.name),
        &[
            "measure",
            "total",
            steps,
            "world switches",
            "APIC, delivery",
            "messages",
            "instructions",
        ],
    );
    let is_shown = |one: &&Breakdown| one.measure == SHOWN;
    let all = comparison.breakdown.iter();
    let has_shown = all.clone().any(|one| is_shown(&one));
    for one in all.filter(|one| !has_shown || is_shown(one)) {
        let part = |value: f64| {
            let share = value / one.total.max(f64::MIN_POSITIVE) * 100.0;
            Value::text(format!("{value:.0} ({share:.0} %)"))
        };
        grid.rows.push(vec![
            Value::text(format!("{}, {}", one.measure, one.setting)),
            Value::Number(one.total, 0),
            part(one.avic),
            part(one.world_switches),
            part(one.apic_and_delivery),
            part(one.messages),
            part(one.instructions),
        ]);
    }
    grid
}

pub(crate) fn exits(count: Option<Count>) -> Option<u64> {
    count.map(|count| count.exits)
}

pub(crate) fn predictions(predictions: &[Prediction]) -> Option<Grid> {
    if predictions.is_empty() {
        return None;
    }
    let mut grid = Grid::new(
        "Published figures and this run",
        &["figure", "unit", "published", "here", "error %", "use"],
    );
    for prediction in predictions {
        let decimals = decimals(prediction);
        let number = |value: Option<f64>, decimals: u8| {
            value.map_or(Value::Missing, |value| Value::Number(value, decimals))
        };
        grid.rows.push(vec![
            Value::text(prediction.name.clone()),
            Value::text(prediction.unit.clone()),
            Value::Number(prediction.published, decimals),
            number(prediction.found, decimals),
            number(prediction.error, 1),
            Value::text(match prediction.served {
                Use::Calibration => "calibration",
                Use::Computed => "computed",
                Use::Prediction => "prediction",
                Use::None => "not predicted",
            }),
        ]);
    }
    Some(grid)
}

/// Those worth showing.
fn decimals(prediction: &Prediction) -> u8 {
    match prediction.published.abs() {
        ..10.0 => 3,
        ..100.0 => 1,
        _ => 0,
    }
}
