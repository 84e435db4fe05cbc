//! `avicenna bench calibrate`: what exits, interrupts and bare loops take on this host. Nothing on
//! the host is changed: with the feature switched on, a second guest in which KVM inhibits it shows
//! what the same takes without.

use super::INTERRUPT;
use crate::terminal;
use crate::verb::exits::watch::{Watch, profile_of, with_remedy};
use anyhow::{Context, bail};
use bench::{Configuration, Inhibit, Outcome, VirtualMachine};
use board::Images;
use board::load::Source;
use capture::live::Rung;
use change::{Like, Output};
use lab::calibrate::{Collected, Measured, MeasuredHost, OPTIONS, Recorded, Row, collect};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// A life of the guest takes a second; a host that takes so much longer is not at rest.
const LIMIT: Duration = Duration::from_secs(120);
/// What a life measures: samples of each figure, and those before that do not count.
const SAMPLES: &str = "samples=200 warmup=20";
/// What it does while exits are recorded: more of them than it has at its beginning.
const EXITS: &str = "tests=exits samples=1000 warmup=0";
/// Where KVM's modules say whether the feature is on.
const SWITCHES: [&str; 2] =
    ["/sys/module/kvm_amd/parameters/avic", "/sys/module/kvm_intel/parameters/enable_apicv"];
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Write what was measured here, as JSON, instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Lives of the guest, each of which measures everything; how much they differ is kept
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Leave out what a recording of exits lacks, for which they are recorded as exits record does
    #[arg(long)]
    no_recording: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let is_on = SWITCHES.iter().any(|path| matches!(read(path).as_str(), "Y" | "1"));
    let tests = format!("{OPTIONS} {SAMPLES}");
    let mut guests = Collected::default();
    let mut loops: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for seed in 1..=arguments.repeats {
        collect(&mut guests, "as is", &life(&tests, None, seed)?)?;
        if is_on {
            collect(&mut guests, "inhibited", &life(&tests, Some(Inhibit::BlockIrq), seed)?)?;
        }
        for (name, nanoseconds) in bench::loops::measure() {
            loops.entry(name).or_default().push(nanoseconds);
        }
    }
    let mut recorded = Recorded::default();
    let recorded_by = match arguments.no_recording {
        true => None,
        false => record(&mut recorded, is_on, arguments.repeats)?,
    };
    let loops = loops.iter().map(|(name, times)| Row::of_loop(&format!("loop {name}"), times));
    let measured = Measured {
        schema: Measured::SCHEMA,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        host: host(&guests, is_on),
        recorded_by,
        rows: guests.rows().into_iter().chain(recorded.rows()).chain(loops).collect(),
    };
    let text = measured.to_json()?;
    match &arguments.output {
        Some(path) => {
            let mut output = Output::to(path)?;
            output.write_all(text.as_bytes())?;
            output.finish(Like::Umask)?;
        }
        None => {
            terminal::program(text.as_bytes());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is recorded of exits with the feature off as `exits record` does it, since that takes time
/// of its own and leaves some out; in which form, or nothing where exits cannot be recorded.
fn record(recorded: &mut Recorded, is_on: bool, repeats: u32) -> anyhow::Result<Option<String>> {
    let start = |rung| Watch::start(rung, None).map_err(|error| with_remedy(rung, &error));
    // What refuses the better way is the answer where neither works.
    let started = start(Rung::Bpf).or_else(|error| start(Rung::Histogram).map_err(|_| error));
    let mut watch = match started {
        Ok(watch) => watch,
        Err(error) => {
            remark!("avicenna: what recordings lack is not measured: {error:#}");
            return Ok(None);
        }
    };
    let inhibit = is_on.then_some(Inhibit::BlockIrq);
    for seed in 1..=repeats {
        collect(&mut Collected::default(), "recorded", &life(EXITS, inhibit, seed)?)?;
        recorded.add(&profile_of(&watch.poll()?), std::process::id());
    }
    if recorded.is_empty() {
        remark!(
            "avicenna: what recordings lack is not measured: no exit of this process was recorded \
             (a container has process numbers of its own)"
        );
        return Ok(None);
    }
    Ok(Some(watch.rung.name().to_owned()))
}

/// What the benchmark guest prints in a life.
fn life(tests: &str, inhibit: Option<Inhibit>, seed: u32) -> anyhow::Result<String> {
    let options = format!("output=memory {tests} seed={seed}");
    let configuration = Configuration { inhibit, ..Configuration::default() };
    let images = Images {
        kernel: Source::of("benchmark", image::BENCHMARK),
        initrd: None,
        modules: &[],
        command_line: &options,
    };
    let mut vm = VirtualMachine::new(&configuration, &images)?;
    let mut console = Vec::new();
    let end = vm.run(LIMIT, &INTERRUPT, |bytes| {
        console.extend(bytes.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte));
        Vec::new()
    })?;
    match end.outcome {
        Outcome::PowerOff | Outcome::DebugExit(0) => {}
        Outcome::Failed(why) => bail!("this host's KVM could not run the benchmark guest: {why}"),
        other => bail!("the benchmark guest ended with {other:?} instead of by itself"),
    }
    String::from_utf8(console).context("the benchmark guest's output")
}

fn host(guests: &Collected, is_on: bool) -> MeasuredHost {
    let (vendor, signature) = guests.processor.clone();
    let entries = std::fs::read_dir(VULNERABILITIES).into_iter().flatten().flatten();
    let mitigations =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path())));
    MeasuredHost {
        name: read("/proc/sys/kernel/hostname"),
        date: today(),
        vendor,
        signature,
        kernel: read("/proc/sys/kernel/osrelease"),
        tsc_khz: guests.tsc_khz,
        is_on,
        mitigations: mitigations.collect(),
    }
}

/// What a file of the kernel's says; nothing if there is none.
fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    report::lake::date(since.as_secs() / 86_400)
}
