//! `avicenna lab suite`: programs that judge themselves, on emulated hosts.

use super::arguments::HostArguments;
use super::debug;
use super::kernel::real_kernel;
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use anyhow::Context;
use arch::time::Picoseconds;
use change::Like;
use lab::drive::session::Visitor;
use lab::host::Host;
use lab::host::booted::Store;
use lab::host::image;
use lab::host::initramfs::Initramfs;
use lab::host::kernel::Kernel;
use lab::plan::{Experiment, ModuleParameter, Needs, Setting};
use lab::protocol::Stream;
use lab::suite::expect::Expectations;
use lab::suite::{self, Column, Outcome, Program, Sharing, Tested, kut, program, selftests};
use lab::watch::{Told, Watch};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

/// The suites that are not folders.
const SELFTESTS: &str = "selftests";
const UNIT_TESTS: &str = "kut";
/// RAM of a host for these: some give their guests 1 GB or more.
const MEMORY: u64 = 4 << 30;
/// Longer files are not lists.
const MOST_BYTES: u64 = 16 << 20;
/// Settings of one call.
const MOST_COLUMNS: usize = 64;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A folder of programs; or selftests: Linux's own of KVM, built here from the sources of the
    /// kernel's distribution; or kut: kvm-unit-tests (--source has the built tree) as guests of the
    /// host's KVM, which must say the same with --feature off,on. --kernel, --cpu and the values of
    /// --parameter can be several, with commas between
    #[arg(value_name = "FOLDER|selftests|kut")]
    suite: String,
    #[command(flatten)]
    host: HostArguments,
    /// AVIC or APICv off, on, or one after the other
    #[arg(long, value_delimiter = ',', default_value = "on")]
    feature: Vec<Feature>,
    /// The tree of a kernel that is not a distribution's, for its selftests, or of kvm-unit-tests
    #[arg(long, value_name = "TREE")]
    source: Option<PathBuf>,
    /// Run one after the other on the same host; without it each test begins on a host that has
    /// just booted, restored in memory
    #[arg(long)]
    shared: bool,
    /// Tests at once, where they do not share a host [default: one for each processor here]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Seconds of virtual time that a test may take [default: as --limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    each: Option<u64>,
    /// Have vfio-pci drive the function at this address of the host, such as 0000:00:1e.0
    #[arg(long = "give", value_name = "ADDRESS")]
    given: Vec<String>,
    /// Results that are known, with reasons: lines of test, kernel, CPU, feature, pass, skip, fail
    /// or stopped, and reason, with tabs between. Status 1 is then for what differs
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    #[command(flatten)]
    debug: debug::Arguments,
    /// Run each test that fails again and write there what the machine does, for machine trace
    #[arg(long, value_name = "FOLDER")]
    trace_failed: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the report here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Names of tests, with * for any text; one with arguments in quotes
    #[arg(last = true, value_name = "TEST")]
    tests: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Feature {
    Off,
    On,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Tap,
    Junit,
    Json,
}

/// A setting with all that it needs of this machine.
struct Prepared {
    column: Column,
    host: Host,
    kernel: Kernel,
    initramfs: Initramfs,
    parameters: Vec<ModuleParameter>,
    programs: Vec<Program>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let columns = arguments.columns().map_err(Usage::of)?;
    let expectations = arguments.expectations().map_err(Usage::of)?;
    let prepared = columns.into_iter().map(|column| arguments.prepare(column, &mut watch));
    let prepared = prepared.collect::<anyhow::Result<Vec<_>>>()?;
    let store = arguments.host.store();
    let mut sandbox = Sandbox::default();
    let output = arguments.output.as_deref();
    let output = output.map(|path| sandbox.output(path)).transpose()?;
    if let Some(folder) = &arguments.trace_failed {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        sandbox.keeps(folder);
    }
    let count = prepared.iter().map(|one| one.programs.len()).sum();
    let which = "tests of all settings: a name behind -- chooses, as do --cpu and --feature";
    arguments.debug.ensure_one(count, which)?;
    let mut visitor = arguments.debug.open(&mut sandbox)?;
    arguments.host.shut_in(&mut sandbox);
    let mut tests = Vec::new();
    let mut perform = |one| {
        let visitor = visitor.take();
        arguments.perform(one, store.as_ref(), visitor, &mut tests, &mut watch)
    };
    let ended = prepared.iter().try_for_each(&mut perform);
    // Of a suite that ended early there is a report, too: of what came until then.
    if tests.is_empty() {
        ended?;
        return Ok(Status::Clean.into());
    }
    stages.close();
    let mut unexpected = match &expectations {
        Some(list) => list.differences(&tests),
        None => Vec::new(),
    };
    if arguments.suite == UNIT_TESTS {
        unexpected.extend(kut::disagreements(&tests));
    }
    let outcome = Outcome { schema: Outcome::SCHEMA, tests, unexpected };
    let report = arguments.report(&outcome)?;
    match output {
        Some(mut output) => {
            output.write_all(report.as_bytes())?;
            output.finish(Like::Umask)?;
        }
        None if arguments.format == Format::Text => {
            terminal::print(&report);
        }
        None => {
            terminal::program(report.as_bytes());
        }
    }
    ended?;
    let is_good = match expectations {
        Some(_) => outcome.unexpected.is_empty(),
        None if !outcome.unexpected.is_empty() => false,
        None => outcome.tests.iter().all(|test| matches!(test.verdict.word(), "pass" | "skip")),
    };
    Ok(if is_good { Status::Clean } else { Status::Findings }.into())
}

impl Arguments {
    /// The settings, in the order of the options.
    fn columns(&self) -> anyhow::Result<Vec<Column>> {
        let kernels = self.host.kernel.as_deref().unwrap_or(lab::host::distribution::USUAL);
        let mut columns = Vec::new();
        for kernel in kernels.split(',') {
            for cpu in models(&self.host.model.cpu) {
                for feature in &self.feature {
                    let feature = if *feature == Feature::Off { Setting::Off } else { Setting::On };
                    columns.push(Column {
                        kernel: kernel.to_owned(),
                        cpu: cpu.clone(),
                        feature: feature.name().to_owned(),
                        parameters: Vec::new(),
                    });
                }
            }
        }
        for parameter in &self.host.parameters {
            let (name, values) = parameter.split_once('=').unwrap_or((parameter, ""));
            let with = |column: &Column, value: &str| {
                let mut column = column.clone();
                column.parameters.push(format!("{name}={value}"));
                column
            };
            let all =
                columns.iter().flat_map(|one| values.split(',').map(|value| with(one, value)));
            columns = all.take(MOST_COLUMNS + 1).collect();
        }
        anyhow::ensure!(columns.len() <= MOST_COLUMNS, "more than {MOST_COLUMNS} settings at once");
        Ok(columns)
    }

    fn expectations(&self) -> anyhow::Result<Option<Expectations>> {
        let Some(path) = &self.expect else { return Ok(None) };
        let text = crate::verb::source::text(path, MOST_BYTES, "more than a list has")?;
        let list = text.parse().with_context(|| path.display().to_string())?;
        Ok(Some(list))
    }

    fn prepare(&self, column: Column, watch: &mut Watch<'_>) -> anyhow::Result<Prepared> {
        let mut arguments = self.host.clone();
        arguments.kernel = Some(column.kernel.clone());
        arguments.model.cpu.clone_from(&column.cpu);
        arguments.parameters.clone_from(&column.parameters);
        if [SELFTESTS, UNIT_TESTS].contains(&self.suite.as_str()) {
            arguments.memory.get_or_insert(MEMORY);
        }
        let host = arguments.host()?;
        let kernel = real_kernel(&arguments, &host, watch)?;
        let additions = arguments.additions();
        let initramfs = image::initramfs(&kernel, &host, &additions, &Needs::default());
        let mut initramfs = initramfs.map_err(Usage::of)?;
        image::with_shell(&mut initramfs)?;
        let programs = match self.suite.as_str() {
            SELFTESTS => {
                let source = self.source.as_deref();
                let folder = selftests::built(&column.kernel, &kernel, source, watch)?;
                program::of_folder(&folder, &self.tests)
            }
            UNIT_TESTS => {
                let tree = self.source.as_deref();
                let tree = tree.context("kut: --source has to name a built tree of kvm-unit-tests");
                tree.and_then(|tree| kut::of_tree(tree, &self.tests))
            }
            folder => program::of_folder(Path::new(folder), &self.tests),
        };
        let programs = programs.map_err(Usage::of)?.into_iter().map(|mut program| {
            program.without(&initramfs);
            program
        });
        let programs = programs.collect();
        let setting =
            if column.feature == Setting::Off.name() { Setting::Off } else { Setting::On };
        let arm = Experiment::of_model(&host.model, &[setting]).arm(setting);
        Ok(Prepared { column, host, kernel, initramfs, parameters: arm.parameters, programs })
    }

    fn perform(
        &self,
        prepared: &Prepared,
        store: Option<&Store>,
        visitor: Option<Box<dyn Visitor>>,
        all: &mut Vec<Tested>,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<()> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = suite::Plan {
            column: prepared.column.clone(),
            host: prepared.host.clone(),
            kernel: &prepared.kernel,
            initramfs: &prepared.initramfs,
            parameters: &prepared.parameters,
            given: &self.given,
            programs: &prepared.programs,
            sharing: if self.shared { Sharing::Shared } else { Sharing::Fresh },
            jobs: self.jobs.map_or(processors, usize::from),
            each: Picoseconds::from_milliseconds(
                self.each.unwrap_or(self.host.limit).saturating_mul(1000),
            ),
            patience: self.host.patience(),
            store,
            visitor: Mutex::new(visitor),
            traces: self.trace_failed.clone(),
            stop: &INTERRUPT,
        };
        let before = all.len();
        let is_shown = self.format == Format::Text && self.output.is_none();
        let mut done = |tested: &Tested, watch: &mut Watch<'_>| {
            all.push(tested.clone());
            if is_shown {
                watch.wrote(Stream::Output, &tested.line());
            }
        };
        let ended = suite::run(&plan, &mut done, watch).map(drop);
        // They came as they ended.
        all[before..].sort_by(|one, other| one.name.cmp(&other.name));
        ended
    }

    fn report(&self, outcome: &Outcome) -> anyhow::Result<String> {
        let tests = &outcome.tests;
        Ok(match self.format {
            Format::Tap => report::suite::tap(&suite::text::for_report(tests)),
            Format::Junit => report::suite::junit("suite", &suite::text::for_report(tests)),
            Format::Json => serde_json::to_string_pretty(outcome)? + "\n",
            Format::Text => {
                let mut text = suite::text::text(tests, terminal::columns());
                for line in &outcome.unexpected {
                    text += &format!("UNEXPECTED: {line}\n");
                }
                text
            }
        })
    }
}

/// Models with commas between, each of which can have changes behind commas of its own.
fn models(text: &str) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for part in text.split(',') {
        match models.last_mut().filter(|_| part.starts_with(['+', '-', '±'])) {
            Some(model) => *model += &format!(",{part}"),
            None => models.push(part.to_owned()),
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_apart_from_what_is_changed_in_them() {
        for (text, expected) in [
            ("zen4", &["zen4"][..]),
            ("zen4,sapphire-rapids", &["zen4", "sapphire-rapids"]),
            ("zen4,-x2avic,+svm,zen3", &["zen4,-x2avic,+svm", "zen3"]),
        ] {
            assert_eq!(models(text), expected, "{text}");
        }
    }
}
