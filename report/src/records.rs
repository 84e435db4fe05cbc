//! The machine's records as one table, a row for each: CSV and JSON by the line, and Parquet for
//! DuckDB, pandas and the like. Fields that an event has not are empty, null or left out.

#[cfg(feature = "parquet")]
mod columnar;

use crate::grid::{Value as Cell, csv_cell};
use std::io::{self, Write};
use trace::event::{Column, Event, Record, Value};
use trace::symbol::Symbols;

/// What every row begins with: when, in picoseconds since power-on; on which processor; what; of an
/// exit what kernels call its reason; what the code is called that the event names.
const OWN: [Column; 5] = [
    Column { name: "at_ps", is_named: false },
    Column { name: "cpu", is_named: false },
    Column { name: "event", is_named: true },
    Column { name: "exit", is_named: true },
    Column { name: "symbol", is_named: true },
];

/// All columns.
pub fn columns() -> Vec<Column> {
    OWN.into_iter().chain(Event::columns()).collect()
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line each, behind one with the columns. [RFC 4180]
    Csv,
    /// A JSON object each, with what the event has.
    Ndjson,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Writes records as they come.
pub struct Table<W: Write + Send> {
    rows: Rows<W>,
    columns: Vec<Column>,
    symbols: Symbols,
}

enum Rows<W: Write + Send> {
    Csv(W),
    Ndjson(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<columnar::Columns<W>>),
}

impl<W: Write + Send> Table<W> {
    /// Begins the table. Code is called as the symbols have it.
    pub fn new(mut output: W, form: Form, symbols: Symbols) -> io::Result<Self> {
        let columns = columns();
        let rows = match form {
            Form::Csv => {
                let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
                writeln!(output, "{}", names.join(","))?;
                Rows::Csv(output)
            }
            Form::Ndjson => Rows::Ndjson(output),
            #[cfg(feature = "parquet")]
            Form::Parquet => Rows::Parquet(Box::new(columnar::Columns::new(output, &columns)?)),
        };
        Ok(Self { rows, columns, symbols })
    }

    /// A row.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        let cells = self.cells(record);
        match &mut self.rows {
            Rows::Csv(output) => writeln!(output, "{}", line(&cells)),
            Rows::Ndjson(output) => {
                let object: serde_json::Map<_, _> = self
                    .columns
                    .iter()
                    .zip(cells)
                    .filter_map(|(column, cell)| Some((column.name.to_owned(), json(cell?))))
                    .collect();
                writeln!(output, "{}", serde_json::Value::Object(object))
            }
            #[cfg(feature = "parquet")]
            Rows::Parquet(columns) => columns.push(cells),
        }
    }

    /// A value for each column.
    fn cells(&self, record: &Record) -> Vec<Option<Value>> {
        let name = |text: &str| Some(Value::Name(text.to_owned()));
        let mut cells = Vec::with_capacity(self.columns.len());
        cells.push(Some(Value::Number(record.at.0)));
        cells.push(Some(Value::Number(record.cpu.0.into())));
        cells.push(name(record.event.label()));
        cells.push(record.event.exit_name().and_then(name));
        let symbol = record.event.rip().and_then(|rip| self.symbols.name(rip));
        cells.push(symbol.map(Value::Name));
        cells.resize(self.columns.len(), None);
        record.event.values(|name, value| {
            // Names of fields are not those of the table's own columns.
            if let Some(at) = self.columns.iter().position(|column| column.name == name) {
                cells[at] = Some(value);
            }
        });
        cells
    }

    /// Writes what is left.
    pub fn finish(self) -> io::Result<W> {
        match self.rows {
            Rows::Csv(output) | Rows::Ndjson(output) => Ok(output),
            #[cfg(feature = "parquet")]
            Rows::Parquet(columns) => columns.finish(),
        }
    }
}

fn line(cells: &[Option<Value>]) -> String {
    let cell = |cell: &Option<Value>| match cell {
        None => String::new(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Name(name)) => csv_cell(&Cell::text(name.clone())),
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Number(number) => number.into(),
        Value::Name(name) => name.into(),
    }
}

#[cfg(test)]
mod tests;
