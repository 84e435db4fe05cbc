//! What a run of tests comes to: how many passed, and what was not tried and why. A test that skips
//! is not one that passed.

use std::collections::BTreeMap;

/// How a line begins that says that something was not tried.
const SKIPPED: &str = "skipped:";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    failed: u64,
    /// Reasons, with how often each was given.
    skipped: BTreeMap<String, u64>,
    /// What a run must have tried to count as one.
    missing: Vec<String>,
}

impl Tally {
    /// Takes a line that cargo's tests or scenarios print.
    pub fn take(&mut self, line: &str) {
        let line = line.trim();
        if let Some(at) = line.find(SKIPPED) {
            // `description: skipped: reason` and `skipped: reason`.
            let reason = line[at + SKIPPED.len()..].trim();
            *self.skipped.entry(reason.to_owned()).or_default() += 1;
        } else if line.starts_with("test result:") || line.ends_with("failed") {
            self.passed += number_before(line, "passed");
            self.failed += number_before(line, "failed");
            let ignored = number_before(line, "ignored");
            if ignored > 0 {
                *self.skipped.entry("ignored by the test itself".into()).or_default() += ignored;
            }
        }
    }

    /// Something without which a run does not count.
    pub fn miss(&mut self, what: &str) {
        self.missing.push(what.to_owned());
    }

    pub fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.missing.push(format!("{what} failed"));
    }

    /// Something was not skipped.
    pub fn has_tried(&self) -> bool {
        self.passed + self.failed > 0
    }

    /// Nothing failed, and nothing that has to be tried was left out.
    pub fn is_pass(&self) -> bool {
        self.failed == 0 && self.missing.is_empty()
    }

    /// One line.
    pub fn summary(&self) -> String {
        let skipped: u64 = self.skipped.values().sum();
        let reasons = self.skipped.iter().map(|(reason, times)| match times {
            1 => reason.clone(),
            _ => format!("{reason} ({times} times)"),
        });
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let mut text = format!("{} passed, {skipped} skipped", self.passed);
        if skipped > 0 {
            text += &format!(" ({reasons})");
        }
        if self.failed > 0 {
            text += &format!(", {} FAILED", self.failed);
        }
        if !self.missing.is_empty() {
            text += &format!("; NOT A PASS: {}", self.missing.join("; "));
        }
        text
    }
}

/// The number in front of a word: 12 in `ok. 12 passed; 0 failed`.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let found = words.windows(2).find(|pair| pair[1] == word);
    found.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.take(line));
        tally
    }

    #[test]
    fn what_was_skipped_is_not_counted_as_passed_and_says_why() {
        let all = tally(&[
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out",
            "skipped: the host has no SSE4a",
            "skipped: the host has no SSE4a",
            "lab: 9 passed, 0 failed",
            "an ordinary line about 5 passed stones",
        ]);
        assert_eq!(
            all.summary(),
            "21 passed, 3 skipped (ignored by the test itself; the host has no SSE4a (2 times))"
        );
        assert!(all.is_pass());
    }

    #[test]
    fn a_failure_or_a_missing_part_is_no_pass() {
        assert!(!tally(&["test result: FAILED. 1 passed; 1 failed; 0 ignored"]).is_pass());
        let mut missing = tally(&["lab: 9 passed, 0 failed"]);
        missing.miss("no cargo clippy");
        assert!(!missing.is_pass());
        assert_eq!(missing.summary(), "9 passed, 0 skipped; NOT A PASS: no cargo clippy");
    }
}
