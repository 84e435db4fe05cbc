//! Edits of modprobe.d files and kernel command lines.

use super::{Change, Edit, Kind, Lines, insert, replace};

pub fn edits(kind: Kind, lines: &Lines<'_>, change: &Change) -> Option<Vec<Edit>> {
    match change {
        Change::SetOption { at, value_at, value, .. } => {
            let has_value =
                value_at.start > at.start && lines.text()[..value_at.start].ends_with('=');
            if has_value {
                Some(replace(value_at.start, value_at.end, *value))
            } else {
                Some(insert(at.end, format!("={value}")))
            }
        }
        Change::RemoveOption { at, .. } => Some(remove(lines.text(), at.start, at.end)),
        Change::AddOption { after, module, option } => {
            let word = if kind == Kind::Modprobe {
                (*option).to_owned()
            } else {
                format!("{module}.{option}")
            };
            Some(insert(after.end, format!(" {word}")))
        }
        _ => None,
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
