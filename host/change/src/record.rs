//! What was done to a host: enough to take it back.

use crate::file::Saved;
use serde::{Deserialize, Serialize};

/// Version of the record's form.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Done {
    /// `before` is `None` for a file that did not exist.
    Write {
        path: String,
        before: Option<Saved>,
        after: String,
    },
    Run {
        command: Vec<String>,
        undo: Vec<String>,
    },
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
