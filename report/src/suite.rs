//! Tests that were run, in the two forms that other programs read.

use crate::writer::{self, clean};
use std::fmt::Write;

/// What a report has of a test's output.
const MOST_OUTPUT: usize = 64 << 10;

/// What became of a test.
#[derive(Clone, Debug)]
pub struct Tested {
    /// What was tested.
    pub name: String,
    /// Why it failed; `None` if it passed.
    pub failure: Option<String>,
    /// Why it was not run, if it was not.
    pub skipped: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What it printed, and what was said of it.
    pub output: String,
}

/// The end of what was printed, where the reason is.
fn last(output: &str) -> &str {
    let mut start = output.len().saturating_sub(MOST_OUTPUT);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    &output[start..]
}

/// Version 14 of the Test Anything Protocol: what failed has its reason below it, as YAML.
pub fn tap(tested: &[Tested]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", tested.len());
    for (one, number) in tested.iter().zip(1..) {
        let verdict = if one.failure.is_some() { "not ok" } else { "ok" };
        let name = clean(&one.name).replace('\\', "\\\\").replace('#', "\\#");
        // Writing to a text does not fail.
        let directive = match &one.skipped {
            Some(why) => format!("SKIP {}", clean(why)),
            None => format!("time={:.3}s", one.seconds),
        };
        let _ = writeln!(text, "{verdict} {number} - {name} # {directive}");
        let Some(failure) = &one.failure else { continue };
        let message = serde_json::json!(failure).to_string();
        let message = writer::json(&message);
        let _ = writeln!(text, "  ---\n  message: {message}\n  output: |");
        for line in last(&one.output).lines() {
            let line = clean(line);
            let _ = writeln!(text, "    {line}");
        }
        text += "  ...\n";
    }
    text
}

/// What CI systems read, for tests of one class.
pub fn junit(class: &str, tested: &[Tested]) -> String {
    let failures = tested.iter().filter(|one| one.failure.is_some()).count();
    let skipped = tested.iter().filter(|one| one.skipped.is_some()).count();
    let seconds: f64 = tested.iter().map(|one| one.seconds).sum();
    let class = escaped(class);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"avicenna\" tests=\"{}\" \
         failures=\"{failures}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n",
        tested.len()
    );
    for one in tested {
        let name = escaped(&one.name);
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "  <testcase classname=\"{class}\" name=\"{name}\" time=\"{:.3}\">",
            one.seconds
        );
        if let Some(failure) = &one.failure {
            let _ = writeln!(text, "    <failure message=\"{}\"/>", escaped(failure));
        }
        if let Some(why) = &one.skipped {
            let _ = writeln!(text, "    <skipped message=\"{}\"/>", escaped(why));
        }
        let _ = writeln!(text, "    <system-out>{}</system-out>", escaped(last(&one.output)));
        text += "  </testcase>\n";
    }
    text + "</testsuite>\n"
}

/// What XML 1.0 has as itself or by name; it has no form for other control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_well_formed_whatever_an_image_prints() {
        let tested = [Tested {
            name: "a<b>&\"c\"#".into(),
            failure: Some("wrote 3 to port F4h".into()),
            skipped: None,
            seconds: 0.5,
            output: "\u{1b}[1m<&]]>\nsecond".into(),
        }];
        let xml = junit("machine", &tested);
        assert!(xml.contains("name=\"a&lt;b&gt;&amp;&quot;c&quot;#\""), "{xml}");
        assert!(xml.contains("[1m&lt;&amp;]]&gt;\nsecond</system-out>"), "{xml}");
        let tap = tap(&tested);
        assert!(tap.contains("not ok 1 - a<b>&\"c\"\\# # time=0.500s\n"), "{tap}");
        assert!(tap.contains("\n    \\u{1b}[1m<&]]>\n    second\n  ...\n"), "{tap}");
    }

    #[test]
    fn what_was_skipped_is_no_failure_and_has_its_reason() {
        let tested = [Tested {
            name: "a".into(),
            failure: None,
            skipped: Some("no <part>".into()),
            seconds: 0.0,
            output: String::new(),
        }];
        assert!(tap(&tested).contains("\nok 1 - a # SKIP no <part>\n"));
        let xml = junit("suite", &tested);
        assert!(xml.contains("failures=\"0\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("<skipped message=\"no &lt;part&gt;\"/>"), "{xml}");
    }

    #[test]
    fn hostile_names_are_read_back_from_both_forms() {
        let tested = crate::writer::HOSTILE.map(|name| Tested {
            name: name.into(),
            failure: Some(format!("wrote {name}")),
            skipped: None,
            seconds: 0.5,
            output: format!("{name}\n...\nnot ok 7\n"),
        });
        let xml = junit("machine", &tested);
        let document = roxmltree::Document::parse(&xml).expect("well-formed");
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        assert_eq!(cases.count(), tested.len());
        let tap = tap(&tested);
        let points = tap.lines().filter(|line| line.starts_with("not ok ")).count();
        assert_eq!(points, tested.len(), "{tap}");
        let ends = tap.lines().filter(|line| *line == "  ...").count();
        assert_eq!(ends, tested.len(), "{tap}");
        assert!(!tap.contains(crate::writer::steers), "{tap}");
    }
}
