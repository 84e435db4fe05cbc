//! `avicenna experiment list`: the plans that come with the program.

use crate::terminal;
use ::experiment::plan::Plan;
use ::experiment::shipped;
use report::grid::{Grid, Value, folded};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut grid = Grid::new("plans", &["plan", "question", "lab", "host"]);
    for (name, text) in shipped::PLANS {
        let plan = Plan::read(text, name)?;
        grid.rows.push(vec![
            Value::text(name),
            Value::text(&plan.question),
            Value::text(in_lab(&plan)),
            Value::text(on_host(&plan)),
        ]);
    }
    match arguments.format {
        Format::Text => {
            let columns = terminal::columns();
            let plans: Vec<String> = grid.rows.iter().map(|row| entry(row, columns)).collect();
            terminal::print(&plans.join("\n"));
        }
        Format::Json => terminal::print_json(&grid)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A plan as its name, its question and what it takes, in lines of at most so many columns.
fn entry(row: &[Value], columns: usize) -> String {
    let cells: Vec<String> = row.iter().map(Value::shown).collect();
    let [name, question, lab, host] = cells.as_slice() else { return String::new() };
    [
        folded(name, columns, 2),
        folded(&format!("  {question}"), columns, 2),
        folded(&format!("  lab: {lab}"), columns, 8),
        folded(&format!("  host: {host}"), columns, 8),
    ]
    .concat()
}

/// What it takes in the lab, in a few words.
fn in_lab(plan: &Plan) -> String {
    match &plan.lab {
        None => "no".into(),
        Some(setup) if setup.cannot.is_some() => "not yet (show says why)".into(),
        Some(setup) => {
            let blocks = setup.blocks.unwrap_or(plan.design.blocks);
            let trials = blocks * 2 * plan.cells(true).len() * plan.design.repeats;
            let needs = setup.needs.join(", ");
            let needs = if needs.is_empty() { String::new() } else { format!(", needs {needs}") };
            format!("{trials} trials{needs}")
        }
    }
}

fn on_host(plan: &Plan) -> String {
    match &plan.host {
        None => "no".into(),
        Some(setup) if setup.cannot.is_some() => "no (show says why)".into(),
        Some(setup) => {
            let vendor = match setup.vendor.as_deref() {
                Some("amd") => "AMD",
                Some("intel") => "Intel",
                _ => "any vendor",
            };
            let plural = if setup.guests == 1 { "" } else { "s" };
            let trials = plan.design.blocks * 2 * plan.cells(false).len() * plan.design.repeats;
            format!(
                "{vendor}, {} guest{plural}, {trials} trials, {}",
                setup.guests,
                plan.compared().redo.words()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_once_in_lines_of_the_terminals_width() {
        let question = "What does AVIC do for a guest whose timer injects late ticks?";
        let row = ["firecracker-pit", question, "32 trials", "no"].map(Value::text);
        for columns in [40, 80, 120] {
            let text = entry(&row, columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            assert_eq!(text.matches("firecracker-pit").count(), 1);
            assert_eq!(text.split_whitespace().filter(|word| *word == "ticks?").count(), 1);
        }
    }
}
