//! What an experiment is asked for: its plan, where it runs, how its answer is printed.

use crate::status::Usage;
use ::experiment::plan::Plan;
use ::experiment::shipped;
use anyhow::anyhow;
use std::path::Path;

/// A plan that is longer is none.
const MOST_PLAN: u64 = 1 << 20;

/// Where trials are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    /// Emulated machines
    Lab,
    /// This machine
    Host,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Text,
    /// For a ticket
    Markdown,
    /// docs/schema/experiment-1.json
    Json,
    /// A self-contained page
    Html,
}

/// What others published is put beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Compare {
    /// Figures of the document that the plan follows
    Published,
}

/// A shipped plan by its name, or a plan's file.
pub fn plan(name: &str) -> anyhow::Result<Plan> {
    let path = Path::new(name);
    if let Some(plan) = shipped::named(name).filter(|_| !path.exists()) {
        return plan.map_err(Usage::of);
    }
    if !path.exists() && !name.contains(['/', '.']) {
        let known: Vec<&str> = shipped::PLANS.iter().map(|(name, _)| *name).collect();
        return Err(Usage::of(anyhow!(
            "{name:?} is neither a file nor a plan that comes with the program: {}",
            known.join(", ")
        )));
    }
    let limit = "more than a plan has";
    let text = crate::verb::source::text(path, MOST_PLAN, limit);
    Plan::read(&text.map_err(Usage::of)?, name).map_err(Usage::of)
}
