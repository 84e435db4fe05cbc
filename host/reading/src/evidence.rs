//! What was read, as answers cite it.

use serde::{Deserialize, Serialize};

/// A range of an input: lines and columns count from one, columns in characters; bytes from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// First byte of the range.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// One thing that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What it is: "module parameter avic".
    pub what: String,
    /// Where it was read: a path, a CPUID leaf, a register.
    #[serde(rename = "where")]
    pub place: String,
    /// The range inside `place`, for configuration text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The value as read, or why it could not be.
    pub value: String,
}

impl Evidence {
    /// Evidence without a range inside its place.
    pub fn new(
        what: impl Into<String>,
        place: impl Into<String>,
        value: impl Into<String>,
    ) -> Evidence {
        Evidence { what: what.into(), place: place.into(), position: None, value: value.into() }
    }

    /// The same with the range inside its place.
    pub fn at(mut self, position: Position) -> Evidence {
        self.position = Some(position);
        self
    }
}
