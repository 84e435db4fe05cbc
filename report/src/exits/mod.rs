//! A profile of VM exits for people and programs.

mod grids;
mod text;

pub use grids::{Grouping, groups};

use capture::Origin;
use profile::Summary;
use serde::Serialize;

/// One recording's result with where it came from.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub file: String,
    pub origin: Origin,
    pub summary: Summary,
}

impl Report {
    /// For a terminal: the table of `perf kvm stat` with percentiles, and what it means.
    pub fn to_text(&self, grouping: Grouping) -> String {
        text::render(self, grouping)
    }
}
