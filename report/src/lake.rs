//! Results of many hosts as columns: one schema in a Hive layout, `TABLE/dt=DATE/NAME.parquet`, for
//! DuckDB, ClickHouse, Spark, Trino and the like. docs/fleet.md is made from this schema.
//!
//! Every table begins with the same columns, so that tables join on what they are about. A host is
//! a column, not a folder: thousands of files with a few rows each are what slows an engine down.

mod rows;
mod schema;
#[cfg(feature = "parquet")]
mod write;

pub use rows::{Host, host};
pub use rows::{exits, outcomes, trials};
pub use schema::{COMMON, Column, Kind, SCHEMAS, Schema, VERSION, documentation, json_schema};
#[cfg(feature = "parquet")]
pub use write::{columns, parquet};

use crate::document::TOOL;
use rules::finding::Answer;
use std::collections::BTreeMap;

/// Whose rows they are, and of when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The host's name, as the operator has it.
    pub host: String,
    /// Microseconds since 1970 at which it was so.
    pub time_us: u64,
    /// The host's kernel, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// What a run of the lab or of an experiment was started from.
    pub seed: Option<u64>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A count, or nanoseconds.
    Whole(u64),
    /// A fraction.
    Number(f64),
    /// Microseconds since 1970.
    Time(u64),
    /// There is no such value.
    Missing,
}

impl Cell {
    const fn fits(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Missing, _)
                | (Self::Text(_), Kind::Text)
                | (Self::Whole(_), Kind::Whole | Kind::Number)
                | (Self::Number(_), Kind::Number)
                | (Self::Time(_), Kind::Time)
        )
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Answer> for Cell {
    fn from(answer: Answer) -> Self {
        Self::Text(answer.to_string())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// Rows of one of the [`SCHEMAS`], those of several hosts below each other.
#[derive(Clone, Debug)]
pub struct Table {
    /// What its columns are.
    pub schema: &'static Schema,
    /// As many cells in each as [`Schema::columns`] has.
    pub rows: Vec<Vec<Cell>>,
}

/// Tables in the making, with their rows by day.
#[derive(Debug, Default)]
pub struct Lake(BTreeMap<(&'static str, u64), Table>);

/// A file of the layout.
#[derive(Debug)]
pub struct Part {
    /// `TABLE/dt=DATE/NAME.parquet`.
    pub path: String,
    /// What it holds.
    pub table: Table,
}

const DAY_US: u64 = 86_400_000_000;

impl Lake {
    /// Adds a row of a machine, or of a host where `vm` is none.
    ///
    /// # Panics
    ///
    /// If the row does not have the schema's columns and kinds: that is a fault of the caller,
    /// whatever was read.
    pub fn push(
        &mut self,
        schema: &'static Schema,
        identity: &Identity,
        vm: Option<&str>,
        own: impl IntoIterator<Item = Cell>,
    ) {
        let mut row = vec![
            Cell::from(identity.host.as_str()),
            Cell::from(vm),
            Cell::from(identity.kernel.as_deref()),
            Cell::Time(identity.time_us),
            Cell::from(identity.seed),
            Cell::from(TOOL),
        ];
        row.extend(own);
        assert_eq!(row.len(), schema.columns().count(), "a row of {}", schema.name);
        for (cell, column) in row.iter().zip(schema.columns()) {
            assert!(cell.fits(column.kind), "{} of {}: {cell:?}", column.name, schema.name);
        }
        let key = (schema.name, identity.time_us / DAY_US);
        let table = self.0.entry(key).or_insert_with(|| Table { schema, rows: Vec::new() });
        table.rows.push(row);
    }

    /// Takes another's rows behind its own.
    pub fn append(&mut self, other: Self) {
        for (key, table) in other.0 {
            match self.0.get_mut(&key) {
                Some(own) => own.rows.extend(table.rows),
                None => {
                    self.0.insert(key, table);
                }
            }
        }
    }

    /// The files, named after what they hold, so that writing the same again replaces it. A table
    /// without rows has a file too: engines take its columns from that.
    pub fn parts(self) -> Vec<Part> {
        let lacking =
            SCHEMAS.iter().filter(|schema| !self.0.keys().any(|key| key.0 == schema.name));
        let empty: Vec<Part> = lacking
            .map(|schema| Part {
                path: format!("{}/dt={}/none.parquet", schema.name, date(0)),
                table: Table { schema, rows: Vec::new() },
            })
            .collect();
        let part = |((name, day), table): ((&str, u64), Table)| {
            let path = format!("{name}/dt={}/{}.parquet", date(day), file_name(&table));
            Part { path, table }
        };
        self.0.into_iter().map(part).chain(empty).collect()
    }
}

/// Host and time of the rows where that is one; else a digest of all of them.
fn file_name(table: &Table) -> String {
    let mut keys: Vec<(&str, u64)> = Vec::new();
    for row in &table.rows {
        if let [Cell::Text(host), _, _, Cell::Time(time), ..] = row.as_slice()
            && keys.last() != Some(&(host, *time))
        {
            keys.push((host, *time));
        }
    }
    if let [(host, time)] = keys.as_slice() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let host: String = host.chars().take(100).map(plain).collect();
        let host = host.trim_start_matches(['.', '_']);
        return format!("{host}-{:016x}-{time}", digest(keys.iter()));
    }
    format!("part-{:016x}", digest(keys.iter()))
}

/// FNV-1a of hosts and times, which is the same everywhere and always.
fn digest<'a>(keys: impl Iterator<Item = &'a (&'a str, u64)>) -> u64 {
    let bytes = keys.flat_map(|(host, time)| {
        host.bytes().chain([0]).chain(time.to_le_bytes()).collect::<Vec<u8>>()
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A day since 1970 as `YYYY-MM-DD`, by the calendar of Gregory.
pub fn date(day: u64) -> String {
    // Years begin in March, so that the day which is not always there is the last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + later)
}

#[cfg(test)]
mod tests;
