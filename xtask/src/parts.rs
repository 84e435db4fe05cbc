//! `cargo xtask bench parts`: each part of the benchmark guest's mixes by itself, on this machine
//! and on a peer by turns. A mix would hide a part that is slower than it should be.

use crate::guest;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const USAGE: &str = "\
options of bench parts: program=FILE   the program (target/release/avicenna)
                        peer=FILE      what it is held against: QEMU, or another build of the program
                                       (qemu-system-x86_64, on its own processor model, TCG, one thread)
                        runs=N         of each, by turns (3)
                        scale=N        how much work a part is (20)";

/// What is compared with what.
struct Options {
    program: PathBuf,
    peer: PathBuf,
    runs: usize,
    scale: u32,
}

impl Options {
    fn of(root: &Path, words: &[&str]) -> Result<Self> {
        let mut options = Options {
            program: root.join("target/release/avicenna"),
            peer: "qemu-system-x86_64".into(),
            runs: 3,
            scale: 20,
        };
        for word in words {
            match word.split_once('=') {
                Some(("program", file)) => options.program = std::path::absolute(file)?,
                Some(("peer", file)) => options.peer = file.into(),
                Some(("runs", number)) => options.runs = number.parse().context("runs=")?,
                Some(("scale", number)) => options.scale = number.parse().context("scale=")?,
                _ => bail!("{word:?} is not an option.\n{USAGE}"),
            }
        }
        ensure!(options.runs > 0, "runs=0: at least one is needed");
        Ok(options)
    }
}

/// Processor seconds of the parts, in their order, in one run.
type Parts = Vec<(String, f64)>;

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let options = Options::of(root, words)?;
    guest::build()?;
    let image = root.join("target/guest/workload.elf");
    let mut both = [(&options.program, Vec::new()), (&options.peer, Vec::new())];
    for turn in 1..=options.runs {
        for (program, runs) in &mut both {
            eprintln!("run {turn} of {}: {}", options.runs, program.display());
            runs.push(once(program, &image, options.scale)?);
        }
    }
    let [(_, ours), (_, theirs)] = &both;
    println!(
        "{} against {}, scale {}, processor seconds of {} runs by turns, load {}",
        options.program.display(),
        options.peer.display(),
        options.scale,
        options.runs,
        fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default(),
    );
    print!("{}", table(ours, theirs)?);
    Ok(())
}

/// The best run of each side, their ratio, and the range of the ratios of the turns.
fn table(ours: &[Parts], theirs: &[Parts]) -> Result<String> {
    let mut text = format!("{:<24}{:>10}{:>10}{:>8}  by turns\n", "part", "here", "peer", "ratio");
    for (index, (name, _)) in ours[0].iter().enumerate() {
        let of = |runs: &[Parts]| -> Result<Vec<f64>> {
            let one = |run: &Parts| {
                let (other, seconds) = run.get(index).context("a run without all parts")?;
                ensure!(other == name, "{other} instead of {name}");
                Ok(*seconds)
            };
            runs.iter().map(one).collect()
        };
        let (ours, theirs) = (of(ours)?, of(theirs)?);
        let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        if least(&ours) == 0.0 {
            text += &format!("{name:<24}  shorter than the clock's step: take a larger scale\n");
            continue;
        }
        let turns: Vec<f64> =
            ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect();
        text += &format!(
            "{name:<24}{:>10.4}{:>10.4}{:>8.3}  {:.3} to {:.3}\n",
            least(&ours),
            least(&theirs),
            least(&theirs) / least(&ours),
            least(&turns),
            most(&turns),
        );
    }
    Ok(text)
}

/// Runs all parts, and takes at each line that tells of one's end what the program has used.
fn once(program: &Path, image: &Path, scale: u32) -> Result<Parts> {
    let name = program.display();
    let mut child = command(program, image, scale)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let (mut parts, mut has_passed) = (Parts::new(), false);
    let mut before = 0.0;
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let used = used(child.id())?;
        // A firmware may have written before.
        let line = line?;
        let Some(start) = line.find('{') else { continue };
        let Ok(record) = serde_json::from_str::<Value>(&line[start..]) else { continue };
        match record["record"].as_str() {
            Some("part") => {
                parts.push((record["name"].as_str().unwrap_or_default().to_owned(), used - before));
            }
            Some("end") => has_passed = record["passed"] == true,
            _ => {}
        }
        before = used;
    }
    child.wait()?;
    ensure!(has_passed && !parts.is_empty(), "{name}: the guest did not do its work");
    Ok(parts)
}

fn command(program: &Path, image: &Path, scale: u32) -> Command {
    let is_qemu =
        program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("qemu"));
    let mut command = Command::new(program);
    let append = format!("mix=all scale={scale}");
    if is_qemu {
        command.args(["-accel", "tcg,thread=single", "-cpu", "max", "-m", "512", "-nographic"]);
        command.args(["-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel"]);
    } else {
        command.args(["machine", "run", "--cpu", "zen4", "--iommu", "off", "--memory", "512M"]);
        command.arg("--kernel");
    }
    // QEMU takes two dashes for one.
    command.arg(image).arg("--append").arg(append);
    command
}

/// Processor seconds of all threads of a process that there still are; those of a process that has
/// ended are not known any more.
fn used(process: u32) -> Result<f64> {
    let folder = format!("/proc/{process}/task");
    let mut nanoseconds = 0;
    for thread in fs::read_dir(&folder).with_context(|| folder.clone())?.flatten() {
        // It may have ended since.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let first = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        nanoseconds += first.unwrap_or(0);
    }
    Ok(nanoseconds as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_of_the_best_runs_and_its_range_of_the_turns() {
        let run = |seconds: f64| vec![("copy".to_owned(), seconds)];
        let text = table(&[run(1.0), run(2.0)], &[run(3.0), run(2.0)]).unwrap();
        let row = text.lines().nth(1).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["copy", "1.0000", "2.0000", "2.000", "1.000", "to", "3.000"]);
        assert!(table(&[run(1.0)], &[vec![]]).is_err());
        let text = table(&[run(0.0)], &[run(3.0)]).unwrap();
        assert!(text.ends_with("take a larger scale\n"), "{text}");
    }

    #[test]
    fn unknown_option_is_told_with_those_that_there_are() {
        let error = Options::of(Path::new("/x"), &["turns=3"]).err().unwrap().to_string();
        assert!(error.contains("turns=3") && error.contains("runs=N"), "{error}");
        assert_eq!(Options::of(Path::new("/x"), &["runs=5"]).unwrap().runs, 5);
    }
}
