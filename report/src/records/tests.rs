use super::*;
use arch::address::{Linear, SystemPhysical};
use arch::identity::{CpuIndex, Vector};
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use trace::VirtualCpu;

fn records() -> Vec<Record> {
    let exit = Event::SvmExit {
        vcpu: VirtualCpu(SystemPhysical(0x1000)),
        code: ExitCode::from_bits(0x7C),
        info1: u64::MAX,
        info2: 0,
        interrupt_info: 0,
        rip: Linear(0x2010),
    };
    [(1500, 1, exit), (1600, 0, Event::EndOfInterrupt { vector: Vector(0x21) })]
        .map(|(at, cpu, event)| Record { at: Picoseconds(at), cpu: CpuIndex(cpu), event })
        .to_vec()
}

fn written(form: Form, name: &str) -> Vec<u8> {
    let mut symbols = Symbols::default();
    symbols.extend([(0x2000, name.to_owned())]);
    let mut table = Table::new(Vec::new(), form, symbols).expect("memory");
    records().iter().for_each(|record| table.push(record).expect("memory"));
    table.finish().expect("memory")
}

#[test]
fn the_table_s_own_columns_are_not_those_of_an_event() {
    let columns = Event::columns();
    assert!(OWN.iter().all(|own| columns.iter().all(|column| column.name != own.name)));
}

#[test]
fn a_line_has_as_many_cells_as_the_first_and_no_formula() {
    let text = String::from_utf8(written(Form::Csv, "=a,b")).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("at_ps,cpu,event,exit,symbol,vcpu,code,"), "{}", lines[0]);
    assert!(lines[1].starts_with("1500,1,vm-exit,msr,\"'=a,b+0x10\",4096,"), "{}", lines[1]);
    let commas = |line: &str| line.matches(',').count();
    assert_eq!(commas(lines[2]), commas(lines[0]));
    assert!(lines[2].starts_with("1600,0,eoi,,,,"), "{}", lines[2]);
}

#[test]
fn an_object_has_what_its_event_has() {
    let text = String::from_utf8(written(Form::Ndjson, "a\"b")).expect("text");
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows[0]["symbol"], "a\"b+0x10");
    assert_eq!(rows[0]["info1"], u64::MAX);
    assert_eq!(rows[1], serde_json::json!({"at_ps": 1600, "cpu": 0, "event": "eoi", "vector": 33}));
}

#[cfg(feature = "parquet")]
fn file_of(bytes: Vec<u8>) -> std::fs::File {
    let mut file = tempfile::tempfile().expect("a writable folder");
    file.write_all(&bytes).expect("room");
    file
}

#[cfg(feature = "parquet")]
#[test]
fn columns_come_back_as_they_were_written() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let bytes = written(Form::Parquet, "idle");
    let reader = SerializedFileReader::new(file_of(bytes)).expect("a Parquet file");
    let rows: Vec<_> =
        reader.get_row_iter(None).expect("rows").map(|row| row.expect("one")).collect();
    let of = |row: usize, name: &str| {
        let mut columns = rows[row].get_column_iter();
        columns.find(|(column, _)| *column == name).map(|(_, field)| field.clone())
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(of(0, "exit"), Some(Field::Str("msr".into())));
    assert_eq!(of(0, "symbol"), Some(Field::Str("idle+0x10".into())));
    assert_eq!(of(0, "info1"), Some(Field::ULong(u64::MAX)));
    assert_eq!(of(0, "vector"), Some(Field::Null));
    assert_eq!(of(1, "vector"), Some(Field::ULong(33)));
    assert_eq!(of(1, "at_ps"), Some(Field::ULong(1600)));

    let table = Table::new(Vec::new(), Form::Parquet, Symbols::default()).expect("memory");
    let empty = table.finish().expect("memory");
    let reader = SerializedFileReader::new(file_of(empty)).expect("a Parquet file");
    let schema = reader.metadata().file_metadata().schema_descr();
    assert_eq!(schema.num_columns(), columns().len());
}
