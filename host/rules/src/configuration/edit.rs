//! Edits of a text: only what is wrong, in the style of what stands around it.

use serde::Serialize;

/// Replaces `start..end` (bytes) of the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Edit {
    /// First byte that goes.
    pub start: usize,
    /// One past the last byte that goes.
    pub end: usize,
    /// What comes instead; empty to delete.
    pub replacement: String,
}

/// Replaces one range.
pub fn replace(start: usize, end: usize, replacement: impl Into<String>) -> Vec<Edit> {
    vec![Edit { start, end, replacement: replacement.into() }]
}

/// Inserts at one place.
pub fn insert(at: usize, text: impl Into<String>) -> Vec<Edit> {
    replace(at, at, text)
}

/// A text with edits that are sorted and do not touch.
pub fn applied(text: &str, edits: &[&Edit]) -> String {
    let mut result = String::with_capacity(text.len() + 64 * edits.len());
    let mut at = 0;
    for edit in edits {
        let (Some(before), true) = (text.get(at..edit.start), text.is_char_boundary(edit.end))
        else {
            continue;
        };
        result.push_str(before);
        result.push_str(&edit.replacement);
        at = edit.end;
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

/// The white space before the first character of the line that holds `at`.
pub fn indentation(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..];
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    &line[..length.min(at.saturating_sub(start))]
}
