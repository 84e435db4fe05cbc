//! What came of a swarm in the forms that people and CI systems read.

use super::{Batch, Swarm};
use crate::explore::forms::{Forms, Told, findings};
use crate::explore::stage::Mix;
use crate::workload::mix::Flip;
use bench::Timer;
use report::grid::{Grid, Value};
use std::time::Duration;

/// Rows of a table that people read; with more batches only those have one that show something.
const MOST_ROWS: usize = 30;

impl Forms for Swarm {
    fn head(&self) -> String {
        let findings = findings(self.findings().count());
        let (windows, count) = (self.windows(), self.batches.len());
        let ends: Vec<_> = self.batches.iter().filter_map(|batch| batch.end.as_ref()).collect();
        let mut text = self.release.clone();
        if let Some(end) = ends.first() {
            let ended = ends.len();
            text += &format!(": THE GUEST ENDED in {ended} of {count} ({})", end.first_line());
        }
        let spent = self.cpu_seconds();
        text + &format!(
            ": {findings} in {windows} windows of {count} configurations; {spent:.0} CPU s in all"
        )
    }

    fn tables(&self) -> Vec<Grid> {
        vec![self.strategies(), self.grid().without_empty_columns()]
    }

    fn remarks(&self) -> String {
        let mut text = String::from(
            "switched: how often AVIC or APICv was on for a vCPU at one look and off at the next, \
             or the other way round; moved: how often a vCPU entered its guest on another CPU; \
             saved: how often all were stopped, saved and restored; raised: how often lines of the \
             I/O APIC were; started: how often one was started again.",
        );
        if self.batches.len() > MOST_ROWS {
            text += " Only configurations that show something have a row; JSON has all.";
        }
        text + "\n"
    }

    fn told(&self) -> Told<'_> {
        let end = self.batches.iter().find_map(|batch| batch.end.as_ref());
        Told {
            release: &self.release,
            spent: Duration::from_secs_f64(self.cpu_seconds()),
            end: end.map(|end| end.text.as_str()),
            findings: self.findings().collect(),
        }
    }
}

impl Swarm {
    fn cpu_seconds(&self) -> f64 {
        self.batches.iter().map(|batch| batch.cpu_seconds).sum()
    }

    fn strategies(&self) -> Grid {
        const COLUMNS: [&str; 4] = ["strategy", "windows", "CPU_s", "causes_seen_after"];
        let mut grid = Grid::new("By strategy", &COLUMNS);
        for total in &self.strategies {
            let seen = total.causes.iter().map(|(cause, first)| {
                let spent = first.spent.as_secs_f64();
                format!("{cause}: window {}, {spent:.1} CPU s", first.windows)
            });
            grid.rows.push(vec![
                Value::text(total.strategy.name()),
                Value::Count(total.windows),
                Value::Number(total.spent.as_secs_f64(), 1),
                Value::text(seen.collect::<Vec<_>>().join("; ")),
            ]);
        }
        grid
    }

    fn grid(&self) -> Grid {
        const COLUMNS: [&str; 22] = [
            "batch", "apic", "vCPUs", "polls", "timer", "flip", "moves", "sends", "saves", "posts",
            "raises", "starts", "windows", "pairs", "switched", "moved", "saved", "posted",
            "raised", "started", "CPU_s", "alarms",
        ];
        let mut grid = Grid::new("By configuration", &COLUMNS);
        let is_short = self.batches.len() <= MOST_ROWS;
        let shows = |batch: &&Batch| !batch.alarms.is_empty() || batch.end.is_some();
        for batch in self.batches.iter().filter(|batch| is_short || shows(batch)) {
            let Mix { apic, vcpus, changes, polls, timer, .. } = &batch.configuration;
            let timer = match timer {
                Timer::Process => "process",
                Timer::KernelReinject => "reinject",
                Timer::KernelDiscard => "discard",
            };
            let yes = |is_so: bool| Value::text(if is_so { "yes" } else { "no" });
            let alarms = batch.alarms.iter().map(|(cause, count)| format!("{cause}: {count}"));
            let end = batch.end.iter().map(|end| format!("THE GUEST ENDED ({})", end.text));
            let alarms = end.chain(alarms);
            grid.rows.push(vec![
                Value::Count(batch.batch),
                Value::text(apic.clone()),
                Value::Count((*vcpus).into()),
                yes(*polls),
                Value::text(timer),
                Value::text(changes.flip.map_or("no", Flip::name)),
                yes(changes.moves),
                yes(changes.sends),
                yes(changes.saves),
                yes(changes.posts),
                yes(changes.raises),
                yes(changes.starts),
                Value::Count(batch.windows),
                Value::Count(batch.pairs),
                Value::Count(batch.changes.switches),
                Value::Count(batch.changes.moves),
                Value::Count(batch.changes.saves),
                Value::Count(batch.changes.posts),
                Value::Count(batch.changes.raises),
                Value::Count(batch.changes.starts),
                Value::Number(batch.cpu_seconds, 1),
                Value::text(alarms.collect::<Vec<_>>().join("; ")),
            ]);
        }
        grid
    }
}
