//! A report in the forms that people and CI systems read.

use super::{First, Report};
use crate::explore::forms::{Forms, Told, findings};
use crate::explore::oracle::Changes;
use crate::explore::tally::Coverage;
use report::grid::{Grid, Value};

impl Forms for Report {
    fn head(&self) -> String {
        let findings = findings(self.findings.len());
        let windows: u64 = self.rows.iter().map(|row| row.windows).sum();
        let mut text = self.release.clone();
        if let Some(end) = &self.end {
            let whose = if end.is_fault { "" } else { ", which is not a finding" };
            text += &format!(": THE GUEST ENDED ({}){whose}", end.first_line());
        }
        text += &format!(
            ": {findings} in {windows} windows; {:.0} CPU s in all",
            self.spent.as_secs_f64()
        );
        let mut seen = Changes::default();
        self.rows.iter().for_each(|row| seen.add(row.changes));
        if self.changes && seen == Changes::default() {
            text += "\nnothing of what the host was to change was seen in any window";
        }
        text
    }

    fn tables(&self) -> Vec<Grid> {
        vec![self.grid()]
    }

    /// What the numbers of pairs say.
    fn remarks(&self) -> String {
        let Coverage { pairs, once, next_window, .. } = self.coverage;
        format!(
            "Pairs: orders of two interrupt events on two CPUs; {pairs} in all, {once} of them in \
             one window alone, so another window is expected to show {next_window:.2} new ones \
             (Good-Turing). even: in the first {} windows of a strategy; own: shown by no other.\n",
            self.even
        )
    }

    fn told(&self) -> Told<'_> {
        Told {
            release: &self.release,
            spent: self.spent,
            end: self.end.as_ref().map(|end| end.text.as_str()),
            findings: self.findings.iter().collect(),
        }
    }
}

impl Report {
    fn grid(&self) -> Grid {
        const COLUMNS: [&str; 16] = [
            "strategy",
            "windows",
            "virtual_ms",
            "CPU_s",
            "held",
            "switched",
            "moved",
            "saved",
            "posted",
            "raised",
            "started",
            "pairs",
            "even",
            "next",
            "own",
            "causes_seen_after",
        ];
        let mut grid = Grid::new("By strategy", &COLUMNS);
        for row in &self.rows {
            let seen = |(cause, first): (&String, &First)| {
                let spent = first.spent.as_secs_f64();
                format!("{cause}: window {}, {spent:.1} CPU s", first.windows)
            };
            let seen: Vec<String> = row.causes.iter().map(seen).collect();
            grid.rows.push(vec![
                Value::text(row.strategy.name()),
                Value::Count(row.windows),
                Value::Count(row.virtual_milliseconds),
                Value::Number(row.spent.as_secs_f64(), 1),
                Value::Count(row.holds),
                Value::Count(row.changes.switches),
                Value::Count(row.changes.moves),
                Value::Count(row.changes.saves),
                Value::Count(row.changes.posts),
                Value::Count(row.changes.raises),
                Value::Count(row.changes.starts),
                Value::Count(row.coverage.pairs),
                Value::Count(row.even_pairs),
                Value::Number(row.coverage.next_window, 2),
                Value::Count(row.coverage.own),
                Value::text(seen.join("; ")),
            ]);
        }
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::choice::Strategy;
    use crate::explore::oracle::End;
    use crate::explore::oracle::Rule;
    use crate::explore::report::Found;
    use crate::explore::tally::Tally;
    use serde_json::json;
    use std::path::Path;
    use std::time::Duration;

    fn report(findings: Vec<Found>) -> Report {
        Report {
            schema: Report::SCHEMA,
            version: "0".into(),
            release: "6.1.0".into(),
            words: Vec::new(),
            seed: 1,
            shard: (0, 1),
            spent: Duration::from_secs(8),
            rows: Vec::new(),
            coverage: Coverage::default(),
            even: 0,
            tallies: Vec::new(),
            tally: Tally::default(),
            changes: false,
            end: None,
            windows: Vec::new(),
            findings,
        }
    }

    fn found() -> Found {
        Found {
            cause: "said-to-run-logical".into(),
            rule: Rule::SaidToRun,
            window: 7,
            strategy: Strategy::Random,
            drawn: 9,
            decisions: vec!["CPU 1 held 5 ns, 0 ns after its halt no. 3".into()],
            story: vec!["a vCPU <sleeps>".into(), "needs | nothing".into()],
            lanes: vec!["ns CPU 1".into()],
        }
    }

    #[test]
    fn the_rule_that_was_broken_is_the_test_that_fails_and_no_other() {
        for (findings, failures) in [(Vec::new(), 0), (vec![found()], 1)] {
            let xml = report(findings).to_junit(Path::new("found"));
            let count = Rule::ALL.len();
            let counts = format!("tests=\"{count}\" failures=\"{failures}\" skipped=\"0\"");
            assert!(xml.contains(&counts), "{xml}");
            let failing = xml.split("<testcase").filter(|case| case.contains("<failure"));
            let names: Vec<_> = failing.filter_map(|case| case.split('"').nth(3)).collect();
            assert_eq!(names, vec!["said-to-run (6.1.0)"; failures]);
        }
    }

    #[test]
    fn a_result_for_code_scanning_names_its_rule_its_cause_and_its_file() {
        let log = report(vec![found()]).to_sarif(Path::new("found"));
        let run = &log["runs"][0];
        let result = &run["results"][0];
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        let rule = &run["tool"]["driver"]["rules"][index];
        assert_eq!((&rule["id"], &result["ruleId"]), (&json!("said-to-run"), &rule["id"]));
        assert_eq!(result["partialFingerprints"]["cause/v1"], "said-to-run-logical");
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(place, "found/said-to-run-logical.json");
        assert_eq!(
            report(Vec::new()).to_sarif(Path::new("found"))["runs"][0]["results"],
            json!([])
        );
    }

    #[test]
    fn a_host_that_changes_nothing_although_it_was_to_is_told() {
        let told = "nothing of what the host was to change";
        assert!(!report(Vec::new()).to_text(100).contains(told), "it was not to");
        let asked = Report { changes: true, ..report(Vec::new()) };
        assert!(asked.to_text(100).contains(told));
        let mut row = crate::explore::report::Row::new(Strategy::Plain);
        row.changes.moves = 1;
        let seen = Report { rows: vec![row], ..asked };
        assert!(!seen.to_text(100).contains(told));
    }

    #[test]
    fn a_guest_that_ended_is_told_first_and_in_every_form() {
        let end = End { text: "KVM: internal error 1".into(), is_fault: true };
        let ended = Report { end: Some(end), ..report(Vec::new()) };
        let first = ended.to_text(100).lines().next().unwrap_or_default().to_owned();
        assert!(first.contains("THE GUEST ENDED (KVM: internal error 1): 0 findings"), "{first}");
        assert!(ended.to_junit(Path::new("found")).contains("failures=\"1\""));
        let log = ended.to_sarif(Path::new("found"));
        let result = &log["runs"][0]["results"][0];
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        let json = ended.to_json().expect("plain JSON");
        assert!(json.contains("\"is_fault\": true"), "{json}");
    }

    #[test]
    fn in_markdown_words_mean_themselves_and_lanes_keep_their_columns() {
        let text = report(vec![found()]).to_markdown();
        assert!(text.contains("\na vCPU &lt;sleeps>; needs \\| nothing\n"), "{text}");
        assert!(text.contains("\n    ns CPU 1\n"), "{text}");
    }
}
