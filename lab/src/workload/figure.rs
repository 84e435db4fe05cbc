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
}

/// The figure in one record of the benchmark: a latency by its median, or a throughput.
pub fn of_benchmark(record: &Json) -> Option<Figure> {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let fence = if record["fence"].as_bool() == Some(true) { ", fence" } else { "" };
    let name = format!("{} {}{fence}", text("test"), text("destination")).trim_end().to_owned();
    let (unit, value, samples) = match text("record") {
        "latency" => ("cycles", record["p50"].as_f64()?, record["samples"].as_u64().unwrap_or(1)),
        "throughput" => ("messages/s", record["per_second"].as_f64()?, 1),
        _ => return None,
    };
    Some(Figure { name, unit, value, samples, mean: record["mean"].as_f64() })
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
    Some(Figure { name: name.into(), unit, value, samples: 1, mean: None })
}
