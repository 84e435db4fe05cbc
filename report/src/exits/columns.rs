//! Parquet: the table of a report as columns, for DuckDB, ClickHouse, Spark and the like.

use super::{Grouping, Report, one_grid};
use crate::grid::{Grid, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;

/// One row group of the rows of all reports.
pub fn parquet(reports: &[Report], grouping: Grouping) -> Result<Vec<u8>> {
    let grid = one_grid(reports, grouping);
    let kinds: Vec<PhysicalType> = (0..grid.columns.len()).map(|at| kind(&grid, at)).collect();
    let fields = grid
        .columns
        .iter()
        .zip(&kinds)
        .map(|(name, kind)| {
            let text = matches!(kind, PhysicalType::BYTE_ARRAY).then_some(LogicalType::String);
            let field = Type::primitive_type_builder(name, *kind)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(text)
                .build()?;
            Ok(Arc::new(field))
        })
        .collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("exits").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(concat!("avicenna ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut at = 0;
    while let Some(mut column) = group.next_column()? {
        let values = || grid.rows.iter().filter_map(|row| row.get(at));
        let levels: Vec<i16> =
            values().map(|value| i16::from(!matches!(value, Value::Missing))).collect();
        match kinds[at] {
            PhysicalType::INT64 => {
                let numbers: Vec<i64> = values().filter_map(whole).collect();
                column.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)?;
            }
            PhysicalType::DOUBLE => {
                let numbers: Vec<f64> = values().filter_map(number).collect();
                column.typed::<DoubleType>().write_batch(&numbers, Some(&levels), None)?;
            }
            _ => {
                let present = values().filter(|value| !matches!(value, Value::Missing));
                let texts: Vec<ByteArray> =
                    present.map(|value| ByteArray::from(value.plain().as_str())).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
            }
        }
        column.close()?;
        at += 1;
    }
    group.close()?;
    writer.into_inner()
}

/// A column is text if any of its values is, else a fraction if any is.
fn kind(grid: &Grid, at: usize) -> PhysicalType {
    let values = || grid.rows.iter().filter_map(|row| row.get(at));
    let all = |test: fn(&Value) -> bool| values().all(test);
    if all(|value| matches!(value, Value::Count(_) | Value::Missing)) {
        PhysicalType::INT64
    } else if all(|value| !value.is_text()) {
        PhysicalType::DOUBLE
    } else {
        PhysicalType::BYTE_ARRAY
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Count(count) => Some(i64::try_from(*count).unwrap_or(i64::MAX)),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Count(count) => Some(*count as f64),
        Value::Number(number, _) => Some(*number),
        _ => None,
    }
}
