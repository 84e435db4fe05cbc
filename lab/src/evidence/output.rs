//! What is taken of a plan's output for a published figure.

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Where a figure is in what its plan prints.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Take {
    /// In the result of `lab run`.
    Measure(Place),
    /// In a record of the benchmark guest.
    Record(Record),
    /// In a line of text.
    Line(Line),
}

/// A place in the result of `lab run`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Place {
    /// The workload's title.
    pub workload: String,
    /// A comparison's name; or two of them, `ratio A / B` or `difference A - B`.
    pub apic: String,
    /// A measure's name, `exits`, `exits REASON share` or `exits REASON microseconds`.
    pub measure: String,
    /// How many sent at once, where the figure is the sum of all.
    pub senders: Option<u16>,
}

/// A record of the benchmark guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Record {
    /// The test's name.
    pub test: String,
    /// The mode of the APIC, where the record has one.
    pub apic: Option<String>,
    /// The test whose value is contained in this one's and is taken off.
    pub less: Option<String>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Line {
    /// The value is its first group.
    pub pattern: String,
    /// Of a ratio, the value below.
    pub over: Option<String>,
    /// What the program does besides, in the value or, of a ratio, in the one below.
    pub less: Option<Besides>,
}

/// What a value contains that its published one does not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Besides {
    /// A line whose first group is what it takes once.
    pub pattern: String,
    /// How often it is in there.
    pub times: u16,
}

/// Of the distribution that a record tells.
const STATISTIC: &str = "mean";

impl Take {
    /// The figure in what a command other than `lab run` printed.
    pub fn find(&self, output: &str) -> Option<f64> {
        match self {
            Self::Measure(_) => None,
            Self::Record(record) => record.find(output),
            Self::Line(line) => line.find(output),
        }
    }
}

impl Record {
    fn find(&self, output: &str) -> Option<f64> {
        let records: Vec<Json> =
            output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let of = |test: &str, apic: Option<&str>| {
            let is_it = |one: &&Json| {
                one["test"].as_str() == Some(test)
                    && apic.is_none_or(|apic| one["apic"].as_str() == Some(apic))
            };
            records.iter().find(is_it)?[STATISTIC].as_f64()
        };
        let contained = match &self.less {
            Some(test) => of(test, None)?,
            None => 0.0,
        };
        Some(of(&self.test, self.apic.as_deref())? - contained)
    }
}

impl Line {
    fn find(&self, output: &str) -> Option<f64> {
        let value = |pattern: &str| -> Option<f64> {
            let pattern = Regex::new(&format!("(?m){pattern}")).ok()?;
            pattern.captures(output)?.get(1)?.as_str().parse().ok()
        };
        let besides = match &self.less {
            Some(less) => f64::from(less.times) * value(&less.pattern)?,
            None => 0.0,
        };
        let own = value(&self.pattern)?;
        Some(match &self.over {
            Some(below) => own / (value(below)? - besides),
            None => own - besides,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_test_and_mode_less_what_it_contains() {
        let output = "avicenna: words\n\
            {\"record\":\"latency\",\"test\":\"nothing\",\"mean\":40}\n\
            {\"record\":\"latency\",\"test\":\"apic_read_id\",\"apic\":\"x2apic\",\"mean\":90}\n\
            {\"record\":\"latency\",\"test\":\"apic_read_id\",\"apic\":\"xapic\",\"mean\":140}\n";
        let take = |apic: Option<&str>, less: Option<&str>| {
            let (apic, less) = (apic.map(str::to_owned), less.map(str::to_owned));
            Take::Record(Record { test: "apic_read_id".into(), apic, less }).find(output)
        };
        assert_eq!(take(Some("xapic"), Some("nothing")), Some(100.0));
        assert_eq!(take(None, None), Some(90.0));
        assert_eq!(take(Some("xapic"), Some("absent")), None);
    }

    #[test]
    fn a_line_gives_its_first_group_or_the_ratio_of_two() {
        let output = "enabling apic\nvmcall 1000\ncpuid 1090\n";
        let take = |pattern: &str, over: Option<&str>| {
            let over = over.map(str::to_owned);
            Take::Line(Line { pattern: pattern.into(), over, less: None }).find(output)
        };
        assert_eq!(take(r"^vmcall (\d+)", None), Some(1000.0));
        assert_eq!(take(r"^cpuid (\d+)", Some(r"^vmcall (\d+)")), Some(1.09));
        assert_eq!(take(r"^call (\d+)", None), None);
    }

    #[test]
    fn what_a_program_does_besides_is_taken_off_the_value_or_what_is_below() {
        let output = "cpuid 1000\nvmcall 3500\n";
        let take = |pattern: &str, over: Option<&str>| {
            let less = Some(Besides { pattern: r"^cpuid (\d+)".into(), times: 2 });
            let over = over.map(str::to_owned);
            Take::Line(Line { pattern: pattern.into(), over, less }).find(output)
        };
        assert_eq!(take(r"^vmcall (\d+)", None), Some(1500.0));
        let ratio = take(r"^cpuid (\d+)", Some(r"^vmcall (\d+)"));
        assert_eq!(ratio, Some(1000.0 / 1500.0));
        let absent = Line {
            pattern: r"^vmcall (\d+)".into(),
            over: None,
            less: Some(Besides { pattern: r"^rdmsr (\d+)".into(), times: 1 }),
        };
        assert_eq!(Take::Line(absent).find(output), None);
    }
}
