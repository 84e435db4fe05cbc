//! `avicenna exits report`

use super::arguments::{By, Format, Results, Vendor, ViewName, WhatCounts};
use super::interrupt::stop_on_interrupt;
use super::output;
use super::progress::Bars;
use super::record::{EVENTS_NAME, SUMS_NAME};
use crate::status::Status;
use crate::verb::lake;
use analysis::{Analysis, Told, analyse};
use profile::pairing::Views;
use profile::summary::{Row, Table};
use profile::{Selection, Summary, View};
use report::exits::Report;
use report::exits::machine::Recording;
use report::lake::Lake;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// Recordings: perf.data, trace.dat, ftrace text, a pasted table of perf kvm stat; packed with
    /// gzip or zstd or not; `-` is standard input [default: what perf, trace-cmd and exits record
    /// leave here]
    files: Vec<PathBuf>,
    /// Exits, or a kind of the guest's accesses with times of their own
    #[arg(long, visible_alias = "event", value_enum, default_value_t = ViewName::Vmexit)]
    view: ViewName,
    /// What a row stands for; all except reason need the view vmexit
    #[arg(long, value_enum, default_value_t = By::Reason)]
    by: By,
    /// What rows are sorted by, largest first
    #[arg(short = 'k', long, visible_alias = "key", value_enum, default_value_t = Sort::Count)]
    sort: Sort,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write there instead of to standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    what: WhatCounts,
    #[command(flatten)]
    rows: lake::Rows,
}

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// How many there were
    #[value(alias = "sample", alias = "samples")]
    Count,
    /// How long they took together
    Time,
    /// How long each took
    Mean,
    /// How long the slowest of 100 took
    P99,
    /// How long the slowest took
    Max,
}

impl Sort {
    fn sort(self, table: &mut Table) {
        let key = |row: &Row| match self {
            Self::Count => row.count as f64,
            Self::Time => row.time_ns as f64,
            Self::Mean => row.mean_ns,
            Self::P99 => row.p99_ns.unwrap_or(0.0),
            Self::Max => row.max_ns as f64,
        };
        // Equal ones stay as they were.
        table.rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
}

/// Where perf, trace-cmd and `exits record` put a recording that was given no name.
const DEFAULT_NAMES: [&str; 7] = [
    "perf.data.guest",
    "perf.data.kvm",
    "perf.data.host",
    "perf.data",
    "trace.dat",
    SUMS_NAME,
    EVENTS_NAME,
];

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let view = View::from(arguments.view);
    anyhow::ensure!(
        view == View::Vmexit || matches!(arguments.by, By::Reason),
        "--by groups exits and --view {} tables accesses: give one of them (--vcpu and --vm narrow \
         accesses)",
        view.name()
    );
    // The other views have times of their own; what nobody looks at is not worked out.
    let is_whole = matches!(arguments.format, Format::Json | Format::Html);
    let views = Views { has_accesses: is_whole || view != View::Vmexit };
    let told = arguments.what.told(views)?;
    let selection = Selection {
        view,
        vcpu: arguments.what.vcpu,
        process: arguments.what.vm,
        by_reason: true,
        has_times: is_whole || matches!(arguments.by, By::Time),
    };
    let files = if arguments.files.is_empty() { default_file()? } else { arguments.files };
    let stop = stop_on_interrupt()?;
    let host = arguments.rows.host.as_deref();
    let mut results = Results::default();
    let mut is_partial = false;
    for path in &files {
        let analyses = match analyse(path, &told, &stop, &mut Bars::default()) {
            Ok(analyses) => analyses,
            // One of several does not keep the others from being read.
            Err(error) if files.len() > 1 => {
                remark!("avicenna: {:#}", anyhow::Error::from(error));
                is_partial = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for analysis in analyses {
            let identity = lake::of_recording(&analysis.origin, path, host);
            if arguments.rows.parquet.is_some() || arguments.format == Format::Prometheus {
                results.recordings.push(by_machine(&analysis, &BTreeMap::new()));
            }
            let mut report = report_of(analysis, &selection);
            if arguments.sort != Sort::Count {
                arguments.sort.sort(&mut report.summary.table);
                arguments.sort.sort(&mut report.summary.detailed);
            }
            if arguments.what.is_narrow() && report.summary.table.count == 0 && view == View::Vmexit
            {
                remark!(
                    "avicenna: {}: nothing is left by --vm, --vcpu, --from and --to; what there is \
                     is shown without them by --by vm, --by vcpu, --by time",
                    report.file
                );
            }
            results.reports.push(report);
            results.identities.push(identity);
        }
    }
    if results.reports.is_empty() {
        return Ok(Status::CannotTell.into());
    }
    if let Some(folder) = &arguments.rows.parquet {
        let mut rows = Lake::default();
        for (identity, recording) in results.identities.iter().zip(&results.recordings) {
            report::lake::exits(recording, identity, &mut rows);
        }
        lake::write(folder, rows)?;
    }
    let rendered =
        arguments.format.render(&results, arguments.by.into(), arguments.output.is_none())?;
    output::write(arguments.output.as_deref(), &rendered, arguments.format.reader())?;
    Ok(if is_partial { Status::CannotTell } else { Status::Clean }.into())
}

/// The machines of a recording one by one; `names` has those that are known from elsewhere.
pub fn by_machine(analysis: &Analysis, names: &BTreeMap<u32, String>) -> Recording {
    let Analysis { name, origin, profile, context } = analysis;
    Recording::new(name, origin, profile, context, names)
}

fn default_file() -> anyhow::Result<Vec<PathBuf>> {
    let found = DEFAULT_NAMES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = found.ok_or_else(|| {
        anyhow::anyhow!(
            "no recording is given and none of {} is here; make one with: avicenna exits record, \
             or: perf kvm --host stat record -a sleep 10",
            DEFAULT_NAMES.join(", ")
        )
    })?;
    Ok(vec![path])
}

/// The report of an analysis; what is doubtful about it goes to standard error as well.
pub fn report_of(analysis: Analysis, selection: &Selection) -> Report {
    let summary = Summary::new(&analysis.profile, &analysis.context, selection);
    for warning in analysis.origin.warnings.iter().chain(&summary.warnings) {
        remark!("avicenna: {}: {warning}", analysis.name);
    }
    Report { file: analysis.name, origin: analysis.origin, summary }
}

impl From<Vendor> for trace::exit_reason::Isa {
    fn from(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Amd => Self::Svm,
            Vendor::Intel => Self::Vmx,
        }
    }
}

impl WhatCounts {
    /// Whether anything is left out.
    fn is_narrow(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.vm.is_some() || self.vcpu.is_some()
    }

    pub fn told(&self, views: Views) -> anyhow::Result<Told> {
        let ns = |seconds: Option<f64>, otherwise: u64| -> anyhow::Result<u64> {
            match seconds {
                None => Ok(otherwise),
                Some(seconds) if (0.0..1e10).contains(&seconds) => Ok((seconds * 1e9) as u64),
                Some(seconds) => anyhow::bail!("{seconds} is not a time of a recording's clock"),
            }
        };
        let (from_ns, to_ns) = (ns(self.from, 0)?, ns(self.to, u64::MAX)?);
        anyhow::ensure!(from_ns < to_ns, "--from must be before --to");
        Ok(Told {
            options: profile::Options::new(from_ns, to_ns, self.vm, views),
            from_ns,
            to_ns,
            vendor: self.vendor.map(Into::into),
            kernel: self.kernel.clone(),
            tsc_hertz: self.tsc_mhz.map(|mhz| mhz * 1_000_000),
        })
    }
}
