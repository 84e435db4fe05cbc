//! The report for a terminal.

use super::Report;
use super::grids::{self, Grouping};
use crate::grid::grouped;
use profile::View;
use profile::summary::{Row, Table};
use std::fmt::Write;

/// Rows of detail shown; the rest are in the other formats.
const MOST_DETAILS: usize = 14;

/// What an empty table of vectors means.
const NO_VECTORS: &str = "The recording has no event that names a vector (kvm_inj_virq, kvm_apic_accept_irq, \
    kvm_apic_ipi, kvm_eoi, kvm_msi_set_irq): record with perf record -e 'kvm:*' -a, or with \
    avicenna exits record --events\n";

pub fn render(report: &Report, grouping: Grouping) -> String {
    let mut text = heading(report);
    match grouping {
        Grouping::Reason => text.push_str(&table(&report.summary.table)),
        other => {
            let grid = grids::groups(report, other);
            text.push_str(&grid.to_text());
            if other == Grouping::Vector && grid.rows.is_empty() {
                text.push_str(NO_VECTORS);
            }
        }
    }
    if grouping == Grouping::Reason && report.summary.table.view == View::Vmexit {
        let is_worth_it = report.summary.ceiling.work.count > 0;
        if is_worth_it {
            text.push('\n');
            text.push_str(&grids::ceiling(report).to_text());
            text.push('\n');
            text.push_str(&grids::detailed(report, MOST_DETAILS).to_text());
        }
        if let Some(inhibits) = report.summary.inhibits.as_ref().map(grids::inhibits) {
            text.push('\n');
            text.push_str(&inhibits.to_text());
        }
        for grid in grids::interrupts(report) {
            text.push('\n');
            text.push_str(&grid.to_text());
        }
    }
    text
}

fn heading(report: &Report) -> String {
    format!("{} · {}\n", report.file, facts(report))
}

/// Where a recording is from and how much there is of it.
pub fn facts(report: &Report) -> String {
    let (origin, summary) = (&report.origin, &report.summary);
    let mut parts = vec![origin.format.clone()];
    parts.extend(origin.kernel_release.as_ref().map(|release| format!("Linux {release}")));
    parts.extend(origin.cpu_description.clone().or_else(|| origin.cpu.clone()));
    let mut text = parts.join(" · ");
    let exits = summary.ceiling.idle.count + summary.ceiling.work.count;
    if summary.to_ns == 0 {
        let _ = writeln!(text, "\n{} exits", grouped(exits));
        return text;
    }
    let _ = writeln!(
        text,
        "\n{:.1} s, {} of {}, {} exits ({} per second), of which {} wait and {} work",
        summary.seconds,
        plural(summary.vcpus, "vCPU"),
        plural(summary.machines.len() as u64, "VM"),
        grouped(exits),
        grouped((exits as f64 / summary.seconds.max(1e-9)) as u64),
        grouped(summary.ceiling.idle.count),
        grouped(summary.ceiling.work.count),
    );
    text
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The columns of the peer to its last printed digit, and behind them what it does not have.
pub fn table(table: &Table) -> String {
    let mut text = format!(
        "{:>20} {:>10} {:>9} {:>9} {:>11} {:>11} {:>16}{:>26} {:>11} {:>11} {:>7}\n",
        table.view.title(),
        "Samples",
        "Samples%",
        "Time%",
        "Min Time",
        "Max Time",
        "Avg time",
        "p50",
        "p99",
        "p99.9",
        "Work%"
    );
    for row in &table.rows {
        text.push_str(&line(row));
    }
    let _ = writeln!(
        text,
        "\nTotal Samples:{}, Total events handled time:{:.2}us.",
        table.count,
        table.time_ns as f64 / 1e3
    );
    text
}

fn quantile(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| format!("{:.2}us", ns / 1e3))
}

fn line(row: &Row) -> String {
    let us = |ns: f64| ns / 1e3;
    let work = if row.is_idle { "idle".into() } else { format!("{:.2}%", row.work_share) };
    let about = if row.about.is_empty() { String::new() } else { format!("  {}", row.about) };
    format!(
        "{:>20} {:>10} {:>8.2}% {:>8.2}% {:>9.2}us {:>9.2}us {:>9.2}us ( +-{:>7.2}% ) {:>11} \
         {:>11} {:>11} {work:>7}{about}\n",
        row.name,
        row.count,
        row.count_share,
        row.time_share,
        us(row.min_ns as f64),
        us(row.max_ns as f64),
        us(row.mean_ns),
        row.relative_error,
        quantile(row.p50_ns),
        quantile(row.p99_ns),
        quantile(row.p999_ns),
    )
}
