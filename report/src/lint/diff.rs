//! What --fix would change, as a unified diff.

use crate::layout::{Colour, Look};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// After so long a diff of much that has changed is no longer the shortest.
const PATIENCE: Duration = Duration::from_secs(2);

/// The change of a text.
pub fn unified(name: &str, before: &str, after: &str, look: Look) -> String {
    if before == after {
        return String::new();
    }
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut out = format!("--- {name}\n+++ {name}\n");
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        out.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            let (sign, colour) = match change.tag() {
                ChangeTag::Delete => ("-", Some(Colour::Red)),
                ChangeTag::Insert => ("+", Some(Colour::Green)),
                ChangeTag::Equal => (" ", None),
            };
            let line = format!("{sign}{}", change.value().trim_end_matches('\n'));
            out.push_str(&colour.map_or(line.clone(), |colour| look.paint(colour, &line)));
            out.push('\n');
            if change.missing_newline() {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_one_that_patch_takes() {
        let diff = unified("a", "x\ny\n", "x\nz", Look::PLAIN);
        let expected = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\\ No newline at end of file\n";
        assert_eq!(diff, expected);
        assert_eq!(unified("a", "x", "x", Look::PLAIN), "");
    }
}
