//! The documents of an input, parsed within bounds, and ways into them.

use crate::configuration::input::InputError;
use crate::finding::Position;
use crate::position::Lines;
use roxmltree::{Attribute, Document, Node, ParsingOptions};

/// Nodes of one document; libvirt's largest domains have a few thousand.
const MAX_NODES: u32 = 1_000_000;
/// Most attributes of one element: the parser compares each with each.
const MAX_ATTRIBUTES: usize = 1000;
/// Most documents of one input, and how much of it is parsed at first to find the end of one.
const MAX_DOCUMENTS: usize = 10_000;
const WINDOW: usize = 8 << 10;

/// One document of an input, and where it starts: its own offsets count from there.
#[derive(Debug)]
pub struct Part<'t> {
    pub document: Document<'t>,
    pub start: usize,
}

/// Parses XML within bounds: one document, or several one behind the other, as virt-install prints
/// an installation in two steps and `virsh dumpxml` in a loop.
pub fn documents<'t>(lines: &Lines<'t>) -> Result<Vec<Part<'t>>, InputError> {
    if has_many_attributes(lines.text()) {
        let why = format!("an element has more than {MAX_ATTRIBUTES} attributes");
        return Err(InputError::whole(why));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    while parts.is_empty() || !lines.text()[start..].trim().is_empty() {
        if parts.len() == MAX_DOCUMENTS {
            return Err(InputError::whole(format!("more than {MAX_DOCUMENTS} documents")));
        }
        let (document, length) = first(&lines.text()[start..]).map_err(|error| {
            let at = error.pos();
            let line = lines.position(start, start).line + at.row - 1;
            let position = Position { line, column: at.col, start: 0, end: 0 };
            InputError::at(position, format!("not well-formed XML: {error}"))
        })?;
        parts.push(Part { document, start });
        start += length;
    }
    Ok(parts)
}

/// Whether a tag may have more attributes than are read: comments and the like have none.
fn has_many_attributes(text: &str) -> bool {
    let tags = text.split('<').skip(1).filter(|tag| !tag.starts_with(['!', '?']));
    tags.map(|tag| tag.find('>').map_or(tag, |end| &tag[..end]))
        .any(|tag| tag.bytes().filter(|byte| *byte == b'=').count() > MAX_ATTRIBUTES)
}

/// The first document of a text and its length. A parser stops at what follows a root element, so
/// that what was before it may be a document; looking at a part of the text first keeps many
/// documents from costing their square.
fn first(text: &str) -> Result<(Document<'_>, usize), roxmltree::Error> {
    let mut length = WINDOW;
    loop {
        length = length.min(text.len());
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let window = &text[..length];
        let error = match parse(window) {
            Ok(document) => return Ok((document, length)),
            Err(error) => error,
        };
        let end = offset_of(window, error.pos());
        if end > 0
            && window[end..].starts_with('<')
            && let Ok(document) = parse(&window[..end])
        {
            return Ok((document, end));
        }
        if length == text.len() {
            return Err(error);
        }
        length *= 2;
    }
}

fn parse(text: &str) -> Result<Document<'_>, roxmltree::Error> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..Default::default() };
    Document::parse_with_options(text, options)
}

/// Byte offset of a line and a column that count from one.
fn offset_of(text: &str, at: roxmltree::TextPos) -> usize {
    let (row, column) = (at.row as usize, at.col as usize);
    let before: usize = text.split_inclusive('\n').take(row.saturating_sub(1)).map(str::len).sum();
    let line = &text[before..];
    let within = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    before + within
}

/// The domains of a document: not the `<domain>` elements of capabilities and networks.
pub fn domains<'a, 'i>(document: &'a Document<'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    const PARTS: [&str; 5] = ["name", "memory", "vcpu", "os", "devices"];
    document.descendants().filter(|node| {
        node.has_tag_name("domain")
            && (*node == document.root_element()
                || PARTS.iter().any(|name| child(*node, name).is_some()))
    })
}

/// First child element of a name.
pub fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.is_element() && child.tag_name().name() == name)
}

/// Descends through children of the given names.
pub fn path<'a, 'i>(node: Node<'a, 'i>, names: &[&str]) -> Option<Node<'a, 'i>> {
    names.iter().try_fold(node, |node, name| child(node, name))
}

/// An attribute without regard to namespaces.
pub fn attribute<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Attribute<'a, 'i>> {
    node.attributes().find(|attribute| attribute.name() == name)
}
