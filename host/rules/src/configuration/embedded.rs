//! Shell text within files of another syntax: systemd units, YAML (Ansible, Compose, workflows),
//! and units that a script writes.
//!
//! Such a syntax ends commands, joins lines and quotes in its own ways. What it holds is cut out as
//! pieces of shell text, each as long as its place in the file, so that every byte keeps its place.
//!
//! Sources: systemd.syntax(7), systemd.service(5) and systemd.exec(5) of systemd 257; YAML 1.2.2,
//! chapters 7.3 and 8.1; Ansible's modules `command` and `shell`; the Compose specification.

mod here;
mod unit;
mod yaml;

use super::input::InputError;
use super::shell::{self, Command};
use crate::position::Lines;
use std::borrow::Cow;

/// A piece of shell text that runs on its own.
struct Piece<'t> {
    /// Where it begins in the file.
    start: usize,
    /// As long as what it stands for.
    text: Cow<'t, str>,
}

/// The commands of a text: of shell text, or of what else holds some.
pub fn commands(text: &str) -> Result<Vec<Command<'_>>, InputError> {
    if is_shell_text(text) {
        return match here::joined(text) {
            None => shell::run(text),
            Some(joined) => {
                let found = shell::run(&joined)?;
                Ok(found.into_iter().map(|command| command.moved(0)).collect())
            }
        };
    }
    let pieces = match unit::is_one(text) {
        true => vec![Piece { start: 0, text: unit::shell_text(text).into() }],
        false => yaml::pieces(&Lines::new(text))?,
    };
    let mut found = Vec::new();
    for piece in pieces {
        for command in shell::run(&piece.text)? {
            found.push(command.moved(piece.start));
        }
    }
    Ok(found)
}

/// Whether a text is the shell's as a whole.
pub fn is_shell_text(text: &str) -> bool {
    !unit::is_one(text) && !yaml::may_be_one(text)
}

/// Puts blanks in the place of bytes.
fn blank(bytes: &mut [u8]) {
    bytes.fill(b' ');
}

/// Text whose bytes were replaced by ASCII, whole characters at a time.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests;
