//! What `bench calibrate` measured on a host, as a document.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host's times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// Version of the form: docs/schema/calibrate-1.json.
    pub schema: u32,
    /// The program's version; the fit needs the same one, whose loops are the same code.
    pub program: String,
    /// Where.
    pub host: MeasuredHost,
    /// How exits were recorded in the rows that begin with "recorded", as recordings name it; none
    /// where they cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_by: Option<String>,
    /// What.
    pub rows: Vec<Row>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredHost {
    /// As it calls itself.
    pub name: String,
    /// Year, month and day of the measurement, by its clock.
    pub date: String,
    /// Of the processor, as its guest saw it.
    pub vendor: String,
    /// CPUID's, in hexadecimal.
    pub signature: String,
    /// The kernel's release.
    pub kernel: String,
    /// Of the guest's time-stamp counter.
    pub tsc_khz: u64,
    /// Whether KVM has AVIC or APICv switched on.
    pub is_on: bool,
    /// What the kernel does against each weakness of the processor, in its own words.
    pub mitigations: BTreeMap<String, String>,
}

/// One time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Where it was measured, in which mode of the APIC, and what.
    pub name: String,
    /// Nanoseconds: the mean over the repetitions of each one's median.
    pub value: f64,
    /// The standard deviation of the medians; none of a single repetition.
    pub deviation: Option<f64>,
    /// Repetitions, each a life of the guest.
    pub repeats: u64,
    /// Of each.
    pub samples: u64,
    /// Nanoseconds, over all repetitions: the least sample, and the least of the medians, tenths
    /// and hundredths from the top, and maxima.
    pub min: f64,
    /// The median's mean.
    pub p50: f64,
    /// The mean of what a tenth of the samples exceeds.
    pub p90: f64,
    /// And a hundredth.
    pub p99: f64,
    /// The greatest sample.
    pub max: f64,
}

impl Measured {
    /// The version of the form.
    pub const SCHEMA: u32 = 1;

    /// Reads one; what it is not about is said.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let read: Self = serde_json::from_str(text)?;
        let schema = read.schema;
        anyhow::ensure!(schema == Self::SCHEMA, "its schema is {schema}, must be {}", Self::SCHEMA);
        for row in &read.rows {
            let is_time = row.value.is_finite() && row.value >= 0.0;
            anyhow::ensure!(is_time, "{}: {} must be a time", row.name, row.value);
        }
        anyhow::ensure!(!read.rows.is_empty(), "nothing was measured: it has no rows");
        Ok(read)
    }

    /// In that form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The host and the day, for sources.
    pub fn place(&self) -> String {
        format!("{}, {}", self.host.name, self.host.date)
    }

    /// A row by its name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rows of a host of that name.
    pub(crate) fn of_lathe(rows: Vec<Row>) -> Measured {
        let host = MeasuredHost {
            name: "lathe".into(),
            date: "2026-01-02".into(),
            vendor: String::new(),
            signature: String::new(),
            kernel: String::new(),
            tsc_khz: 1,
            is_on: true,
            mitigations: Default::default(),
        };
        Measured { schema: 1, program: String::new(), host, recorded_by: None, rows }
    }

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let own = schema::of::<Measured>("avicenna bench calibrate", Measured::SCHEMA);
        schema::assert_published("calibrate-1.json", &own);
    }

    #[test]
    fn what_is_no_measurement_is_refused_with_the_reason() {
        for (text, reason) in [
            ("{}", "missing field"),
            (&document(1, -1.0), "must be a time"),
            (&document(2, 1.0), "must be 1"),
        ] {
            let error = Measured::parse(text).expect_err(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Measured::parse(&document(1, 1.0)).is_ok());
    }

    fn document(schema: u32, value: f64) -> String {
        format!(
            r#"{{"schema":{schema},"program":"0.1.0","host":{{"name":"a","date":"2026-01-02",
            "vendor":"AuthenticAMD","signature":"0xa10f11","kernel":"6.12","tsc_khz":2400000,
            "is_on":true,"mitigations":{{}}}},"rows":[{{"name":"x","value":{value},
            "deviation":null,"repeats":1,"samples":3,"min":1,"p50":1,"p90":1,"p99":1,"max":1}}]}}"#
        )
    }
}
