//! How results look: at most 100 columns, colour on terminals only, readable without it.

use std::io::{self, ErrorKind, IsTerminal, Write};

/// Widest line of any result.
pub const COLUMNS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red,
    Green,
    Yellow,
    Bold,
    Dim,
}

/// Whether to colour what goes to standard output.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// NO_COLOR switches colour off, CLICOLOR_FORCE on; otherwise a terminal has it. See no-color.org.
    pub fn for_stdout() -> Paint {
        let is_set =
            |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let is_terminal = std::io::stdout().is_terminal();
        Paint { is_on: !is_set("NO_COLOR") && (is_set("CLICOLOR_FORCE") || is_terminal) }
    }

    #[cfg(test)]
    pub fn plain() -> Paint {
        Paint { is_on: false }
    }

    pub fn text(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Bold => "1",
            Colour::Dim => "2",
        };
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Writes a result to standard output. A reader that has seen enough, such as `head`, is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// A value as JSON on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(print(&text)?)
}

/// Breaks a text into lines that fit beside an indentation; a word that is too long stands alone and is cut.
pub fn wrap(text: &str, indent: usize) -> Vec<String> {
    let width = COLUMNS.saturating_sub(indent).max(20);
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
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

/// A page of the documentation for a terminal: paragraphs and list items fit, code and tables stay as they are.
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
    fn page_fits_but_for_its_code_and_tables() {
        let long = "word ".repeat(40);
        let code = format!("```\n{long}\n```\n");
        let page = format!("# T\n\n{long}\nmore\n\n- {long}\n- b\n\n{code}");
        let text = folded(&page);
        assert!(text.ends_with(&code), "{text}");
        assert!(text.starts_with("# T\n\nword "), "{text}");
        assert!(text.contains("more\n\n- word") && text.contains("\n  word"), "{text}");
        for line in text[..text.len() - code.len()].lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn no_line_is_wider_than_allowed() {
        let text = format!("one two {} three ü {}", "x".repeat(150), "y ".repeat(120));
        for indent in [0, 10, 95] {
            for line in wrap(&text, indent) {
                assert!(line.chars().count() <= COLUMNS.saturating_sub(indent).max(20), "{line}");
            }
        }
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(hanging("a:", 4, "b"), "a:  b\n");
    }

    #[test]
    fn plain_output_has_no_escapes() {
        assert_eq!(Paint::plain().text(Colour::Red, "no"), "no");
    }
}
