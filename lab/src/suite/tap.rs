//! The Test Anything Protocol, as programs print it among other things. [TAP 14]

/// What the lines of a program say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tap {
    /// Points that passed.
    pub passed: usize,
    /// Points that were left out.
    pub skipped: usize,
    /// The first point that failed, and is not one to do.
    pub failed: Option<String>,
    /// How many were announced.
    pub planned: Option<usize>,
    /// Why all were left out.
    pub skips_all: Option<String>,
    /// Why the program gave up.
    pub bail_out: Option<String>,
}

impl Tap {
    /// Of everything that a program wrote. Lines that are none of the protocol's are passed over,
    /// as are points of subtests, which are indented.
    pub fn read(output: &str) -> Self {
        let mut tap = Self::default();
        output.lines().for_each(|line| tap.take(line.trim_end()));
        tap
    }

    fn take(&mut self, line: &str) {
        if let Some(point) = line.strip_prefix("not ok") {
            self.point(point, false);
        } else if let Some(point) = line.strip_prefix("ok") {
            self.point(point, true);
        } else if let Some(plan) = line.strip_prefix("1..") {
            let (count, directive) = plan.split_once('#').unwrap_or((plan, ""));
            let Ok(count) = count.trim().parse() else { return };
            self.planned = Some(count);
            if count == 0 {
                self.skips_all = Some(reason(directive));
            }
        } else if let Some(why) = line.strip_prefix("Bail out!") {
            self.bail_out = Some(why.trim().to_owned());
        }
    }

    fn point(&mut self, text: &str, is_ok: bool) {
        // "okay" is a word, "ok" and "ok 3 - name" are points.
        if !text.is_empty() && !text.starts_with(' ') {
            return;
        }
        let (name, directive) = text.split_once('#').unwrap_or((text, ""));
        let directive = directive.trim().to_ascii_lowercase();
        if directive.starts_with("skip") {
            self.skipped += 1;
        } else if is_ok {
            self.passed += 1;
        } else if !directive.starts_with("todo") && self.failed.is_none() {
            self.failed = Some(name.trim().to_owned());
        }
    }

    /// Whether the program speaks the protocol at all.
    pub fn is_spoken(&self) -> bool {
        self.planned.is_some() || self.bail_out.is_some()
    }

    fn points(&self) -> usize {
        self.passed + self.skipped + usize::from(self.failed.is_some())
    }

    /// Whether fewer points came than were announced.
    pub fn is_short(&self) -> bool {
        self.failed.is_none() && self.planned.is_some_and(|planned| self.points() < planned)
    }
}

/// What stands behind SKIP.
fn reason(directive: &str) -> String {
    let text = directive.trim();
    let text = match text.get(..4) {
        Some(word) if word.eq_ignore_ascii_case("skip") => &text[4..],
        _ => text,
    };
    text.trim_start_matches([' ', '-', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_counted_and_the_first_that_failed_is_named() {
        let text = "TAP version 13\n1..4\nok 1 one\nokay\nnot ok 2 - two # T\x4FDO later\n\
                    ok 3 # SKIP no such thing\nnot ok 4 - four\n    not ok 1 - inner\n";
        let tap = Tap::read(text);
        assert_eq!((tap.passed, tap.skipped, tap.planned), (1, 1, Some(4)));
        assert_eq!(tap.failed.as_deref(), Some("4 - four"));
        assert!(tap.is_spoken());
    }

    #[test]
    fn a_plan_of_nothing_has_its_reason() {
        for (line, why) in [
            ("1..0 # SKIP - Requirement not met: x", "Requirement not met: x"),
            ("1..0 # skip", ""),
            ("1..0", ""),
        ] {
            assert_eq!(Tap::read(line).skips_all.as_deref(), Some(why), "{line}");
        }
    }

    #[test]
    fn fewer_points_than_announced_are_too_few_and_hostile_lines_are_none() {
        assert!(Tap::read("1..2\nok 1\n").is_short());
        assert!(!Tap::read("1..1\nok 1\n").is_short());
        for line in [
            "1..99999999999999999999999",
            "1..-1",
            "1..x",
            "ok\u{e9}",
            "#",
            "1..\u{1F600}#\u{e9}\u{e9}",
        ] {
            assert!(!Tap::read(line).is_short(), "{line}");
        }
        assert_eq!(reason("\u{e9}\u{e9}\u{e9}"), "\u{e9}\u{e9}\u{e9}");
    }
}
