//! Figures that a guest measures.

use serde::Serialize;
use serde_json::Value as Json;

/// A figure of a guest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// The test and its conditions.
    pub name: String,
    /// Of the value.
    pub unit: &'static str,
    /// As the guest says it.
    pub value: f64,
    /// How often it was measured.
    pub samples: u64,
    /// The mean of the samples, where the value is their median.
    #[serde(skip)]
    pub mean: Option<f64>,
    /// The same without the sample that took longest: one in which a tick of the host fell, of
    /// twenty, would hide what else has changed.
    #[serde(skip)]
    pub usual: Option<f64>,
}

impl Figure {
    /// What tells it from itself under other costs best: the mean without the longest sample where
    /// there is one.
    pub(crate) fn typical(&self) -> f64 {
        self.usual.or(self.mean).unwrap_or(self.value)
    }
}

/// Fewer samples than this are all needed.
const LEAST_SAMPLES: u64 = 8;

/// The mean of a record's samples without the greatest.
fn usual(record: &Json, samples: u64) -> Option<f64> {
    let (mean, greatest) = (record["mean"].as_f64()?, record["max"].as_f64()?);
    let count = samples as f64;
    (samples >= LEAST_SAMPLES).then(|| (mean * count - greatest) / (count - 1.0))
}

/// The figure in one record of the benchmark: a latency by its median, or a throughput.
pub fn of_benchmark(record: &Json) -> Option<Figure> {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    // Where a test can be done in several ways, it is done once each, to each kind of target.
    let target = if text("by").is_empty() { "" } else { text("target") };
    let words = [text("test"), text("destination"), text("by"), target];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let fence = if record["fence"].as_bool() == Some(true) { ", fence" } else { "" };
    let name = words.join(" ") + fence;
    let (unit, value, samples) = match text("record") {
        "latency" => ("cycles", record["p50"].as_f64()?, record["samples"].as_u64().unwrap_or(1)),
        "throughput" => ("messages/s", record["per_second"].as_f64()?, 1),
        _ => return None,
    };
    let (mean, usual) = (record["mean"].as_f64(), usual(record, samples));
    Some(Figure { name, unit, value, samples, mean, usual })
}

/// A figure of a record that says how much was done and how long that took.
pub(crate) fn rate(
    record: &Json,
    kind: &str,
    name: &str,
    amount: &str,
    unit: &'static str,
) -> Option<Figure> {
    if record["record"].as_str() != Some(kind) {
        return None;
    }
    let value = record[amount].as_f64()? / record["seconds"].as_f64()?;
    Some(Figure { name: name.into(), unit, value, samples: 1, mean: None, usual: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_test_have_names_of_their_own() {
        for (record, name) in [
            (r#""test":"ipi","destination":"physical","target":"spinning""#, "ipi physical"),
            (r#""test":"ipi","destination":"physical","fence":true"#, "ipi physical, fence"),
            (r#""test":"eoi""#, "eoi"),
            (r#""test":"arm","by":"deadline","fence":true"#, "arm deadline, fence"),
            (r#""test":"timer","by":"count","target":"spinning""#, "timer count spinning"),
            (r#""test":"timer","by":"deadline","target":"halted""#, "timer deadline halted"),
        ] {
            let text = format!(r#"{{"record":"latency","p50":7,"samples":3,{record}}}"#);
            let record = serde_json::from_str(&text).expect("a record");
            let figure = of_benchmark(&record).expect("a latency");
            assert_eq!((figure.name.as_str(), figure.value, figure.samples), (name, 7.0, 3));
        }
    }

    #[test]
    fn the_sample_that_took_longest_does_not_count_among_many() {
        for (samples, expected) in [(10, Some(100.0)), (7, None)] {
            let text = format!(
                r#"{{"record":"latency","test":"eoi","p50":100,"mean":190,"max":1000,"samples":{samples}}}"#
            );
            let record = serde_json::from_str(&text).expect("a record");
            assert_eq!(of_benchmark(&record).expect("a latency").usual, expected);
        }
    }
}
