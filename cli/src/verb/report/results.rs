//! Figures of experiments and of runs of the lab, as their verbs leave them.

use anyhow::Context as _;
use experiment::answer::Answer;
use experiment::statistics::Verdict;
use facts::source;
use report::result::{Outcome, Trial};
use serde::Deserialize;
use std::path::Path;

/// What a folder or a file of results holds.
#[derive(Debug, Default)]
pub struct Results {
    pub trials: Vec<Trial>,
    pub outcomes: Vec<Outcome>,
}

/// In the folder of an experiment.
const ANSWER: &str = "answer.json";
/// No experiment leaves more.
const LARGEST: u64 = 256 << 20;

/// The results at a path; `None` where it is something else.
pub fn find(path: &Path) -> Option<anyhow::Result<Results>> {
    let file = if path.is_dir() { path.join(ANSWER) } else { path.to_owned() };
    // What cannot be read is said by the next reader.
    let head = source::head(&file)?;
    let head = String::from_utf8_lossy(&head);
    let has = |key: &str| head.contains(&format!("\"{key}\":"));
    if !head.starts_with('{') || !has("schema") {
        None
    } else if has("question") && has("name") {
        Some(read::<Answer>(&file, "the answer of an experiment").map(|answer| of_answer(&answer)))
    } else if has("verdict") {
        Some(read::<Lab>(&file, "a result of the lab").map(|lab| of_lab(&lab)))
    } else {
        None
    }
}

fn read<T: for<'a> Deserialize<'a>>(file: &Path, what: &str) -> anyhow::Result<T> {
    let bytes = source::read(file, LARGEST)?;
    serde_json::from_slice(&bytes).with_context(|| format!("not {what}"))
}

fn of_answer(answer: &Answer) -> Results {
    let cell = |at: usize| {
        let levels = answer.cells.get(at).map(|cell| &cell.cell);
        let levels =
            levels.into_iter().flatten().map(|(factor, level)| format!("{factor}={level}"));
        levels.collect::<Vec<_>>().join(" ")
    };
    let plan = Some(answer.plan_hash.clone());
    let trials = answer.trials.iter().flat_map(|trial| {
        let one = Trial {
            experiment: answer.name.clone(),
            plan: plan.clone(),
            workload: cell(trial.cell),
            arm: answer.arms.get(trial.arm).cloned().unwrap_or_default(),
            block: trial.block as u64,
            seed: Some(answer.seed),
            void: trial.void.clone(),
            ..Trial::default()
        };
        let unit = |metric: &str| {
            let metrics = answer.cells.get(trial.cell).map(|cell| &cell.metrics)?;
            Some(metrics.iter().find(|one| one.name == metric)?.unit.clone())
        };
        // A trial without a figure is a trial all the same.
        let lacking = trial.figures.is_empty().then(|| one.clone());
        let figures = trial.figures.iter().map(move |(metric, value)| Trial {
            metric: metric.clone(),
            unit: unit(metric),
            value: Some(*value),
            ..one.clone()
        });
        figures.chain(lacking).collect::<Vec<_>>()
    });
    let outcomes = answer.cells.iter().enumerate().flat_map(|(at, one)| {
        let voids = answer.trials.iter().filter(|trial| trial.cell == at && trial.void.is_some());
        let voids = voids.count() as u64;
        let plan = plan.clone();
        one.metrics.iter().map(move |metric| {
            let effect = metric.effect.as_ref().filter(|effect| effect.is_percent);
            let interval = effect.and_then(|effect| effect.interval.as_ref());
            // A share of an experiment may have no whole block: it decides nothing by itself.
            let blocks = metric.effect.as_ref().map_or(0, |effect| effect.blocks as u64);
            let decided = metric.verdict.filter(|_| blocks > 0);
            Outcome {
                experiment: answer.name.clone(),
                plan: plan.clone(),
                workload: cell(at),
                metric: metric.name.clone(),
                verdict: verdict(one.void.is_some(), decided).into(),
                effect_percent: effect.map(|effect| effect.estimate),
                interval_percent: interval.map(|interval| (interval.low, interval.high)),
                blocks,
                voids,
            }
        })
    });
    Results { trials: trials.collect(), outcomes: outcomes.collect() }
}

const fn verdict(is_void: bool, verdict: Option<Verdict>) -> &'static str {
    match verdict {
        _ if is_void => "void",
        Some(Verdict::Better) => "better",
        Some(Verdict::Worse) => "worse",
        Some(Verdict::Different) => "different",
        Some(Verdict::NoDifference) => "no difference",
        Some(Verdict::Undecided { .. }) | None => "undecided",
    }
}

/// As much as rows need of docs/schema/lab-1.json.
#[derive(Debug, Deserialize)]
struct Lab {
    workload: String,
    comparisons: Vec<LabComparison>,
}

#[derive(Debug, Deserialize)]
struct LabComparison {
    name: String,
    exits: Vec<LabExits>,
    measures: Vec<LabMeasure>,
}

#[derive(Debug, Deserialize)]
struct LabExits {
    name: String,
    off: Option<LabCount>,
    on: Option<LabCount>,
}

#[derive(Debug, Deserialize)]
struct LabCount {
    exits: u64,
}

#[derive(Debug, Deserialize)]
struct LabMeasure {
    name: String,
    unit: String,
    off: Option<f64>,
    on: Option<f64>,
}

/// A run is one block of two arms; what is between them is in the JSON alone.
fn of_lab(lab: &Lab) -> Results {
    let mut trials = Vec::new();
    for comparison in &lab.comparisons {
        let mut add = |metric: String, unit: &str, sides: [Option<f64>; 2]| {
            for (arm, value) in ["off", "on"].into_iter().zip(sides) {
                trials.extend(value.map(|value| Trial {
                    experiment: "lab".into(),
                    workload: format!("{} {}", lab.workload, comparison.name),
                    arm: arm.into(),
                    metric: metric.clone(),
                    unit: Some(unit.into()),
                    value: Some(value),
                    ..Trial::default()
                }));
            }
        };
        for row in &comparison.exits {
            let count = |side: &Option<LabCount>| side.as_ref().map(|one| one.exits as f64);
            add(format!("exits {}", row.name), "exits", [count(&row.off), count(&row.on)]);
        }
        for row in &comparison.measures {
            add(row.name.clone(), &row.unit, [row.off, row.on]);
        }
    }
    Results { trials, outcomes: Vec::new() }
}
