//! Questions in SQL: the trace becomes a table of DuckDB's. The trace is read by this program once
//! more, in its sandbox; the engine reads what that wrote.

use super::Arguments;
use crate::outcome::outcome;
use crate::terminal;
use anyhow::{Context, bail, ensure};
use std::io::{ErrorKind, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitCode, Output};

/// What python3 runs: the statements that make the table, a question, and whether people read the
/// answer.
const PYTHON: &str = "\
import duckdb, sys
engine = duckdb.connect()
try:
    engine.execute(sys.argv[1])
    answer = engine.sql(sys.argv[2])
    if answer is not None and sys.argv[3] == 'people':
        print(answer)
    elif answer is not None:
        answer.write_csv('/dev/stdout')
except duckdb.Error as error:
    sys.exit(str(error))
";

pub(super) fn ask(arguments: &Arguments, sql: &str) -> anyhow::Result<ExitCode> {
    ensure!(cfg!(feature = "parquet"), "--query needs Parquet, which this build is without");
    let folder = tempfile::tempdir().context("no folder for the table")?;
    let table = folder.path().join("trace.parquet");
    write(arguments, &table)?;
    let path = table.to_string_lossy().replace('\'', "''");
    let made = format!("CREATE VIEW trace AS SELECT * FROM read_parquet('{path}');");
    let reader = if std::io::stdout().is_terminal() { "people" } else { "program" };
    let output = answer(&made, sql, reader)?;
    terminal::print_for_program(&String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "DuckDB: {}", said.trim());
    Ok(ExitCode::SUCCESS)
}

/// The table, by another process of this program.
fn write(arguments: &Arguments, table: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(own);
    command.args(["machine", "trace", "--format", "parquet", "--output"]).arg(table);
    command.args(["--from", &format!("{}ps", arguments.from.0)]);
    if let Some(to) = arguments.to {
        command.args(["--to", &format!("{}ps", to.0)]);
    }
    for symbols in arguments.symbols.files() {
        command.arg("--symbols").arg(symbols);
    }
    command.args(arguments.sandbox.words()).arg("--").arg(&arguments.file);
    let output = outcome(&mut command).context("cannot start this program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("avicenna: ");
    ensure!(output.status.success(), "{said}");
    Ok(())
}

fn answer(made: &str, sql: &str, reader: &str) -> anyhow::Result<Output> {
    let mut duckdb = Command::new("duckdb");
    if reader == "program" {
        duckdb.arg("-csv");
    }
    match outcome(duckdb.args(["-c", made, "-c", sql])) {
        Ok(output) => return Ok(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).context("cannot start duckdb"),
    }
    match outcome(Command::new("python3").args(["-c", PYTHON, made, sql, reader])) {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("No module named") => {
            Ok(output)
        }
        _ => bail!(
            "--query needs DuckDB: the program duckdb, or python3 with its module (pip install \
             duckdb); --format parquet writes the table for other engines"
        ),
    }
}
