//! The machine's own trace of a run, as a file for `machine trace`.

use anyhow::Context;
use change::{Like, Output};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use trace::Record;
use trace::file::Writer;

/// Where the symbols of a trace are: beside it, with this behind its name.
pub fn symbols_of(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".symbols");
    name.into()
}

/// A trace file that is being written.
pub struct Recording {
    path: PathBuf,
    /// Where the symbols go, until they are there.
    symbols: Option<Output>,
    writer: Writer<BufWriter<File>>,
    /// The first thing that went wrong; nothing is written after it.
    fault: Option<io::Error>,
}

impl Recording {
    /// `notes` say what ran.
    pub fn create(path: &Path, notes: &[(String, String)]) -> anyhow::Result<Self> {
        let file = Output::growing(path, Like::Umask)?;
        let writer = Writer::new(BufWriter::new(file), notes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let symbols = Some(Output::to(&symbols_of(path))?);
        Ok(Self { path: path.to_owned(), symbols, writer, fault: None })
    }

    /// The names of the code that it tells of.
    pub(crate) fn name_code(&mut self, symbols: &[u8]) -> anyhow::Result<()> {
        let Some(mut output) = self.symbols.take() else { return Ok(()) };
        let written = output.write_all(symbols);
        written.with_context(|| format!("cannot write {}", symbols_of(&self.path).display()))?;
        output.finish(Like::Umask)?;
        Ok(())
    }

    pub(crate) fn take(&mut self, records: &[Record]) {
        if self.fault.is_none() {
            self.fault = records.iter().try_for_each(|record| self.writer.push(record)).err();
        }
    }

    /// Writes what is left; the file is whole then.
    pub fn finish(self) -> anyhow::Result<()> {
        let Self { path, writer, fault, .. } = self;
        let close = || match fault {
            Some(fault) => Err(fault),
            None => writer.finish()?.0.flush(),
        };
        close().with_context(|| format!("cannot write {}", path.display()))
    }
}
