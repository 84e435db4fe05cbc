//! `avicenna machine run`
//!
//! Exit status: what the guest wrote to the debug-exit port as `value * 2 + 1`; 0 on power-off;
//! otherwise those of [`crate::status`].

use super::build::{self, Built};
use super::closing::{self, Closing};
use super::composition::{Begin, Consisted};
use super::console::{Console, Request};
use super::devices::ChannelFiles;
use super::ending::describe;
use super::gdb;
use super::monitor::{self, Monitors, Verdict};
use super::serial_port::{self, SerialPort};
use super::size::parse_duration;
use super::snapshot::{self, Snapshots};
use super::symbols;
use crate::sandbox::{self, Sandbox};
use crate::status::{Status, Usage};
use anyhow::{Context, anyhow, bail};
use arch::time::Picoseconds;
use board::debugger::Ending;
use board::{Configuration, Limits, Machine, Outcome};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Virtual time between two looks at the keyboard.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    build: build::Arguments,
    #[command(flatten)]
    serial_port: serial_port::Arguments,
    #[command(flatten)]
    snapshots: snapshot::Arguments,
    #[command(flatten)]
    monitor: monitor::Arguments,
    /// Stop at this virtual time since power-on, such as 500ms or 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    until_virtual: Option<Picoseconds>,
    /// Stop after this many instructions of all processors since power-on
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Write what happens to a file, for `machine trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Count what the processors' time consists of, from here or the last reset on, and write it to
    /// a file, for `machine price`
    #[arg(long, value_name = "FILE", conflicts_with = "clock_control")]
    composition: Option<PathBuf>,
    #[command(flatten)]
    symbols: symbols::Arguments,
    /// Wait for GDB before the first instruction: at an address of this machine, such as :1234, or
    /// at a socket file for this user alone, such as ./gdb
    #[arg(long, value_name = "ADDR")]
    gdb: Option<String>,
    /// Let GDB come from other machines: anyone who reaches the address can read and write the
    /// guest
    #[arg(long, requires = "gdb")]
    gdb_any: bool,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
    /// How to print the closing line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print no closing line
    #[arg(long, conflicts_with = "format")]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

static INTERRUPT: AtomicBool = AtomicBool::new(false);

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    status_of_run(arguments).map(ExitCode::from)
}

/// The same as a number.
pub fn status_of_run(arguments: &Arguments) -> anyhow::Result<u8> {
    let mut sandbox = Sandbox::default();
    let is_saved = arguments.snapshots.asks_for_any() || arguments.build.restore.is_some();
    if arguments.build.devices.has_shares() && is_saved {
        return Err(Usage::of(anyhow!(
            "--share: what a guest has open in a folder is not part of a snapshot, so there is \
             neither --snapshot-on nor --restore"
        )));
    }
    let mut serial_port = SerialPort::open(&arguments.serial_port, &mut sandbox)?;
    let snapshots = Snapshots::open(&arguments.snapshots, &mut sandbox)?;
    let trace = arguments.trace.as_deref().map(|path| sandbox.output(path)).transpose()?;
    let composition = arguments.composition.as_deref().map(|path| sandbox.output(path));
    let composition = composition.transpose()?;
    let channels = arguments.build.devices.open_channels(&mut sandbox)?;
    let door = arguments.gdb.as_deref();
    let door = door.map(|at| gdb::Door::open(at, arguments.gdb_any, &mut sandbox)).transpose()?;
    let monitors = Monitors::open(&arguments.monitor, &mut sandbox, status, &INTERRUPT)?;
    let variables = arguments.build.firmware.open()?;
    arguments.build.name_inputs(&mut sandbox);
    arguments.symbols.files().for_each(|path| sandbox.reads(path));
    sandbox.raise(&arguments.sandbox);
    let Built { mut machine, configuration } = arguments.build.build()?;
    let digest = configuration.digest();
    if arguments.build.restore.is_some() {
        ensure_ahead(&machine, arguments).map_err(Usage::of)?;
    }
    let recorder = arguments.trace.as_deref().zip(trace);
    let mut recorder = recorder.map(|(path, output)| Recorder::new(path, output)).transpose()?;
    let is_recorded = recorder.is_some() || monitors.wants_records();
    machine.state.wiring.recorder.records = is_recorded.then(Vec::new);
    let recall = machine.recall.clone();
    let _ = ctrlc::set_handler(move || {
        INTERRUPT.store(true, Ordering::Relaxed);
        recall.ring();
    });
    let started = Start { at: Instant::now(), instructions: machine.instructions() };
    let channels = channels.connect(&mut machine)?;
    serial_port.connect(&mut machine)?;
    let snapshots = snapshots.of(digest);
    let counted = composition.is_some().then(|| Begin::of(&mut machine));
    let mut outputs = Outputs {
        recorder: recorder.as_mut(),
        channels,
        serial_port,
        snapshots,
        monitors,
        counted,
    };
    let given = Given { arguments, configuration: &configuration, started: &started };
    let end = drive(&mut machine, &given, &mut outputs, door)?;
    variables.keep(&machine)?;
    if let Some(text) = machine.post_mortem() {
        // A kernel with symbols of its own names its code.
        let symbols = arguments.symbols.read(arguments.build.kernel.as_deref())?;
        crate::terminal::remark(&symbols::annotate(&text, &symbols));
    }
    for (event, file) in outputs.snapshots.missed() {
        remark!("avicenna: {} is not written: {event} did not happen", file.display());
    }
    if let Some((mut output, counted)) = composition.zip(outputs.counted) {
        let consisted = Consisted::of(&machine, &counted, &configuration.model)?;
        output.write_all(&serde_json::to_vec_pretty(&consisted)?)?;
        output.finish(change::Like::Umask)?;
    }
    if let Some(recorder) = recorder {
        recorder.finish()?;
    }
    if !arguments.quiet {
        report(&machine, arguments.format, &started);
    }
    if let Some(first) = machine.verified().and_then(|verified| verified.first.as_ref()) {
        anyhow::bail!("translated code and the interpreter differ: {first}");
    }
    Ok(end)
}

/// Limits count from power-on, so that a restored run ends where the one that was saved does; one
/// that lies behind has been meant otherwise.
fn ensure_ahead(machine: &Machine, arguments: &Arguments) -> anyhow::Result<()> {
    let (now, done) = (machine.state.now, machine.instructions());
    if let Some(until) = arguments.until_virtual.filter(|until| *until <= now) {
        bail!(
            "--until-virtual {:.6}s has passed: the snapshot is at {:.6} s since power-on",
            until.0 as f64 / 1e12,
            now.0 as f64 / 1e12
        );
    }
    if let Some(most) = arguments.max_instructions.filter(|most| *most <= done) {
        bail!(
            "--max-instructions {most} has passed: the snapshot is at {done} instructions since power-on"
        );
    }
    Ok(())
}

/// What a run was begun with.
struct Given<'a> {
    arguments: &'a Arguments,
    configuration: &'a Configuration,
    started: &'a Start,
}

/// Firmware begins again, with disks as they are; without it the machine is as it was when the run
/// began. What looks at it stays.
fn reset(machine: &mut Machine, given: &Given<'_>) -> anyhow::Result<()> {
    if let Some(files) = given.arguments.build.firmware.files()? {
        return files.reboot(machine, given.configuration);
    }
    let mut fresh = given.arguments.build.build()?.machine;
    fresh.recall = machine.recall.clone();
    let is_recorded = machine.state.wiring.recorder.records.is_some();
    fresh.state.wiring.recorder.records = is_recorded.then(Vec::new);
    *machine = fresh;
    Ok(())
}

/// The trace file being written.
struct Recorder {
    path: PathBuf,
    writer: trace::file::Writer<BufWriter<File>>,
}

impl Recorder {
    fn new(path: &Path, output: change::Output) -> anyhow::Result<Self> {
        let file = output.grow(change::Like::Umask)?;
        let writer = trace::file::Writer::new(BufWriter::new(file), &[])
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), writer })
    }

    fn take(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        if let Some(records) = &mut machine.state.wiring.recorder.records {
            for record in records.drain(..) {
                self.writer
                    .push(&record)
                    .with_context(|| format!("cannot write {}", self.path.display()))?;
            }
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        let written = self.writer.finish().and_then(|(mut file, _)| file.flush());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Where this run took over: a snapshot's, or power-on.
struct Start {
    at: Instant,
    /// Executed before.
    instructions: u64,
}

/// Where a run leaves things besides the console.
struct Outputs<'a> {
    recorder: Option<&'a mut Recorder>,
    channels: ChannelFiles,
    serial_port: SerialPort,
    snapshots: Snapshots,
    /// Who looks on.
    monitors: Monitors,
    /// Since when it is counted what time consists of, if it is.
    counted: Option<Begin>,
}

impl Outputs<'_> {
    /// The machine has begun again.
    fn begin(&mut self, machine: &mut Machine) {
        if let Some(counted) = &mut self.counted {
            *counted = Begin::of(machine);
        }
    }

    fn take(&mut self, machine: &mut Machine, shown: &[u8]) -> anyhow::Result<()> {
        self.monitors.note(machine);
        match self.recorder.as_deref_mut() {
            Some(recorder) => recorder.take(machine)?,
            None => machine.state.wiring.recorder.records.iter_mut().for_each(Vec::clear),
        }
        self.channels.take(machine)?;
        self.snapshots.look(machine, shown)
    }
}

/// Runs in slices, moving characters both ways in between. Answers the exit status.
fn drive(
    machine: &mut Machine,
    given: &Given<'_>,
    outputs: &mut Outputs<'_>,
    door: Option<gdb::Door>,
) -> anyhow::Result<u8> {
    let arguments = given.arguments;
    let is_asked_for = outputs.monitors.takes_input() && !std::io::stdin().is_terminal();
    let mut console = match is_asked_for {
        true => Console::without_input(),
        false => Console::open(machine.recall.clone()),
    };
    let last = arguments.until_virtual.unwrap_or(Picoseconds::MAX);
    let instructions = arguments.max_instructions.unwrap_or(u64::MAX);
    if let Some(door) = door {
        match gdb::debug(machine, &mut console, door, &INTERRUPT, status)? {
            Ending::Detached => {}
            Ending::Off { status } => return Ok(status),
            Ending::Killed => return Ok(Status::Interrupted.code()),
        }
    }
    outputs.snapshots.arm(machine);
    loop {
        match outputs.monitors.attend(machine, &mut console) {
            Verdict::Run => {}
            Verdict::Quit => return Ok(Status::Clean.code()),
            Verdict::Reset => {
                reset(machine, given)?;
                outputs.begin(machine);
                outputs.snapshots.arm(machine);
                continue;
            }
        }
        let until = machine.state.now.saturating_add(SLICE).min(last);
        let limits = outputs.snapshots.limit(machine, Limits { until, instructions });
        let outcome = outputs.monitors.run(machine, limits);
        let shown = show_output(machine, &mut console, &mut outputs.serial_port)?;
        outputs.take(machine, &shown)?;
        if outcome == Some(Outcome::Reset) && arguments.build.firmware.reboots() {
            outputs.monitors.tell_reset();
            reset(machine, given)?;
            outputs.begin(machine);
            continue;
        }
        if let Some(outcome) = outcome {
            outputs.monitors.end(machine, &mut console, outcome);
            return Ok(status(outcome));
        }
        if machine.instructions() >= instructions {
            return Ok(Status::InstructionLimit.code());
        }
        if machine.state.now >= last {
            return Ok(Status::TimeLimit.code());
        }
        match console.poll() {
            Some(Request::Leave) => return Ok(Status::Interrupted.code()),
            Some(Request::Status) => report(machine, Format::Text, given.started),
            Some(Request::Monitor) => outputs.monitors.stop(),
            None => {}
        }
        if INTERRUPT.load(Ordering::Relaxed) {
            return Ok(Status::Interrupted.code());
        }
        let pending = console.pending();
        if !pending.is_empty() {
            let taken = outputs.serial_port.read(machine, pending);
            pending.drain(..taken.min(pending.len()));
        }
        if console.has_ended() {
            outputs.serial_port.end(machine);
        }
    }
}

fn show_output(
    machine: &mut Machine,
    console: &mut Console,
    serial_port: &mut SerialPort,
) -> anyhow::Result<Vec<u8>> {
    let bytes: Vec<u8> = machine
        .take_console()
        .into_iter()
        .filter(|(port, _)| *port == 0)
        .map(|(_, byte)| byte)
        .collect();
    if !bytes.is_empty() {
        serial_port.write(console, &bytes)?;
    }
    Ok(bytes)
}

fn status(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::PowerOff => 0,
        Outcome::DebugExit(value) => (value << 1 | 1) as u8,
        Outcome::TripleFault(_) | Outcome::VmxAbort(..) | Outcome::Reset => {
            Status::TripleFault.code()
        }
        Outcome::Deadlock => Status::Deadlock.code(),
    }
}

/// The closing line: instructions, virtual time, host time, MIPS, trace hash; before it a line for
/// each network function, with what crossed its wire.
fn report(machine: &Machine, format: Format, started: &Start) {
    let functions: Vec<_> = machine.state.wiring.chipset.virtual_functions().collect();
    let instructions = machine.instructions();
    let host_seconds = started.at.elapsed().as_secs_f64();
    let executed = instructions.saturating_sub(started.instructions);
    let outcome = machine.outcome().map(describe);
    let closing = Closing {
        schema: closing::SCHEMA,
        instructions,
        virtual_seconds: machine.state.now.0 as f64 / 1e12,
        host_seconds,
        mips: executed as f64 / host_seconds.max(1e-9) / 1e6,
        native: machine.translates(),
        verified: machine.verified().map(closing::Verified::of),
        trace_hash: machine.state.wiring.recorder.hash.to_string(),
        outcome,
        functions: functions
            .iter()
            .map(|(address, function)| (address.to_string(), function.counters))
            .collect(),
    };
    match format {
        Format::Text => {
            for (address, function) in &functions {
                remark!("avicenna: {address}: {}", function.counters);
            }
            remark!("avicenna: {closing}");
        }
        Format::Json => remark!("{}", serde_json::json!(closing)),
    }
}
