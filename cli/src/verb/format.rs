//! Results for people, or for programs.

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
    /// Metrics for node_exporter's textfile collector: write to a file of another name, then rename
    /// it to *.prom
    Prometheus,
    /// One line for a Nagios or Icinga plugin, with the exit status that goes with it
    Nagios,
}
