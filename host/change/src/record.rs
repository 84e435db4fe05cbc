//! What was done to a host: enough to take it back.

use crate::saved::Saved;
use serde::{Deserialize, Serialize};

/// Version of the record's form.
pub const SCHEMA: u32 = 1;

/// One change that was made, with what it takes to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Done {
    /// `before` is `None` for a file that did not exist.
    Write {
        /// As the host has it.
        path: String,
        /// The file with its mode and owner.
        before: Option<Saved>,
        /// The content that was written.
        after: String,
    },
    /// `kept` are the files that the program has written.
    Run {
        /// Program and arguments that were run.
        command: Vec<String>,
        /// Program and arguments that take it back.
        undo: Vec<String>,
        /// Files that the program has written, which are restored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Kept>,
    },
}

/// A file that a program has written, before and after; `None` where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// As the host has it.
    pub path: String,
    /// The file before the program ran.
    pub before: Option<Saved>,
    /// The file after it ran; if it is another by now, it is not restored.
    pub after: Option<Saved>,
}

/// Everything that one run of `enable` changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// From one, in the order of the runs; names the file.
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// In the order in which it was done.
    pub done: Vec<Done>,
    /// All of it was taken back.
    pub is_rolled_back: bool,
    /// What the operator should know of it, such as hard links that were parted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
}

impl Record {
    /// Of changes that are still to be made.
    pub fn new(number: u64, time: u64) -> Record {
        Record { schema: SCHEMA, number, time, done: vec![], is_rolled_back: false, told: vec![] }
    }
}
