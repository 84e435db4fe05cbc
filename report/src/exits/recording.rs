//! What there is to report of one recording.

use capture::Origin;
use profile::Summary;
use serde::Serialize;

/// One recording's result with where it came from.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Name of the file, as the user gave it.
    pub file: String,
    /// What kind of recording it was and what it lacks.
    pub origin: Origin,
    /// Every figure of it.
    pub summary: Summary,
}
