//! What a scenario claims, and whether it holds.

use std::fmt::Display;

/// Counted; what does not hold is said at once.
#[derive(Debug, Default)]
pub(super) struct Checks {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
}

impl Checks {
    pub(super) fn hold(&mut self, what: impl Display, holds: bool) {
        if holds {
            self.passed += 1;
            println!("ok: {what}");
        } else {
            self.failed += 1;
            println!("FAILED: {what}");
        }
    }

    /// A claim with its own account of what is wrong.
    pub(super) fn succeed(&mut self, what: impl Display, result: anyhow::Result<()>) {
        match result {
            Ok(()) => self.hold(what, true),
            Err(why) => self.hold(format!("{what}: {why:#}"), false),
        }
    }

    /// What was not tried, and why.
    pub(super) fn skip(&mut self, why: &str) {
        self.skipped.push(why.to_owned());
    }

    /// As a tally takes them.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let skipped = self.skipped.iter().map(|why| format!("{name}: skipped: {why}"));
        let (passed, failed) = (self.passed, self.failed);
        skipped.chain([format!("{name}: {passed} passed, {failed} failed")]).collect()
    }
}
