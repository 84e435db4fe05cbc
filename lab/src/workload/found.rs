//! What a workload finds of its own in one run, besides exits and figures: as data, so that every
//! form of a result has it.

use super::figure::Figure;
use crate::drive::counters::Tally;
use crate::drive::observed::Observed;
use report::grid::Value;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

/// A run as a workload looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What became of the step.
    pub observed: &'a Observed,
    /// The machine's count of the part that counts.
    pub tally: &'a Tally,
    /// Whether the feature was on, but inhibited for part of the time: nothing is expected then.
    pub is_inhibited: bool,
}

impl Run<'_> {
    /// Exits other than HLT.
    pub(crate) fn work(&self) -> u64 {
        let exits = self.tally.exits.iter().filter(|(reason, _)| !reason.is_wait());
        exits.map(|(_, count)| count.exits).sum()
    }

    /// Whether the feature was on.
    pub(crate) fn is_on(&self) -> bool {
        self.observed.step.arm.setting.is_on()
    }

    /// The last record of a kind on the guest's console.
    pub(crate) fn record(&self, kind: &str) -> Option<Json> {
        record(&self.observed.result.console, kind)
    }
}

/// The last record of a kind.
pub(crate) fn record(console: &[String], kind: &str) -> Option<Json> {
    let records = console.iter().rev();
    let mut records = records.filter_map(|line| serde_json::from_str::<Json>(line).ok());
    records.find(|one| one["record"].as_str() == Some(kind))
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Whether it is of the arm with the feature on.
    pub is_on: bool,
    /// Figures besides those that the guest prints.
    pub figures: Vec<Figure>,
    /// Why a figure can be worse with the feature on, by the figure's name.
    pub causes: Vec<(&'static str, String)>,
    /// For programs: a member of the comparison's JSON, and a row there.
    pub row: Option<(&'static str, Json)>,
    /// A row for each of these tables.
    pub rows: Vec<Row>,
    /// What the verdict says of it.
    pub said: Option<Said>,
    /// What is not as it should be.
    pub faults: Vec<String>,
}

/// A row of a table that the workload's runs have together.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of the table.
    pub title: &'static str,
    /// Whether the title goes on with what part of the virtual machine's life counts.
    pub is_scoped: bool,
    /// Of the table.
    pub columns: &'static [&'static str],
    /// As many as there are columns.
    pub cells: Vec<Value>,
}

/// A value that the verdict sets beside that of the other arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Of what, in words.
    pub what: &'static str,
    /// Whether it is said for each virtual machine by its name.
    pub is_named: bool,
    /// As text.
    pub value: String,
}

/// All that was found in a comparison, a member for each key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings(pub Vec<Found>);

impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let rows: Vec<_> = self.0.iter().filter_map(|found| found.row.as_ref()).collect();
        for (place, (key, _)) in rows.iter().enumerate() {
            if rows[..place].iter().all(|(earlier, _)| earlier != key) {
                let own = rows.iter().filter(|(other, _)| other == key);
                map.serialize_entry(key, &own.map(|(_, row)| row).collect::<Vec<_>>())?;
            }
        }
        map.end()
    }
}

/// The members that workloads add to a comparison's JSON, each of its own workload alone.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "its shape alone is used")]
pub struct Members {
    /// Of the workload device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_interrupts: Vec<super::device::DeviceInterrupts>,
    /// Of the workload network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traffic: Vec<super::network::Traffic>,
}
