//! The report as a page that needs nothing but itself: no script, no font, no network.

use super::{Report, all_grids, text};
use crate::grid::escaped;
use crate::plot;
use profile::avoidable::Verdict;
use profile::inhibit::MachineInhibits;

/// Style of every page: readable in print, light or dark as the reader has it.
pub const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:1.8rem 0 .5rem}\
p.facts{color:#777;white-space:pre-line;margin:.2rem 0 1rem}\
table{border-collapse:collapse;font-size:13px;margin:.4rem 0 1rem}\
th,td{padding:.15rem .6rem;border-bottom:1px solid #8884;text-align:left;vertical-align:top}\
th{font-weight:600}th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
svg.plot{width:100%;max-width:60rem;height:auto;display:block}\
svg.histogram{display:inline-block;max-width:100%;margin:.2rem .8rem .2rem 0}\
svg text{font:12px system-ui,sans-serif;fill:currentColor}svg text.small{font-size:9px}\
svg line.grid{stroke:#8886}svg rect.free{fill:#8883}\
p.warning{border-left:4px solid #d55e00;padding:.2rem .8rem}\
p.answer{font-size:1.15rem;margin:.6rem 0}\
.scroll{overflow-x:auto}";

const AVOIDABLE: &str = plot::COLOURS[2];
const NOT_AVOIDABLE: &str = plot::COLOURS[0];
const UNKNOWN: &str = plot::COLOURS[1];
const IDLE: &str = plot::COLOURS[6];

/// Histograms shown; rarer exits have theirs in the JSON.
const MOST_HISTOGRAMS: usize = 8;

/// Letters of what an exit was about that fit beside a bar.
const MOST_LABEL: usize = 32;

/// A page of all reports.
pub fn html(reports: &[Report]) -> String {
    let title = reports.iter().map(|report| report.file.as_str()).collect::<Vec<_>>().join(", ");
    let body: String = reports.iter().map(section).collect();
    page(&format!("VM exits of {title}"), &body)
}

/// A whole page around a body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
         name=\"viewport\" content=\"width=device-width\"><meta name=\"generator\" \
         content=\"avicenna {}\"><title>{}</title><style>{STYLE}</style></head><body>\n{body}\
         </body></html>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(title)
    )
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
    html.push_str("<h2>Time spent in exits</h2>\n");
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
    for grid in all_grids(report) {
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
        "<p class=\"answer\">{}</p>\n{}",
        escaped(&text::answer(&report.summary).unwrap_or_default()),
        plot::stack("Working exits by what hardware could avoid", &parts)
    )
}

fn time_by_reason(report: &Report) -> String {
    let total = report.summary.detailed.time_ns.max(1) as f64;
    let mut rows: Vec<_> = report.summary.detailed.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
    let bars: Vec<_> = rows
        .iter()
        .take(12)
        .map(|row| {
            let colour = match row.verdict {
                _ if row.is_idle => IDLE,
                Some(Verdict::Avoidable) => AVOIDABLE,
                Some(Verdict::NotAvoidable) => NOT_AVOIDABLE,
                _ => UNKNOWN,
            };
            let time = row.time_ns as f64;
            let about = row.about.trim_start_matches("APIC ");
            let about = match about.char_indices().nth(MOST_LABEL) {
                Some((end, _)) => format!("{}…", &about[..end]),
                None => about.to_owned(),
            };
            let text = format!(
                "{:.1} % {}",
                time / total * 100.0,
                if row.is_idle { "(idle)" } else { "" }
            );
            (format!("{} {about}", row.name).trim().to_owned(), time, text, colour)
        })
        .collect();
    plot::bars("Time in exits by reason", &bars)
}

fn histograms(report: &Report) -> String {
    let rows: Vec<_> = report
        .summary
        .table
        .rows
        .iter()
        .filter(|row| row.histogram.iter().any(|octave| octave.1 > 0))
        .take(MOST_HISTOGRAMS)
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let plots = rows.iter().map(|row| {
        plot::histogram(&row.name, &row.histogram, if row.is_idle { IDLE } else { NOT_AVOIDABLE })
    });
    format!("<h2>How long exits last</h2>\n{}", plots.collect::<String>())
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
