//! The benchmark guest's records as rows: each life of the guest is a repetition.

use super::measured::Row;
use crate::workload::figure;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What guests printed so far.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Of the guest's counter, as its first life said.
    pub tsc_khz: u64,
    /// The vendor and the signature that it saw.
    pub processor: (String, String),
    records: BTreeMap<String, Vec<Json>>,
}

/// Adds what a life of the guest printed, under conditions of this name. Lost interrupts are an
/// error: what else was measured then is of a host that is not well.
pub fn collect(all: &mut Collected, conditions: &str, console: &str) -> anyhow::Result<()> {
    let mut has_ended = false;
    for line in console.lines().filter(|line| line.starts_with('{')) {
        let Ok(record) = serde_json::from_str::<Json>(line) else { continue };
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        match record["record"].as_str() {
            Some("start") if all.tsc_khz == 0 => {
                all.tsc_khz = record["tsc_khz"].as_u64().unwrap_or(0);
                all.processor = (text("vendor"), text("signature"));
            }
            Some("lost") => anyhow::bail!("{conditions}: an interrupt was lost: {line}"),
            Some("end") => has_ended = true,
            Some("latency") => {
                let Some(figure) = figure::of_benchmark(&record) else { continue };
                let mode = text("apic");
                let words = [conditions, mode.as_str(), figure.name.as_str()];
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                all.records.entry(words.join(" ")).or_default().push(record);
            }
            _ => {}
        }
    }
    anyhow::ensure!(has_ended, "{conditions}: the benchmark did not come to its end");
    anyhow::ensure!(all.tsc_khz > 0, "the benchmark does not know its counter's rate");
    Ok(())
}

impl Collected {
    /// In nanoseconds.
    pub fn rows(&self) -> Vec<Row> {
        self.records.iter().map(|(name, records)| self.row(name, records)).collect()
    }

    fn row(&self, name: &str, records: &[Json]) -> Row {
        let of = |key: &str| -> Vec<f64> {
            let cycles = records.iter().map(|one| one[key].as_f64().unwrap_or(0.0));
            cycles.map(|cycles| cycles * 1e6 / self.tsc_khz as f64).collect()
        };
        let medians = of("p50");
        let samples = records.first().and_then(|one| one["samples"].as_u64()).unwrap_or(0);
        row(name, &medians, samples, [of("min"), of("p90"), of("p99"), of("max")])
    }
}

/// A row of medians in nanoseconds, with what else is known of each repetition.
pub(super) fn row(name: &str, medians: &[f64], samples: u64, spread: [Vec<f64>; 4]) -> Row {
    let [min, p90, p99, max] = spread;
    let value = mean(medians);
    let squares = medians.iter().map(|one| (one - value).powi(2)).sum::<f64>();
    let count = medians.len() as f64;
    Row {
        name: name.to_owned(),
        value,
        deviation: (medians.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
        repeats: medians.len() as u64,
        samples,
        min: min.into_iter().fold(f64::INFINITY, f64::min),
        p50: value,
        p90: mean(&p90),
        p99: mean(&p99),
        max: max.into_iter().fold(0.0, f64::max),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Row {
    /// A loop's time per operation, of several repetitions in nanoseconds.
    pub fn of_loop(name: &str, times: &[f64]) -> Self {
        row(name, times, 1, std::array::from_fn(|_| times.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str =
        r#"{"record":"start","vendor":"AuthenticAMD","signature":"0xa10f11","tsc_khz":2000000}"#;

    fn life(cycles: u32) -> String {
        let latency = format!(
            r#"{{"record":"latency","test":"eoi","apic":"xapic","samples":9,"min":{cycles},"p50":{cycles},"p90":{cycles},"p99":{cycles},"max":{cycles},"mean":{cycles}}}"#
        );
        format!("{START}\nnoise\n{latency}\n{{\"record\":\"end\",\"passed\":true}}\n")
    }

    #[test]
    fn a_row_is_the_mean_of_the_lives_medians_in_nanoseconds() {
        let mut all = Collected::default();
        for cycles in [200, 240] {
            collect(&mut all, "plain", &life(cycles)).expect("a whole life");
        }
        let rows = all.rows();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.name.as_str(), row.value, row.repeats), ("plain xapic eoi", 110.0, 2));
        assert!((row.deviation.expect("two lives") - 14.142).abs() < 1e-3);
        assert_eq!((row.min, row.max), (100.0, 120.0));
    }

    #[test]
    fn a_life_that_broke_off_or_lost_an_interrupt_is_no_measurement() {
        let mut all = Collected::default();
        assert!(collect(&mut all, "plain", START).is_err());
        let lost = life(1).replace("noise", r#"{"record":"lost","test":"eoi"}"#);
        let error = collect(&mut all, "plain", &lost).expect_err("lost").to_string();
        assert!(error.contains("an interrupt was lost"), "{error}");
    }
}
