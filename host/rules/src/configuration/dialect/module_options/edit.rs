//! Edits of modprobe.d files and kernel command lines.

use crate::configuration::change::ParameterChange;
use crate::configuration::dialect::ParameterText;
use crate::configuration::edit::{Edit, applied, insert, replace};
use crate::configuration::input::Kind;
use crate::configuration::shell::settings::differ_in_one_word;

/// The text of a host's parameters, whose options know their places.
#[derive(Debug)]
pub struct Parameters<'t> {
    pub kind: Kind,
    pub text: &'t str,
}

impl ParameterText for Parameters<'_> {
    fn edits(&self, change: &ParameterChange) -> Option<Vec<Edit>> {
        let edits = edits(self.kind, self.text, change);
        let is_shell = self.kind == Kind::KernelCommandLine && self.text.contains("GRUB_");
        let changed = || applied(self.text, &edits.iter().collect::<Vec<_>>());
        // A word that is pieced together, or that no shell would read so afterwards.
        let is_refused = is_shell && !differ_in_one_word(self.text, &changed());
        (!is_refused).then_some(edits)
    }
}

fn edits(kind: Kind, text: &str, change: &ParameterChange) -> Vec<Edit> {
    match change {
        ParameterChange::Set { at, value_at, value, .. } => {
            let has_value = value_at.start > at.start && text[..value_at.start].ends_with('=');
            if has_value {
                replace(value_at.start, value_at.end, *value)
            } else {
                insert(at.end, format!("={value}"))
            }
        }
        ParameterChange::Remove { at, .. } => remove(text, at.start, at.end),
        ParameterChange::Add { after, module, option } => {
            let word = if kind == Kind::Modprobe {
                (*option).to_owned()
            } else {
                format!("{module}.{option}")
            };
            insert(after.end, format!(" {word}"))
        }
    }
}

/// Takes a word out with the blanks before it; a line `options MODULE` without options goes whole.
fn remove(text: &str, start: usize, end: usize) -> Vec<Edit> {
    let before = &text[..start];
    let is_inside_word = before.ends_with(['=', ',']) || text[start..].starts_with(',');
    if is_inside_word {
        return replace(start, end, "");
    }
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    let rest: Vec<&str> = text[line_start..start]
        .split_whitespace()
        .chain(text[end..line_end].split_whitespace())
        .collect();
    if let ["options", _] = rest[..] {
        return replace(line_start, line_end, "");
    }
    let kept = before.trim_end_matches([' ', '\t']);
    if kept.ends_with(['"', '\'', '\n']) || kept.is_empty() {
        // First of its line or quotes: the blanks behind it go instead.
        let after = &text[end..];
        let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
        return replace(start, end + blanks, "");
    }
    replace(kept.len(), end, "")
}
