//! Text for terminals, and Markdown for tickets.

use super::tables;
use crate::answer::Answer;
use report::grid::{Grid, folded};

/// For a terminal of so many columns; `has_published` puts figures of others beside.
pub fn text(answer: &Answer, columns: usize, has_published: bool) -> String {
    let mut text = folded(&answer.sentence, columns, 2);
    text.push('\n');
    text += &folded(&format!("{}: {}", answer.name, answer.question), columns, 2);
    for note in tables::notes(answer) {
        text += &folded(&note, columns, 2);
    }
    text.push('\n');
    for grid in grids(answer, has_published) {
        text += &grid.to_text_within(columns);
        text.push('\n');
    }
    for remark in &answer.remarks {
        text += &folded(&remark.to_string(), columns, 2);
    }
    text
}

/// For a ticket.
pub fn markdown(answer: &Answer, has_published: bool) -> String {
    let mut text =
        format!("## {}\n\n{}\n\n**{}**\n\n", answer.name, answer.question, answer.sentence);
    for note in tables::notes(answer) {
        text += &format!("- {note}\n");
    }
    text.push('\n');
    for grid in grids(answer, has_published) {
        text += &format!("### {}\n\n{}\n", grid.title, grid.to_markdown());
    }
    for remark in &answer.remarks {
        text += &format!("- {remark}\n");
    }
    text +=
        &format!("\nPlan `{}`, hash {}, seed {}.\n", answer.name, answer.plan_hash, answer.seed);
    text
}

/// In the order in which they answer.
pub(super) fn grids(answer: &Answer, has_published: bool) -> Vec<Grid> {
    let mut grids: Vec<Grid> =
        answer.cells.iter().map(|cell| tables::metrics(answer, cell)).collect();
    grids.extend(tables::voids(answer));
    grids.extend(tables::published(answer).filter(|_| has_published));
    grids.extend(answer.cells.iter().filter_map(tables::exits));
    grids.extend(answer.cells.iter().filter_map(tables::evidence));
    grids
}
