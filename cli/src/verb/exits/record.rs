//! `avicenna exits record`

use super::arguments::RungName;
use super::beside::{self, End};
use super::counters::{Counters, since};
use super::events;
use super::interrupt::stop_on_interrupt;
use super::watch::{Watch, Whom, names_of, origin, with_remedy};
use crate::status::Status;
use anyhow::Context as _;
use capture::live::Rung;
use capture::sums::SumsWriter;
use change::{Like, Output};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracefs::Instance;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: Whom,
    /// Seconds to record [default: until Ctrl-C, or until COMMAND ends]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Where to, `-` for standard output; read it with: avicenna exits report FILE [default:
    /// exits.json, of every event exits.trace.zst]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Every event as text, compressed unless to standard output: more detail, more overhead
    #[arg(long)]
    events: bool,
    /// Only this way to see exits [default: the best that works]
    #[arg(long, value_enum, conflicts_with = "events")]
    rung: Option<RungName>,
    /// Socket of the machine's QEMU monitor, for KVM's counters
    #[arg(long, value_name = "SOCKET")]
    qmp: Option<PathBuf>,
    /// Seconds between readings of the kernel's sums or counters
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Started once recording has begun; the recording ends with it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        (0.01..=3600.0).contains(&arguments.interval),
        "--interval is between 0.01 and 3600 seconds"
    );
    let stop = stop_on_interrupt()?;
    let process = arguments.whom.process()?;
    let mut end = End::new(arguments.duration, &arguments.command, &stop);
    let only = match (arguments.rung, arguments.events) {
        (Some(rung), _) => Some(rung.into()),
        (None, true) => Some(Rung::Text),
        (None, false) => None,
    };
    // With a single rung asked for, what refuses it is the answer.
    let rungs = only.map_or(Rung::ALL.to_vec(), |rung| vec![rung]);
    let mut refusal = None;
    for rung in rungs {
        if rung == Rung::Monitor && arguments.qmp.is_none() && only.is_none() {
            continue;
        }
        if refusal.is_some() {
            remark!("avicenna: falling back: {}, {}", rung.name(), rung.cost());
        }
        match record(&arguments, rung, process, &mut end) {
            Ok(()) if refusal.is_some() && !rung.writes_a_file() => {
                remark!("avicenna: {} was not written", output_of(&arguments, Rung::Bpf).display());
                return Ok(Status::CannotTell.into());
            }
            Ok(()) => return Ok(end.status()),
            Err(Failure::Broken(error)) => return Err(error),
            Err(Failure::Refused(error)) => {
                let error = with_remedy(rung, &error);
                if only.is_none() {
                    remark!("avicenna: {error:#}");
                }
                refusal.get_or_insert(error);
            }
        }
    }
    Err(refusal.unwrap_or_else(|| anyhow::anyhow!("exits cannot be seen")))
}

/// Why a rung did not serve.
enum Failure {
    /// It does not hold: another may.
    Refused(anyhow::Error),
    /// The recording had begun; what was recorded by then is in the file.
    Broken(anyhow::Error),
}

fn refused(error: anyhow::Error) -> Failure {
    Failure::Refused(error)
}

fn record(
    arguments: &Arguments,
    rung: Rung,
    process: Option<u32>,
    end: &mut End<'_>,
) -> Result<(), Failure> {
    match rung {
        Rung::Bpf | Rung::Histogram => {
            let watch = Watch::start(rung, process).map_err(refused)?;
            record_sums(arguments, watch, end).map_err(Failure::Broken)?;
        }
        Rung::Text => {
            let instance = events::instance().map_err(refused)?;
            record_events(arguments, &instance, process, end).map_err(Failure::Broken)?;
        }
        _ => {
            let counters = Counters::start(rung, process, arguments.qmp.as_deref());
            let counters =
                counters.with_context(|| format!("no {}", rung.name())).map_err(refused)?;
            return count(arguments, rung, counters, end).map_err(Failure::Broken);
        }
    }
    let path = output_of(arguments, rung);
    if path != Path::new("-") {
        remark!("avicenna: now run: avicenna exits report {}", path.display());
    }
    Ok(())
}

/// Names that `report` tries as well where it is given none.
pub const SUMS_NAME: &str = "exits.json";
pub const EVENTS_NAME: &str = "exits.trace.zst";

fn output_of(arguments: &Arguments, rung: Rung) -> PathBuf {
    let otherwise = if rung == Rung::Text { EVENTS_NAME } else { SUMS_NAME };
    arguments.output.clone().unwrap_or_else(|| otherwise.into())
}

fn create(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    Ok(Box::new(Output::growing(path, Like::Umask)?))
}

fn record_sums(arguments: &Arguments, mut watch: Watch, end: &mut End<'_>) -> anyhow::Result<()> {
    let rung = watch.rung;
    let path = output_of(arguments, rung);
    let names = names_of(virtual_machines());
    let mut writer = SumsWriter::new(create(&path)?, 0, &origin(rung), &names)?;
    remark!("avicenna: exits are {}, {}", rung.name(), rung.cost());
    end.begin(if path == Path::new("-") {
        beside::Output::StandardError
    } else {
        beside::Output::Ours
    })?;
    let step = Duration::from_secs_f64(arguments.interval);
    let mut exits = 0;
    // The last interval is shorter.
    let mut is_last = false;
    while !is_last {
        end.sleep(step);
        is_last = end.has_come();
        let interval = watch.poll()?;
        exits += interval.rows.iter().map(|row| row.1.count).sum::<u64>();
        let written = writer.interval(&interval);
        written.with_context(|| format!("{} holds what was recorded before", path.display()))?;
    }
    remark!("avicenna: {exits} exits recorded");
    if exits == 0 {
        remark!(
            "avicenna: no exit was seen: no virtual machine ran, or its hypervisor does not use \
             KVM's kvm_exit event"
        );
    }
    Ok(())
}

fn record_events(
    arguments: &Arguments,
    instance: &Instance,
    process: Option<u32>,
    end: &mut End<'_>,
) -> anyhow::Result<()> {
    let path = output_of(arguments, Rung::Text);
    let mut out = std::io::BufWriter::new(create(&path)?);
    // A pipe means that the text is to be looked at.
    let events = if path == Path::new("-") {
        end.begin(beside::Output::StandardError)?;
        events::record(instance, &mut out, process, end)?
    } else {
        let mut packed = zstd::stream::write::Encoder::new(&mut out, 1)?;
        end.begin(beside::Output::Ours)?;
        let events = events::record(instance, &mut packed, process, end)?;
        packed.finish()?;
        events
    };
    out.flush()?;
    remark!("avicenna: {events} events recorded");
    Ok(())
}

/// Prints what was counted from now to the end; nothing is written to the file.
fn count(
    arguments: &Arguments,
    rung: Rung,
    mut counters: Counters,
    end: &mut End<'_>,
) -> anyhow::Result<()> {
    remark!("avicenna: {}, {}; nothing is written to a file", rung.name(), rung.cost());
    let mut before = counters.read()?;
    let mut sums: BTreeMap<&str, u64> = before.keys().map(|name| (*name, 0)).collect();
    end.begin(beside::Output::StandardError)?;
    // What a machine counted goes with it, so its counters are read again and again.
    let mut is_last = false;
    while !is_last {
        end.sleep(Duration::from_secs_f64(arguments.interval));
        is_last = end.has_come();
        let after = counters.read()?;
        for (name, count) in since(&before, &after) {
            *sums.entry(name).or_default() += count;
        }
        before = after;
    }
    let lines = sums.iter().map(|(name, count)| format!("{count:>12} {name}\n"));
    crate::terminal::print(&lines.collect::<String>());
    Ok(())
}

/// Processes that have /dev/kvm's machines open.
fn virtual_machines() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_machine = |pid: &u32| {
        let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        targets.any(|target| target.to_string_lossy().contains("kvm-vm"))
    };
    pids.filter(has_machine).collect()
}
