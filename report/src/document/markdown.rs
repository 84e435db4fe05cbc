//! The model for tickets and wikis.

use super::{Document, Part, Severity};
use crate::grid::marked_down;
use std::fmt::Write as _;

pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n\n", marked_down(&document.title));
    for (name, value) in &document.facts {
        let _ = writeln!(text, "- {}: {}", marked_down(name), marked_down(value));
    }
    for section in &document.sections {
        let _ = write!(text, "\n## {}\n\n", marked_down(&section.title));
        for part in &section.parts {
            match part {
                Part::Sentence(said) => {
                    let said_text = marked_down(&said.text);
                    let _ = match said.severity {
                        Severity::Good => writeln!(text, "- {said_text}"),
                        severity => writeln!(text, "- **{}**: {said_text}", severity.name()),
                    };
                    if let Some(fix) = &said.fix {
                        let _ = writeln!(text, "\n      {}\n", fix.replace('\n', " "));
                    }
                }
                Part::Table(grid) => {
                    let _ = write!(text, "\n{}", grid.to_markdown());
                }
                // A page has the plot; here the table of the same section says it.
                Part::Series(_) => {}
            }
        }
    }
    text
}
