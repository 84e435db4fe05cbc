//! What happened and was not asked for yet: records and console output, the last of them.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use trace::Record;

/// Records that are kept.
const MOST_RECORDS: usize = 1 << 16;
/// Bytes of a serial port that are kept.
const MOST_BYTES: usize = 1 << 20;

/// What happened since it was last asked for, or since the machine went back.
#[derive(Default)]
pub struct Collected {
    records: VecDeque<Record>,
    /// Records that were dropped.
    lost: u64,
    console: BTreeMap<u8, VecDeque<u8>>,
}

impl Collected {
    /// The machine went back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn add(&mut self, records: Vec<Record>) {
        self.records.extend(records);
        let surplus = self.records.len().saturating_sub(MOST_RECORDS);
        self.records.drain(..surplus);
        self.lost += surplus as u64;
    }

    pub fn show(&mut self, output: Vec<(u8, u8)>) {
        for (port, byte) in output {
            let shown = self.console.entry(port).or_default();
            if shown.len() == MOST_BYTES {
                shown.pop_front();
            }
            shown.push_back(byte);
        }
    }

    /// The first `most` records, how many are left, and how many were dropped.
    pub fn take_records(&mut self, most: usize) -> (Vec<Value>, usize, u64) {
        let taken = self.records.drain(..most.min(self.records.len()));
        let taken = taken.map(|record| event(&record)).collect();
        (taken, self.records.len(), std::mem::take(&mut self.lost))
    }

    /// Bytes that a serial port showed.
    pub fn shown(&self, port: u8) -> usize {
        self.console.get(&port).map_or(0, VecDeque::len)
    }

    pub fn take_console(&mut self, port: u8) -> Vec<u8> {
        self.console.remove(&port).unwrap_or_default().into()
    }
}

/// A record as JSON: when, where, what kind, and its fields.
pub fn event(record: &Record) -> Value {
    json!({
        "picoseconds": record.at.0,
        "cpu": record.cpu.0,
        "kind": record.event.label(),
        "fields": fields(record),
    })
}

/// The fields of a record's event.
pub fn fields(record: &Record) -> Map<String, Value> {
    // An event is a variant's name with its fields.
    let Ok(Value::Object(named)) = serde_json::to_value(record.event) else { return Map::new() };
    named.into_iter().find_map(|(_, fields)| fields.as_object().cloned()).unwrap_or_default()
}
