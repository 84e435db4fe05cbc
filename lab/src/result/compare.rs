//! Two results of the lab side by side: kernel with kernel, before a patch and after it, model with
//! model. They are read from their JSON, so those of another version of the program will do.
//!
//! What stands for off is the first result and what stands for on the second, of one arm of both:
//! so the expectations of a run serve here, too. A run is deterministic, and equal ones have equal
//! hashes; but another program or kernel moves what it does in time, so that small differences mean
//! nothing. Nor do those of times whose intervals over seeds meet, where both results have them.

mod path;

use crate::comparison::{Comparison, ExitRow, Measure, Scope, Spreads};
use crate::drive::counters::Count;
use crate::drive::example::Function;
use crate::verdict::expect::Expectation;
use anyhow::Context;
use report::grid::{Grid, Value, folded, grouped};
use serde::Deserialize;
use serde::Serialize;

/// Changes by less, in percent, are none; nor are those by fewer exits.
const SAME: f64 = 2.0;
const FEW: u64 = 10;
/// Exits of a guest that has nothing to do, as either vendor's are called.
const WAITS: [&str; 3] = ["hlt", "idle-halt", "HLT"];
/// Changes that the first sentence names, and functions.
const NAMED: usize = 3;

/// The arm that is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Without the feature.
    Off,
    /// With it.
    #[default]
    On,
}

/// A result as its file has it, as far as it is compared.
#[derive(Debug, Deserialize)]
struct File {
    schema: u32,
    host: Host,
    workload: String,
    comparisons: Vec<Row>,
    run: Run,
}

#[derive(Debug, Deserialize)]
struct Host {
    cpu: String,
    kernel: String,
}

#[derive(Debug, Deserialize)]
struct Run {
    trace_hash: String,
}

#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    exits: Vec<Exit>,
    measures: Vec<Figure>,
    #[serde(default)]
    examples: Vec<Interrupts>,
    troubles: Vec<String>,
}

/// Those of an arm.
#[derive(Debug, Deserialize)]
struct Interrupts {
    arm: String,
    #[serde(default)]
    functions: Vec<Function>,
}

#[derive(Debug, Deserialize)]
struct Exit {
    code: u64,
    name: String,
    off: Option<Exits>,
    on: Option<Exits>,
}

#[derive(Debug, Deserialize)]
struct Exits {
    exits: u64,
}

#[derive(Debug, Deserialize)]
struct Figure {
    name: String,
    unit: String,
    off: Option<f64>,
    on: Option<f64>,
    samples: u64,
    over_seeds: Option<Spreads>,
}

/// What differs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Compared {
    /// Version of the form of the output: docs/schema/lab-compare-1.json.
    pub schema: u32,
    /// In a sentence.
    pub text: String,
    /// Whether the two runs did the same to the last step.
    pub is_equal: bool,
    /// Beyond chance, the largest first.
    pub changes: Vec<Change>,
    /// Functions of the host that an interrupt takes more time in, or less, beyond what chance
    /// makes of the moments at which processors were looked at; new ones in front, then those that
    /// are gone.
    pub paths: Vec<Change>,
    /// What is not as it was expected.
    pub unexpected: Vec<String>,
}

/// A count or a figure that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// The virtual machine.
    pub comparison: String,
    /// A reason of exits, all of them, or a measure.
    pub what: String,
    /// Of the values.
    pub unit: String,
    /// In the first result; None where it is not there.
    pub first: Option<f64>,
    /// In the second.
    pub second: Option<f64>,
    /// From the first to the second; None where one of them is nothing.
    pub percent: Option<f64>,
}

/// Compares the JSON of two results; `names` say which is which in messages.
pub fn compare(
    [first, second]: [&str; 2],
    names: [&str; 2],
    side: Side,
    expectations: &[Expectation],
) -> anyhow::Result<Compared> {
    let read = |text: &str, name: &str| -> anyhow::Result<File> {
        let file: File = serde_json::from_str(text)
            .with_context(|| format!("{name} is not what lab run --format json writes"))?;
        let known = super::LabResult::SCHEMA;
        let schema = file.schema;
        anyhow::ensure!(schema == known, "{name} has schema {schema}, not {known}");
        Ok(file)
    };
    let (first, second) = (read(first, names[0])?, read(second, names[1])?);
    let workloads = [&first.workload, &second.workload];
    anyhow::ensure!(
        workloads[0] == workloads[1],
        "{} ran {} and {} ran {}: different workloads are not compared",
        names[0],
        workloads[0],
        names[1],
        workloads[1]
    );
    let pairs: Vec<Comparison> = first
        .comparisons
        .iter()
        .filter_map(|one| {
            let other = second.comparisons.iter().find(|other| other.name == one.name)?;
            Some(side_by_side(one, other, side))
        })
        .collect();
    anyhow::ensure!(!pairs.is_empty(), "the results have no virtual machine of the same name");
    let mut changes: Vec<Change> = pairs.iter().flat_map(changes).collect();
    let weight = |change: &Change| change.percent.map_or(f64::INFINITY, f64::abs);
    changes.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let both = |one: &Row| second.comparisons.iter().position(|other| other.name == one.name);
    let rows = first.comparisons.iter().filter_map(|one| Some((one, both(one)?)));
    let mut paths: Vec<Change> = rows
        .flat_map(|(one, place)| path::changes(one, &second.comparisons[place], side))
        .collect();
    paths.sort_by_key(path::weight);
    let is_equal = first.run.trace_hash == second.run.trace_hash;
    let unexpected: Vec<String> =
        expectations.iter().flat_map(|one| one.failures(&pairs)).collect();
    let troubles = second.comparisons.iter().flat_map(|one| &one.troubles);
    let troubles =
        troubles.filter(|one| first.comparisons.iter().all(|old| !old.troubles.contains(one)));
    let new_troubles: Vec<&String> = troubles.collect();
    let mut text = sentence([&first, &second], &changes, is_equal, &new_troubles, &unexpected);
    text += &path::words(&paths);
    let schema = Compared::SCHEMA;
    Ok(Compared { schema, text, is_equal, changes, paths, unexpected })
}

fn sentence(
    [first, second]: [&File; 2],
    changes: &[Change],
    is_equal: bool,
    new_troubles: &[&String],
    unexpected: &[String],
) -> String {
    let mut parts = Vec::new();
    if !unexpected.is_empty() {
        parts.push(format!("UNEXPECTED: {}", unexpected.join("; ")));
    }
    parts.extend(new_troubles.first().map(|trouble| format!("NEW TROUBLE: {trouble}")));
    let of = |what: &str, a: &str, b: &str| {
        if a == b { format!("{what} {a}") } else { format!("{what} {a} -> {b}") }
    };
    let hosts = [
        of("kernel", &first.host.kernel, &second.host.kernel),
        of("CPU", &first.host.cpu, &second.host.cpu),
    ];
    parts.push(format!("{}: {}", first.workload, hosts.join(", ")));
    if is_equal {
        parts.push("the runs are the same to the last step".into());
    } else if changes.is_empty() {
        parts.push(format!("no count and no figure differs by more than {SAME} %"));
    } else {
        let named = changes.iter().take(NAMED).map(Change::words).collect::<Vec<_>>().join(", ");
        let more = match changes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        parts.push(format!("{named}{more}"));
    }
    parts.join("; ")
}

impl Change {
    fn words(&self) -> String {
        let shown = |value: Option<f64>| {
            value.map_or_else(|| "none".to_owned(), |value| grouped(value.round() as u64))
        };
        let percent = self.percent.map_or(String::new(), |percent| format!(" ({percent:+.1} %)"));
        format!(
            "{} {} {} -> {} {}{percent}",
            self.comparison,
            self.what,
            shown(self.first),
            shown(self.second),
            self.unit
        )
    }
}

/// The first result in place of off, the second in place of on.
fn side_by_side(first: &Row, second: &Row, side: Side) -> Comparison {
    let count = |row: &Row, name: &str| {
        let own = row.exits.iter().filter(|exit| exit.name == name);
        let sides = own.filter_map(|exit| match side {
            Side::Off => exit.off.as_ref(),
            Side::On => exit.on.as_ref(),
        });
        Some(Count { exits: sides.map(|one| one.exits).sum(), ..Count::default() })
    };
    let mut names: Vec<(u64, &str)> = Vec::new();
    for exit in first.exits.iter().chain(&second.exits) {
        if names.iter().all(|(_, known)| *known != exit.name) {
            names.push((exit.code, &exit.name));
        }
    }
    let exits = names.into_iter().map(|(code, name)| ExitRow {
        code,
        name: name.to_owned(),
        is_wait: WAITS.contains(&name),
        off: count(first, name),
        on: count(second, name),
    });
    let value = |row: &Row, name: &str| {
        let found = row.measures.iter().find(|figure| figure.name == name)?;
        if side == Side::Off { found.off } else { found.on }
    };
    let spread = |row: &Row, name: &str| {
        let both = row.measures.iter().find(|figure| figure.name == name)?.over_seeds?;
        if side == Side::Off { both.off } else { both.on }
    };
    let mut names: Vec<&Figure> = first.measures.iter().collect();
    names.extend(second.measures.iter().filter(|one| value(first, &one.name).is_none()));
    let measures = names.into_iter().map(|figure| Measure {
        name: figure.name.clone(),
        unit: known_unit(&figure.unit),
        off: value(first, &figure.name),
        on: value(second, &figure.name),
        samples: figure.samples,
        over_seeds: Some(Spreads {
            off: spread(first, &figure.name),
            on: spread(second, &figure.name),
        }),
        // Both have the same prices.
        over_prices: None,
    });
    Comparison {
        name: first.name.clone(),
        scope: Scope::Life,
        exits: exits.collect(),
        measures: measures.collect(),
        ..Comparison::default()
    }
}

/// Units that results have; of another there is a number all the same.
fn known_unit(text: &str) -> &'static str {
    let known = ["cycles", "ns", "µs", "messages/s", "events/s", "bytes/s", "seconds"];
    known.into_iter().find(|unit| *unit == text).unwrap_or_default()
}

fn changes(comparison: &Comparison) -> Vec<Change> {
    let change = |what: &str, unit: &str, first: Option<f64>, second: Option<f64>| {
        let percent = first.zip(second).filter(|(first, _)| *first > 0.0);
        Change {
            comparison: comparison.name.clone(),
            what: what.into(),
            unit: unit.into(),
            first,
            second,
            percent: percent.map(|(first, second)| (second - first) / first * 100.0),
        }
    };
    let mut changes = Vec::new();
    for row in &comparison.exits {
        let (first, second) =
            (row.off.map_or(0, |one| one.exits), row.on.map_or(0, |one| one.exits));
        if first.abs_diff(second) > FEW {
            let there = |count: u64| Some(count as f64).filter(|count| *count > 0.0);
            changes.push(change(&row.name, "exits", there(first), there(second)));
        }
    }
    // Results that say nothing of chance are compared as they are.
    let differs = |one: &&Measure| !(one.has_interval() && one.is_within_chance());
    for one in comparison.measures.iter().filter(differs) {
        changes.push(change(&one.name, one.unit, one.off, one.on));
    }
    changes.retain(|one| one.percent.is_none_or(|percent| percent.abs() > SAME));
    changes
}

impl Compared {
    /// The version of the JSON form.
    pub const SCHEMA: u32 = 1;

    /// For a terminal of so many columns.
    pub fn to_text(&self, columns: usize) -> String {
        let mut text = folded(&self.text, columns, 2);
        let differs = format!("What differs by more than {SAME} %, and {FEW} exits");
        let took = "Functions of the host that an interrupt takes another time in".to_owned();
        for (title, changes) in [(differs, &self.changes), (took, &self.paths)] {
            if !changes.is_empty() {
                text += &format!("\n{}", grid(title, changes).to_text_within(columns));
            }
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

fn grid(title: String, changes: &[Change]) -> Grid {
    let mut grid = Grid::new(title, &["vm", "what", "unit", "first", "second", "change %"]);
    let number = |value: Option<f64>| {
        let decimals = |value: f64| if value < 10.0 && value.fract() != 0.0 { 4 } else { 0 };
        value.map_or(Value::Missing, |value| Value::Number(value, decimals(value)))
    };
    for one in changes {
        grid.rows.push(vec![
            Value::text(one.comparison.clone()),
            Value::text(one.what.clone()),
            Value::text(one.unit.clone()),
            number(one.first),
            number(one.second),
            one.percent.map_or(Value::Missing, |percent| Value::Number(percent, 1)),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result whose x2APIC machine had so many exits, and took so many cycles for an IPI.
    fn json(kernel: &str, msr: u64, extra: u64, cycles: f64, hash: &str) -> String {
        format!(
            r#"{{"schema":1,"host":{{"cpu":"zen4","kernel":"{kernel}"}},"workload":"ipi","verdict":{{}},
            "comparisons":[{{"name":"x2APIC","exits":[
              {{"code":124,"name":"msr","off":{{"exits":9000}},"on":{{"exits":{msr}}}}},
              {{"code":119,"name":"pause","off":{{"exits":0}},"on":{{"exits":{extra}}}}}],
            "measures":[{{"name":"ipi","unit":"cycles","off":5000.0,"on":{cycles},"samples":500}}],
            "troubles":[]}}],"run":{{"trace_hash":"{hash}"}}}}"#
        )
    }

    fn compared(first: &str, second: &str, side: Side, expected: &[&str]) -> Compared {
        let expected: Vec<Expectation> =
            expected.iter().map(|one| one.parse().expect("an expectation")).collect();
        compare([first, second], ["a", "b"], side, &expected).expect("two results")
    }

    #[test]
    fn what_changed_is_named_with_new_reasons_first() {
        let (old, new) = (json("6.12", 100, 0, 2000.0, "1"), json("6.18", 130, 50, 2300.0, "2"));
        let found =
            compared(&old, &new, Side::On, &["exits.change <= 10", "measure.ipi.on < 2400"]);
        let what: Vec<_> =
            found.changes.iter().map(|one| (one.what.as_str(), one.percent)).collect();
        assert_eq!(what, [("pause", None), ("msr", Some(30.0)), ("ipi", Some(15.0))]);
        assert!(found.text.contains("kernel 6.12 -> 6.18, CPU zen4"), "{}", found.text);
        assert!(
            found.text.starts_with("UNEXPECTED: expected exits.change <= 10"),
            "{}",
            found.text
        );
        assert_eq!(found.unexpected.len(), 1);
        let text = found.to_text(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("pause") && text.contains("15.0"), "{text}");
        assert!(text.contains("\n\nWhat differs by more than"), "{text}");
    }

    #[test]
    fn what_is_alike_is_said_to_be_so() {
        let (one, other) = (json("6.12", 100, 0, 2000.0, "1"), json("6.12", 104, 5, 2010.0, "2"));
        assert!(compared(&one, &one, Side::On, &[]).text.contains("the same to the last step"));
        let near = compared(&one, &other, Side::On, &["exits.change < 20"]);
        assert!(near.changes.is_empty() && near.unexpected.is_empty(), "{near:?}");
        assert!(near.text.contains("differs by more than"), "{}", near.text);
        assert!(compared(&one, &other, Side::Off, &[]).changes.is_empty());
    }

    #[test]
    fn a_time_whose_intervals_over_seeds_meet_has_not_changed() {
        let with = |mean: f64, half: f64| {
            let (low, high) = (mean - half, mean + half);
            let on = format!(
                r#""mean":{mean},"low":{low},"high":{high},"least":{low},"most":{high},"seeds":10"#
            );
            let seeds = format!(r#""over_seeds":{{"off":null,"on":{{{on}}}}},"samples":500"#);
            json("6.12", 100, 0, mean, "1").replace(r#""samples":500"#, &seeds)
        };
        for (half, changes) in [(200.0, 0), (100.0, 1)] {
            let found = compared(&with(2000.0, half), &with(2300.0, half), Side::On, &[]);
            assert_eq!(found.changes.len(), changes, "{found:?}");
        }
    }

    #[test]
    fn what_is_no_result_or_another_workload_is_refused_by_name() {
        let one = json("6.12", 100, 0, 2000.0, "1");
        let refused = |second: &str| {
            let error = compare([&one, second], ["a.json", "b.json"], Side::On, &[]);
            format!("{:#}", error.expect_err("no comparison"))
        };
        assert!(refused("{}").contains("b.json is not what lab run"), "{}", refused("{}"));
        assert!(refused("nothing").contains("b.json"));
        assert!(
            refused(&one.replace("\"ipi\",\"verdict", "\"timer\",\"verdict")).contains("timer")
        );
        assert!(refused(&one.replace("\"schema\":1", "\"schema\":9")).contains("schema 9"));
        assert!(refused(&one.replace("x2APIC", "other")).contains("same name"));
    }
}
