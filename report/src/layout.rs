//! How lines look where they are read: folded to the terminal's width and coloured, or whole and
//! plain where a program reads.

use crate::document::Severity;
use crate::writer::{self, clean};

/// Widest line of any result where nobody says how wide it may be.
pub const COLUMNS: usize = 100;

/// What a terminal that is coloured shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// What is wrong.
    Red,
    /// What is good.
    Green,
    /// What may be wrong, or is not known.
    Yellow,
    /// Titles.
    Bold,
    /// What stands beside.
    Dim,
}

impl From<Severity> for Colour {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Good => Self::Green,
            Severity::Problem => Self::Red,
            Severity::Unknown | Severity::Warning => Self::Yellow,
            Severity::Note => Self::Dim,
        }
    }
}

/// Where lines are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The width to fold at; `None` where a program reads, which wants one line for each thing.
    pub columns: Option<usize>,
    /// Whether the reader sees colours.
    pub has_colours: bool,
}

impl Look {
    /// For programs and files.
    pub const PLAIN: Self = Self { columns: None, has_colours: false };

    /// Whether a person reads along: lines are folded, and what stands around a place is shown.
    pub const fn is_folded(self) -> bool {
        self.columns.is_some()
    }

    /// The text in a colour, if colours are seen.
    pub fn paint(self, colour: impl Into<Colour>, text: &str) -> String {
        let code = match colour.into() {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Bold => 1,
            Colour::Dim => 2,
        };
        if self.has_colours { writer::painted(code, text) } else { text.to_owned() }
    }

    /// A line of its own in a colour.
    pub fn painted_line(self, colour: impl Into<Colour>, text: &str) -> String {
        self.paint(colour, text.trim_end()) + "\n"
    }

    /// Breaks a text into lines that fit beside an indentation; a word that is too long, such as a
    /// path to copy, stands alone and whole.
    pub fn wrap(self, text: &str, indent: usize) -> Vec<String> {
        let width = self.columns.map(|columns| columns.saturating_sub(indent).max(20));
        wrap_to(text, width.unwrap_or(usize::MAX))
    }

    /// The text behind a heading of the given width, further lines below it.
    pub fn hanging(self, heading: &str, width: usize, text: &str) -> String {
        let mut result = String::new();
        for (index, line) in self.wrap(text, width).iter().enumerate() {
            let first = if index == 0 { heading } else { "" };
            let padding = width.saturating_sub(first.chars().count());
            result.push_str(&format!("{first}{:padding$}{line}\n", ""));
        }
        result
    }

    /// What is to be copied, behind a heading: one line however long it is.
    pub fn verbatim(self, heading: &str, text: &str) -> String {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        format!("{heading}{}\n", clean(&lines.join(" ")))
    }

    /// Columns before the statement of a row.
    pub const ROW: usize = 11;

    /// A statement behind a word that says how it stands, in its colour.
    pub fn row(self, colour: impl Into<Colour>, word: &str, statement: &str) -> String {
        let lines = self.hanging("", Self::ROW, statement);
        let word = self.paint(colour, &format!("  {word:8} "));
        lines.replacen(&" ".repeat(Self::ROW), &word, 1)
    }

    /// A page of the documentation: paragraphs and list items fit, code and tables stay as they
    /// are.
    pub fn page(self, page: &str) -> String {
        let mut result = String::new();
        let mut paragraph = String::new();
        let mut is_code = false;
        let flush = |paragraph: &mut String, result: &mut String| {
            if paragraph.is_empty() {
                return;
            }
            let width = if paragraph.starts_with("- ") { 2 } else { 0 };
            let (heading, text) = paragraph.split_at(width);
            result.push_str(&self.hanging(heading, width, text));
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

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: Look = Look { columns: Some(100), has_colours: false };

    #[test]
    fn page_keeps_its_paragraphs_items_and_code() {
        let long = "word ".repeat(40);
        let code = format!("```\n{long}\n```\n");
        let page = format!("# T\n\n{long}\nmore\n\n- {long}\n- b\n\n{code}");
        for look in [FOLDED, Look::PLAIN] {
            let text = look.page(&page);
            assert!(text.ends_with(&code), "{text}");
            assert!(text.starts_with("# T\n\nword "), "{text}");
            assert!(text.contains("more\n\n- word") && text.contains("\n- b\n"), "{text}");
        }
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
        assert_eq!(Look::PLAIN.wrap(&text, 4).len(), 1, "a program reads whole lines");
        assert_eq!(FOLDED.wrap("", 4), [""]);
        assert_eq!(FOLDED.hanging("a:", 4, "b"), "a:  b\n");
        let command = format!("echo 'a  b' {text}");
        assert_eq!(FOLDED.verbatim("run ", &command), format!("run {}\n", command.trim()));
        assert_eq!(FOLDED.row(Severity::Good, "yes", "it is"), "  yes      it is\n");
    }

    #[test]
    fn words_of_others_are_escaped_when_they_are_folded() {
        let name = "web\x1b]0;x\x07\u{202e}\u{9b}2J";
        assert_eq!(wrap_to(name, 100), ["web\\u{1b}]0;x\\u{7}\\u{202e}\\u{9b}2J"]);
    }

    #[test]
    fn plain_output_has_no_escapes() {
        assert_eq!(Look::PLAIN.paint(Colour::Red, "no"), "no");
        let coloured = Look { has_colours: true, ..Look::PLAIN };
        assert_eq!(coloured.paint(Severity::Unknown, "no"), writer::painted(33, "no"));
    }
}
