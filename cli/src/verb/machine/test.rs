//! `avicenna machine test`: images that judge themselves, as a suite. Each runs in a process of its
//! own, so that none can harm another.

use crate::status::{Status, Usage};
use crate::terminal::clean;
use anyhow::Context;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Without a limit of its own, an image that hangs would hold up the suite.
const LIMIT: [&str; 2] = ["--until-virtual", "60s"];
/// What a report has of an image's output.
const MOST_OUTPUT: usize = 64 << 10;

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

/// What became of an image.
struct Tested {
    name: String,
    /// `None` if it passed.
    failure: Option<String>,
    seconds: f64,
    /// What it printed, and what the machine said of it.
    output: String,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options: Vec<&str> = arguments.with.split_ascii_whitespace().collect();
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut tested = Vec::new();
    for image in &arguments.images {
        tested.push(test(&program, &options, image)?);
    }
    let report = match arguments.format {
        Format::Tap => tap(&tested),
        Format::Junit => junit(&tested),
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
    let output = command.stdin(Stdio::null()).output().context("cannot start this program")?;
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

/// The end of what was printed, where the reason is.
fn last(output: &str) -> &str {
    let mut start = output.len().saturating_sub(MOST_OUTPUT);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    &output[start..]
}

/// Version 14 of the Test Anything Protocol: what failed has its reason below it, as YAML.
fn tap(tested: &[Tested]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", tested.len());
    for (one, number) in tested.iter().zip(1..) {
        let verdict = if one.failure.is_some() { "not ok" } else { "ok" };
        let name = clean(&one.name).replace('\\', "\\\\").replace('#', "\\#");
        // Writing to a text does not fail.
        let _ = writeln!(text, "{verdict} {number} - {name} # time={:.3}s", one.seconds);
        let Some(failure) = &one.failure else { continue };
        let message = serde_json::json!(failure).to_string();
        let message = report::writer::json(&message);
        let _ = writeln!(text, "  ---\n  message: {message}\n  output: |");
        for line in last(&one.output).lines() {
            let line = clean(line);
            let _ = writeln!(text, "    {line}");
        }
        text += "  ...\n";
    }
    text
}

fn junit(tested: &[Tested]) -> String {
    let failures = tested.iter().filter(|one| one.failure.is_some()).count();
    let seconds: f64 = tested.iter().map(|one| one.seconds).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"avicenna\" tests=\"{}\" \
         failures=\"{failures}\" time=\"{seconds:.3}\">\n",
        tested.len()
    );
    for one in tested {
        let name = escaped(&one.name);
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "  <testcase classname=\"machine\" name=\"{name}\" time=\"{:.3}\">",
            one.seconds
        );
        if let Some(failure) = &one.failure {
            let _ = writeln!(text, "    <failure message=\"{}\"/>", escaped(failure));
        }
        let _ = writeln!(text, "    <system-out>{}</system-out>", escaped(last(&one.output)));
        text += "  </testcase>\n";
    }
    text + "</testsuite>\n"
}

/// What XML 1.0 has as itself or by name; it has no form for other control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_report_is_well_formed_whatever_an_image_prints() {
        let tested = [Tested {
            name: "a<b>&\"c\"#".into(),
            failure: Some("wrote 3 to port F4h".into()),
            seconds: 0.5,
            output: "\u{1b}[1m<&]]>\nsecond".into(),
        }];
        let xml = junit(&tested);
        assert!(xml.contains("name=\"a&lt;b&gt;&amp;&quot;c&quot;#\""), "{xml}");
        assert!(xml.contains("[1m&lt;&amp;]]&gt;\nsecond</system-out>"), "{xml}");
        let tap = tap(&tested);
        assert!(tap.contains("not ok 1 - a<b>&\"c\"\\# # time=0.500s\n"), "{tap}");
        assert!(tap.contains("\n    \\u{1b}[1m<&]]>\n    second\n  ...\n"), "{tap}");
    }

    #[test]
    fn hostile_names_are_read_back_from_both_forms() {
        let tested = report::writer::HOSTILE.map(|name| Tested {
            name: name.into(),
            failure: Some(format!("wrote {name}")),
            seconds: 0.5,
            output: format!("{name}\n...\nnot ok 7\n"),
        });
        let xml = junit(&tested);
        let document = roxmltree::Document::parse(&xml).expect("well-formed");
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        assert_eq!(cases.count(), tested.len());
        let tap = tap(&tested);
        let points = tap.lines().filter(|line| line.starts_with("not ok ")).count();
        assert_eq!(points, tested.len(), "{tap}");
        let ends = tap.lines().filter(|line| *line == "  ...").count();
        assert_eq!(ends, tested.len(), "{tap}");
        assert!(!tap.contains(crate::terminal::steers), "{tap}");
    }
}
