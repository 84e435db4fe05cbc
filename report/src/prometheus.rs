//! Metrics in Prometheus' text format, for node_exporter's textfile collector.
//!
//! The format is the collector's, which takes a file whole or not at all: every family has its help
//! and type before its samples, no series stands there twice, and words of others keep to the three
//! escapes that the format has. See <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use rules::finding::Answer;
use std::collections::BTreeSet;
use std::fmt::{Display, Write};

/// What becomes of a family's values over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They go up and down.
    Gauge,
    /// They only rise, or begin again.
    Counter,
}

/// What is measured in one way.
#[derive(Debug)]
struct Family {
    name: String,
    /// Its help and type.
    head: String,
    samples: String,
}

/// Metrics in the making.
#[derive(Debug, Default)]
pub struct Metrics {
    /// In the order in which they were begun.
    families: Vec<Family>,
    series: BTreeSet<String>,
    /// Whose samples are added, where they are of several hosts.
    host: Option<String>,
}

impl Metrics {
    /// Samples that are added from here on are of this host.
    pub fn of_host(&mut self, name: &str) {
        self.host = Some(name.to_owned());
    }

    /// Begins a family; one that was begun before goes on where it stands.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        debug_assert!(is_name(name), "{name}");
        if self.families.iter().all(|family| family.name != name) {
            let kind = match kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "counter",
            };
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.families.push(Family { name: name.to_owned(), head, samples: String::new() });
        }
    }

    /// A value of a family that was begun; the second of one series is left out.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let host = self.host.as_deref().map(|host| ("host", host));
        let labels: Vec<String> = host
            .iter()
            .chain(labels)
            .map(|(key, text)| format!("{key}=\"{}\"", label(text)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let series = format!("{name}{labels}");
        let Some(family) = self.families.iter_mut().find(|family| family.name == name) else {
            debug_assert!(false, "{name} was not begun");
            return;
        };
        if self.series.insert(series.clone()) {
            let _ = writeln!(family.samples, "{series} {value}");
        }
    }

    /// With the time at which all of it was so, in seconds since 1970: a collector goes on showing
    /// an old file.
    pub fn finish(mut self, verb: &str, seconds: u64) -> String {
        let name = format!("avicenna_{verb}_timestamp_seconds");
        self.family(&name, Kind::Gauge, "When this file was made, in seconds since 1970.");
        self.host = None;
        self.sample(&name, &[], seconds);
        self.families.into_iter().map(|family| family.head + &family.samples).collect()
    }
}

/// 1 is yes, 0 is no; what is not known has no number.
pub const fn number(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "1",
        Answer::No => "0",
        Answer::Unknown => "NaN",
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Whatever stands in a label is UTF-8, with these three escaped and nothing else.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_stand_together_whosever_they_are() {
        let mut metrics = Metrics::default();
        for host in ["a", "b"] {
            metrics.of_host(host);
            metrics.family("avicenna_x", Kind::Gauge, "X.");
            metrics.sample("avicenna_x", &[("vm", "v")], 1);
            metrics.family("avicenna_y", Kind::Gauge, "Y.");
            metrics.sample("avicenna_y", &[], 2);
        }
        let text = metrics.finish("test", 7);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "avicenna_x{host=\"a\",vm=\"v\"} 1",
                "avicenna_x{host=\"b\",vm=\"v\"} 1",
                "avicenna_y{host=\"a\"} 2",
                "avicenna_y{host=\"b\"} 2",
                "avicenna_test_timestamp_seconds 7",
            ]
        );
    }

    #[test]
    fn labels_have_the_formats_own_escapes_and_no_others() {
        let mut metrics = Metrics::default();
        metrics.family("avicenna_x", Kind::Gauge, "X\\\n.");
        metrics.sample("avicenna_x", &[("vm", "a\"b\\c\nd\u{200b}\u{202e}ü")], 1);
        metrics.sample("avicenna_x", &[("vm", "a\"b\\c\nd\u{200b}\u{202e}ü")], 2);
        metrics.family("avicenna_y_total", Kind::Counter, "Y.");
        metrics.sample("avicenna_y_total", &[], 0.5);
        assert_eq!(
            metrics.finish("test", 7),
            "# HELP avicenna_x X\\\\\\n.\n# TYPE avicenna_x gauge\n\
             avicenna_x{vm=\"a\\\"b\\\\c\\nd\u{200b}\u{202e}ü\"} 1\n\
             # HELP avicenna_y_total Y.\n# TYPE avicenna_y_total counter\navicenna_y_total 0.5\n\
             # HELP avicenna_test_timestamp_seconds When this file was made, in seconds since 1970.\n\
             # TYPE avicenna_test_timestamp_seconds gauge\navicenna_test_timestamp_seconds 7\n"
        );
    }
}
