//! One file of a directory, and what may be wrong with it.

use std::fs::File;

pub const DAMAGED: &str = "a damaged record: the rest is left out";
pub const PARTIAL: &str = "the last record breaks off";

/// A file and where its records are.
#[derive(Debug)]
pub struct Part {
    pub name: String,
    pub file: File,
    pub start: u64,
    pub end: u64,
}
