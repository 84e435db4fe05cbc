//! `avicenna experiment show`: a plan, for readers and as the file that it is.

use super::chosen::plan;
use crate::terminal;
use ::experiment::plan::{Plan, keys};
use report::grid::folded;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// A plan's name or file
    #[arg(required_unless_present = "schema")]
    plan: Option<String>,
    /// The file alone, to begin one's own from
    #[arg(long)]
    plain: bool,
    /// The schema of plan files (docs/schema/experiment-plan-1.json) instead
    #[arg(long, conflicts_with_all = ["plan", "plain"])]
    schema: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.plan else {
        terminal::print_json(&keys::schema())?;
        return Ok(ExitCode::SUCCESS);
    };
    let plan = plan(name)?;
    if arguments.plain {
        terminal::program(plan.text.as_bytes());
    } else {
        terminal::print(&described(&plan, terminal::columns()));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(plan: &Plan, columns: usize) -> String {
    let compared = plan.compared();
    let mut lines = vec![format!("{}: {}", plan.name, plan.question)];
    lines.extend(plan.from.as_ref().map(|from| format!("from: {from}")));
    lines.extend(plan.shows.as_ref().map(|shows| format!("shows: {shows}")));
    lines.push(format!(
        "compares {}: {}, changed {}",
        compared.name,
        compared.levels.join(" with "),
        compared.redo.words()
    ));
    let others = plan.factors.iter().filter(|one| one.name != compared.name);
    lines.extend(others.map(|one| format!("in each {}: {}", one.name, one.levels.join(", "))));
    let metrics = plan.metrics.iter().map(|one| format!("{} ({})", one.name, one.unit));
    lines.push(format!("measures {}", metrics.collect::<Vec<_>>().join(", ")));
    if let Some(setup) = &plan.lab {
        lines.push(match &setup.cannot {
            Some(why) => format!("the lab cannot run it: {why}"),
            None => format!(
                "in the lab: {} on {} {} processors, {} vCPUs, clock {}; scale: {}",
                setup.workload,
                setup.topology.clone().unwrap_or_else(|| setup.cpus.to_string()),
                setup.cpu,
                setup.vcpus,
                setup.clock.as_deref().unwrap_or("boost"),
                setup.scale
            ),
        });
    }
    if let Some(setup) = &plan.host {
        lines.push(match &setup.cannot {
            Some(why) => format!("no host can run it: {why}"),
            None => format!("on a host: {} guests, {}", setup.guests, setup.command),
        });
    }
    let mut text: String = lines.iter().map(|line| folded(line, columns, 2)).collect();
    text += "\nthe plan (show --plain prints it alone):\n\n";
    text + &plan.text
}
