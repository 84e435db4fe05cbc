//! YAML's scalars and lists as shell text. What runs and what is only text is not told apart.
//!
//! Left out: scalars with escapes of YAML's own, and values that other tools' templates put
//! together; a place that a template fills is a value that is not known.

use super::{Piece, blank, text_of};
use crate::configuration::input::InputError;
use crate::configuration::yaml::{self, Node, Style, Value};
use crate::position::Lines;
use std::ops::Range;

/// Keys whose value is split into words without a shell: the end of a line is a blank.
const WORDS: [&str; 7] = [
    "command",
    "ansible.builtin.command",
    "cmd",
    "argv",
    "entrypoint",
    "ansible.legacy.command",
    "args",
];

/// Whether a text begins as YAML does.
pub fn may_be_one(text: &str) -> bool {
    let is_blank = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let Some(first) = text.lines().find(|line| !is_blank(line)) else { return false };
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-\"'/".contains(c))
    };
    let entry = first.trim_start().trim_start_matches("- ").trim_start();
    let starts_mapping = entry.split_once(':').is_some_and(|(key, rest)| {
        is_key(key) && (rest.is_empty() || rest.starts_with([' ', '\r']))
    });
    !text.starts_with("#!") && (first.trim_end() == "---" || starts_mapping)
}

/// Every scalar, and every list of words, as shell text.
pub fn pieces<'t>(lines: &Lines<'t>) -> Result<Vec<Piece<'t>>, InputError> {
    let documents = yaml::documents(lines)?;
    let mut found = Vec::new();
    for document in &documents {
        walk(lines.text(), document, "", &mut found);
    }
    Ok(found)
}

fn walk<'t>(text: &'t str, node: &Node, key: &str, found: &mut Vec<Piece<'t>>) {
    match &node.value {
        Value::Scalar(_) => found.extend(scalar(text, node, WORDS.contains(&key))),
        Value::Sequence(list) => match list.first().map(|first| &first.value) {
            Some(Value::Scalar(first)) if WORDS.contains(&key) && !first.contains(['\n', ' ']) => {
                found.extend(words(text, list));
            }
            // A list of scripts.
            _ => list.iter().for_each(|child| walk(text, child, "", found)),
        },
        Value::Mapping(members) => {
            for (key, _, child) in members {
                walk(text, child, key, found);
            }
        }
        Value::Other => {}
    }
}

/// A list of which each element is a word.
fn words<'t>(text: &'t str, list: &[Node]) -> Option<Piece<'t>> {
    let (start, end) = (list.first()?.at.start, list.last()?.at.end);
    let mut bytes = vec![b' '; end.checked_sub(start)?];
    for element in list {
        let at = trimmed(text, &element.at);
        let source = text.get(at.clone())?;
        // Quotes are the shell's too, where nothing is escaped in them.
        let is_quoted = match element.style {
            Style::DoubleQuoted => !source.contains(['\\', '$', '`']),
            Style::SingleQuoted => source.matches('\'').count() == 2,
            _ => false,
        };
        let is_plain = !source.contains([
            ' ', '\t', '\n', '"', '\'', '\\', ';', '&', '|', '<', '>', '(', ')', '#', '`', '*', '?',
        ]);
        if !is_quoted && !is_plain {
            return None;
        }
        bytes[at.start - start..at.end - start].copy_from_slice(source.as_bytes());
    }
    Some(Piece { start, text: filled(text_of(bytes)).into() })
}

/// One scalar; `None` where YAML's own escapes stand in it.
fn scalar<'t>(text: &'t str, node: &Node, is_words: bool) -> Option<Piece<'t>> {
    let at = trimmed(text, &node.at);
    let source = text.get(at.clone())?;
    let mut bytes = source.as_bytes().to_vec();
    match node.style {
        Style::DoubleQuoted | Style::SingleQuoted => {
            let inner = source.get(1..source.len().checked_sub(1)?)?;
            if inner.contains(if node.style == Style::DoubleQuoted { '\\' } else { '\'' }) {
                return None;
            }
            blank(&mut bytes[..1]);
            blank(&mut bytes[source.len() - 1..]);
        }
        // The head of a block.
        Style::Literal | Style::Folded if source.starts_with(['|', '>']) => {
            let head = source.find('\n')? + 1;
            blank(&mut bytes[..head]);
        }
        _ => {}
    }
    let content = source.len() - text_after_blanks(&bytes);
    let least = indent(line_of(text, at.start + content));
    let is_kept = |newline: usize| {
        let lines = [line_of(text, at.start + newline), line_of(text, at.start + newline + 1)];
        match node.style {
            Style::Literal => true,
            // Lines that are indented more stay apart, and blank ones do.
            Style::Folded => lines.iter().any(|line| is_blank(line) || indent(line) > least),
            _ => is_blank(lines[1]),
        }
    };
    for newline in content..source.len() {
        if bytes[newline] == b'\n' && (is_words || !is_kept(newline)) {
            bytes[newline] = b' ';
            if newline > 0 && bytes[newline - 1] == b'\r' {
                bytes[newline - 1] = b' ';
            }
        }
    }
    Some(Piece { start: at.start, text: filled(text_of(bytes)).into() })
}

/// Bytes from the first beyond the blanks to the end.
fn text_after_blanks(bytes: &[u8]) -> usize {
    bytes.trim_ascii_start().len()
}

/// The line in which a byte is, or which it ends.
fn line_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or_default()
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Without blanks at the end, which the parser counts to a plain scalar or a block.
fn trimmed(text: &str, at: &Range<usize>) -> Range<usize> {
    let source = text.get(at.clone()).unwrap_or_default();
    at.start..at.start + source.trim_end().len()
}

/// Places that a template fills, `{{ … }}` and `{% … %}`, as variables that nothing sets.
fn filled(text: String) -> String {
    if !text.contains("{{") && !text.contains("{%") {
        return text;
    }
    let mut bytes = text.clone().into_bytes();
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").into_iter().chain(text[from..].find("{%")).min()
    {
        let start = from + start;
        let close = if text[start..].starts_with("{{") { "}}" } else { "%}" };
        let Some(length) = text[start..].find(close) else { break };
        let end = start + length + 2;
        bytes[start..end].fill(b'_');
        bytes[start] = b'$';
        bytes[start + 1] = b'{';
        bytes[end - 1] = b'}';
        from = end;
    }
    text_of(bytes)
}
