//! `avicenna lab`: a host that is emulated, with the feature off and on.

use super::machine::model;
use super::machine::size::parse_bytes;
use anyhow::Context;
use bench::{Configuration, InterruptChip, Timer};
use lab::booted::Store;
use lab::builtin::Effort;
use lab::comparison::Comparison;
use lab::host::{self, Host};
use lab::kernel::Kernel;
use lab::prediction::Scale;
use lab::result::{HostFacts, LabResult, RunFacts};
use lab::session::Session;
use lab::workload::{Feature, Workload};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows and columns where standard output has none.
const USUAL_TERMINAL: (u16, u16) = (24, 80);

static INTERRUPT: AtomicBool = AtomicBool::new(false);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Run a workload in virtual machines with AVIC off and on, and compare
    Run(RunArguments),
    /// Run a verb of avicenna on the emulated host, such as: lab exec -- check
    Exec(ExecArguments),
    /// An interactive emulated host with avicenna inside
    Shell(ShellArguments),
    /// Remove the snapshots of booted hosts that earlier runs kept
    Clear,
}

#[derive(clap::Args)]
struct HostArguments {
    #[command(flatten)]
    model: model::Arguments,
    /// Processors of the emulated host
    #[arg(long, value_name = "N", default_value_t = 4)]
    cpus: u16,
    /// RAM of the emulated host
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_bytes)]
    memory: u64,
    /// debian-12, debian-13, debian-sid, builtin, a kernel file with its modules beside it, or a
    /// kernel package (.deb), unpacked or not
    #[arg(long, value_name = "KERNEL", default_value = "debian-13")]
    kernel: String,
    /// A parameter of a module that the host loads, such as kvm.halt_poll_ns=0
    #[arg(long = "parameter", value_name = "MODULE.NAME=VALUE")]
    parameters: Vec<String>,
}

#[derive(clap::Args)]
struct StartArguments {
    /// Boot the host even if an earlier run kept a snapshot of it, and keep none
    #[arg(long)]
    no_snapshot: bool,
}

impl StartArguments {
    /// Where snapshots are, unless they are not wanted or there is no place for them.
    fn store(&self) -> Option<Store> {
        (!self.no_snapshot).then(Store::open)?.ok()
    }
}

#[derive(clap::Args)]
struct RunArguments {
    #[command(flatten)]
    host: HostArguments,
    #[command(flatten)]
    start: StartArguments,
    /// Virtual processors of the guest
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=512))]
    guest_cpus: u16,
    /// ipi, threads, mesh, timer, or a command of this machine to run in a Linux guest
    #[arg(long, value_name = "WORKLOAD", default_value = "ipi")]
    workload: Workload,
    /// Which settings of AVIC to run
    #[arg(long, value_enum, default_value_t = Setting::Both)]
    feature: Setting,
    /// Where the guest's I/O APIC is
    #[arg(long, value_enum, default_value_t = Chip::Split)]
    irqchip: Chip,
    /// Who emulates the guest's 8254 timer; KVM's, with reinjection, inhibits AVIC
    #[arg(long, value_enum, default_value_t = Pit::Off)]
    pit: Pit,
    /// More words for the command line of a Linux guest's kernel
    #[arg(long, value_name = "STR", default_value = "", allow_hyphen_values = true)]
    guest_append: String,
    /// How to print; the form of json is docs/schema/lab-1.json
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the result here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ExecArguments {
    #[command(flatten)]
    host: HostArguments,
    #[command(flatten)]
    start: StartArguments,
    /// With kvm_amd loaded as avic=0
    #[arg(long)]
    off: bool,
    /// Write there, as JSON, how many VM exits the machine itself performed meanwhile
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// The verb and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    verb: Vec<String>,
}

#[derive(clap::Args)]
struct ShellArguments {
    #[command(flatten)]
    host: HostArguments,
    #[command(flatten)]
    start: StartArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Setting {
    Off,
    On,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Chip {
    Split,
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pit {
    /// Outside KVM
    Off,
    /// In KVM, late ticks are injected
    Reinject,
    /// In KVM, late ticks are dropped
    Discard,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
}

/// The part of a virtual machine's configuration that both `lab` and `bench` offer. KVM's timer
/// needs KVM's interrupt chip.
pub fn interrupts(chip: Chip, pit: Pit) -> (InterruptChip, Timer) {
    let timer = match pit {
        Pit::Off => Timer::Process,
        Pit::Reinject => Timer::KernelReinject,
        Pit::Discard => Timer::KernelDiscard,
    };
    let is_full = chip == Chip::Full || pit != Pit::Off;
    (if is_full { InterruptChip::Full } else { InterruptChip::Split }, timer)
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let _ = ctrlc::set_handler(|| INTERRUPT.store(true, Ordering::Relaxed));
    match arguments.action {
        Action::Run(arguments) => compare(&arguments),
        Action::Exec(arguments) => execute(&arguments),
        Action::Shell(arguments) => shell(&arguments),
        Action::Clear => clear(),
    }
}

/// Tells people what goes on; programs that read standard error are spared.
fn say(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{}", text.chars().take(100).collect::<String>());
    }
}

fn emulated(arguments: &HostArguments) -> anyhow::Result<Host> {
    let model = arguments.model.model()?;
    Ok(Host { model, cpus: arguments.cpus, memory: arguments.memory })
}

/// The kernel asked for, or none with the reason told: the built-in hypervisor then serves.
fn kernel(name: &str) -> anyhow::Result<Option<Kernel>> {
    if name == "builtin" {
        return Ok(None);
    }
    let is_distribution = lab::distribution::DISTRIBUTIONS.iter().any(|one| one.name == name);
    match Kernel::find(name, &mut say) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(error) if is_distribution => {
            eprintln!("avicenna: no kernel of {name}: {error:#}; the built-in hypervisor serves");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn compare(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let host = emulated(&arguments.host)?;
    let (interrupt_chip, timer) = interrupts(arguments.irqchip, arguments.pit);
    let configuration = Configuration {
        vcpus: arguments.guest_cpus,
        interrupt_chip,
        timer,
        ..Configuration::default()
    };
    let feature = match arguments.feature {
        Setting::Off => Feature::Off,
        Setting::On => Feature::On,
        Setting::Both => Feature::Both,
    };
    let workload = &arguments.workload;
    let kernel = kernel(&arguments.host.kernel)?;
    let is_kvm = kernel.is_some();
    anyhow::ensure!(
        is_kvm || (arguments.irqchip, arguments.pit) == (Chip::Split, Pit::Off),
        "the built-in hypervisor's guest has no I/O APIC and no timer chip: --irqchip and --pit need \
         a distribution's kernel"
    );
    anyhow::ensure!(
        is_kvm || arguments.host.parameters.is_empty(),
        "the built-in hypervisor has no modules: --parameter needs a distribution's kernel"
    );
    let (kernel_name, comparisons, effort) = match kernel {
        None => {
            let found = lab::builtin::compare(
                &host,
                arguments.guest_cpus,
                workload,
                feature,
                &INTERRUPT,
                &mut say,
            )?;
            ("built-in hypervisor".to_owned(), found.0, found.1)
        }
        Some(kernel) => {
            let (comparisons, effort) =
                on_kernel(&host, &kernel, arguments, feature, &configuration)?;
            (kernel.name, comparisons, effort)
        }
    };
    say("");
    let result = LabResult {
        schema: LabResult::SCHEMA,
        host: HostFacts {
            cpu: arguments.host.model.description(),
            cpus: host.cpus,
            kernel: kernel_name,
            guest_cpus: arguments.guest_cpus,
            interrupt_chip: is_kvm.then(|| name(&interrupt_chip)).transpose()?,
            timer: is_kvm.then(|| name(&timer)).transpose()?,
        },
        workload: workload.to_string(),
        // What was published was measured on KVM of Zen 4.
        predictions: if is_kvm && arguments.host.model.description() == "zen4" {
            {
                let scale =
                    Scale { tsc_hertz: host.model.tsc_hertz(), guest_cpus: arguments.guest_cpus };
                lab::prediction::predict(&workload.to_string(), &comparisons, scale)
            }
        } else {
            Vec::new()
        },
        comparisons,
        run: RunFacts {
            is_restored: effort.is_restored,
            instructions: effort.instructions,
            virtual_seconds: effort.time.0 as f64 / 1e12,
            host_seconds: started.elapsed().as_secs_f64(),
            trace_hash: format!("{:016x}", effort.trace_hash),
        },
    };
    show(&result, arguments)
}

/// Runs a workload's steps on an emulated host with a distribution's kernel.
fn on_kernel(
    host: &Host,
    kernel: &Kernel,
    arguments: &RunArguments,
    feature: Feature,
    configuration: &Configuration,
) -> anyhow::Result<(Vec<Comparison>, Effort)> {
    say("starting the emulated host");
    let workload = &arguments.workload;
    let initramfs = host::initramfs(kernel, &arguments.host.parameters, Some(workload))?;
    let store = arguments.start.store();
    let mut session = Session::start(host, kernel, &initramfs, store.as_ref(), &INTERRUPT)?;
    let steps = workload.steps(
        feature,
        configuration,
        host.model.tsc_hertz() / 1000,
        &arguments.guest_append,
    );
    let mut observed = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let setting = if step.is_on { "on" } else { "off" };
        let head = format!("[{}/{}] {} AVIC {setting}", index + 1, steps.len(), step.name);
        say(&head);
        let mut progress = |text: &str| say(&format!("{head}: {text}"));
        observed.push(session.perform(step, &INTERRUPT, &mut progress)?);
    }
    let effort = Effort {
        instructions: session.instructions(),
        time: session.virtual_time(),
        trace_hash: session.trace_hash(),
        is_restored: session.is_restored,
    };
    Ok((lab::comparison::compare(&observed, &session.release), effort))
}

/// The name of a setting as serde writes it.
fn name(setting: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_value(setting)?.as_str().unwrap_or_default().to_owned())
}

/// Exit status 1 where the result is not to be trusted: counts differ, or a machine failed.
fn show(result: &LabResult, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let text = match arguments.format {
        Format::Text => result.to_text(),
        Format::Json => result.to_json()?,
        Format::Html => result.to_html(),
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => print!("{text}"),
    }
    let is_sound = result.comparisons.iter().all(|one| {
        one.troubles.is_empty() && one.agreement.iter().all(|both| both.differences.is_empty())
    });
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn clear() -> anyhow::Result<ExitCode> {
    let removed = Store::open()?.clear()?;
    println!("{removed} snapshots removed");
    Ok(ExitCode::SUCCESS)
}

/// The verb's output and exit status are this one's.
fn execute(arguments: &ExecArguments) -> anyhow::Result<ExitCode> {
    let host = emulated(&arguments.host)?;
    let kernel = kernel(&arguments.host.kernel)?.context("a distribution's kernel is needed")?;
    say("starting the emulated host");
    let initramfs = host::initramfs(&kernel, &arguments.host.parameters, None)?;
    let store = arguments.start.store();
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &INTERRUPT)?;
    session.load(!arguments.off, &INTERRUPT)?;
    let verb: Vec<&str> = arguments.verb.iter().map(String::as_str).collect();
    let said = session.say(&verb, &INTERRUPT)?;
    say("");
    print!("{}", said.output);
    eprint!("{}", said.errors);
    if let Some(path) = &arguments.counters {
        let counts = serde_json::to_vec_pretty(session.counters().exits())?;
        std::fs::write(path, counts).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::from(u8::try_from(said.status).unwrap_or(super::CANNOT_TELL)))
}

fn shell(arguments: &ShellArguments) -> anyhow::Result<ExitCode> {
    let host = emulated(&arguments.host)?;
    let kernel =
        kernel(&arguments.host.kernel)?.context("a shell needs a distribution's kernel")?;
    say("starting the emulated host");
    let initramfs = host::shell_initramfs(&kernel, &arguments.host.parameters)?;
    let store = arguments.start.store();
    let session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &INTERRUPT)?;
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let (rows, columns) = match size {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => USUAL_TERMINAL,
    };
    let mut machine = session.into_shell(rows, columns)?;
    say("");
    super::machine::interact(&mut machine, &INTERRUPT)
}
