//! The report as a page.

use super::{Report, grids, text};
use crate::grid::{escaped, grouped};
use crate::page::{AVOIDABLE, IDLE, NOT_AVOIDABLE, UNKNOWN, page};
use crate::plot::{self, Bar, Distribution};
use profile::avoidable::Verdict;
use profile::inhibit::MachineInhibits;
use profile::summary::Row;

/// Histograms shown; rarer exits have theirs in the JSON.
const MOST_HISTOGRAMS: usize = 8;
/// Bars shown; the others are in the table.
const MOST_REASONS: usize = 12;

/// A page of all reports.
pub fn html(reports: &[Report]) -> String {
    let title = reports.iter().map(|report| report.file.as_str()).collect::<Vec<_>>().join(", ");
    let body: String = reports.iter().map(section).collect();
    page(&format!("VM exits of {title}"), &body)
}

fn section(report: &Report) -> String {
    let summary = &report.summary;
    let mut html = format!(
        "<h1>{}</h1>\n<p class=\"facts\">{}</p>\n",
        escaped(&report.file),
        escaped(text::facts(report).trim())
    );
    for warning in report.origin.warnings.iter().chain(&summary.warnings) {
        html.push_str(&format!("<p class=\"warning\">{}</p>\n", escaped(warning)));
    }
    html.push_str(&answer(report));
    html.push_str("<h2>Time spent in exits that work</h2>\n");
    html.push_str(&time_by_reason(report));
    if summary.timeline.series.iter().any(|line| line.1.len() > 1) {
        html.push_str("<h2>Exits per second</h2>\n");
        let timeline = &summary.timeline;
        html.push_str(&plot::lines(
            "Exits per second of each vCPU",
            "exits per second",
            &timeline.starts,
            &timeline.series,
        ));
    }
    html.push_str(&histograms(report));
    if let Some(inhibits) = &summary.inhibits {
        html.push_str("<h2>When AVIC or APICv was inhibited</h2>\n");
        inhibits.machines.iter().for_each(|machine| html.push_str(&inhibit_plot(machine)));
    }
    for grid in grids::all(report) {
        html.push_str(&format!("<div class=\"scroll\">{}</div>\n", grid.to_html()));
    }
    html
}

/// The sentence a reader came for, and its picture.
fn answer(report: &Report) -> String {
    let ceiling = &report.summary.ceiling;
    if ceiling.work.count == 0 {
        return String::new();
    }
    let parts = [
        ("avoidable".to_owned(), ceiling.avoidable.count as f64, AVOIDABLE),
        ("unknown".to_owned(), ceiling.unknown.count as f64, UNKNOWN),
        ("not avoidable".to_owned(), ceiling.not_avoidable.count as f64, NOT_AVOIDABLE),
    ];
    format!(
        "<p class=\"answer\">{} {}</p>\n{}",
        escaped(&text::answer(&report.summary).unwrap_or_default()),
        escaped(&text::processors(report).unwrap_or_default()),
        plot::stack("Working exits by what hardware could avoid", &parts)
    )
}

/// What the guest waits in is beside the scale: it would be most of it.
fn time_by_reason(report: &Report) -> String {
    let detailed = &report.summary.detailed;
    let mut rows: Vec<_> = detailed.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
    let working: u64 = rows.iter().filter(|row| !row.is_idle).map(|row| row.time_ns).sum();
    let bar = |row: &&Row| -> Bar<'static> {
        let (colour, text) = match row.verdict {
            _ if row.is_idle => {
                let share = row.time_ns as f64 / detailed.time_ns.max(1) as f64 * 100.0;
                (IDLE, format!("(the guest waits), {share:.1} % of all time"))
            }
            verdict => {
                let share = row.time_ns as f64 / working.max(1) as f64 * 100.0;
                (colour_of(verdict), format!("{share:.1} %"))
            }
        };
        let about = row.about.trim_start_matches("APIC ");
        (format!("{} {about}", row.name).trim().to_owned(), row.time_ns as f64, text, colour)
    };
    let (idle, busy): (Vec<&Row>, Vec<&Row>) = rows.into_iter().partition(|row| row.is_idle);
    let bars: Vec<Bar<'_>> = busy.iter().take(MOST_REASONS).map(bar).collect();
    let beside: Vec<Bar<'_>> = idle.iter().map(bar).collect();
    plot::bars_beside("Time in exits by reason", &bars, &beside)
}

const fn colour_of(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Avoidable) => AVOIDABLE,
        Some(Verdict::NotAvoidable) => NOT_AVOIDABLE,
        _ => UNKNOWN,
    }
}

/// All on one axis, so that they can be compared.
fn histograms(report: &Report) -> String {
    let rows = report.summary.table.rows.iter();
    let rows: Vec<Distribution<'_>> = rows
        .filter(|row| row.histogram.iter().any(|octave| octave.1 > 0))
        .take(MOST_HISTOGRAMS)
        .map(|row| Distribution {
            name: row.name.clone(),
            note: grouped(row.count),
            octaves: &row.histogram,
            colour: if row.is_idle { IDLE } else { NOT_AVOIDABLE },
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let plot = plot::distributions("How long exits last, by reason", &rows);
    format!("<h2>How long exits last</h2>\n{plot}")
}

/// When each reason inhibited a virtual machine.
pub fn inhibit_plot(machine: &MachineInhibits) -> String {
    let seconds = |ns: u64| ns.saturating_sub(machine.from_ns) as f64 / 1e9;
    let mut rows: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for reason in &machine.reasons {
        let spans = machine
            .stretches
            .iter()
            .filter(|stretch| stretch.mask >> reason.bit & 1 != 0)
            .map(|stretch| (seconds(stretch.from_ns), seconds(stretch.to_ns)));
        // What touches is drawn as one.
        let mut joined: Vec<(f64, f64)> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                Some(last) if last.1 >= span.0 => last.1 = span.1,
                _ => joined.push(span),
            }
        }
        rows.push((reason.name.clone(), joined));
    }
    // KVM traces a clearing of what is not set too: nothing changes then.
    let changes: u64 =
        machine.reasons.iter().map(|reason| reason.times_set + reason.times_cleared).sum();
    let summary = format!(
        "<p>{}inhibited {:.3} s, {:.1} % of the time observed, {} changes; flaps too short to draw \
         are run together.</p>\n",
        if machine.process == 0 { String::new() } else { format!("VM {}: ", machine.process) },
        machine.inhibited_seconds,
        machine.inhibited_share * 100.0,
        changes
    );
    summary + &plot::stretches("Inhibit reasons over time", seconds(machine.to_ns), &rows)
}
