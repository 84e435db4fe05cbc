//! A table as a file of Apache Parquet.

use super::{Cell, Kind, Table, VERSION};
use crate::document::TOOL;
use parquet::basic::{
    Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;

/// Rows that are kept together, as engines like to read them.
const ROWS: usize = 1 << 20;

/// The table's bytes.
pub fn parquet(table: &Table) -> Result<Vec<u8>> {
    let names: Vec<(&str, Kind)> =
        table.schema.columns().map(|column| (column.name, column.kind)).collect();
    columns(table.schema.name, &names, &table.rows)
}

/// Rows of columns that are named and typed one by one.
pub fn columns(name: &str, columns: &[(&str, Kind)], rows: &[Vec<Cell>]) -> Result<Vec<u8>> {
    let field = |(name, kind): &(&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Whole => (PhysicalType::INT64, None),
            Kind::Number => (PhysicalType::DOUBLE, None),
            Kind::Time => {
                let is_utc = true;
                let logical = LogicalType::timestamp(is_utc, TimeUnit::MICROS);
                (PhysicalType::INT64, Some(logical))
            }
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder(name).with_fields(fields).build()?);
    let version = KeyValue::new("schema_version".to_owned(), VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(TOOL.to_owned())
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    // A table without rows has its columns all the same.
    for rows in rows.chunks(ROWS) {
        let mut group = writer.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            write_column(column.untyped(), rows, at)?;
            column.close()?;
            at += 1;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn write_column(writer: &mut ColumnWriter<'_>, rows: &[Vec<Cell>], at: usize) -> Result<()> {
    let cells = || rows.iter().filter_map(|row| row.get(at));
    let levels: Vec<i16> = cells().map(|cell| i16::from(!matches!(cell, Cell::Missing))).collect();
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let values: Vec<i64> = cells().filter_map(whole).collect();
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let values: Vec<f64> = cells().filter_map(number).collect();
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let values: Vec<ByteArray> = cells().filter_map(text).collect();
            writer.write_batch(&values, Some(&levels), None)?;
        }
        _ => return Err(ParquetError::General("a column of a kind that is not written".into())),
    }
    Ok(())
}

fn whole(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Whole(value) | Cell::Time(value) => Some(i64::try_from(*value).unwrap_or(i64::MAX)),
        _ => None,
    }
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Whole(value) => Some(*value as f64),
        Cell::Number(value) => Some(*value),
        _ => None,
    }
}

fn text(cell: &Cell) -> Option<ByteArray> {
    match cell {
        Cell::Text(text) => Some(ByteArray::from(text.as_str())),
        Cell::Whole(value) => Some(ByteArray::from(value.to_string().as_str())),
        Cell::Number(value) => Some(ByteArray::from(value.to_string().as_str())),
        _ => None,
    }
}
