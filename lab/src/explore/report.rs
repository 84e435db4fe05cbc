//! What came of a search, for readers.

use super::choice::Strategy;
use super::finding::Finding;
use super::oracle::Key;
use arch::time::Picoseconds;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What one strategy did.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub strategy: Strategy,
    /// How many windows it ran.
    pub windows: u64,
    /// Their virtual time.
    pub time: Picoseconds,
    /// What they took of this machine's processors.
    pub spent: Duration,
    /// How often a processor was held up.
    pub holds: u64,
    /// What it saw, with what it had spent by then.
    pub first: BTreeMap<Key, Duration>,
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of the host's kernel.
    pub release: String,
    /// By strategy.
    pub rows: Vec<Row>,
    /// Moments from which windows began.
    pub moments: u64,
    /// Each cause once.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(release: &str) -> Self {
        let row = |strategy| Row {
            strategy,
            windows: 0,
            time: Picoseconds::ZERO,
            spent: Duration::ZERO,
            holds: 0,
            first: BTreeMap::new(),
        };
        let rows = Strategy::ALL.map(row).to_vec();
        Self { release: release.into(), rows, moments: 0, findings: Vec::new() }
    }

    pub(super) fn row(&mut self, strategy: Strategy) -> &mut Row {
        &mut self.rows[strategy as usize]
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {} findings\n\n", self.release, self.findings.len());
        text +=
            "           windows  virtual ms    CPU s  a CPU s  held     causes seen, after CPU s\n";
        for row in &self.rows {
            let spent = row.spent.as_secs_f64();
            let rate = row.windows as f64 / spent.max(0.001);
            let first: Vec<_> =
                row.first.values().map(|after| format!("{:.1}", after.as_secs_f64())).collect();
            let _ = writeln!(
                text,
                "{:<10} {:>7}  {:>10.0}  {:>7.1}  {:>7.1}  {:<7}  {} ({})",
                row.strategy.name(),
                row.windows,
                row.time.0 as f64 / 1e9,
                spent,
                rate,
                row.holds,
                row.first.len(),
                first.join(", ")
            );
        }
        for (number, finding) in self.findings.iter().enumerate() {
            let _ = writeln!(text, "\n{}. {}", number + 1, finding.story.join("\n   "));
            for row in &finding.lanes {
                let _ = writeln!(text, "   {row}");
            }
        }
        text
    }
}
