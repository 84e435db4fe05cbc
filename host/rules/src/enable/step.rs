//! One step of a plan: what is done, what it needs and what it risks.

use crate::finding::Needs;
use reading::{Facts, boolean};
use serde::Serialize;

/// The file that holds this tool's module options, and nothing else.
pub const OPTIONS_FILE: &str = "/etc/modprobe.d/avicenna.conf";

/// One change of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Action {
    /// Give a file this content; `before` is `None` for a file that does not exist.
    Write {
        /// Absolute, as the host has it.
        path: String,
        /// The content that is expected to be there, and comes back with a rollback.
        before: Option<String>,
        /// The whole new content.
        after: String,
    },
    /// Run a program of the host, and its opposite to take it back. It writes files of its own
    /// (`keeps`; a `*` stands for any part of a name), which are restored instead as long as nobody
    /// else has written them since.
    Run {
        /// Program and arguments, without a shell.
        command: Vec<String>,
        /// Program and arguments that take it back.
        undo: Vec<String>,
        /// Absolute paths of files that the program writes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        keeps: Vec<String>,
    },
    /// Something only the operator can do.
    Tell {
        /// What to do, in a sentence.
        instruction: String,
    },
}

/// A change with what it needs and what it risks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Step {
    /// Stable within [`SCHEMA`]: what an operator names to choose or leave out a step.
    pub id: String,
    /// What it does, in a line.
    pub title: String,
    /// The row of `check` that asks for it.
    pub because: String,
    /// What is done.
    pub action: Action,
    /// What it takes until the step has effect.
    pub needs: Needs,
    /// What may go wrong, in a sentence.
    pub risk: String,
    /// Part of the plan only if asked for: it trades something else away.
    pub is_optional: bool,
}

/// A module's option as modprobe has to give it once the plan is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Expected {
    /// With underscores, as the kernel has it.
    pub module: String,
    /// Name of the parameter.
    pub option: String,
    /// As it stands behind the `=`.
    pub value: String,
}

impl Expected {
    /// What the host's files give instead, and where; `None` if they give this.
    pub fn contradicted(&self, facts: &Facts) -> Option<(String, String)> {
        let found = crate::configuration::given::by_modprobe(facts, &self.module, &self.option);
        match found {
            Some((value, _)) if boolean(&value) == boolean(&self.value) => None,
            Some(other) => Some(other),
            None => Some(("nothing".into(), "/etc/modprobe.d".into())),
        }
    }
}
