//! The report for a terminal.

use super::grids::{self, Grouping};
use super::{Report, beside};
use crate::grid::grouped;
use profile::View;
use profile::summary::{Ceiling, Row, Summary, Table};
use std::fmt::Write;

/// Rows of detail shown; the rest are in the other formats.
const MOST_DETAILS: usize = 14;

/// The peer's width of names, unless one is longer.
const NAME_WIDTH: usize = 20;

/// What an empty table of vectors means.
const NO_VECTORS: &str = "The recording has no event that names a vector (kvm_inj_virq, kvm_apic_accept_irq, \
    kvm_apic_ipi, kvm_eoi, kvm_msi_set_irq): record with perf record -e 'kvm:*' -a, or with \
    avicenna exits record --events\n";

/// Tables take at most so many columns of a terminal, if they can.
pub fn render(report: &Report, grouping: Grouping, most: usize) -> String {
    let mut text = heading(report);
    match grouping {
        Grouping::Reason => {
            text.push_str(&table(&report.summary.table));
            text.push_str(&what_it_means(report));
        }
        other => {
            let grid = grids::shown_groups(report, other).without_empty_columns();
            text.push_str(&grid.to_text_within(most));
            if other == Grouping::Vector && grid.rows.is_empty() {
                text.push_str(NO_VECTORS);
            }
        }
    }
    if grouping == Grouping::Reason && report.summary.table.view == View::Vmexit {
        let is_worth_it = report.summary.ceiling.work.count > 0;
        if is_worth_it {
            text.push('\n');
            text.push_str(&grids::ceiling(report).to_text_within(most));
            text.push('\n');
            let detailed = grids::detailed(report, MOST_DETAILS).without_empty_columns();
            text.push_str(&detailed.to_text_within(most));
            let more = report.summary.detailed.rows.iter().filter(|row| !row.is_idle).count();
            if more > MOST_DETAILS {
                let _ = writeln!(text, "  {} rarer kinds: --by detail", more - MOST_DETAILS);
            }
        }
        if let Some(inhibits) = report.summary.inhibits.as_ref().map(beside::inhibits) {
            text.push('\n');
            text.push_str(&inhibits.without_empty_columns().to_text_within(most));
        }
        for grid in beside::interrupts(report) {
            text.push('\n');
            text.push_str(&grid.without_empty_columns().to_text_within(most));
        }
    }
    text
}

/// What the last columns mean, or why there is nothing in the table.
fn what_it_means(report: &Report) -> String {
    let (summary, table) = (&report.summary, &report.summary.table);
    let recorded = match table.view {
        View::Vmexit if table.count > 0 => {
            return "p50, p99, p99.9: so many of 100 or 1000 were shorter. Work%: of the time of exits \
                    that do work; idle ones wait.\n"
                .into();
        }
        View::Vmexit if summary.events > 0 => {
            return format!(
                "None of the {} events of KVM is an exit that an entry of the same thread follows, so \
                 none can be timed.\n",
                grouped(summary.events)
            );
        }
        View::Vmexit => {
            return "No event of KVM was recorded: no virtual machine ran, or what recorded did not \
                    see it.\n"
                .into();
        }
        _ if table.count > 0 => return String::new(),
        View::Mmio => ("kvm_mmio", "memory-mapped"),
        View::Ioport => ("kvm_pio", "port"),
        View::Msr => ("kvm_msr", "MSR"),
    };
    format!("No {} access was recorded: there was none, or {} was not.\n", recorded.1, recorded.0)
}

/// The sentence a reader came for.
pub fn answer(summary: &Summary) -> Option<String> {
    let Ceiling { work, avoidable, unknown, .. } = &summary.ceiling;
    if work.count == 0 {
        return None;
    }
    let (mut text, more) = match avoidable.count {
        0 => ("No exit is known that hardware interrupt virtualization takes away".to_owned(), ""),
        _ => (
            format!(
                "Of the exits that do work, hardware interrupt virtualization can take away up to \
                 {:.1} %, which take {:.1} % of their time",
                avoidable.count_share, avoidable.time_share
            ),
            "another ",
        ),
    };
    if unknown.count > 0 {
        let _ = write!(
            text,
            "; of {more}{:.1} % ({:.1} % of the time) the recording does not tell",
            unknown.count_share, unknown.time_share
        );
    }
    text.push('.');
    if let Some(feature) = feature_at_work(&summary.table) {
        let _ = write!(text, " {feature} was on: some of the exits are its own.");
    }
    Some(text)
}

/// The feature that exits of its own show to have been active.
fn feature_at_work(table: &Table) -> Option<&'static str> {
    let has = |names: &[&str]| table.rows.iter().any(|row| names.contains(&row.name.as_str()));
    let is_exits = table.view == View::Vmexit;
    if is_exits && has(&["avic_incomplete_ipi", "avic_unaccelerated_access"]) {
        Some("AVIC")
    } else if is_exits && has(&["APIC_WRITE", "EOI_INDUCED"]) {
        Some("APICv")
    } else {
        None
    }
}

/// The same in processors; `None` where times are not known, or nothing would be saved.
pub fn processors(report: &Report) -> Option<String> {
    let Summary { seconds, ceiling, .. } = &report.summary;
    let busy = |ns: u64| ns as f64 / 1e9 / seconds;
    let (known, most) = (
        busy(ceiling.avoidable.time_ns),
        busy(ceiling.avoidable.time_ns + ceiling.unknown.time_ns),
    );
    // Shorter ones tell nothing of a host.
    if *seconds < 0.1 || most <= 0.0 {
        return None;
    }
    let of = match report.origin.host_cpus {
        Some(cpus) => format!(" of {}", plural(cpus.into(), "CPU")),
        None => " of a CPU".to_owned(),
    };
    let of_them = match known {
        known if known <= 0.0 => ", all of which the recording leaves open".to_owned(),
        known if share_of_one(known) == share_of_one(most) => String::new(),
        known => format!(", {} in those of which the recording tells so", share_of_one(known)),
    };
    let most = match share_of_one(most) {
        few if few.starts_with("less") => few,
        part => format!("at most {part}"),
    };
    Some(format!(
        "In processors: the host spends {most}{of} in exits that would go away{of_them}; the \
         switch into and out of the guest, which no event measures, comes on top."
    ))
}

/// A part of a processor with digits that say something.
fn share_of_one(busy: f64) -> String {
    match busy {
        busy if busy >= 0.095 => format!("{busy:.1}"),
        busy if busy >= 0.0095 => format!("{busy:.2}"),
        busy if busy >= 0.00095 => format!("{busy:.3}"),
        _ => "less than 0.001".to_owned(),
    }
}

fn heading(report: &Report) -> String {
    let sentences = [answer(&report.summary), processors(report)];
    let answer: String = sentences.into_iter().flatten().map(|answer| answer + "\n").collect();
    format!("{} · {}{answer}\n", report.file, facts(report))
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
        "\n{}, {} of {}, {} exits ({} per second), of which {} wait and {} work",
        length(summary.seconds),
        plural(summary.vcpus, "vCPU"),
        plural(summary.machines.len() as u64, "VM"),
        grouped(exits),
        grouped((exits as f64 / summary.seconds.max(1e-9)) as u64),
        grouped(summary.ceiling.idle.count),
        grouped(summary.ceiling.work.count),
    );
    text
}

/// How long a recording is, with digits that say something.
fn length(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The columns of the peer to its last printed digit, and behind them what it does not have.
pub fn table(table: &Table) -> String {
    let names = table.rows.iter().map(|row| row.name.chars().count());
    let width = names.max().unwrap_or(0).max(NAME_WIDTH);
    let mut text = format!(
        "{:>width$} {:>10} {:>9} {:>9} {:>11} {:>11} {:>16}{:>26} {:>11} {:>11} {:>7}\n",
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
        text.push_str(&line(row, width));
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

fn line(row: &Row, width: usize) -> String {
    let us = |ns: f64| ns / 1e3;
    let work = if row.is_idle { "idle".into() } else { format!("{:.2}%", row.work_share) };
    let about = if row.about.is_empty() { String::new() } else { format!("  {}", row.about) };
    format!(
        "{:>width$} {:>10} {:>8.2}% {:>8.2}% {:>9.2}us {:>9.2}us {:>9.2}us ( +-{:>7.2}% ) {:>11} \
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

#[cfg(test)]
mod tests {
    use super::*;
    use profile::pasted::{PrintedRow, from_rows};
    use profile::{Context, Selection};

    #[test]
    fn the_answer_says_what_is_known_and_what_is_not() {
        let answer_to = |names: &[&str]| {
            let row = |name: &&str| PrintedRow {
                name: (*name).to_owned(),
                count: 10,
                min_us: 1.0,
                max_us: 1.0,
                mean_us: 1.0,
                error_percent: 0.0,
            };
            let rows: Vec<PrintedRow> = names.iter().map(row).collect();
            let (profile, extra_names) = from_rows("VM-EXIT", &rows);
            let context = Context { extra_names, ..Context::default() };
            let selection = Selection { by_reason: true, ..Selection::default() };
            answer(&Summary::new(&profile, &context, &selection))
        };
        let rows: [(&[&str], &str); 4] = [
            (
                &["vintr", "msr", "hlt", "cpuid", "nmi"],
                "Of the exits that do work, hardware interrupt virtualization can take away up to \
                 25.0 %, which take 25.0 % of their time; of another 25.0 % (25.0 % of the time) the \
                 recording does not tell.",
            ),
            (
                &["cpuid", "nmi"],
                "No exit is known that hardware interrupt virtualization takes away.",
            ),
            (
                &["cpuid", "avic_incomplete_ipi"],
                "No exit is known that hardware interrupt virtualization takes away. AVIC was on: \
                 some of the exits are its own.",
            ),
            (
                &["APIC_WRITE", "INTERRUPT_WINDOW"],
                "Of the exits that do work, hardware interrupt virtualization can take away up to \
                 50.0 %, which take 50.0 % of their time. APICv was on: some of the exits are its own.",
            ),
        ];
        for (names, expected) in rows {
            assert_eq!(answer_to(names).as_deref(), Some(expected), "{names:?}");
        }
        assert_eq!(answer_to(&["hlt"]), None);
    }

    #[test]
    fn what_would_be_saved_is_told_in_processors() {
        let told = |seconds: f64, cpus: Option<u32>, known_ms: u64, unknown_ms: u64| {
            let (profile, extra_names) = from_rows("VM-EXIT", &[]);
            let context = Context { extra_names, ..Context::default() };
            let mut summary = Summary::new(&profile, &context, &Selection::default());
            summary.seconds = seconds;
            summary.ceiling.avoidable.time_ns = known_ms * 1_000_000;
            summary.ceiling.unknown.time_ns = unknown_ms * 1_000_000;
            let origin = capture::Origin { host_cpus: cpus, ..Default::default() };
            processors(&Report { file: "f".into(), origin, summary })
        };
        let rest = "; the switch into and out of the guest, which no event measures, comes on top.";
        for (seconds, cpus, known, unknown, expected) in [
            // 2 s of 10 s, and 5 s more of which is not known.
            (
                10.0,
                Some(96),
                2_000,
                5_000,
                Some(
                    "at most 0.7 of 96 CPUs in exits that would go away, 0.2 in those of which the recording tells so",
                ),
            ),
            (10.0, None, 200, 0, Some("at most 0.02 of a CPU in exits that would go away")),
            (
                1000.0,
                Some(1),
                0,
                1,
                Some(
                    "less than 0.001 of 1 CPU in exits that would go away, all of which the recording leaves open",
                ),
            ),
            (10.0, Some(96), 0, 0, None),
            (0.01, Some(96), 5, 0, None),
        ] {
            let expected =
                expected.map(|part| format!("In processors: the host spends {part}{rest}"));
            let found = told(seconds, cpus, known, unknown);
            assert_eq!(found, expected, "{seconds} {known} {unknown}");
        }
    }

    #[test]
    fn a_short_recording_is_not_of_no_length() {
        for (seconds, shown) in [(110.06, "110.1 s"), (0.0198, "19.8 ms"), (5e-6, "5.0 us")] {
            assert_eq!(length(seconds), shown);
        }
    }
}
