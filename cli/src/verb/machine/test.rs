//! `avicenna machine test`: images that judge themselves, as a suite. Each runs in a process of its
//! own, so that none can harm another.

use crate::outcome::outcome;
use crate::status::{Status, Usage};
use anyhow::Context;
use report::suite::{self, Tested};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Without a limit of its own, an image that hangs would hold up the suite.
const LIMIT: [&str; 2] = ["--until-virtual", "60s"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Kernels that `machine run` takes, a test each: passed is a 0 written to port F4h, or
    /// power-off
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Options of `machine run`, such as "--cpu zen4 --cpus 2"; without a limit --until-virtual 60s
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    with: String,
    /// How to print: tap, or junit, which CI systems read
    #[arg(long, value_enum, default_value_t = Format::Tap)]
    format: Format,
    /// Write the report here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Tap,
    Junit,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options: Vec<&str> = arguments.with.split_ascii_whitespace().collect();
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut tested = Vec::new();
    for image in &arguments.images {
        tested.push(test(&program, &options, image)?);
    }
    let report = match arguments.format {
        Format::Tap => suite::tap(&tested),
        Format::Junit => suite::junit("machine", &tested),
    };
    match &arguments.output {
        Some(path) => {
            change::Output::write(path, report.as_bytes(), change::Like::Umask)?;
        }
        None => {
            crate::terminal::program(report.as_bytes());
        }
    }
    let is_passed = tested.iter().all(|one| one.failure.is_none());
    Ok(if is_passed { Status::Clean } else { Status::Findings }.into())
}

fn test(program: &Path, options: &[&str], image: &Path) -> anyhow::Result<Tested> {
    let mut command = Command::new(program);
    command.args(["machine", "run"]).args(options).arg("--kernel").arg(image);
    if !options.iter().any(|option| option.starts_with(LIMIT[0])) {
        command.args(LIMIT);
    }
    let started = Instant::now();
    let output = outcome(&mut command).context("cannot start this program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Options that cannot be are those of all images.
    if output.status.code() == Some(i32::from(Status::Usage.code())) {
        let said = said.trim().trim_start_matches("avicenna: ").to_owned();
        return Err(Usage::of(anyhow::anyhow!(said)));
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += &said;
    Ok(Tested {
        name: image.file_name().unwrap_or(image.as_os_str()).to_string_lossy().into_owned(),
        failure: failure(output.status.code(), &said),
        skipped: None,
        seconds: started.elapsed().as_secs_f64(),
        output: text,
    })
}

/// What an exit status of `machine run` says against an image.
fn failure(code: Option<i32>, said: &str) -> Option<String> {
    let refusal = || said.lines().last().unwrap_or_default().to_owned();
    match code {
        Some(0 | 1) => None,
        // The machine's own, which has no closing line, and not the guest's.
        Some(3) if !said.contains(" instructions, ") => Some(refusal()),
        Some(64) => Some("triple fault or reset".into()),
        Some(66) => Some("not done when --until-virtual was reached".into()),
        Some(68) => Some("not done when --max-instructions was reached".into()),
        Some(72) => Some("every processor waits for ever".into()),
        Some(odd) if odd % 2 == 1 => Some(format!("wrote {} to port F4h", odd / 2)),
        Some(code) => Some(format!("exit status {code}")),
        None => Some("ended by a signal".into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn passed_is_what_the_guest_says_and_all_else_has_its_reason() {
        for (code, failure) in [
            (Some(0), None),
            (Some(1), None),
            (Some(7), Some("wrote 3 to port F4h")),
            (Some(3), Some("wrote 1 to port F4h")),
            (Some(64), Some("triple fault or reset")),
            (Some(72), Some("every processor waits for ever")),
            (Some(130), Some("exit status 130")),
            (None, Some("ended by a signal")),
        ] {
            let found = super::failure(code, "avicenna: 5 instructions, 0 s virtual");
            assert_eq!(found.as_deref(), failure, "{code:?}");
        }
        let refused = super::failure(Some(3), "avicenna: cannot open x");
        assert_eq!(refused.as_deref(), Some("avicenna: cannot open x"));
    }
}
