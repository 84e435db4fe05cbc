//! A plan for a host, for readers: what each step does, what it needs and what it risks.

use crate::layout::{Colour, Look};
use rules::enable::{Action, Plan, Step};

/// Whether an optional step was asked for: by its identifier, or by `all`.
pub fn is_included(included: &[String], step: &Step) -> bool {
    included.iter().any(|name| *name == step.id || name == "all")
}

/// The plan as lines; `included` are the optional steps that are part of it.
pub fn text(plan: &Plan, included: &[String], look: Look) -> String {
    let mut text = String::new();
    if plan.is_empty() {
        text.push_str("No step of this plan would change anything here.\n");
    }
    let others = others(plan, included);
    let shown = plan.steps.iter().filter(|step| !others.contains(&step.id.as_str()));
    for (index, step) in shown.enumerate() {
        let heading = look.hanging(&format!("{:2}. ", index + 1), 4, &step.title);
        text.push_str(&look.painted_line(Colour::Bold, &heading));
        if step.is_optional && !is_included(included, step) {
            text.push_str(&look.hanging("    option", 12, &format!("--include {}", step.id)));
        }
        for (name, value) in
            [("for", &step.because), ("needs", &step.needs.to_string()), ("risk", &step.risk)]
        {
            text.push_str(&look.hanging(&format!("    {name}"), 12, value));
        }
        match &step.action {
            Action::Write { before, after, .. } => {
                text.push_str(&difference(before.as_deref().unwrap_or(""), after))
            }
            Action::Run { command, .. } => {
                text.push_str(&look.verbatim("    run     ", &command.join(" ")))
            }
            Action::Tell { instruction } => text.push_str(&look.hanging("    do", 12, instruction)),
        }
    }
    if !others.is_empty() {
        let line = format!(
            "\n{} more virtual machines can be repaired, each for its next start: --include {}, or --include all\n",
            others.len(),
            others.join(" --include ")
        );
        text.push_str(&line);
    }
    if !plan.blocked.is_empty() {
        text.push_str("\nNo setting changes these:\n");
        for reason in &plan.blocked {
            text.push_str(&look.hanging("  -", 4, reason));
        }
    }
    match plan.running {
        0 => {}
        1 => text.push_str("\n1 virtual machine runs now; avicenna why --all tells what it needs.\n"),
        count => text.push_str(&format!(
            "\n{count} virtual machines run now; avicenna why --all tells what each of them needs.\n"
        )),
    }
    text
}

/// Machines whose repair is a matter of choice and was not chosen, where there are so many that
/// they hide the rest.
fn others<'p>(plan: &'p Plan, included: &[String]) -> Vec<&'p str> {
    const MOST: usize = 3;
    let is_other = |step: &&Step| {
        step.is_optional && step.id.starts_with("vm-") && !is_included(included, step)
    };
    let found: Vec<&str> =
        plan.steps.iter().filter(is_other).map(|step| step.id.as_str()).collect();
    if found.len() > MOST { found } else { vec![] }
}

/// The lines that go and come, without those that stay.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let gone =
        old.iter().filter(|line| !new.contains(line)).map(|line| format!("      - {line}\n"));
    let come =
        new.iter().filter(|line| !old.contains(line)).map(|line| format!("      + {line}\n"));
    gone.chain(come).collect()
}
