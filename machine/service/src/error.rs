//! Why a request is not done.

use serde_json::{Value, json};

/// What kind of refusal it is, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The client speaks another version.
    Version,
    /// It is not a request, or one with wrong fields.
    Request,
    /// A number is too large, or too much is kept already.
    Limit,
    /// No such mark.
    Mark,
    /// No such processor.
    Processor,
    /// No RAM is there.
    Memory,
    /// No such register, or it cannot have that value.
    Register,
    /// There is nothing to see.
    Absent,
    /// The machine has ended.
    Ended,
    /// The file cannot be written.
    Snapshot,
}

impl Code {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Request => "request",
            Self::Limit => "limit",
            Self::Mark => "mark",
            Self::Processor => "processor",
            Self::Memory => "memory",
            Self::Register => "register",
            Self::Absent => "absent",
            Self::Ended => "ended",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A request that is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Its kind.
    pub code: Code,
    /// What is wrong, with the value and what would be right.
    pub message: String,
}

impl Refusal {
    /// With these words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// As a reply.
    pub fn reply(&self) -> Value {
        json!({ "error": { "code": self.code.word(), "message": self.message } })
    }
}
