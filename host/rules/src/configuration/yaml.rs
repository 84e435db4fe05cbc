//! YAML as a tree whose scalars and mappings know their place. Aliases are not followed.

use super::input::InputError;
use crate::finding::Position;
use crate::position::Lines;
pub use saphyr_parser::ScalarStyle as Style;
use saphyr_parser::{Event, Parser, Span};
use std::ops::Range;

/// Bytes of one YAML input.
pub const MAX_BYTES: usize = 4 << 20;
const MAX_NODES: usize = 200_000;
const MAX_DEPTH: usize = 100;

/// A value with its source range.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    /// How a scalar is written; plain for all else.
    pub style: Style,
    pub at: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Value {
    Scalar(String),
    Sequence(Vec<Node>),
    /// Keys with their places and values, in order.
    Mapping(Vec<(String, Range<usize>, Node)>),
    /// An alias or a key that is not a scalar.
    Other,
}

impl Node {
    fn unwritten(value: Value, at: Range<usize>) -> Self {
        Self { value, style: Style::Plain, at }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// A member with the place of its key.
    pub fn entry(&self, key: &str) -> Option<(&Range<usize>, &Node)> {
        let Value::Mapping(members) = &self.value else { return None };
        members.iter().find(|(name, ..)| name == key).map(|(_, at, node)| (at, node))
    }

    pub fn path(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_true(&self) -> bool {
        self.text() == Some("true")
    }

    pub fn children(&self) -> Vec<&Node> {
        match &self.value {
            Value::Sequence(list) => list.iter().collect(),
            Value::Mapping(members) => members.iter().map(|(.., node)| node).collect(),
            Value::Scalar(_) | Value::Other => Vec::new(),
        }
    }
}

/// Parses all documents of a text.
pub fn documents(lines: &Lines<'_>) -> Result<Vec<Node>, InputError> {
    let text = lines.text();
    if text.len() > MAX_BYTES {
        let message = format!("more than {MAX_BYTES} bytes of YAML");
        return Err(InputError::at(Position::default(), message));
    }
    // The parser counts characters; positions here are bytes.
    let offsets: Vec<usize> =
        if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
    let byte = |index: usize| match offsets.get(index) {
        Some(&offset) => offset,
        None if offsets.is_empty() => index.min(text.len()),
        None => text.len(),
    };
    let mut builder = Builder { stack: Vec::new(), documents: Vec::new(), nodes: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = byte(error.marker().index());
            InputError::at(lines.position(at, at), format!("not YAML: {}", error.info()))
        })?;
        let Span { start, end } = span;
        let at = byte(start.index())..byte(end.index());
        builder
            .take(event, at)
            .map_err(|(at, message)| InputError::at(lines.position(at.start, at.end), message))?;
    }
    Ok(builder.documents)
}

enum Open {
    Sequence(usize, Vec<Node>),
    Mapping(usize, Vec<(String, Range<usize>, Node)>, Option<(String, Range<usize>)>),
}

struct Builder {
    stack: Vec<Open>,
    documents: Vec<Node>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Range<usize>) -> Result<(), (Range<usize>, String)> {
        match event {
            Event::Scalar(text, style, ..) => {
                let value = Value::Scalar(text.into_owned());
                self.place(Node { value, style, at: at.clone() });
            }
            Event::Alias(_) => self.place(Node::unwritten(Value::Other, at.clone())),
            Event::SequenceStart(..) => self.stack.push(Open::Sequence(at.start, Vec::new())),
            Event::MappingStart(..) => self.stack.push(Open::Mapping(at.start, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open::Sequence(start, list)) => {
                    self.place(Node::unwritten(Value::Sequence(list), start..at.end));
                }
                Some(Open::Mapping(start, members, _)) => {
                    self.place(Node::unwritten(Value::Mapping(members), start..at.end));
                }
                None => {}
            },
            _ => {}
        }
        if self.stack.len() > MAX_DEPTH {
            return Err((at, format!("nested deeper than {MAX_DEPTH}")));
        }
        if self.nodes > MAX_NODES {
            return Err((at, format!("more than {MAX_NODES} values")));
        }
        Ok(())
    }

    fn place(&mut self, node: Node) {
        self.nodes += 1;
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Open::Sequence(_, list)) => list.push(node),
            Some(Open::Mapping(_, members, key)) => match key.take() {
                Some((name, at)) => members.push((name, at, node)),
                None => {
                    let name = node.text().unwrap_or_default().to_owned();
                    *key = Some((name, node.at));
                }
            },
        }
    }
}
