//! `avicenna lint`: will this configuration let interrupts be accelerated, and what to change.

mod input;

use crate::status::Status;
use crate::terminal::{look, print, print_json, print_json_text, program, remark};
use anyhow::bail;
use input::{Input, Origin};
use reading::Kernel;
use reading::version::Version;
use report::lint::{Judged, Judgement};
use rules::configuration::Kind;
use rules::finding::{Answer, Severity};
use rules::inhibit::Vendor;
use rules::lint::{Target, fix, rules as catalogue};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Reads QEMU and other VMMs' command lines, -readconfig files, libvirt XML and logs, Proxmox VE and \
                  KubeVirt configurations, modprobe.d files, kernel command lines, and whole snapshots of a host.\n\
                  Silence a rule where it stands, in a comment of the input: avicenna: ignore AV001\n\
                  Exit status: 0 clean, 1 findings of at least --fail-on, 2 usage, 3 could not tell."
)]
pub struct Arguments {
    /// Files, folders or archives of a host; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["explain", "list"])]
    files: Vec<PathBuf>,
    /// Treat the inputs as this kind instead of recognizing them
    #[arg(long)]
    kind: Option<Kind>,
    /// CPUs it will run on [default: both, or those of a host's snapshot]
    #[arg(long, value_enum)]
    target: Option<TargetVendor>,
    /// Kernel of the host it will run on, a version or what uname -r prints [default: what the
    /// input says, or the newest that the rules know]
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    kernel: Option<Kernel>,
    /// QEMU that will run it [default: what the input says, or the newest that the rules know]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    qemu: Option<Version>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Repair the files in place; standard input is repaired to standard output
    #[arg(long)]
    fix: bool,
    /// Show what --fix would change, and change nothing
    #[arg(long, conflicts_with = "fix")]
    diff: bool,
    /// The least severity that counts as a finding
    #[arg(long, value_enum, default_value_t = Least::Warning)]
    fail_on: Least,
    /// Leave out notes and summary
    #[arg(short, long)]
    quiet: bool,
    /// Print the page of a rule, or of all
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
    /// List all rules
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TargetVendor {
    Amd,
    Intel,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    /// See docs/schema/lint-1.json
    Json,
    /// The same with an input on each line
    JsonLines,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Least {
    Note,
    Warning,
    Error,
}

impl From<Least> for Severity {
    fn from(least: Least) -> Severity {
        match least {
            Least::Note => Severity::Note,
            Least::Warning => Severity::Warning,
            Least::Error => Severity::Error,
        }
    }
}

fn kernel(text: &str) -> Result<Kernel, String> {
    Kernel::parse(text, None)
        .ok_or_else(|| format!("'{text}' is not a kernel; write 6.18, or what uname -r prints"))
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse(text).ok_or_else(|| format!("'{text}' is not a version; write 6.18 or 10.0.2"))
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        print(&report::lint::list(look()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.explain {
        return explain(name);
    }
    if arguments.fix
        && let Some((file, why)) =
            arguments.files.iter().find_map(|file| Some((file, input::refusal(file)?)))
    {
        remark!("avicenna: {} cannot be repaired: {why}", file.display());
        return Ok(Status::Usage.into());
    }
    let collected = input::collect(&super::many::expanded_to_snapshots(&arguments.files))?;
    for text in &collected.remarks {
        remark!("avicenna: {text}");
    }
    if collected.inputs.is_empty() {
        bail!("nothing to judge in {}", names(&arguments.files));
    }
    let (judged, differs) = match arguments.fix || arguments.diff {
        true => repair(collected.inputs, &arguments)?,
        false => {
            let judged: Vec<Judged> =
                collected.inputs.into_iter().map(|input| judge(input, &arguments)).collect();
            show(&judged, &arguments)?;
            (judged, false)
        }
    };
    // What is cut off may have held the worst.
    if collected.is_incomplete {
        return Ok(Status::CannotTell.into());
    }
    // Something that --fix would change is a finding; otherwise what is left decides.
    Ok(if differs { Status::Findings.into() } else { status(&judged, arguments.fail_on.into()) })
}

fn show(judged: &[Judged], arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.format {
        Format::Text => {
            print(&report::lint::text(judged, arguments.quiet, look()));
        }
        Format::Json => print_json(&report::lint::json(judged)?)?,
        Format::JsonLines => print_json_text(&report::lint::json_lines(judged)?),
        Format::Sarif => print_json(&report::lint::sarif(judged))?,
        Format::Github => {
            program(report::lint::github(judged).as_bytes());
        }
    }
    Ok(())
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// What the input is judged for: what was asked, else what its host tells, else everything current.
fn target(input: &Input, arguments: &Arguments) -> Target {
    let vendors = match arguments.target {
        Some(TargetVendor::Amd) => vec![Vendor::Amd],
        Some(TargetVendor::Intel) => vec![Vendor::Intel],
        Some(TargetVendor::Both) => vec![Vendor::Amd, Vendor::Intel],
        None if !input.vendors.is_empty() => input.vendors.clone(),
        None => vec![Vendor::Amd, Vendor::Intel],
    };
    Target {
        vendors,
        kernel: arguments.kernel.clone().or_else(|| input.kernel.clone()),
        qemu: arguments.qemu,
        elsewhere: input.others.all(),
        later: input.others.later(),
    }
}

fn judge(input: Input, arguments: &Arguments) -> Judged {
    let target = target(&input, arguments);
    let hints = rules::configuration::Hints { qemu: target.qemu };
    let kind = arguments.kind.or(input.kind);
    let outcome = match &input.text {
        Err(why) => Err(why.clone()),
        Ok(text) => rules::configuration::read(&input.name, text, kind, &hints)
            .map_err(|error| match kind {
                None if facts::describes_host(text.as_bytes()) => {
                    format!("a host, not a configuration: use avicenna check {}", input.name)
                }
                _ => error.to_string(),
            })
            .map(|contents| Judgement {
                kind: contents.kind,
                machines: contents.vms.len(),
                report: rules::lint::lint(&contents, &target, &input.name),
            }),
    };
    judged(input, target, outcome)
}

fn judged(input: Input, target: Target, outcome: Result<Judgement, String>) -> Judged {
    let can_be_repaired = input.fixed_reason().is_none();
    let text = input.text.unwrap_or_default();
    // Nobody asks for them any more, and there may be many inputs.
    let target = Target { elsewhere: Vec::new(), later: Vec::new(), ..target };
    Judged { name: input.name, text, can_be_repaired, target, outcome }
}

/// 1 for what counts, 3 for what could not be told, 0 otherwise.
fn status(judged: &[Judged], least: Severity) -> ExitCode {
    let mut is_open = false;
    for one in judged {
        let Ok(judgement) = &one.outcome else {
            is_open = true;
            continue;
        };
        for diagnostic in &judgement.report.diagnostics {
            let counts = diagnostic.severity >= least;
            match diagnostic.answer {
                Answer::No if counts => return Status::Findings.into(),
                Answer::Unknown if counts => is_open = true,
                _ => {}
            }
        }
    }
    if is_open { Status::CannotTell.into() } else { ExitCode::SUCCESS }
}

/// Repairs what can be, and judges what is left of everything; whether anything differs that was
/// not written.
fn repair(inputs: Vec<Input>, arguments: &Arguments) -> anyhow::Result<(Vec<Judged>, bool)> {
    let mut left = Vec::new();
    let mut differs = false;
    for input in inputs {
        let (Ok(original), None) = (&input.text, input.fixed_reason()) else {
            left.push(judge(input, arguments));
            continue;
        };
        let target = target(&input, arguments);
        let kind = arguments.kind.or(input.kind);
        let fixed = match fix::fixed(&input.name, original, kind, &target) {
            Ok(fixed) => fixed,
            Err(error) => {
                left.push(judged(input, target, Err(error.to_string())));
                continue;
            }
        };
        let is_changed = fixed.text != *original;
        if arguments.diff {
            differs |= is_changed;
            print(&report::lint::unified(&input.name, original, &fixed.text, look()));
        } else {
            match &input.source {
                Origin::StandardInput => {
                    program(fixed.text.as_bytes());
                }
                Origin::File(file) if is_changed => {
                    let told = file.replace(original, &fixed.text)?;
                    remark!("{}: {} changed", file.shown(), fixed.repaired);
                    told.sentences(&file.shown()).iter().for_each(|line| remark(line));
                }
                Origin::File(_) | Origin::Fixed(_) => {}
            }
        }
        let kind = kind.or_else(|| rules::configuration::detect(original));
        let kind = kind.unwrap_or(Kind::CommandLine);
        let judgement = Judgement { kind, machines: 0, report: fixed.report };
        let input = Input { text: Ok(fixed.text), ..input };
        left.push(judged(input, target, Ok(judgement)));
    }
    if !arguments.diff {
        let rest = report::lint::text(&left, true, look());
        if !rest.is_empty() {
            remark(&rest);
        }
    }
    Ok((left, differs))
}

fn explain(name: &str) -> anyhow::Result<ExitCode> {
    let page = match name {
        "all" => Some(catalogue::page()),
        name => catalogue::find(name).map(rules::lint::rule::Rule::page),
    };
    match page {
        Some(page) => {
            print(&look().page(&page));
            Ok(ExitCode::SUCCESS)
        }
        None => {
            remark!("avicenna: no rule '{name}'; avicenna lint --list names them");
            Ok(Status::Usage.into())
        }
    }
}

/// A path as reports show it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
