//! The tables of a result.

use crate::comparison::between::Between;
use crate::comparison::breakdown::Breakdown;
use crate::comparison::{ArmExample, Comparison, Counted, Spread, Within};
use crate::drive::counters::Count;
use crate::evidence::Prediction;
use crate::evidence::table::decimals;
use crate::workload::found::Row;
use report::grid::{Grid, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Functions with a row of their own.
const MOST_FUNCTIONS: usize = 24;

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
    grids.extend(functions_grid(comparison));
    grids.extend(found_grids(comparison));
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
    let work = format!("all except {wait}");
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

/// What the host's processors did for an interrupt, by function; of those that took least the sum.
fn functions_grid(comparison: &Comparison) -> Option<Grid> {
    let arms: Vec<&ArmExample> =
        comparison.examples.iter().filter(|one| !one.functions.is_empty()).collect();
    let what = arms.first()?.example.interrupt.words();
    let title = format!("{}: the host's time for each {what} by function, ns", comparison.name);
    let mut heads = vec!["exit", "function", "module"];
    heads.extend(arms.iter().map(|one| match one.arm.as_str() {
        "off" => "off",
        "on" => "on",
        _ => "between",
    }));
    let mut grid = Grid::new(title, &heads);
    let mut rows: BTreeMap<(&str, &str, &str), Vec<u64>> = BTreeMap::new();
    for (place, arm) in arms.iter().enumerate() {
        for one in &arm.functions {
            let module = one.module.as_deref().unwrap_or_default();
            let key = (one.during.as_str(), one.name.as_str(), module);
            rows.entry(key).or_insert_with(|| vec![0; arms.len()])[place] += one.ps;
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, times)| Reverse(times.iter().copied().max()));
    let rest = rows.split_off(rows.len().min(MOST_FUNCTIONS));
    let times = |times: &[u64]| -> Vec<Value> {
        times.iter().map(|ps| Value::Number(*ps as f64 / 1000.0, 1)).collect()
    };
    for ((during, name, module), own) in &rows {
        let during = if during.is_empty() { "none" } else { during };
        let mut cells = vec![Value::text(during), Value::text(*name), Value::text(*module)];
        cells.extend(times(own));
        grid.rows.push(cells);
    }
    if !rest.is_empty() {
        let sums: Vec<u64> =
            (0..arms.len()).map(|arm| rest.iter().map(|(_, own)| own[arm]).sum()).collect();
        let mut cells = vec![
            Value::text("all"),
            Value::text(format!("{} other functions", rest.len())),
            Value::Missing,
        ];
        cells.extend(times(&sums));
        grid.rows.push(cells);
    }
    Some(grid)
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

/// What the workload found of its own, a table for each title.
fn found_grids(comparison: &Comparison) -> Vec<Grid> {
    let rows: Vec<&Row> = comparison.found.0.iter().flat_map(|one| &one.rows).collect();
    let mut titles: Vec<&str> = rows.iter().map(|row| row.title).collect();
    titles.dedup();
    let mut known: Vec<&str> = Vec::new();
    titles.retain(|title| {
        !known.contains(title) && {
            known.push(title);
            true
        }
    });
    let grid = |title: &str| {
        let own: Vec<&&Row> = rows.iter().filter(|row| row.title == title).collect();
        let first = own.first()?;
        let scope = format!(" {}", comparison.scope.words());
        let scope = if first.is_scoped { scope } else { String::new() };
        let mut grid = Grid::new(format!("{}: {title}{scope}", comparison.name), first.columns);
        grid.rows = own.iter().map(|row| row.cells.clone()).collect();
        Some(grid)
    };
    titles.into_iter().filter_map(grid).collect()
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
    if comparison.measures.iter().any(|measure| measure.over_seeds.is_some()) {
        return seeded_grid(comparison);
    }
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

/// The same from several seeds: means, and between what they lie by seeds and, where these were
/// drawn, by prices.
fn seeded_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: what the guest measured, means over seeds", comparison.name),
        &[
            "measure",
            "unit",
            "off",
            "off within",
            "on",
            "on within",
            "change %",
            "within",
            "seeds",
            "draws",
        ],
    );
    for measure in &comparison.measures {
        let spreads = measure.over_seeds;
        let (off, on) = (spreads.and_then(|both| both.off), spreads.and_then(|both| both.on));
        let prices = measure.over_prices;
        let side = |within: Option<Within>, spread: Option<Spread>| {
            let own = spread.map(|spread| Within { low: spread.low, high: spread.high });
            ends(within.or(own), 0)
        };
        let change = match measure.change() {
            Some(change) if measure.is_within_chance() => {
                Value::text(format!("cannot tell ({change:+.1})"))
            }
            Some(change) => Value::Number(change, 1),
            None => Value::Missing,
        };
        grid.rows.push(vec![
            Value::text(measure.name.clone()),
            Value::text(measure.unit),
            number(measure.off),
            side(prices.and_then(|both| both.off), off),
            number(measure.on),
            side(prices.and_then(|both| both.on), on),
            change,
            ends(prices.and_then(|prices| prices.change), 1),
            Value::Count(off.or(on).map_or(1, |spread| spread.seeds as u64)),
            prices.map_or(Value::Missing, |prices| Value::Count(prices.draws as u64)),
        ]);
    }
    grid
}

/// An interval in words.
fn ends(within: Option<Within>, digits: usize) -> Value {
    within.map_or(Value::Missing, |Within { low, high }| {
        Value::text(format!("{low:.digits$} to {high:.digits$}"))
    })
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
        let decimals = decimals(prediction.published);
        let number = |value: Option<f64>, decimals: u8| {
            value.map_or(Value::Missing, |value| Value::Number(value, decimals))
        };
        grid.rows.push(vec![
            Value::text(prediction.name.clone()),
            Value::text(prediction.unit.clone()),
            Value::Number(prediction.published, decimals),
            number(prediction.found, decimals),
            number(prediction.error, 1),
            Value::text(prediction.served.word()),
        ]);
    }
    Some(grid)
}
