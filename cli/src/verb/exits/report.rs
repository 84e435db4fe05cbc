//! `avicenna exits report`

use super::analyse::{Analysis, Told, analyse};
use super::arguments::{By, Format, Vendor, ViewName, WhatCounts};
use super::interrupt::stop_on_interrupt;
use profile::pairing::Views;
use profile::{Selection, Summary, View};
use report::exits::Report;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// Recordings: perf.data, trace.dat, ftrace text, a pasted table of perf kvm stat; packed with
    /// gzip or zstd or not; `-` is standard input [default: what perf and trace-cmd leave here]
    files: Vec<PathBuf>,
    /// Which accesses to table
    #[arg(long, visible_alias = "event", value_enum, default_value_t = ViewName::Vmexit)]
    view: ViewName,
    /// What a line stands for
    #[arg(long, value_enum, default_value_t = By::Reason)]
    by: By,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write there instead of to standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    what: WhatCounts,
}

/// Where perf and trace-cmd put a recording that was given no name.
const DEFAULT_NAMES: [&str; 5] =
    ["perf.data.guest", "perf.data.kvm", "perf.data.host", "perf.data", "trace.dat"];

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let view = View::from(arguments.view);
    // The other views have times of their own; what nobody looks at is not worked out.
    let is_whole = matches!(arguments.format, Format::Json | Format::Html);
    let views = Views { has_accesses: is_whole || view != View::Vmexit };
    let told = arguments.what.told(views)?;
    let selection =
        Selection { view, vcpu: arguments.what.vcpu, process: arguments.what.vm, by_reason: true };
    let files = if arguments.files.is_empty() { default_file()? } else { arguments.files };
    let stop = stop_on_interrupt()?;
    let mut reports = Vec::new();
    for path in &files {
        for analysis in analyse(path, &told, &stop)? {
            let report = report_of(analysis, &selection);
            if arguments.what.is_narrow() && report.summary.table.count == 0 {
                eprintln!(
                    "avicenna: {}: --vm, --vcpu, --from and --to leave no {} of it; what there is, \
                     without them: --by vm, --by vcpu, --by time",
                    report.file,
                    view.title()
                );
            }
            reports.push(report);
        }
    }
    let rendered = arguments.format.render(&reports, arguments.by.into())?;
    match arguments.output {
        Some(path) => std::fs::write(path, rendered)?,
        None => std::io::stdout().write_all(&rendered)?,
    }
    Ok(ExitCode::SUCCESS)
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
        eprintln!("avicenna: {}: {warning}", analysis.name);
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
                Some(seconds) => anyhow::bail!("{seconds} is no time of a recording's clock"),
            }
        };
        let (from_ns, to_ns) = (ns(self.from, 0)?, ns(self.to, u64::MAX)?);
        anyhow::ensure!(from_ns < to_ns, "--from must be before --to");
        Ok(Told {
            options: profile::Options::new(from_ns, to_ns, self.vm, views),
            vendor: self.vendor.map(Into::into),
            kernel: self.kernel.clone(),
        })
    }
}
