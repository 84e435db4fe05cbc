//! The model for a terminal.

use super::{Document, Part, Sentence, Series, Severity};
use crate::grid::{Grid, Value, folded};
use std::fmt::Write as _;

/// Columns of the word in front of a sentence.
const WORD: usize = 10;

pub fn render(document: &Document, most: usize) -> String {
    let mut text = folded(&document.title, most, 2);
    for (name, value) in &document.facts {
        text.push_str(&folded(&format!("  {name}: {value}"), most, 4));
    }
    for section in &document.sections {
        let _ = write!(text, "\n{}", folded(&section.title, most, 2));
        for (index, part) in section.parts.iter().enumerate() {
            match part {
                Part::Sentence(said) => text.push_str(&sentence(said, most)),
                Part::Table(grid) => {
                    if index > 0 {
                        text.push('\n');
                    }
                    text.push_str(&grid.to_text_within(most));
                }
                Part::Series(series) => {
                    if index > 0 {
                        text.push('\n');
                    }
                    text.push_str(&extremes(series).to_text_within(most));
                }
            }
        }
    }
    text
}

fn sentence(said: &Sentence, most: usize) -> String {
    let word = match said.severity {
        Severity::Good => "",
        severity => severity.name(),
    };
    let inner = most.saturating_sub(WORD);
    let mut text = String::new();
    for (index, line) in folded(&said.text, inner, 0).lines().enumerate() {
        let word = if index == 0 { word } else { "" };
        let _ = writeln!(text, "{}", format!("  {word:<8}{line}").trim_end());
    }
    // A line that is to be copied is not broken.
    if let Some(fix) = &said.fix {
        let _ = writeln!(text, "{:WORD$}change: {fix}", "");
    }
    text
}

/// What a plot shows, where there is none.
fn extremes(series: &Series) -> Grid {
    let mut grid =
        Grid::new(format!("{}, {}", series.title, series.unit), &["line", "least", "mean", "most"]);
    for (name, values) in &series.lines {
        let count = values.len().max(1) as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        if values.is_empty() {
            continue;
        }
        grid.rows.push(vec![
            Value::text(name),
            Value::Number(least, 1),
            Value::Number(values.iter().sum::<f64>() / count, 1),
            Value::Number(most, 1),
        ]);
    }
    grid
}
