//! A suite's results for readers: how many, then what did not pass, with its reason.

use super::{Column, Tested, Verdict};
use report::grid::folded;
use std::collections::BTreeMap;

/// Columns of a result that is folded nowhere.
const INDENT: usize = 4;

/// Counts a setting, then what did not pass: the same reason is told once.
pub fn text(all: &[Tested], columns: usize) -> String {
    let mut settings: Vec<&Column> = all.iter().map(|tested| &tested.column).collect();
    settings.sort();
    settings.dedup();
    let mut text = String::new();
    for setting in &settings {
        let own: Vec<&Tested> = all.iter().filter(|one| one.column == **setting).collect();
        text += &counts(setting, &own);
    }
    for (title, word) in [("failed", "fail"), ("stopped", "stopped"), ("skipped", "skip")] {
        text += &reasons(title, all.iter().filter(|one| one.verdict.word() == word), columns);
    }
    text
}

fn counts(setting: &Column, own: &[&Tested]) -> String {
    let count = |word: &str| own.iter().filter(|one| one.verdict.word() == word).count();
    let seconds: f64 = own.iter().map(|one| one.seconds).sum();
    format!(
        "{setting}: {} tests: {} passed, {} skipped, {} failed, {} stopped ({seconds:.0} s)\n",
        own.len(),
        count("pass"),
        count("skip"),
        count("fail"),
        count("stopped"),
    )
}

/// Tests below their reasons.
fn reasons<'a>(title: &str, all: impl Iterator<Item = &'a Tested>, columns: usize) -> String {
    let mut by_test: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for one in all {
        let settings = by_test.entry((&one.name, one.verdict.reason())).or_default();
        settings.push(one.column.to_string());
    }
    if by_test.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    for ((name, reason), settings) in by_test {
        let line = format!("{name}: {reason} ({})", settings.join("; "));
        text += &folded(&line, columns, INDENT);
    }
    text
}

/// As other programs' reports have it.
pub fn for_report(all: &[Tested]) -> Vec<report::suite::Tested> {
    let one = |tested: &Tested| report::suite::Tested {
        name: format!("{} ({})", tested.name, tested.column),
        failure: match &tested.verdict {
            Verdict::Fail(why) => Some(why.clone()),
            Verdict::Stopped(why) => Some(format!("stopped: {why}")),
            Verdict::Pass | Verdict::Skip(_) => None,
        },
        skipped: match &tested.verdict {
            Verdict::Skip(why) => Some(why.clone()),
            _ => None,
        },
        seconds: tested.seconds,
        output: tested
            .log
            .iter()
            .fold(tested.output.clone(), |text, line| text + "kernel: " + line + "\n"),
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn what_did_not_pass_is_told_with_its_reason_and_where() {
        let one = |name: &str, feature: &str, verdict| Tested {
            name: name.into(),
            column: Column {
                kernel: "debian-13".into(),
                cpu: "zen4".into(),
                feature: feature.into(),
                parameters: Vec::new(),
            },
            verdict,
            status: None,
            virtual_seconds: 1.0,
            seconds: 2.0,
            trace_hash: None,
            output: String::new(),
            log: Vec::new(),
        };
        let all = [
            one("a", "off", Verdict::Pass),
            one("b", "off", Verdict::Fail("why".into())),
            one("a", "on", Verdict::Skip("no part".into())),
            one("b", "on", Verdict::Fail("why".into())),
        ];
        let text = text(&all, 200);
        assert!(
            text.contains("debian-13 zen4 off: 2 tests: 1 passed, 0 skipped, 1 failed"),
            "{text}"
        );
        assert!(text.contains("b: why (debian-13 zen4 off; debian-13 zen4 on)"), "{text}");
        assert!(text.contains("a: no part (debian-13 zen4 on)"), "{text}");
        let report = for_report(&all);
        assert_eq!(report[2].skipped.as_deref(), Some("no part"));
        assert_eq!(report[3].failure.as_deref(), Some("why"));
        let outcome =
            Outcome { schema: Outcome::SCHEMA, tests: all.into(), unexpected: Vec::new() };
        let outcome = serde_json::to_value(&outcome).expect("plain data");
        schema::assert_follows(&outcome, &schema::published("lab-suite-1.json"), "results");
    }
}
