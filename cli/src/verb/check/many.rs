//! Several recorded hosts: a line for each, and the worst status.

use crate::status::Status;
use crate::terminal::{clean, print_json_text, remark};
use crate::verb::format::MonitoringFormat;
use rules::Answer;
use rules::capability::{self, Scope};
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks each; one that cannot be read leaves the others.
pub fn run(paths: &[PathBuf], format: MonitoringFormat) -> anyhow::Result<ExitCode> {
    if matches!(format, MonitoringFormat::Prometheus | MonitoringFormat::Nagios) {
        let why =
            anyhow::anyhow!("metrics and plugins are of one host: give one PATH, or --format json");
        return Err(crate::status::Usage::of(why));
    }
    let mut worst = Answer::Yes;
    for path in paths {
        let name = path.display().to_string();
        let facts = match facts::recorded(path) {
            Ok(inputs) => facts::facts(&inputs),
            Err(error) => {
                remark(&format!("avicenna: {error}"));
                worst = worst.and(Answer::Unknown);
                continue;
            }
        };
        let report = capability::check(&facts);
        let answer = match facts.incomplete {
            Some(_) => Answer::Unknown,
            None => report.verdict(),
        };
        worst = worst.and(answer);
        if format == MonitoringFormat::Json {
            print_json_text(&format!("{}\n", serde_json::to_string(&report)?));
            continue;
        }
        let said = match report.scope {
            Scope::Host => &report.summary.state,
            Scope::Hardware => &report.summary.hardware,
        };
        say!("{}: {}: {}", clean(&name), answer, clean(&said.text));
    }
    Ok(Status::from(worst).into())
}
