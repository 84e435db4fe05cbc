//! A row for each window, as Parquet: those of all parts of a search, in one folder, are one
//! table.

use crate::sandbox::Sandbox;
use anyhow::Context;
use change::{Like, Output};
use lab::explore::{Mix, Report, WindowRow};
use report::lake::{Cell, Kind};
use std::io::Write;
use std::path::Path;

const COLUMNS: [(&str, Kind); 15] = [
    ("version", Kind::Text),
    ("kernel", Kind::Text),
    ("host", Kind::Text),
    ("seed", Kind::Whole),
    ("batch", Kind::Whole),
    ("configuration", Kind::Text),
    ("window", Kind::Whole),
    ("strategy", Kind::Text),
    ("hash", Kind::Text),
    ("holds", Kind::Whole),
    ("pairs", Kind::Whole),
    ("new_pairs", Kind::Whole),
    ("alarms", Kind::Whole),
    ("causes", Kind::Text),
    ("cpu_seconds", Kind::Number),
];

/// What was asked for, and what there is so far.
pub(super) struct Rows {
    output: Option<Output>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// Where they go, if they are wanted; opened before the sandbox.
    pub(super) fn open(path: Option<&Path>, sandbox: &mut Sandbox) -> anyhow::Result<Self> {
        anyhow::ensure!(
            path.is_none() || cfg!(feature = "parquet"),
            "--parquet: this build is without Parquet; --format json has the windows, too"
        );
        let output = path.map(|path| sandbox.output(path)).transpose().context("--parquet")?;
        Ok(Self { output, rows: Vec::new() })
    }

    /// Those of a configuration, which has a number where there are several.
    pub(super) fn take(
        &mut self,
        batch: Option<u64>,
        mix: &Mix,
        report: &Report,
    ) -> anyhow::Result<()> {
        if self.output.is_none() {
            return Ok(());
        }
        let configuration = serde_json::to_string(mix)?;
        let host = report.words.join(" ");
        let row = |window: &WindowRow| -> [Cell; COLUMNS.len()] {
            [
                Cell::from(report.version.as_str()),
                Cell::from(report.release.as_str()),
                Cell::from(host.as_str()),
                Cell::from(report.seed),
                Cell::from(batch),
                Cell::from(configuration.as_str()),
                Cell::from(window.window),
                Cell::from(window.strategy.name()),
                Cell::from(window.hash.as_str()),
                Cell::from(window.holds),
                Cell::from(window.pairs),
                Cell::from(window.fresh),
                Cell::from(window.causes.len() as u64),
                Cell::from(window.causes.join(" ")),
                Cell::from(window.spent.as_secs_f64()),
            ]
        };
        self.rows.extend(report.windows.iter().map(|window| row(window).to_vec()));
        Ok(())
    }

    /// Writes them.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Some(mut output) = self.output else { return Ok(()) };
        output.write_all(&bytes(&self.rows)?)?;
        output.finish(Like::Umask)?;
        Ok(())
    }
}

#[cfg(feature = "parquet")]
fn bytes(rows: &[Vec<Cell>]) -> anyhow::Result<Vec<u8>> {
    Ok(report::lake::columns("windows", &COLUMNS, rows)?)
}

#[cfg(not(feature = "parquet"))]
fn bytes(_: &[Vec<Cell>]) -> anyhow::Result<Vec<u8>> {
    anyhow::bail!("no Parquet")
}
