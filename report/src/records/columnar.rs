//! The table's columns, a group of rows at a time: a trace is larger than memory.

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;
use trace::event::{Column, Value};

/// Rows that are kept together, and so are in memory at once.
const ROWS: usize = 1 << 17;

/// A column of the rows that are in memory.
struct Cells {
    /// Of each row, whether it has a value.
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Numbers(Vec<i64>),
    Names(Vec<ByteArray>),
}

/// Writes rows as they come.
pub(super) struct Columns<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    cells: Vec<Cells>,
    rows: usize,
}

impl<W: Write + Send> Columns<W> {
    pub(super) fn new(output: W, columns: &[Column]) -> io::Result<Self> {
        let cells = columns.iter().map(|column| Cells {
            levels: Vec::new(),
            values: match column.is_named {
                true => Values::Names(Vec::new()),
                false => Values::Numbers(Vec::new()),
            },
        });
        let cells = cells.collect();
        Ok(Self { writer: begin(output, columns).map_err(io::Error::other)?, cells, rows: 0 })
    }

    /// A value for each column.
    pub(super) fn push(&mut self, row: Vec<Option<Value>>) -> io::Result<()> {
        for (cells, value) in self.cells.iter_mut().zip(row) {
            cells.levels.push(i16::from(value.is_some()));
            match (&mut cells.values, value) {
                (_, None) => {}
                // All 64 bits, which the column's type says have no sign.
                (Values::Numbers(all), Some(Value::Number(number))) => {
                    all.push(number.cast_signed());
                }
                (Values::Names(all), Some(Value::Name(name))) => all.push(name.as_str().into()),
                (_, Some(_)) => return Err(io::Error::other("a value of another kind")),
            }
        }
        self.rows += 1;
        if self.rows == ROWS { self.write().map_err(io::Error::other) } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        let mut all = self.cells.iter_mut();
        while let Some(mut column) = group.next_column()? {
            let Some(cells) = all.next() else {
                return Err(ParquetError::General("more columns than cells".into()));
            };
            let levels = Some(cells.levels.as_slice());
            match (column.untyped(), &mut cells.values) {
                (ColumnWriter::Int64ColumnWriter(writer), Values::Numbers(values)) => {
                    writer.write_batch(values, levels, None)?;
                    values.clear();
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Values::Names(values)) => {
                    writer.write_batch(values, levels, None)?;
                    values.clear();
                }
                _ => return Err(ParquetError::General("a column of another kind".into())),
            }
            cells.levels.clear();
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes what is left; a table without rows has its columns all the same.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write().map_err(io::Error::other)?;
        }
        self.writer.into_inner().map_err(io::Error::other)
    }
}

fn begin<W: Write + Send>(output: W, columns: &[Column]) -> Result<SerializedFileWriter<W>> {
    let field = |column: &Column| {
        let (physical, logical) = match column.is_named {
            true => (PhysicalType::BYTE_ARRAY, LogicalType::String),
            false => (PhysicalType::INT64, LogicalType::integer(64, false)),
        };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(logical))
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("trace").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(crate::document::TOOL.to_owned())
        .build();
    SerializedFileWriter::new(output, schema, Arc::new(properties))
}
