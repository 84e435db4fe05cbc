//! Edits of KubeVirt manifests.

use crate::configuration::change::MachineChange;
use crate::configuration::dialect::MachineText;
use crate::configuration::edit::{Edit, applied, indentation, insert, replace};
use crate::configuration::yaml::{Node, Value, documents};
use crate::position::Lines;
use std::collections::BTreeMap;
use std::ops::Range;

/// The documents of one input.
#[derive(Debug)]
pub struct Manifests<'t> {
    pub text: &'t str,
    pub documents: Vec<Node>,
    /// Of each machine's specification: which document, and which child at each level.
    pub places: Vec<Vec<usize>>,
}

impl MachineText for Manifests<'_> {
    /// Edits after which the text, read again, differs in the one value that was meant.
    fn edits(&self, machine: usize, change: &MachineChange) -> Option<Vec<Edit>> {
        let (document, path) = self.places.get(machine)?.split_first()?;
        let document = self.documents.get(*document)?;
        let specification =
            path.iter().try_fold(document, |node, child| node.children().get(*child).copied())?;
        let style = Style::of(self.text);
        let edits = edits(self.text, style, specification.get("domain")?, change)?;
        let changed = applied(self.text, &edits.iter().collect::<Vec<_>>());
        is_as_meant(self.text, &changed, style).then_some(edits)
    }
}

fn edits(text: &str, style: Style, domain: &Node, change: &MachineChange) -> Option<Vec<Edit>> {
    match change {
        MachineChange::DiscardPitTicks => {
            set(text, style, domain, &["clock", "timer", "pit", "tickPolicy"], "discard")
        }
        MachineChange::HyperV("evmcs", false) => {
            set(text, style, domain, &["features", "hyperv", "evmcs", "enabled"], "false")
        }
        MachineChange::HyperV("vpindex", true) => {
            set(text, style, domain, &["features", "hyperv", "vpindex"], "{}")
        }
        MachineChange::SplitIrqchip
        | MachineChange::HyperV(..)
        | MachineChange::CpuFeature(..)
        | MachineChange::Viommu(_)
        | MachineChange::RemovePair(_) => None,
    }
}

/// How keys and values are written.
#[derive(Clone, Copy)]
struct Style {
    /// JSON, which a reader of YAML takes as well, wants quotes around every text.
    is_json: bool,
    line_end: &'static str,
}

impl Style {
    fn of(text: &str) -> Self {
        let is_json = text.trim_start().starts_with(['{', '[']) && is_json(text);
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { is_json, line_end }
    }

    fn scalar(self, value: &str) -> String {
        let is_plain = matches!(value, "true" | "false" | "{}") || !self.is_json;
        if is_plain { value.to_owned() } else { format!("\"{value}\"") }
    }

    fn key(self, key: &str) -> String {
        if self.is_json { format!("\"{key}\"") } else { key.to_owned() }
    }

    /// `{a: {b: value}}`
    fn flow(self, keys: &[&str], value: &str) -> String {
        let last = self.scalar(value);
        keys.iter().rev().fold(last, |inner, key| format!("{{{}: {inner}}}", self.key(key)))
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The strict reader takes it, and all values are what they were but for one.
fn is_as_meant(before: &str, after: &str, style: Style) -> bool {
    if style.is_json && !is_json(after) {
        return false;
    }
    let leaves = |text: &str| -> Option<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for (index, document) in documents(&Lines::new(text)).ok()?.iter().enumerate() {
            flatten(document, format!("{index}"), &mut found)?;
        }
        Some(found)
    };
    let (Some(before), Some(after)) = (leaves(before), leaves(after)) else { return false };
    let gone = before.iter().filter(|(path, value)| after.get(*path) != Some(*value)).count();
    let come = after.iter().filter(|(path, value)| before.get(*path) != Some(*value)).count();
    gone <= 1 && come == 1
}

/// Every value by its path; `None` where one stands for several (an alias), or a key is twice.
fn flatten(node: &Node, path: String, found: &mut BTreeMap<String, String>) -> Option<()> {
    let leaf = match &node.value {
        Value::Scalar(text) => text.clone(),
        Value::Sequence(list) if !list.is_empty() => {
            let mut all = list.iter().enumerate();
            return all
                .try_for_each(|(index, child)| flatten(child, format!("{path}/{index}"), found));
        }
        Value::Mapping(members) if !members.is_empty() => {
            let mut all = members.iter();
            return all
                .try_for_each(|(key, _, child)| flatten(child, format!("{path}/{key}"), found));
        }
        Value::Sequence(_) => "[]".to_owned(),
        Value::Mapping(_) => "{}".to_owned(),
        Value::Other => return None,
    };
    found.insert(path, leaf).is_none().then_some(())
}

/// Sets a scalar, making the mappings on the way to it.
fn set(text: &str, style: Style, domain: &Node, keys: &[&str], value: &str) -> Option<Vec<Edit>> {
    let mut node = domain;
    for (depth, key) in keys.iter().enumerate() {
        let Some((key_at, next)) = node.entry(key) else {
            return add(text, style, node, &keys[depth..], value);
        };
        let is_last = depth + 1 == keys.len();
        match &next.value {
            Value::Scalar(_) if is_last => {
                return Some(replace(next.at.start, next.at.end, style.scalar(value)));
            }
            Value::Mapping(members) if members.is_empty() => {
                // `pit: {}`; what follows on the line, such as a comment, stays.
                let inner = style.flow(&keys[depth + 1..], value);
                let rest = text.get(next.at.start..)?.strip_prefix('{');
                let closes = rest.filter(|rest| rest.trim_start().starts_with('}'));
                let end = closes.and_then(|rest| Some(next.at.start + rest.find('}')? + 2));
                let end = end.unwrap_or(next.at.end);
                return (!is_last).then(|| replace(next.at.start, end, inner));
            }
            Value::Mapping(_) if !is_last => node = next,
            // `pit:` with nothing behind it but a comment; `pit: null`.
            Value::Scalar(written) if matches!(written.as_str(), "" | "~" | "null") => {
                let inner = style.flow(&keys[depth + 1..], value);
                if text.get(next.at.clone()).is_none_or(|source| source.trim().is_empty()) {
                    let colon = key_at.end + text.get(key_at.end..)?.find(':')? + 1;
                    return Some(insert(colon, format!(" {inner}")));
                }
                return Some(replace(next.at.start, next.at.end, inner));
            }
            _ => return None,
        }
    }
    None
}

/// Adds keys to a mapping: in block style before its first key, in flow style behind its brace.
fn add(text: &str, style: Style, mapping: &Node, keys: &[&str], value: &str) -> Option<Vec<Edit>> {
    let Value::Mapping(members) = &mapping.value else { return None };
    let (_, first, _): &(String, Range<usize>, Node) = members.first()?;
    if text.get(mapping.at.start..)?.starts_with('{') {
        let (key, rest) = keys.split_first()?;
        let inner = style.flow(rest, value);
        return Some(insert(mapping.at.start + 1, format!("{}: {inner}, ", style.key(key))));
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
        lines.push_str(&format!("{indent}{deeper}{key}:{end}{}", style.line_end));
    }
    Some(insert(first.start, format!("{lines}{indent}")))
}
