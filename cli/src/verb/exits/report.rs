//! `avicenna exits report`

use super::analyse::analyse;
use clap::ValueEnum;
use profile::{Options, Selection, Summary, View};
use report::exits::{Grouping, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use trace::exit_reason::Isa;

#[derive(clap::Args)]
pub struct Arguments {
    /// Recordings: perf.data
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Which accesses to table
    #[arg(long, visible_alias = "event", value_enum, default_value_t = ViewName::Vmexit)]
    view: ViewName,
    /// Only vCPUs of this number
    #[arg(long)]
    vcpu: Option<u32>,
    /// What a line stands for
    #[arg(long, value_enum, default_value_t = By::Reason)]
    by: By,
    /// What exits are, where the recording does not say
    #[arg(long, value_enum)]
    vendor: Option<Vendor>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ViewName {
    Vmexit,
    Mmio,
    Ioport,
    Msr,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Reason,
    Vcpu,
    Vm,
    Vector,
    Time,
}

#[derive(Clone, Copy, ValueEnum)]
enum Vendor {
    Amd,
    Intel,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let view = match arguments.view {
        ViewName::Vmexit => View::Vmexit,
        ViewName::Mmio => View::Mmio,
        ViewName::Ioport => View::Ioport,
        ViewName::Msr => View::Msr,
    };
    let grouping = match arguments.by {
        By::Reason => Grouping::Reason,
        By::Vcpu => Grouping::Vcpu,
        By::Vm => Grouping::Machine,
        By::Vector => Grouping::Vector,
        By::Time => Grouping::Time,
    };
    let vendor = arguments.vendor.map(|vendor| match vendor {
        Vendor::Amd => Isa::Svm,
        Vendor::Intel => Isa::Vmx,
    });
    let selection = Selection { view, vcpu: arguments.vcpu, process: None, by_reason: true };
    for path in &arguments.files {
        let analysis = analyse(path, &Options::default(), vendor)?;
        let summary = Summary::new(&analysis.profile, &analysis.context, &selection);
        for warning in analysis.origin.warnings.iter().chain(&summary.warnings) {
            eprintln!("avicenna: {}: {warning}", path.display());
        }
        let file = path.display().to_string();
        let report = Report { file, origin: analysis.origin, summary };
        print!("{}", report.to_text(grouping));
    }
    Ok(ExitCode::SUCCESS)
}
