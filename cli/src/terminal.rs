//! How results look: colour and folded lines on terminals only. They are written by
//! [`report::writer`], which lets nothing through that moves a cursor.

pub use report::layout::COLUMNS;
pub use report::writer::{ask, clean, lost, people as print, program, remark, same_line};

use report::layout::Look;
use report::writer;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

/// A line of a result, for readers.
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

/// How results look on standard output: colour, and folded lines, on terminals only.
pub fn look() -> Look {
    static LOOK: OnceLock<Look> = OnceLock::new();
    *LOOK.get_or_init(|| {
        let is_terminal = io::stdout().is_terminal();
        Look {
            columns: is_terminal.then(columns),
            has_colours: is_coloured(|name| std::env::var(name).ok(), is_terminal),
        }
    })
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

/// NO_COLOR with any value switches colour off (no-color.org), CLICOLOR_FORCE on; otherwise a
/// terminal has it that is not dumb.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
