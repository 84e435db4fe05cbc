//! The model as a page.

use super::{Document, Part, Sentence, Severity};
use crate::grid::escaped;
use crate::page::page;
use crate::plot;

pub fn render(document: &Document) -> String {
    let facts: Vec<String> =
        document.facts.iter().map(|(name, value)| escaped(&format!("{name}: {value}"))).collect();
    let mut html = format!(
        "<h1>{}</h1>\n<p class=\"facts\">{}</p>\n",
        escaped(&document.title),
        facts.join("\n")
    );
    for section in &document.sections {
        html.push_str(&format!("<h2>{}</h2>\n", escaped(&section.title)));
        for part in &section.parts {
            match part {
                Part::Sentence(said) => html.push_str(&sentence(said)),
                Part::Table(grid) => {
                    let table = grid.to_html().replace("h2>", "h3>");
                    html.push_str(&format!("<div class=\"scroll\">{table}</div>\n"));
                }
                Part::Series(series) => html.push_str(&plot::lines(
                    &series.title,
                    &series.unit,
                    &series.starts,
                    &series.lines,
                )),
            }
        }
    }
    page(&document.title, &html)
}

fn sentence(said: &Sentence) -> String {
    let class = match said.severity {
        Severity::Good | Severity::Note => "",
        Severity::Unknown | Severity::Warning | Severity::Problem => " class=\"warning\"",
    };
    let word = match said.severity {
        Severity::Good => String::new(),
        severity => format!("<b>{}</b>: ", severity.name()),
    };
    let fix = said
        .fix
        .as_ref()
        .map_or_else(String::new, |fix| format!("<br>change: <code>{}</code>", escaped(fix)));
    format!("<p{class}>{word}{}{fix}</p>\n", escaped(&said.text))
}
