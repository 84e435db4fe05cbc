//! The machine's own trace of a run, as a file for `machine trace`.

use anyhow::Context;
use arch::time::Picoseconds;
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
    /// The time of the last record.
    last: Picoseconds,
    /// What is added to a machine's time.
    shift: Picoseconds,
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
        let (last, shift) = (Picoseconds::ZERO, Picoseconds::ZERO);
        Ok(Self { path: path.to_owned(), symbols, writer, last, shift, fault: None })
    }

    /// What follows is of a machine whose time is this now, which may be another machine than the
    /// one before, or before: in the file it comes after what is there.
    pub(crate) fn going_on_at(self, now: Picoseconds) -> Self {
        let shift = Picoseconds(self.last.0.saturating_sub(now.0));
        Self { shift, ..self }
    }

    /// The names of the code that it tells of.
    pub fn name_code(&mut self, symbols: &[u8]) -> anyhow::Result<()> {
        let Some(mut output) = self.symbols.take() else { return Ok(()) };
        let written = output.write_all(symbols);
        written.with_context(|| format!("cannot write {}", symbols_of(&self.path).display()))?;
        output.finish(Like::Umask)?;
        Ok(())
    }

    /// Takes in what happened; what goes wrong is said at the end.
    pub fn take(&mut self, records: &[Record]) {
        if self.fault.is_some() {
            return;
        }
        let Self { writer, last, shift, .. } = self;
        let mut push = |record: &Record| {
            let at = record.at.saturating_add(*shift);
            *last = at.max(*last);
            writer.push(&Record { at, ..*record })
        };
        self.fault = records.iter().try_for_each(&mut push).err();
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
