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

/// Metrics in the making.
#[derive(Debug, Default)]
pub struct Metrics {
    text: String,
    families: BTreeSet<String>,
    series: BTreeSet<String>,
}

impl Metrics {
    /// Begins a family; one that was begun before goes on only where it stood.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        debug_assert!(is_name(name), "{name}");
        if self.families.insert(name.to_owned()) {
            let kind = match kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "counter",
            };
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    /// A value of the family that was begun last; the second of one series is left out.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, text)| format!("{key}=\"{}\"", label(text))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let series = format!("{name}{labels}");
        if self.series.insert(series.clone()) {
            let _ = writeln!(self.text, "{series} {value}");
        }
    }

    /// With the time at which all of it was so, in seconds since 1970: a collector goes on showing
    /// an old file.
    pub fn finish(mut self, verb: &str, seconds: u64) -> String {
        let name = format!("avicenna_{verb}_timestamp_seconds");
        self.family(&name, Kind::Gauge, "When this file was made, in seconds since 1970.");
        self.sample(&name, &[], seconds);
        self.text
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
