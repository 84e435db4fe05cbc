//! Results for readers, or for programs.

use crate::terminal;
use change::{Like, Output};
use report::writer;
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The formats of what is asked of a host again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MonitoringFormat {
    #[default]
    Text,
    Json,
    /// JSON on one line for each host
    JsonLines,
    /// Metrics for node_exporter's textfile collector, with -o FILE.prom
    Prometheus,
    /// One line for a Nagios or Icinga plugin, with the exit status that goes with it
    Nagios,
}

impl MonitoringFormat {
    /// Writes an answer by the rules of its format: to a file, there as a whole or not at all, or
    /// to standard output.
    pub fn put(self, answer: &str, output: Option<&Path>) -> anyhow::Result<()> {
        let text = match self {
            Self::Json | Self::JsonLines => writer::json(answer),
            Self::Prometheus => answer.into(),
            Self::Text | Self::Nagios => writer::shown(answer, output.is_none()),
        };
        match (output, self) {
            (Some(path), _) => {
                Output::write(path, text.as_bytes(), Like::Umask)?;
            }
            (None, Self::Prometheus) => terminal::print_for_program(&text),
            (None, _) => {
                terminal::program(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Writes a part of what several hosts answer, as soon as it is there.
pub fn put_part(format: MonitoringFormat, text: &str) {
    match format {
        MonitoringFormat::Json | MonitoringFormat::JsonLines => {
            terminal::program(writer::json(text).as_bytes());
        }
        _ => {
            terminal::print(text);
        }
    }
}
