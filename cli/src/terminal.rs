//! How results look: colour and folded lines on terminals only, nothing in them that moves a
//! cursor.
//!
//! Names of machines and files come from others: what would steer the terminal (control characters,
//! and those that turn the direction of text) is shown as an escape, in text and in JSON.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

/// Widest line of any result on a terminal.
pub const COLUMNS: usize = 100;

/// The width to fold at; `None` where a program reads, which wants one line for each thing.
fn width() -> Option<usize> {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    IS_TERMINAL.get_or_init(|| io::stdout().is_terminal()).then_some(COLUMNS)
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
    /// NO_COLOR switches colour off, CLICOLOR_FORCE on; otherwise a terminal has it. See
    /// no-color.org.
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
    print_raw(&escaped(text, false))
}

/// A text for a program, which gets it as it is; on a terminal it is shown as every other.
pub fn print_for_program(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() { print(text) } else { print_raw(text) }
}

/// A text that goes to a file or a program as it is, such as a mended configuration.
pub fn print_raw(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// A remark beside the result, on standard error.
pub fn remark(text: &str) {
    eprintln!("{}", escaped(text.trim_end_matches('\n'), false));
}

/// A value as JSON on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(print_json_text(&text)?)
}

/// JSON that was made already.
pub fn print_json_text(text: &str) -> io::Result<()> {
    print_raw(&escaped(text, true))
}

/// Whether a character changes how others are shown, or the terminal's state.
pub fn steers(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with everything escaped that steers, but for this program's own colours.
fn escaped(text: &str, is_json: bool) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let own = CODES.iter().find(|code| !is_json && rest.starts_with(**code));
        let taken = own.map_or(c.len_utf8(), |code| code.len());
        match own {
            Some(code) => result.push_str(code),
            None if !steers(c) => result.push(c),
            None if is_json => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    result.push_str(&format!("\\u{unit:04x}"));
                }
            }
            None => result.extend(c.escape_unicode()),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(result)
}

/// Every sequence that [`Paint`] makes.
const CODES: [&str; 6] = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[2m", "\x1b[0m"];

/// A name or a line of others, in which not even a colour of ours may be.
pub fn clean(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let is_plain = !steers(c) && c != '\n';
            let escape = (!is_plain).then(|| c.escape_unicode());
            is_plain.then_some(c).into_iter().chain(escape.into_iter().flatten())
        })
        .collect()
}

/// Breaks a text into lines that fit beside an indentation; a word that is too long stands alone
/// and is cut.
pub fn wrap(text: &str, indent: usize) -> Vec<String> {
    let width = width().map(|columns| columns.saturating_sub(indent).max(20));
    wrap_to(text, width.unwrap_or(usize::MAX))
}

fn wrap_to(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = clean(word).chars().collect();
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
                assert!(line.chars().count() <= width, "{line}");
            }
        }
        assert_eq!(wrap_to(&text, usize::MAX).len(), 1, "a program reads whole lines");
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(hanging("a:", 4, "b"), "a:  b\n");
    }

    #[test]
    fn names_cannot_steer_a_terminal_and_colours_of_our_own_stay() {
        let name = "web\x1b]0;x\x07\u{202e}\u{9b}2J";
        let shown = escaped(name, false);
        assert_eq!(shown, "web\\u{1b}]0;x\\u{7}\\u{202e}\\u{9b}2J");
        assert_eq!(wrap_to(name, 100), [shown.as_ref()]);
        assert_eq!(escaped("back\r\u{b}\n", false), "back\\u{d}\\u{b}\n");
        assert_eq!(clean("\x1b[31mred"), "\\u{1b}[31mred", "a name has no colour either");
        let painted = Paint { is_on: true }.text(Colour::Red, "no");
        assert_eq!(escaped(&painted, false), painted);
        let json = serde_json::to_string(name).unwrap();
        let safe = escaped(&json, true);
        assert!(!safe.contains(steers), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), name);
    }

    #[test]
    fn plain_output_has_no_escapes() {
        assert_eq!(Paint::plain().text(Colour::Red, "no"), "no");
    }
}
