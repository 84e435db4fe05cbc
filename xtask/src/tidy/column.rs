//! Prose is 100 columns wide at most: paragraphs of pages, and lines that are all comment.
//!
//! Code is rustfmt's affair. Tables, listings and words that cannot be broken may be longer, and so
//! may pages that are made from the code.

use super::source::File;

const COLUMNS: usize = 100;
/// Pages that a program writes.
const MADE: [&str; 2] = ["docs/deviations.md", "docs/schema/"];

pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| !MADE.iter().any(|made| file.path.starts_with(made))) {
        let is_page = file.path.ends_with(".md");
        let mut is_listing = false;
        for (line, text) in file.text.lines().enumerate() {
            let prose = if is_page { Some(text) } else { prose(&file.path, text) };
            let Some(prose) = prose else { continue };
            is_listing ^= prose.trim_start().starts_with("```");
            let columns = text.chars().count();
            if columns > COLUMNS && !is_listing && can_be_broken(prose) {
                problems.push(format!("{}:{}: {columns} columns", file.path, line + 1));
            }
        }
    }
}

/// What a line says that is all comment.
fn prose<'t>(path: &str, text: &'t str) -> Option<&'t str> {
    if path.ends_with(".rs") {
        let rest = text.trim_start().strip_prefix("//")?;
        return Some(rest.trim_start_matches(['/', '!']).strip_prefix(' ').unwrap_or(rest));
    }
    if path.ends_with(".toml") { text.strip_prefix("# ") } else { None }
}

/// Whether a line of prose has a place before its end where it could go on below: it is not a row
/// of a table, no listing, not one long word, and not set in columns.
fn can_be_broken(prose: &str) -> bool {
    let is_set = prose.starts_with("    ") || prose.trim_start().starts_with(['|', '#', '<']);
    let words = prose.trim_start();
    !is_set && !words.contains("  ") && words.matches(' ').count() > 3 && !has_long_span(words)
}

/// A listing within the line, or the title of a document, which are not broken.
fn has_long_span(words: &str) -> bool {
    let spans = words.split('`').skip(1).step_by(2).chain(words.split('"').skip(1).step_by(2));
    spans.into_iter().any(|span| span.len() > COLUMNS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn long_prose_is_found_and_what_cannot_be_broken_is_not() {
        let words = |count: usize| "word ".repeat(count).trim_end().to_owned();
        let rows = [
            ("docs/a.md", words(20), 0),
            ("docs/a.md", words(21), 1),
            ("docs/a.md", format!("| {} |", words(21)), 0),
            ("docs/a.md", format!("```\n{}\n```", words(21)), 0),
            ("docs/a.md", format!("    {}", words(21)), 0),
            ("docs/a.md", format!("see https://{}", "x".repeat(100)), 0),
            ("docs/schema/lint-1.md", words(21), 0),
            ("src/a.rs", format!("/// {}", words(20)), 1),
            ("src/a.rs", format!("let x = \"{}\";", words(21)), 0),
            ("a.toml", format!("# {}", words(21)), 1),
            ("a.sh", format!("# {}", words(21)), 0),
        ];
        for (path, text, expected) in rows {
            let mut problems = vec![];
            check(&[file(path, &text)], &mut problems);
            assert_eq!(problems.len(), expected, "{path}: {text}");
        }
    }
}
