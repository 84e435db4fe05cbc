//! `avicenna check`: can this host accelerate interrupts, and does it.

use super::format::Format;
use super::source::Source;
use crate::terminal::{Colour, Paint, hanging, print, print_json};
use rules::capability::{self, Report};
use rules::{Answer, Finding, Severity};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 accelerated, 1 something is missing or off, 2 usage, 3 could not tell."
)]
pub struct Arguments {
    /// The same as --root PATH
    #[arg(value_name = "PATH", conflicts_with = "root")]
    path: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Show what was read for every row, and the rule's source
    #[arg(short, long)]
    verbose: bool,
    /// How to print; the form of json is docs/schema/check-1.json
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print the three answers only
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = Source { root: arguments.path.or(arguments.source.root) };
    let report = capability::check(&source.facts()?);
    match arguments.format {
        Format::Json => print_json(&report)?,
        Format::Text => {
            print(&text(&report, arguments.verbose, arguments.quiet, Paint::for_stdout()))?
        }
    }
    Ok(super::status(report.verdict()))
}

/// The report as text.
fn text(report: &Report, verbose: bool, quiet: bool, paint: Paint) -> String {
    let mut text = String::new();
    let kernel = report.kernel.as_deref().unwrap_or("kernel not known");
    text.push_str(&hanging("", 0, &format!("{}: Linux {kernel}", report.origin)));
    for processor in &report.processors {
        text.push_str(&hanging("  ", 2, processor));
    }
    text.push('\n');
    for answer in &report.answers {
        row(&mut text, answer, verbose && !quiet, paint);
    }
    if quiet {
        return text;
    }
    const GROUPS: &[(&str, &str)] =
        &[("cpu-", "Processor"), ("kvm-", "KVM"), ("iommu-", "IOMMU"), ("guest-", "As a guest")];
    for (prefix, title) in GROUPS {
        let rows: Vec<&Finding> =
            report.findings.iter().filter(|row| row.id.starts_with(prefix)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}", paint.text(Colour::Bold, title));
        for finding in rows {
            row(&mut text, finding, verbose, paint);
        }
    }
    text
}

/// One row: answer, statement, and for everything but a plain yes what was read and what would change it.
fn row(text: &mut String, finding: &Finding, verbose: bool, paint: Paint) {
    const WIDTH: usize = 11;
    let colour = match (finding.answer, finding.severity) {
        (Answer::Yes, _) => Colour::Green,
        (Answer::No, Severity::Error) => Colour::Red,
        _ => Colour::Yellow,
    };
    let subject = match finding.subject.as_str() {
        "host" | "this kernel as a guest" => String::new(),
        other => format!("  [{other}]"),
    };
    let lines = hanging("", WIDTH, &format!("{}{subject}", finding.statement));
    let answer = format!("  {:8} ", finding.answer.to_string());
    text.push_str(&lines.replacen(&" ".repeat(WIDTH), &paint.text(colour, &answer), 1));
    let detail = |text: &mut String, name: &str, value: &str| {
        let lines = hanging(&format!("{:WIDTH$}{name}", ""), WIDTH + 6, value);
        text.push_str(&paint.text(Colour::Dim, lines.trim_end_matches('\n')));
        text.push('\n');
    };
    if finding.answer != Answer::Yes || verbose {
        detail(text, "why", &finding.reason);
    }
    if verbose || finding.answer != Answer::Yes && !finding.id.starts_with("answer-") {
        for evidence in &finding.evidence {
            detail(
                text,
                "read",
                &format!("{} at {}: {}", evidence.what, evidence.place, evidence.value),
            );
        }
    }
    if verbose {
        detail(text, "rule", &finding.source);
    }
    if let Some(fix) = &finding.fix
        && finding.answer == Answer::No
    {
        detail(text, "fix", &format!("{}  (needs: {})", fix.line, fix.needs));
    }
}
