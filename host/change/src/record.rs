//! What was done to a host: enough to take it back.

use crate::file::Saved;
use serde::{Deserialize, Serialize};

/// Version of the record's form.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Done {
    /// `before` is `None` for a file that did not exist.
    Write { path: String, before: Option<Saved>, after: String },
    /// `kept` are the files that the program has written.
    Run {
        command: Vec<String>,
        undo: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Kept>,
    },
}

/// A file that a program has written, before and after; `None` where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub path: String,
    pub before: Option<Saved>,
    pub after: Option<Saved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u32,
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    pub done: Vec<Done>,
    pub is_rolled_back: bool,
}

impl Record {
    pub fn new(number: u64, time: u64) -> Record {
        Record { schema: SCHEMA, number, time, done: vec![], is_rolled_back: false }
    }
}
