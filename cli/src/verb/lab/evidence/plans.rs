//! Runs the plans of figures: each command once, however many figures it has, those of one host
//! after each other, so that they share its kept boot. Each is a process of this program, which
//! shuts itself in as it does when a user calls it.

use crate::outcome::outcome;
use crate::terminal;
use anyhow::Context;
use board::snapshot::checksum;
use cpu::CpuModel;
use lab::evidence::kept::{Found, Kept};
use lab::evidence::plan::{Plan, is_file, words};
use lab::evidence::{Published, Setting, Take};
use report::document::TOOL;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Plans<'a> {
    pub(super) figures: &'a [Published],
    pub(super) files: &'a BTreeMap<String, PathBuf>,
    /// Words that every plan gets besides.
    pub(super) with: &'a [String],
    /// Set when the user wants it to stop.
    pub(super) stop: &'a AtomicBool,
}

impl Plans<'_> {
    /// Whether it was interrupted; what was found until then is kept. `failures` are told by the
    /// figure's name.
    pub(super) fn run(
        &self,
        kept: &mut Kept,
        failures: &mut BTreeMap<String, String>,
    ) -> anyhow::Result<bool> {
        let program = program()?;
        let figures: Vec<_> = self.figures.iter().filter(|one| self.can_run(one)).collect();
        let commands = self.commands(&figures);
        let mut outputs: BTreeMap<&str, Result<String, String>> = BTreeMap::new();
        for (at, command) in commands.iter().enumerate() {
            terminal::ask(&format!("avicenna: [{} of {}] {command}\n", at + 1, commands.len()));
            outputs.insert(command, self.output(command)?);
            if self.stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let is_ready = |figure: &&&Published| {
                let own: Vec<&str> = figure.plan.iter().flat_map(Plan::commands).collect();
                own.contains(command) && own.iter().all(|one| outputs.contains_key(one))
            };
            for figure in figures.iter().filter(is_ready) {
                match found(figure, &outputs) {
                    Ok(value) => kept.put(figure, self.found(figure, value, &program)),
                    Err(why) => {
                        failures.insert(figure.name.clone(), why);
                    }
                }
            }
            kept.save()?;
        }
        Ok(false)
    }

    fn can_run(&self, figure: &Published) -> bool {
        figure.plan.is_some() && missing(figure, self.files).is_none()
    }

    /// Each once, those of one host together.
    fn commands<'f>(&self, figures: &[&'f Published]) -> Vec<&'f str> {
        let plans = figures.iter().filter_map(|figure| figure.plan.as_ref());
        let mut commands: Vec<&str> = plans.flat_map(Plan::commands).collect();
        let host = |command: &str| {
            let words = words(command, self.files);
            words.split(|word| word == "--").next().map(<[String]>::to_vec).unwrap_or_default()
        };
        commands.sort_by_key(|command| (host(command), *command));
        commands.dedup();
        commands
    }

    /// What the command prints, or why it has no result.
    fn output(&self, command: &str) -> anyhow::Result<Result<String, String>> {
        let mut words = words(command, self.files);
        // Behind the verb, before what the emulated host is to run.
        words.splice(2..2, self.with.iter().cloned());
        let is_run = words[1] == "run";
        if is_run {
            words.extend(["--format", "json"].map(str::to_owned));
        }
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let output =
            outcome(Command::new(own).args(&words)).context("cannot start this program")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // A program of kvm-unit-tests has a status of its own; a run of the lab can be doubted.
        let is_good = output.status.success() || !is_run && !text.is_empty();
        Ok(if is_good {
            Ok(text)
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default().to_owned();
            Err(format!("{command}: {} {last}", output.status))
        })
    }

    fn found(&self, figure: &Published, found: (f64, Option<(f64, f64)>), program: &str) -> Found {
        let (value, interval) = found;
        let run = figure.plan.as_ref().map_or(String::new(), |plan| plan.run.clone());
        Found { value, interval, program: program.to_owned(), with: self.with.join(" "), run }
    }
}

/// What a figure's plan needs that is not there, in words.
pub(super) fn missing(figure: &Published, files: &BTreeMap<String, PathBuf>) -> Option<String> {
    let plan = figure.plan.as_ref()?;
    let missing = plan.missing(files, crate::verb::experiment::is_program);
    let words = missing.iter().map(|need| match is_file(need) {
        true => format!("--file {need}=PATH"),
        false => format!("the program {need}"),
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("it needs {}", words.join(" and ")))
}

/// Name, version and checksum of this program: builds of one version differ.
fn program() -> anyhow::Result<String> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let bytes = std::fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
    Ok(format!("{TOOL} {:016x}", checksum(&bytes)))
}

/// A figure in what its plan printed, in its unit, with an interval if that is told.
fn found(
    figure: &Published,
    outputs: &BTreeMap<&str, Result<String, String>>,
) -> Result<(f64, Option<(f64, f64)>), String> {
    let plan = figure.plan.as_ref().ok_or("it has no plan")?;
    let output = |command: &str| match outputs.get(command) {
        Some(output) => output.as_deref().map_err(Clone::clone),
        None => Err(format!("{command}: it did not run")),
    };
    let run = output(&plan.run)?;
    let absent = || format!("what {} printed has no such figure", plan.run);
    if matches!(figure.take, Take::Measure(_)) {
        return of_result(figure, run).ok_or_else(absent);
    }
    let value = figure.take.find(run).ok_or_else(absent)?;
    let value = match &plan.before {
        Some(before) if figure.setting == Setting::Change => {
            let before = figure.take.find(output(before)?).ok_or_else(absent)?;
            (value - before) / before * 100.0
        }
        _ => value,
    };
    Ok((in_unit(figure, value), None))
}

/// `lab run` finds the values of published figures itself.
fn of_result(figure: &Published, text: &str) -> Option<(f64, Option<(f64, f64)>)> {
    let result: Json = serde_json::from_str(text).ok()?;
    let rows = result["predictions"].as_array()?;
    let row = rows.iter().find(|row| row["name"].as_str() == Some(&figure.title))?;
    let end = |at: usize| row["interval"][at].as_f64();
    Some((row["found"].as_f64()?, end(0).zip(end(1))))
}

/// Programs tell cycles of the time-stamp counter.
fn in_unit(figure: &Published, value: f64) -> f64 {
    let hertz = CpuModel::named(&figure.cpu).map_or(1, |model| model.tsc_hertz());
    match figure.unit.as_str() {
        "ns" => value * 1e9 / hertz as f64,
        _ => value,
    }
}
