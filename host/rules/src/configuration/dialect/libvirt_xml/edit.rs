//! Edits of libvirt's domain XML.

use super::document::{Part, attribute, child, path};
use crate::configuration::change::MachineChange;
use crate::configuration::dialect::MachineText;
use crate::configuration::edit::{Edit, indentation, insert, replace};
use roxmltree::{Node, NodeId};

/// The domains of an input's documents.
#[derive(Debug)]
pub struct Domains<'t> {
    pub text: &'t str,
    pub parts: Vec<Part<'t>>,
    /// Of each domain, which document, and which of its nodes.
    pub places: Vec<(usize, NodeId)>,
}

impl MachineText for Domains<'_> {
    fn edits(&self, machine: usize, change: &MachineChange) -> Option<Vec<Edit>> {
        let (index, node) = *self.places.get(machine)?;
        let part = self.parts.get(index)?;
        let text = self.text.get(part.start..)?;
        let edits = edits(text, part.document.get_node(node)?, change)?;
        let shift = |edit: Edit| Edit {
            start: edit.start + part.start,
            end: edit.end + part.start,
            ..edit
        };
        Some(edits.into_iter().map(shift).collect())
    }
}

fn edits(text: &str, domain: Node<'_, '_>, change: &MachineChange) -> Option<Vec<Edit>> {
    match change {
        MachineChange::DiscardPitTicks => {
            let timer = child(domain, "clock").and_then(|clock| {
                clock.children().find(|node| {
                    node.has_tag_name("timer")
                        && attribute(*node, "name").is_some_and(|n| n.value() == "pit")
                })
            });
            match timer {
                Some(timer) => set_attribute(text, timer, "tickpolicy", "discard"),
                None => {
                    let timer = "<timer name='pit' tickpolicy='discard'/>";
                    match child(domain, "clock") {
                        Some(clock) => add_child(text, clock, timer),
                        None => {
                            // Without a clock libvirt's is this one.
                            add_child_as(text, domain, &["<clock offset='utc'>", timer, "</clock>"])
                        }
                    }
                }
            }
        }
        MachineChange::SplitIrqchip => match path(domain, &["features", "ioapic"]) {
            Some(ioapic) => set_attribute(text, ioapic, "driver", "qemu"),
            None => in_features(text, domain, &["<ioapic driver='qemu'/>"]),
        },
        MachineChange::HyperV(name, on) => {
            let name = name.replace('-', "_");
            let state = if *on { "on" } else { "off" };
            let element = format!("<{name} state='{state}'/>");
            match path(domain, &["features", "hyperv"]) {
                Some(hyperv) => match child(hyperv, &name) {
                    Some(flag) => set_attribute(text, flag, "state", state),
                    None => add_child(text, hyperv, &element),
                },
                None => in_features(text, domain, &["<hyperv>", &element, "</hyperv>"]),
            }
        }
        MachineChange::CpuFeature(name, on) => {
            let policy = if *on { "require" } else { "disable" };
            let cpu = child(domain, "cpu")?;
            let feature = cpu.children().find(|node| {
                node.has_tag_name("feature")
                    && attribute(*node, "name").is_some_and(|n| n.value() == *name)
            });
            match feature {
                Some(feature) => set_attribute(text, feature, "policy", policy),
                None => {
                    add_child(text, cpu, &format!("<feature policy='{policy}' name='{name}'/>"))
                }
            }
        }
        MachineChange::Viommu(key) => {
            let iommu = path(domain, &["devices", "iommu"])?;
            match child(iommu, "driver") {
                Some(driver) => set_attribute(text, driver, key, "on"),
                None => add_child(text, iommu, &format!("<driver {key}='on'/>")),
            }
        }
        // What `<qemu:commandline>` adds is not edited.
        MachineChange::RemovePair(_) => None,
    }
}

/// Adds to `<features>`, which comes behind `<os>` where there is none yet.
fn in_features(text: &str, domain: Node<'_, '_>, children: &[&str]) -> Option<Vec<Edit>> {
    match child(domain, "features") {
        Some(features) => add_child_as(text, features, children),
        None => {
            let mut lines = vec!["<features>"];
            lines.extend(children);
            lines.push("</features>");
            let os = child(domain, "os")?;
            let indent = indentation(text, os.range().start);
            Some(insert(os.range().end, laid_out(text, &lines, indent, os.range().start)))
        }
    }
}

fn set_attribute(text: &str, node: Node<'_, '_>, name: &str, value: &str) -> Option<Vec<Edit>> {
    if let Some(attribute) = attribute(node, name) {
        let range = attribute.range_value();
        return Some(replace(range.start, range.end, value));
    }
    let quote = node
        .attributes()
        .next()
        .map_or("'", |attribute| if text[attribute.range()].ends_with('"') { "\"" } else { "'" });
    let end = match node.attributes().next_back() {
        Some(attribute) => attribute.range().end,
        None => node.range().start + 1 + node.tag_name().name().len(),
    };
    Some(insert(end, format!(" {name}={quote}{value}{quote}")))
}

fn add_child(text: &str, parent: Node<'_, '_>, element: &str) -> Option<Vec<Edit>> {
    add_child_as(text, parent, &[element])
}

/// Adds a child at the end of its parent, on lines of its own where the parent's other children
/// are.
fn add_child_as(text: &str, parent: Node<'_, '_>, lines: &[&str]) -> Option<Vec<Edit>> {
    let range = parent.range();
    let source = text.get(range.clone())?;
    let indent = indentation(text, range.start).to_owned();
    let last = parent.children().rfind(Node::is_element);
    if let Some(last) = last {
        let start = last.range().start;
        let indent = indentation(text, start).to_owned();
        return Some(insert(last.range().end, laid_out(text, lines, &indent, start)));
    }
    let name = parent.tag_name().name();
    if let Some(open) = source.strip_suffix("/>") {
        let inner = laid_out(text, lines, &format!("{indent}  "), range.start);
        let close = if inner.starts_with('\n') {
            format!("\n{indent}</{name}>")
        } else {
            format!("</{name}>")
        };
        let end = range.start + open.trim_end().len();
        return Some(replace(end, range.end, format!(">{inner}{close}")));
    }
    // <name …> … </name> without elements inside.
    let tag_end = range.start + source.find('>')? + 1;
    Some(insert(tag_end, laid_out(text, lines, &format!("{indent}  "), range.start)))
}

/// Lines as they follow a line's end, or all on one line where the neighbour at `start` shares its
/// line.
fn laid_out(text: &str, lines: &[&str], indent: &str, start: usize) -> String {
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let is_alone = text[line_start..start].trim().is_empty() && text.contains('\n');
    if !is_alone {
        return lines.concat();
    }
    let mut depth = 0usize;
    let mut out = String::new();
    for line in lines {
        if line.starts_with("</") {
            depth = depth.saturating_sub(1);
        }
        out.push('\n');
        out.push_str(indent);
        out.push_str(&"  ".repeat(depth));
        out.push_str(line);
        if !line.starts_with("</") && !line.ends_with("/>") {
            depth += 1;
        }
    }
    out
}
