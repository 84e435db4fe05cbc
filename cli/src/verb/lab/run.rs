//! `avicenna lab run`: the same virtual machines with the feature off and on.

use super::arguments::{Chip, HostArguments, Inhibit, Pit, interrupts};
use super::debug;
use super::kernel::{Found, kernel};
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use anyhow::Context;
use bench::Configuration;
use change::{Like, Output};
use clap::{Args, FromArgMatches};
use lab::comparison::LEAST_DRAWS;
use lab::drive::example::Choice;
use lab::plan::{Arm, Recipe, Request, Verb};
use lab::result::LabResult;
use lab::run::{Modes, Plan};
use lab::verdict::expect::Expectation;
use lab::watch::{Told, Watch};
use lab::workload::{self, Chosen};
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The options that answer a question (lab recipes lists them), or a file of such; other
    /// options given here take precedence
    #[arg(long, value_name = "NAME|FILE.toml")]
    recipe: Option<String>,
    #[command(flatten)]
    host: HostArguments,
    /// vCPUs of the guest
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=512))]
    guest_cpus: u16,
    /// Guests at once, whose vCPUs share the same processors of the host: targets are preempted.
    /// Those of the workload wake halt; those that spin take long
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    guests: u16,
    /// The APIC modes of guests, one after the other, where a workload has not its own: the
    /// benchmark runs in both, Linux guests in x2APIC mode
    #[arg(long, value_enum)]
    guest_apic: Option<GuestApic>,
    #[arg(long, value_name = "WORKLOAD", default_value = "ipi", help = workload::summaries())]
    workload: String,
    /// A folder that is the root of the Linux guest that runs a command, such as an unpacked
    /// container image; the command is one of its programs
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// What is compared: both (all that the processor has of AVIC or APICv, off and on), steps
    /// (off, APICv alone, and with IPI virtualization), off, on, or FEATURE=off,on with one of
    /// avic, x2avic, apicv and ipi (IPIs by the processor; AMD's need Linux 6.17)
    #[arg(long, value_name = "FEATURE", default_value = "both")]
    feature: Request,
    /// Where the guest's I/O APIC is
    #[arg(long, value_enum, default_value_t = Chip::Split)]
    irqchip: Chip,
    /// What emulates the guest's 8254 timer; KVM's, with reinjection, inhibits AVIC, not APICv
    #[arg(long, value_enum, default_value_t = Pit::Off)]
    pit: Pit,
    /// Make KVM inhibit AVIC and APICv for this reason, without a change to the guest
    #[arg(long, value_enum)]
    inhibit: Option<Inhibit>,
    /// More words for the command line of a Linux guest's kernel
    #[arg(long, value_name = "STR", default_value = "", allow_hyphen_values = true)]
    guest_append: String,
    /// End with status 1 unless this holds, such as 'exits.on < 200' (docs/lab.md has the forms)
    #[arg(long = "expect", value_name = "EXPECTATION")]
    expectations: Vec<Expectation>,
    /// In how many lives of the guest its times are measured, each from a seed of its own (phases
    /// of timers, gaps between samples, jitter of costs); 1 is one life with ten seeds of gaps
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Under how many draws of the prices that is measured besides which is not measured from seeds
    /// (workloads mesh and device, Linux guests), each in a life of its own, so that it has an
    /// interval: 4 or more, or 0 for none, which is faster. What is measured from seeds has ten
    /// draws anyway
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number_of_draws)]
    draws: u16,
    /// Parts of the run at once (an arm in a mode of the APIC is one, and five of its seeds), a
    /// thread and the host's memory each; what is found is the same. With --trace and --gdb it is
    /// one [default: one for each processor here that there is memory for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Which interrupt of each arm the picture shows: typical, slowest, or worst-new (with the
    /// feature on the slowest with an exit of a kind that there was none of with it off, or else a
    /// typical one)
    #[arg(long, value_name = "WHICH", default_value = "typical")]
    example: Choice,
    #[command(flatten)]
    debug: debug::Arguments,
    /// Break measured times down by cause: each is measured besides with one kind of cost after the
    /// other taken away
    #[arg(long)]
    breakdown: bool,
    /// Print every table and remark instead of one screen
    #[arg(long)]
    all: bool,
    /// How to print; the form of json is docs/schema/lab-1.json
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the result here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// None, or as many as an interval takes.
fn number_of_draws(text: &str) -> Result<u16, String> {
    const MOST: u16 = 100;
    let known = text.parse().ok().filter(|draws: &u16| {
        *draws == 0 || (LEAST_DRAWS..=MOST.into()).contains(&usize::from(*draws))
    });
    known.ok_or_else(|| format!("must be 0, or {LEAST_DRAWS} to {MOST}"))
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GuestApic {
    Xapic,
    X2apic,
    Both,
}

impl From<GuestApic> for Modes {
    fn from(apic: GuestApic) -> Self {
        match apic {
            GuestApic::Xapic => Self::XApic,
            GuestApic::X2apic => Self::X2Apic,
            GuestApic::Both => Self::Both,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
    /// Every table and remark, for a ticket or a page of documentation
    Markdown,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.recipe else { return run_arms(arguments, None) };
    let recipe = Recipe::find(name).map_err(Usage::of)?;
    if let Some(Verb::Senduipi) = recipe.verb {
        let own = std::env::args().skip_while(|word| word != "run").skip(1);
        let mut others = own.filter(|word| word != name && !word.starts_with("--recipe"));
        if let Some(other) = others.next() {
            return Err(Usage::of(anyhow::anyhow!(
                "{other}: recipe {name} is a verb of its own, which no option changes"
            )));
        }
        return super::senduipi::run();
    }
    let arguments = with_recipe(&recipe)?;
    run_arms(&arguments, recipe.arms)
}

/// The options of a recipe, and over them those of the command line.
fn with_recipe(recipe: &Recipe) -> anyhow::Result<Arguments> {
    let own = std::env::args_os().skip_while(|word| word != "run").skip(1);
    let words = std::iter::once("run".into());
    let words = words.chain(recipe.words.iter().map(Into::into)).chain(own);
    let command = Arguments::augment_args(clap::Command::new("run")).args_override_self(true);
    let matches = command.try_get_matches_from(words);
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let place = || format!("recipe {}", recipe.name);
    parsed.map_err(|error| Usage::of(anyhow::Error::from(error).context(place())))
}

fn run_arms(arguments: &Arguments, arms: Option<(String, Vec<Arm>)>) -> anyhow::Result<ExitCode> {
    let workload = chosen(arguments).map_err(Usage::of)?;
    let needs = workload.needs();
    let host = arguments.host.host_for(&needs)?;
    let mut experiment = arguments.feature.on(&host.model).map_err(|why| {
        Usage::of(anyhow::anyhow!("--cpu {}, --feature: {why}", arguments.host.model.description()))
    })?;
    experiment.own = arms;
    let arms: Vec<String> = experiment.arms().into_iter().map(|arm| arm.label).collect();
    let which = format!("arms, {}: --feature off or on is one", arms.join(", "));
    arguments.debug.ensure_one(arms.len(), &which)?;
    let halts = workload.benchmark().is_some_and(|options| options.contains("targets=halted"));
    if arguments.guest_cpus > arguments.host.cpus() && needs.linux.is_none() && !halts {
        remark!(
            "avicenna: {} vCPUs spin on {} processors: each waits for its turn, which \
             takes long and is not a measure of {}; --cpus {} would do",
            arguments.guest_cpus,
            arguments.host.cpus(),
            experiment.name(),
            arguments.guest_cpus
        );
    }
    let (interrupt_chip, timer) = interrupts(arguments.irqchip, arguments.pit);
    let configuration = Configuration {
        vcpus: arguments.guest_cpus,
        interrupt_chip,
        timer,
        inhibit: arguments.inhibit.map(Into::into),
        ..Configuration::default()
    };
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let (kernel, instead) = match kernel(&arguments.host, &host, needs.modules, &mut watch)? {
        Found::Kernel(kernel) => (Some(*kernel), None),
        Found::BuiltIn { instead } => (None, instead),
    };
    let mut sandbox = Sandbox::default();
    let output = arguments.output.as_deref().map(|path| sandbox.output(path)).transpose()?;
    let visitor = arguments.debug.open(&mut sandbox)?;
    let sandbox = RefCell::new(sandbox);
    let memory = host.memory;
    let plan = Plan {
        host,
        cpu: arguments.host.model.description(),
        kernel,
        instead,
        configuration,
        guests: arguments.guests,
        workload: &*workload,
        experiment: &experiment,
        additions: arguments.host.additions(),
        guest_append: &arguments.guest_append,
        limit: arguments.host.limit,
        store: arguments.host.store(),
        expectations: &arguments.expectations,
        is_broken_down: arguments.breakdown,
        seeds: arguments.seeds,
        draws: arguments.draws,
        modes: arguments.guest_apic.map(Into::into),
        example: arguments.example,
        is_looked_at: shows_functions(arguments),
        jobs: arguments.jobs.map_or_else(|| lab::run::usual_jobs(memory), usize::from),
        trace: arguments.host.trace.clone(),
        visitor: RefCell::new(visitor),
        before_guests: &|| arguments.host.shut_in(&mut sandbox.borrow_mut()),
    };
    plan.check().map_err(Usage::of)?;
    let result = lab::run::run(&plan, &mut watch)?;
    stages.close();
    show(&result, arguments, output)?;
    Ok(Status::from(result.ending()).into())
}

fn chosen(arguments: &Arguments) -> anyhow::Result<Chosen> {
    let text = &arguments.workload;
    match &arguments.root {
        Some(root) => Chosen::in_root(text, root).context("--root, --workload"),
        None => text.parse().map_err(anyhow::Error::msg).context("--workload"),
    }
}

/// As it was given.
fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let quoted = words.map(|word| match word.contains([' ', '"', '$', '\\', '*', '>', '<']) {
        true => format!("'{word}'"),
        false => word,
    });
    std::iter::once("avicenna".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Whether the form has room for what the host's functions take.
fn shows_functions(arguments: &Arguments) -> bool {
    let is_screen = arguments.format == Format::Text && !arguments.all;
    !is_screen || columns(arguments) >= LabResult::WIDE
}

fn columns(arguments: &Arguments) -> usize {
    let own = arguments.output.is_none().then(terminal::columns);
    own.unwrap_or(terminal::COLUMNS)
}

fn show(result: &LabResult, arguments: &Arguments, to: Option<Output>) -> anyhow::Result<()> {
    let text = match arguments.format {
        Format::Text => {
            let columns = columns(arguments);
            if arguments.all { result.to_text(columns) } else { result.to_screen(columns) }
        }
        Format::Json => result.to_json()?,
        Format::Html => result.to_html(&command()),
        Format::Markdown => result.to_markdown(),
    };
    match (to, arguments.format) {
        (Some(mut output), _) => {
            output.write_all(text.as_bytes())?;
            output.finish(Like::Umask)?;
        }
        (None, Format::Text) => {
            terminal::print(&text);
        }
        (None, Format::Json | Format::Html | Format::Markdown) => {
            terminal::program(text.as_bytes());
        }
    }
    Ok(())
}
