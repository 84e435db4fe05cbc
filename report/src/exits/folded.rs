//! Stacks for flame graphs: time in exits, waiting and working, by reason and what it was about.

use super::Report;
use crate::writer::clean;
use std::fmt::Write;

/// One line per kind of exit; the number is microseconds.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for row in &report.summary.detailed.rows {
        let frame = |text: &str| clean(text).replace(';', ":");
        let group = if row.is_idle { "idle" } else { "work" };
        let about =
            if row.about.is_empty() { String::new() } else { format!(";{}", frame(&row.about)) };
        let _ = writeln!(text, "{group};{}{about} {}", frame(&row.name), row.time_ns / 1000);
    }
    text
}
