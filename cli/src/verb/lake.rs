//! Metrics in Prometheus' text format, and Nagios' one line.

use rules::Answer;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Metrics in the making: every family has its help and type before its samples.
#[derive(Default)]
pub struct Metrics(String);

impl Metrics {
    /// Begins a family of gauges.
    pub fn family(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, text)| format!("{key}=\"{}\"", label(text))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// With the time at which all of it was so: a collector goes on showing an old file.
    pub fn finish(mut self, verb: &str) -> String {
        let name = format!("avicenna_{verb}_timestamp_seconds");
        self.family(&name, "When this file was made, in seconds since 1970.");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        self.sample(&name, &[], now);
        self.0
    }
}

/// 1 is yes, 0 is no; what is not known has no number.
pub fn number(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "1",
        Answer::No => "0",
        Answer::Unknown => "NaN",
    }
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A plugin's line: the word of its status, what there is to say, figures behind a bar.
pub fn nagios(answer: Answer, text: &str, figures: &str) -> String {
    let word = match answer {
        Answer::Yes => "OK",
        Answer::No => "WARNING",
        Answer::Unknown => "UNKNOWN",
    };
    // A bar begins the figures, a line end the long text.
    let text = text.replace(['|', '\n'], " ");
    format!("AVICENNA {word}: {text} | {figures}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_lines_are_escaped() {
        let mut metrics = Metrics::default();
        metrics.family("avicenna_x", "X.");
        metrics.sample("avicenna_x", &[("vm", "a\"b\\c\nd")], 1);
        let text = metrics.finish("test");
        assert!(
            text.contains("# TYPE avicenna_x gauge\navicenna_x{vm=\"a\\\"b\\\\c\\nd\"} 1\n"),
            "{text}"
        );
        assert!(text.contains("avicenna_test_timestamp_seconds 1"), "{text}");
        assert_eq!(nagios(Answer::No, "a|b\nc", "x=1"), "AVICENNA WARNING: a b c | x=1\n");
    }
}
