//! What is wrong in configurations, in every form.

mod diff;
mod github;
mod json;
mod sarif;
mod text;

pub use diff::unified;
pub use github::github;
pub use json::{json, json_lines};
pub use sarif::sarif;
pub use text::text;

use crate::layout::Look;
use rules::configuration::Kind;
use rules::lint::{Report, Target, rules as catalogue};

/// Version of the published form of what was found: docs/schema/lint-1.json.
pub const SCHEMA: u32 = 1;

/// One input with its judgement, or why it has none.
#[derive(Debug)]
pub struct Judged {
    /// As the user named it; inside a host ARCHIVE:/PATH.
    pub name: String,
    /// What was judged; empty where it could not be read.
    pub text: String,
    /// Whether `--fix` may write there.
    pub can_be_repaired: bool,
    /// What it was judged for.
    pub target: Target,
    /// What was found, or why nothing could be.
    pub outcome: Result<Judgement, String>,
}

/// What was found in an input.
#[derive(Debug)]
pub struct Judgement {
    /// The language of the input.
    pub kind: Kind,
    /// Virtual machines that it describes.
    pub machines: usize,
    /// What is wrong.
    pub report: Report,
}

/// All rules, a line each.
pub fn list(look: Look) -> String {
    catalogue::all()
        .map(|rule| {
            let vendors = match rule.vendors {
                [one] => one.name(),
                _ => "both",
            };
            let head = format!("{} {:<8} {vendors:<6}", rule.id, rule.severity.to_string());
            look.hanging(&head, 22, &format!("{} ({})", rule.summary, rule.name))
        })
        .collect()
}
