//! `avicenna lab recipes`: the questions that `lab run --recipe` answers.

use crate::status::{Status, Usage};
use crate::terminal;
use lab::host::pin::Pin;
use lab::plan::{Recipe, Verb};
use report::grid::folded;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// One of them: what it runs, and what to look at in the answer; all for a page of all of them
    name: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let columns = terminal::columns();
    let text = match arguments.name.as_deref() {
        Some("all") => page(&Recipe::all()),
        Some(name) => details(&Recipe::find(name).map_err(Usage::of)?, columns),
        None => list(&Recipe::all(), columns),
    };
    terminal::print(&text);
    Ok(Status::Clean.into())
}

fn list(recipes: &[Recipe], columns: usize) -> String {
    let width = recipes.iter().map(|one| one.name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for one in recipes {
        let mut head = one.name.as_str();
        for line in folded(&one.question, columns.saturating_sub(width), 0).lines() {
            text += &format!("{head:<width$}{line}\n");
            head = "";
        }
    }
    text + "\navicenna lab run --recipe NAME\navicenna lab recipes NAME: what it runs and what to look at\n"
}

/// In Markdown.
fn page(recipes: &[Recipe]) -> String {
    const WIDTH: usize = 100;
    let each = recipes.iter().map(|one| {
        let (name, question) = (&one.name, folded(&one.question, WIDTH, 0));
        let read = folded(&one.read, WIDTH, 0);
        format!("\n## {name}\n\n{question}\n    avicenna lab run --recipe {name}\n\n{read}")
    });
    "# Recipes\n".to_owned() + &each.collect::<String>()
}

fn details(recipe: &Recipe, columns: usize) -> String {
    let mut text = folded(&recipe.question, columns, 0) + "\n";
    let quoted = recipe.words.iter().map(|word| match word.contains(' ') {
        true => format!("'{word}'"),
        false => word.clone(),
    });
    let command = format!("avicenna lab run {}", quoted.collect::<Vec<_>>().join(" "));
    if let Some(Verb::Senduipi) = recipe.verb {
        text += "avicenna lab senduipi\n";
    } else if let Some((switched, arms)) = &recipe.arms {
        text += &format!("avicenna lab run --recipe {}\n", recipe.name);
        text += &folded(&format!("which is {command}, with {switched} switched:"), columns, 2);
        for arm in arms {
            let parameters = arm.parameters.iter().map(ToString::to_string);
            let parameters = parameters.chain([arm.host.clone(), arm.guest.clone()]);
            let words = parameters.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            text += &folded(&format!("  {}: {words}", arm.label), columns, 4);
        }
    } else {
        text += &folded(&command, columns, 2);
    }
    let kernels = recipe.words.iter().filter_map(|word| word.strip_prefix("--kernel="));
    for (name, pin) in kernels.filter_map(|name| Some((name, Pin::of(name).ok()?))) {
        let kernel =
            format!("{name}: Linux {}, pinned by the SHA-256 of its packages", pin.version);
        text += &folded(&kernel, columns, 2);
    }
    text + "\n" + &folded(&recipe.read, columns, 0)
}
