//! `avicenna experiment list`: the plans that come with the program.

use crate::terminal;
use ::experiment::plan::Plan;
use ::experiment::shipped;
use report::grid::{Grid, Value};
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
            terminal::print(&grid.to_text_within(terminal::columns()));
        }
        Format::Json => terminal::print_json(&grid)?,
    }
    Ok(ExitCode::SUCCESS)
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
            let vendor = setup.vendor.as_deref().unwrap_or("any");
            let trials = plan.design.blocks * 2 * plan.cells(false).len() * plan.design.repeats;
            format!(
                "{vendor}, {} guests, {trials} trials, {}",
                setup.guests,
                plan.compared().redo.words()
            )
        }
    }
}
