//! The trace's vocabulary is alive: every kind is made by the machine, and named by the exporter.
//!
//! Code of the machine only makes events, so a kind that is named there outside of tests is made.

use super::source::File;

const VOCABULARY: &str = "trace/src/event.rs";
const EXPORTER: &str = "trace/src/perfetto.rs";
const MAKERS: &str = "machine/";

pub fn check(files: &[File], problems: &mut Vec<String>) {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let (Some(vocabulary), Some(exporter)) = (text(VOCABULARY), text(EXPORTER)) else {
        return problems.push(format!("{VOCABULARY} and {EXPORTER} must both be there"));
    };
    let kinds = kinds(vocabulary);
    if kinds.is_empty() {
        problems.push(format!("{VOCABULARY}: no kind is found inside events! {{ }}"));
    }
    for kind in kinds {
        let is_made = files
            .iter()
            .filter(|file| file.path.starts_with(MAKERS) && !file.path.contains("/tests"))
            .any(|file| names(before_tests(&file.text), kind));
        if !is_made {
            problems.push(format!("{VOCABULARY}: nothing in {MAKERS} makes Event::{kind}"));
        }
        if !names(before_tests(exporter), kind) {
            problems.push(format!("{EXPORTER}: does not name Event::{kind}"));
        }
    }
}

/// The kinds' names: behind a number, inside the macro's braces.
fn kinds(text: &str) -> Vec<&str> {
    let Some((_, body)) = text.split_once("\nevents! {") else { return Vec::new() };
    let body = body.split_once("\n}\n").map_or(body, |(body, _)| body);
    body.lines().filter_map(kind).collect()
}

fn kind(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u8>().ok()?;
    words.next()
}

fn before_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]").map_or(text, |(code, _)| code)
}

/// Whether the text holds `Event::KIND` and not only a longer name.
fn names(text: &str, kind: &str) -> bool {
    let wanted = format!("Event::{kind}");
    text.match_indices(&wanted).any(|(at, _)| {
        let behind = text[at + wanted.len()..].chars().next();
        !behind.is_some_and(|next| next.is_alphanumeric() || next == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(machine: &str, exporter: &str) -> Vec<File> {
        let vocabulary = "\nevents! {\n    /// 7 Not this.\n    1 Line \"line\" {\n        gsi: u8,\n    }\n    \
                          12 LineEnd \"end\" {}\n}\n9 Other \"x\" {}\n";
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        vec![
            file(VOCABULARY, vocabulary),
            file(EXPORTER, exporter),
            file("machine/board/src/wiring.rs", machine),
            file("machine/board/src/wiring/tests.rs", "Event::Line Event::LineEnd"),
        ]
    }

    #[test]
    fn a_kind_must_be_made_outside_of_tests_and_named_by_the_exporter() {
        let both = "Event::Line { gsi } Event::LineEnd {}";
        for (machine, exporter, expected) in [
            (both, both, 0),
            ("Event::LineEnd {}", both, 1),
            ("Event::Line {}\n#[cfg(test)]\nEvent::LineEnd {}", both, 1),
            (both, "Event::LineEnd", 1),
            ("", "", 4),
        ] {
            let mut problems = Vec::new();
            check(&files(machine, exporter), &mut problems);
            assert_eq!(problems.len(), expected, "{problems:?}");
        }
    }
}
