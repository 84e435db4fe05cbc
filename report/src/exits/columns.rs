//! Parquet: the table of a report as columns, for DuckDB, ClickHouse, Spark and the like.

use super::{Grouping, Report, groups};
use crate::document::TOOL;
use crate::grid::{Grid, Value};
use crate::lake::{Cell, Identity, Kind, columns};
use parquet::errors::Result;

/// Every row begins with these, then come the file and the table's own columns.
const IDENTITY: [(&str, Kind); 5] = [
    ("host", Kind::Text),
    ("kernel", Kind::Text),
    ("time", Kind::Time),
    ("seed", Kind::Whole),
    ("version", Kind::Text),
];

/// The rows of all reports, each with whose and of when it is.
pub fn parquet(identities: &[Identity], reports: &[Report], grouping: Grouping) -> Result<Vec<u8>> {
    let grids: Vec<Grid> = reports.iter().map(|report| groups(report, grouping)).collect();
    let own: Vec<(&str, Kind)> = grids.first().map_or_else(Vec::new, |first| {
        let kind = |(at, name): (usize, &&'static str)| (*name, kind(&grids, at));
        first.columns.iter().enumerate().map(kind).collect()
    });
    let names: Vec<(&str, Kind)> =
        IDENTITY.into_iter().chain([("file", Kind::Text)]).chain(own).collect();
    let mut rows = Vec::new();
    for ((identity, report), grid) in identities.iter().zip(reports).zip(&grids) {
        for row in &grid.rows {
            let mut cells = vec![
                Cell::from(identity.host.as_str()),
                Cell::from(identity.kernel.as_deref()),
                Cell::Time(identity.time_us),
                Cell::from(identity.seed),
                Cell::from(TOOL),
                Cell::from(report.file.as_str()),
            ];
            cells.extend(row.iter().map(cell));
            rows.push(cells);
        }
    }
    columns("exits", &names, &rows)
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Text(text) => Cell::from(text.as_str()),
        Value::Count(count) => Cell::Whole(*count),
        Value::Number(number, _) => Cell::Number(*number),
        Value::Missing => Cell::Missing,
    }
}

/// A column is text if any of its values is, else a fraction if any is.
fn kind(grids: &[Grid], at: usize) -> Kind {
    let values = || grids.iter().flat_map(|grid| &grid.rows).filter_map(|row| row.get(at));
    let all = |test: fn(&Value) -> bool| values().all(test);
    if all(|value| matches!(value, Value::Count(_) | Value::Missing)) {
        Kind::Whole
    } else if all(|value| !value.is_text()) {
        Kind::Number
    } else {
        Kind::Text
    }
}
