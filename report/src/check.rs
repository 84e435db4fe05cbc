//! What a host can do and does, in every form.

mod firmware;
mod text;

pub use firmware::firmware;
pub use text::{Detail, line, said, text};

use crate::nagios;
use crate::prometheus::{Kind, Metrics, number};
use rules::capability::Report;

/// Every row as a metric.
pub fn metrics(report: &Report, metrics: &mut Metrics) {
    metrics.family("avicenna_info", Kind::Gauge, "What was read, and with which kernel.");
    let kernel = report.kernel.as_deref().unwrap_or("unknown");
    metrics.sample("avicenna_info", &[("kernel", kernel), ("origin", &report.origin)], 1);
    metrics.family(
        "avicenna_hardware_capable",
        Kind::Gauge,
        "Whether the hardware can accelerate interrupts: 1 yes, 0 no, NaN not known.",
    );
    let hardware = number(report.summary.hardware.answer);
    metrics.sample("avicenna_hardware_capable", &[], hardware);
    let name = "avicenna_check_status";
    metrics.family(
        name,
        Kind::Gauge,
        "The answer to each row of avicenna check: 1 yes, 0 no, NaN not known.",
    );
    for row in report.answers.iter().chain(&report.findings) {
        let labels = [("item", row.id.as_str()), ("subject", row.subject.as_str())];
        metrics.sample(name, &labels, number(row.answer));
    }
}

/// The metrics of `check` alone, made at so many seconds since 1970.
pub fn prometheus(report: &Report, seconds: u64) -> String {
    let mut all = Metrics::default();
    metrics(report, &mut all);
    all.finish("check", seconds)
}

/// The three answers in a line.
pub fn nagios(report: &Report) -> String {
    let summary = &report.summary;
    let mut text = format!("{}; {}", summary.state.text, summary.hardware.text);
    if let Some(change) = &summary.change {
        let lines: Vec<&str> = change.fixes.iter().map(|fix| fix.line.as_str()).collect();
        text.push_str(&format!("; change: {}", lines.join("; and ")));
    }
    let figures: Vec<String> = report
        .answers
        .iter()
        .map(|row| {
            // What a figure is not known for, Nagios spells U.
            let value = match number(row.answer) {
                "NaN" => "U",
                number => number,
            };
            format!("{}={value}", row.id.trim_start_matches("answer-"))
        })
        .collect();
    nagios::line(report.verdict(), &text, &figures.join(" "))
}
