//! Arguments that several of the verbs share.

use super::output::Reader;
use crate::verb::lake::now_us;
use capture::live::Rung;
use clap::ValueEnum;
use profile::View;
use report::exits::machine::Recording;
use report::exits::metrics::prometheus;
use report::exits::{Grouping, Report};
use report::lake::Identity;
use std::io::IsTerminal;

#[derive(Clone, Copy, ValueEnum)]
pub enum ViewName {
    Vmexit,
    Mmio,
    Ioport,
    Msr,
}

impl From<ViewName> for View {
    fn from(name: ViewName) -> Self {
        match name {
            ViewName::Vmexit => Self::Vmexit,
            ViewName::Mmio => Self::Mmio,
            ViewName::Ioport => Self::Ioport,
            ViewName::Msr => Self::Msr,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum By {
    /// A kind of exit
    Reason,
    /// What exits were about, such as a register
    Detail,
    /// A vCPU
    Vcpu,
    /// A virtual machine
    Vm,
    /// A vector of the guest
    Vector,
    /// An interval of time
    Time,
}

impl From<By> for Grouping {
    fn from(by: By) -> Self {
        match by {
            By::Reason => Self::Reason,
            By::Detail => Self::Detail,
            By::Vcpu => Self::Vcpu,
            By::Vm => Self::Machine,
            By::Vector => Self::Vector,
            By::Time => Self::Time,
        }
    }
}

/// Ways to see exits, best first.
#[derive(Clone, Copy, ValueEnum)]
pub enum RungName {
    /// A program in the kernel sums up
    Bpf,
    /// The kernel's event histograms sum up
    Histogram,
    /// Every event as text
    Text,
    /// Events are counted, without times
    Counting,
    /// A machine's monitor reports KVM's counters (--qmp)
    Monitor,
    /// KVM's counters in debugfs
    Statistics,
    /// Notifications of posted interrupts
    Interrupts,
}

impl From<RungName> for Rung {
    fn from(name: RungName) -> Self {
        match name {
            RungName::Bpf => Self::Bpf,
            RungName::Histogram => Self::Histogram,
            RungName::Text => Self::Text,
            RungName::Counting => Self::Counting,
            RungName::Monitor => Self::Monitor,
            RungName::Statistics => Self::Statistics,
            RungName::Interrupts => Self::Interrupts,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Vendor {
    Amd,
    Intel,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    Text,
    /// Everything, versioned
    Json,
    /// One table, RFC 4180
    Csv,
    /// One JSON object per line of the table
    Ndjson,
    /// One table, in columns
    #[cfg(feature = "parquet")]
    Parquet,
    /// A self-contained page with every table and plots
    Html,
    /// For tickets and wikis
    Markdown,
    /// Stacks for flame graphs, by reason
    Folded,
    /// Metrics for node_exporter's textfile collector, by machine and reason
    Prometheus,
}

/// What was read.
#[derive(Default)]
pub struct Results {
    pub reports: Vec<Report>,
    /// Whose each of the reports is, and of when.
    pub identities: Vec<Identity>,
    /// The same machine by machine, where a format wants that.
    pub recordings: Vec<Recording>,
}

impl Format {
    pub fn reader(self) -> Reader {
        if self == Self::Text { Reader::Person } else { Reader::Program }
    }

    /// `is_shown` where the result goes to standard output.
    pub fn render(
        self,
        results: &Results,
        grouping: Grouping,
        is_shown: bool,
    ) -> anyhow::Result<Vec<u8>> {
        let reports = &results.reports;
        let each = |render: &dyn Fn(&Report) -> String| {
            reports.iter().map(render).collect::<Vec<_>>().join("\n").into_bytes()
        };
        Ok(match self {
            Self::Text => {
                // Text that is kept, or read by a program, has whole lines.
                let is_seen = is_shown && std::io::stdout().is_terminal();
                let most = if is_seen { crate::terminal::columns() } else { usize::MAX };
                each(&|report| report.to_text_within(grouping, most))
            }
            Self::Json => report::exits::json(reports)?.into_bytes(),
            Self::Csv => report::exits::csv(reports, grouping).into_bytes(),
            Self::Ndjson => report::exits::ndjson(reports, grouping)?.into_bytes(),
            #[cfg(feature = "parquet")]
            Self::Parquet => report::exits::parquet(&results.identities, reports, grouping)?,
            Self::Html => report::exits::html(reports).into_bytes(),
            Self::Markdown => each(&|report| report.to_markdown(grouping)),
            Self::Folded => each(&Report::to_folded),
            Self::Prometheus => prometheus(&results.recordings, now_us() / 1_000_000).into_bytes(),
        })
    }
}

/// Which part of a recording counts, and what it does not say itself.
#[derive(clap::Args)]
pub struct WhatCounts {
    /// Only from this second of the recording's clock on (--by time shows it)
    #[arg(long, value_name = "SECONDS")]
    pub from: Option<f64>,
    /// Only before this second of the recording's clock
    #[arg(long, value_name = "SECONDS")]
    pub to: Option<f64>,
    /// Only this virtual machine, by its process (--by vm shows it)
    #[arg(short = 'p', long, visible_alias = "pid", value_name = "PID")]
    pub vm: Option<u32>,
    /// Only vCPUs of this number
    #[arg(long, value_name = "NUMBER")]
    pub vcpu: Option<u32>,
    /// What exits are, where the recording does not say
    #[arg(long, value_enum)]
    pub vendor: Option<Vendor>,
    /// Kernel release, where the recording does not say; numbers of inhibits depend on it
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// Megahertz of the time-stamp counter, where the recording does not say (xentrace)
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub tsc_mhz: Option<u64>,
}
