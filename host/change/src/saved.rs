//! A file as it was: enough to make it so again.

use crate::attributes::Attributes;
use serde::{Deserialize, Serialize};

/// A file as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// All of its content.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
    /// Number of the owner.
    pub user: u32,
    /// Number of the group.
    pub group: u32,
    /// Access control lists, labels and others.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}
