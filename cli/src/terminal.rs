//! How results look: colour and folded lines on terminals only. They are written by
//! [`report::writer`], which lets nothing through that moves a cursor.

pub use report::writer::{ask, clean, lost, people as print, program, remark, same_line, steers};

use report::writer;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

/// A line of a result, for people.
macro_rules! say {
    ($($word:tt)*) => {{
        let line = format!($($word)*) + "\n";
        $crate::terminal::print(&line);
    }};
}

/// A remark beside the result, on standard error.
macro_rules! remark {
    ($($word:tt)*) => {
        $crate::terminal::remark(&format!($($word)*))
    };
}

/// Widest line of any result on a terminal.
pub const COLUMNS: usize = 100;

/// The width to fold at; `None` where a program reads, which wants one line for each thing.
fn width() -> Option<usize> {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    IS_TERMINAL.get_or_init(|| io::stdout().is_terminal()).then(columns)
}

/// Narrower and wider than this no result is.
const NARROWEST: usize = 40;
const WIDEST: usize = 200;

/// Columns of a result: the terminal's, or [`COLUMNS`] where standard output is none.
pub fn columns() -> usize {
    columns_of(std::io::stdout())
}

pub fn columns_of_stderr() -> usize {
    columns_of(std::io::stderr())
}

fn columns_of(stream: impl rustix::fd::AsFd) -> usize {
    let own = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    if own == 0 { COLUMNS } else { own.clamp(NARROWEST, WIDEST) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red,
    Green,
    Yellow,
    Bold,
    Dim,
}

/// Whether a person reads along: lines are folded, and what stands around a place is shown.
pub fn is_folded() -> bool {
    width().is_some()
}

/// Whether to colour what goes to standard output.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// NO_COLOR with any value switches colour off (no-color.org), CLICOLOR_FORCE on; otherwise a
    /// terminal has it that is not dumb.
    pub fn for_stdout() -> Paint {
        Paint { is_on: is_coloured(|name| std::env::var(name).ok(), io::stdout().is_terminal()) }
    }

    #[cfg(test)]
    pub fn plain() -> Paint {
        Paint { is_on: false }
    }

    pub fn text(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Bold => 1,
            Colour::Dim => 2,
        };
        if self.is_on { writer::painted(code, text) } else { text.to_string() }
    }
}

fn is_coloured(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> bool {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let is_dumb = given("TERM").is_some_and(|term| term == "dumb");
    given("NO_COLOR").is_none()
        && (given("CLICOLOR_FORCE").is_some_and(|value| value != "0") || is_terminal && !is_dumb)
}

/// A text for a program, which gets it as it is; on a terminal it is shown as every other.
pub fn print_for_program(text: &str) {
    match io::stdout().is_terminal() {
        true => print(text),
        false => program(text.as_bytes()),
    };
}

/// A value as JSON on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print_json_text(&text);
    Ok(())
}

/// JSON that was made already.
pub fn print_json_text(text: &str) {
    writer::program(writer::json(text).as_bytes());
}

/// Breaks a text into lines that fit beside an indentation; a word that is too long, such as a path
/// to copy, stands alone and whole.
pub fn wrap(text: &str, indent: usize) -> Vec<String> {
    let width = width().map(|columns| columns.saturating_sub(indent).max(20));
    wrap_to(text, width.unwrap_or(usize::MAX))
}

fn wrap_to(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let word: Vec<char> = clean(word).chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    if used > 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// The text behind a heading of the given width, further lines below it.
pub fn hanging(heading: &str, width: usize, text: &str) -> String {
    let mut result = String::new();
    for (index, line) in wrap(text, width).iter().enumerate() {
        let first = if index == 0 { heading } else { "" };
        let padding = width.saturating_sub(first.chars().count());
        result.push_str(&format!("{first}{:padding$}{line}\n", ""));
    }
    result
}

/// A page of the documentation for a terminal: paragraphs and list items fit, code and tables stay
/// as they are.
pub fn folded(page: &str) -> String {
    let mut result = String::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    let flush = |paragraph: &mut String, result: &mut String| {
        if paragraph.is_empty() {
            return;
        }
        let width = if paragraph.starts_with("- ") { 2 } else { 0 };
        let (heading, text) = paragraph.split_at(width);
        result.push_str(&hanging(heading, width, text));
        paragraph.clear();
    };
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        if is_fence || is_code || line.is_empty() || line.starts_with(['#', '|']) {
            flush(&mut paragraph, &mut result);
            result.push_str(line);
            result.push('\n');
            is_code ^= is_fence;
            continue;
        }
        if line.starts_with("- ") {
            flush(&mut paragraph, &mut result);
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(line);
    }
    flush(&mut paragraph, &mut result);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_keeps_its_paragraphs_items_and_code() {
        let long = "word ".repeat(40);
        let code = format!("```\n{long}\n```\n");
        let page = format!("# T\n\n{long}\nmore\n\n- {long}\n- b\n\n{code}");
        let text = folded(&page);
        assert!(text.ends_with(&code), "{text}");
        assert!(text.starts_with("# T\n\nword "), "{text}");
        assert!(text.contains("more\n\n- word") && text.contains("\n- b\n"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_allowed() {
        let text = format!("one two {} three ü {}", "x".repeat(150), "y ".repeat(120));
        for width in [100, 90, 20] {
            for line in wrap_to(&text, width) {
                let is_one_word = !line.contains(' ');
                assert!(line.chars().count() <= width || is_one_word, "{line}");
            }
        }
        assert!(wrap_to(&text, 80).contains(&"x".repeat(150)), "what is to be copied is whole");
        assert_eq!(wrap_to(&text, usize::MAX).len(), 1, "a program reads whole lines");
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(hanging("a:", 4, "b"), "a:  b\n");
    }

    #[test]
    fn colour_follows_what_the_environment_says() {
        for (variables, is_terminal, expected) in [
            (vec![], true, true),
            (vec![], false, false),
            (vec![("NO_COLOR", "0")], true, false),
            (vec![("NO_COLOR", "")], true, true),
            (vec![("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true, false),
            (vec![("CLICOLOR_FORCE", "1")], false, true),
            (vec![("CLICOLOR_FORCE", "0")], false, false),
            (vec![("TERM", "dumb")], true, false),
            (vec![("TERM", "xterm")], true, true),
        ] {
            let of = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(is_coloured(of, is_terminal), expected, "{variables:?} {is_terminal}");
        }
    }

    #[test]
    fn words_of_others_are_escaped_when_they_are_folded() {
        let name = "web\x1b]0;x\x07\u{202e}\u{9b}2J";
        assert_eq!(wrap_to(name, 100), ["web\\u{1b}]0;x\\u{7}\\u{202e}\\u{9b}2J"]);
    }

    #[test]
    fn plain_output_has_no_escapes() {
        assert_eq!(Paint::plain().text(Colour::Red, "no"), "no");
    }
}
