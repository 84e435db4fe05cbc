//! Edits of KubeVirt manifests.

use super::{Change, Edit, Lines, indentation, insert, replace};
use crate::configuration::yaml::{Node, Value, documents};
use crate::vm::VmConfiguration;
use std::collections::BTreeMap;
use std::ops::Range;

/// The machine specifications of one input, by where they start.
pub struct Manifests {
    specifications: BTreeMap<usize, Node>,
}

impl Manifests {
    pub fn read(lines: &Lines<'_>) -> Option<Self> {
        let mut specifications = BTreeMap::new();
        for document in documents(lines).ok()? {
            collect(document, &mut specifications);
        }
        Some(Self { specifications })
    }

    pub fn edits(&self, text: &str, vm: &VmConfiguration, change: &Change) -> Option<Vec<Edit>> {
        edits(text, self.specifications.get(&vm.span.start)?.get("domain")?, change)
    }
}

fn edits(text: &str, domain: &Node, change: &Change) -> Option<Vec<Edit>> {
    match change {
        Change::DiscardPitTicks => {
            set(text, domain, &["clock", "timer", "pit", "tickPolicy"], "discard")
        }
        Change::HyperV("evmcs", false) => {
            set(text, domain, &["features", "hyperv", "evmcs", "enabled"], "false")
        }
        Change::HyperV("vpindex", true) => {
            set(text, domain, &["features", "hyperv", "vpindex"], "{}")
        }
        _ => None,
    }
}

/// Takes the mappings that have a domain out of a document.
fn collect(node: Node, found: &mut BTreeMap<usize, Node>) {
    if node.get("domain").is_some() {
        found.insert(node.at.start, node);
        return;
    }
    match node.value {
        Value::Sequence(list) => list.into_iter().for_each(|child| collect(child, found)),
        Value::Mapping(members) => {
            members.into_iter().for_each(|(.., child)| collect(child, found))
        }
        Value::Scalar(_) | Value::Other => {}
    }
}

/// Sets a scalar, making the mappings on the way to it.
fn set(text: &str, domain: &Node, keys: &[&str], value: &str) -> Option<Vec<Edit>> {
    let mut node = domain;
    for (depth, key) in keys.iter().enumerate() {
        let Some((key_at, next)) = node.entry(key) else {
            return add(text, node, &keys[depth..], value);
        };
        let is_last = depth + 1 == keys.len();
        match &next.value {
            Value::Scalar(_) if is_last => return Some(replace(next.at.start, next.at.end, value)),
            Value::Mapping(members) if members.is_empty() => {
                // `pit: {}`
                let inner = flow(&keys[depth + 1..], value);
                return (!is_last).then(|| replace(next.at.start, next.at.end, inner));
            }
            Value::Mapping(_) if !is_last => node = next,
            // `pit:` with nothing behind it.
            Value::Scalar(text) if text.is_empty() || text == "~" || text == "null" => {
                let inner = format!(" {}", flow(&keys[depth + 1..], value));
                let end = key_at.end + 1;
                return Some(replace(end, next.at.end.max(end), inner));
            }
            _ => return None,
        }
    }
    None
}

/// `{a: {b: value}}`
fn flow(keys: &[&str], value: &str) -> String {
    keys.iter().rev().fold(value.to_owned(), |inner, key| format!("{{{key}: {inner}}}"))
}

/// Adds keys to a mapping: in block style before its first key, in flow style behind its brace.
fn add(text: &str, mapping: &Node, keys: &[&str], value: &str) -> Option<Vec<Edit>> {
    let Value::Mapping(members) = &mapping.value else { return None };
    let (_, first, _): &(String, Range<usize>, Node) = members.first()?;
    if text.get(mapping.at.start..)?.starts_with('{') {
        let (key, rest) = keys.split_first()?;
        let inner = if rest.is_empty() { value.to_owned() } else { flow(rest, value) };
        return Some(insert(mapping.at.start + 1, format!("{key}: {inner}, ")));
    }
    let line_start = text[..first.start].rfind('\n').map_or(0, |newline| newline + 1);
    let lead = &text[line_start..first.start];
    // `- key:` counts its dash as indentation.
    let indent = if lead.trim().is_empty() {
        indentation(text, first.start).to_owned()
    } else {
        " ".repeat(lead.chars().count())
    };
    let mut lines = String::new();
    for (depth, key) in keys.iter().enumerate() {
        let deeper = "  ".repeat(depth);
        let end = if depth + 1 == keys.len() { format!(" {value}") } else { String::new() };
        let indent = if depth == 0 { "" } else { indent.as_str() };
        lines.push_str(&format!("{indent}{deeper}{key}:{end}\n"));
    }
    Some(insert(first.start, format!("{lines}{indent}")))
}
