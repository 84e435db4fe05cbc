//! What is known of a suite's tests: lines of test, kernel, CPU, feature, result and reason with
//! tabs between. `*` in a pattern is any text; the first line that is about a test counts, and a
//! test without a line is to pass.

use super::Tested;
use super::program::is_like;
use anyhow::Context;

/// Lines of a list at most.
const MOST_LINES: usize = 100_000;
const RESULTS: [&str; 4] = ["pass", "skip", "fail", "stopped"];

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations(Vec<Row>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Of the test, the kernel, the CPU and the feature.
    patterns: [String; 4],
    result: String,
}

impl std::str::FromStr for Expectations {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            anyhow::ensure!(number <= MOST_LINES, "more than {MOST_LINES} lines");
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let row = row(line).with_context(|| {
                format!(
                    "line {number}: must be test, kernel, CPU, feature, result (one of {}) and \
                     reason, with tabs between",
                    RESULTS.join(", ")
                )
            });
            rows.push(row?);
        }
        Ok(Self(rows))
    }
}

fn row(line: &str) -> Option<Row> {
    let mut fields = line.split('\t').map(str::to_owned);
    let patterns = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
    let result = fields.next().filter(|result| RESULTS.contains(&result.as_str()))?;
    // What is not to pass has a reason.
    let has_reason = fields.next().is_some_and(|reason| !reason.is_empty());
    (result == "pass" || has_reason).then_some(Row { patterns, result })
}

impl Expectations {
    /// What a test is to give.
    fn of(&self, tested: &Tested) -> &str {
        let column = &tested.column;
        let texts = [&tested.name, &column.kernel, &column.cpu, &column.feature];
        let is_its =
            |row: &&Row| row.patterns.iter().zip(texts).all(|(one, text)| is_like(one, text));
        self.0.iter().find(is_its).map_or("pass", |row| &row.result)
    }

    /// Tests that gave something else, in words.
    pub fn differences(&self, all: &[Tested]) -> Vec<String> {
        let different = all.iter().filter_map(|tested| {
            let (expected, found) = (self.of(tested), tested.verdict.word());
            (expected != found).then(|| {
                format!("{}, {}: {found} where {expected} was expected", tested.column, tested.name)
            })
        });
        different.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Column, Verdict};

    fn tested(name: &str, cpu: &str, verdict: Verdict) -> Tested {
        Tested {
            name: name.into(),
            column: Column {
                kernel: "debian-13".into(),
                cpu: cpu.into(),
                feature: "on".into(),
                parameters: Vec::new(),
            },
            verdict,
            status: None,
            virtual_seconds: 0.0,
            seconds: 0.0,
            trace_hash: None,
            output: String::new(),
            log: Vec::new(),
        }
    }

    #[test]
    fn the_list_of_linux_s_selftests_is_one() {
        let text = include_str!("../../../conformance/external/selftests.tsv");
        let list: Expectations = text.parse().expect("a list");
        let fails = list.0.iter().filter(|row| row.result == "fail").count();
        assert!(fails > 0 && fails < list.0.len(), "{list:?}");
    }

    #[test]
    fn only_what_is_not_as_listed_is_told() {
        let list: Expectations =
            "# list\na_*\t*\tzen4\t*\tskip\tno such part\n".parse().expect("a list");
        let skip = || Verdict::Skip(String::new());
        let all = [
            tested("a_test", "zen4", skip()),
            tested("a_test", "zen3", skip()),
            tested("b_test", "zen4", Verdict::Pass),
            tested("a_test", "zen4", Verdict::Pass),
        ];
        let told = list.differences(&all);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("zen3") && told[0].contains("skip where pass"), "{told:?}");
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_its_number() {
        for text in ["a\tb", "a\t*\t*\t*\tmaybe\tx", "a\t*\t*\t*\tfail", "a\t*\t*\t*\tskip\t"] {
            let error = format!("# one\n{text}").parse::<Expectations>().expect_err(text);
            assert!(error.to_string().starts_with("line 2: "), "{error}");
        }
    }
}
