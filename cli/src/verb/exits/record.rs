//! `avicenna exits record`

use super::interrupt::stop_on_interrupt;
use super::watch::{Watch, Whom, names_of, origin};
use anyhow::Context as _;
use capture::live::{Rung, interrupts, statistics, tracefs};
use capture::sums::SumsWriter;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: Whom,
    /// Seconds to record [default: until Ctrl-C]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Where to; read it with: avicenna exits report FILE
    #[arg(short, long, default_value = "exits.json")]
    output: PathBuf,
    /// Every event, as packed text, instead of sums: more to see, more overhead
    #[arg(long)]
    events: bool,
    /// Seconds between readings of the kernel's sums
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        (0.01..=3600.0).contains(&arguments.interval),
        "--interval is between 0.01 and 3600 seconds"
    );
    let stop = stop_on_interrupt()?;
    let process = arguments.whom.process()?;
    let seconds = arguments.duration.unwrap_or(f64::from(u32::MAX)).clamp(0.0, 1e9);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let outcome = record(&arguments, process, end, &stop);
    if let Err(error) = outcome {
        eprintln!("avicenna: {error:#}");
        let end = end.min(Instant::now() + Duration::from_secs(2));
        tell_what_is_left(process, end, &stop);
        return Err(error);
    }
    eprintln!("avicenna: now run: avicenna exits report {}", arguments.output.display());
    Ok(ExitCode::SUCCESS)
}

/// Records on the highest rung that holds.
fn record(
    arguments: &Arguments,
    process: Option<u32>,
    end: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    if arguments.events {
        return record_events(&arguments.output, process, end, stop);
    }
    match Watch::start(process) {
        Ok(watch) => record_sums(arguments, watch, end, stop),
        Err(error) => {
            eprintln!("avicenna: {error:#}");
            fall_back(Rung::Ftrace);
            record_events(&arguments.output, process, end, stop)
        }
    }
}

fn fall_back(rung: Rung) {
    eprintln!("avicenna: falling back: {}, {}", rung.name(), rung.cost());
}

fn record_sums(
    arguments: &Arguments,
    mut watch: Watch,
    end: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let path = &arguments.output;
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let names = names_of(virtual_machines());
    let mut writer = SumsWriter::new(file, 0, &origin(Rung::Bpf), &names)?;
    eprintln!("avicenna: exits are {}, {}", Rung::Bpf.name(), Rung::Bpf.cost());
    let step = Duration::from_secs_f64(arguments.interval);
    let mut exits = 0;
    // Ends with the time given or with Ctrl-C; the last interval is shorter.
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        let next = (Instant::now() + step).min(end);
        sleep_until(next, stop);
        let interval = watch.poll()?;
        exits += interval.rows.iter().map(|row| row.1.count).sum::<u64>();
        writer.interval(&interval)?;
    }
    eprintln!("avicenna: {exits} exits recorded");
    if exits == 0 {
        eprintln!(
            "avicenna: no exit was seen: no virtual machine ran, or its hypervisor does not use \
             KVM's kvm_exit event"
        );
    }
    Ok(())
}

fn sleep_until(end: Instant, stop: &AtomicBool) {
    const NAP: Duration = Duration::from_millis(20);
    while !stop.load(Ordering::Relaxed) {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
            _ => return,
        }
    }
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

/// The text of ftrace through zstd; what was written stays readable whatever ends the recording.
fn record_events(
    path: &Path,
    process: Option<u32>,
    end: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    const FLUSH_EVERY: Duration = Duration::from_secs(1);
    let directory = tracefs::find()
        .with_context(|| format!("events cannot be read; {}", Rung::Ftrace.remedy()))?;
    let instance = tracefs::Instance::create(&directory)
        .with_context(|| format!("events cannot be read; {}", Rung::Ftrace.remedy()))?;
    eprintln!("avicenna: {}, {}", Rung::Ftrace.name(), Rung::Ftrace.cost());
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = zstd::stream::write::Encoder::new(BufWriter::new(file), 1)?;
    let about = origin(Rung::Ftrace);
    writeln!(out, "# avicenna kernel={}", about.kernel_release.unwrap_or_default())?;
    let pipe = instance.pipe()?;
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(1024);
    // The pipe blocks while nothing happens, so it is read beside the clock; the thread ends with
    // the process or with the instance.
    std::thread::spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 20, pipe);
        loop {
            let length = match reader.fill_buf() {
                Ok(bytes) if !bytes.is_empty() => {
                    let length = bytes.len();
                    if send.send(bytes.to_vec()).is_err() {
                        return;
                    }
                    length
                }
                _ => return,
            };
            reader.consume(length);
        }
    });
    let only = process.map(|process| format!("({process:>7})"));
    let mut carried: Vec<u8> = Vec::new();
    let (mut lines, mut flushed) = (0u64, Instant::now());
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if let Ok(bytes) = receive.recv_timeout(Duration::from_millis(50)) {
            lines += write_lines(&mut carried, &bytes, only.as_deref(), &mut out)?;
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            out.flush()?;
            flushed = Instant::now();
        }
    }
    instance.stop();
    while let Ok(bytes) = receive.recv_timeout(Duration::from_millis(200)) {
        lines += write_lines(&mut carried, &bytes, only.as_deref(), &mut out)?;
    }
    out.write_all(&carried)?;
    out.finish()?.flush()?;
    eprintln!("avicenna: {lines} events recorded");
    Ok(())
}

/// Writes the whole lines there are, keeping what is not whole; returns how many.
fn write_lines(
    carried: &mut Vec<u8>,
    bytes: &[u8],
    only: Option<&str>,
    out: &mut impl std::io::Write,
) -> std::io::Result<u64> {
    carried.extend_from_slice(bytes);
    let whole = carried.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut count = 0;
    for line in carried[..whole].split_inclusive(|byte| *byte == b'\n') {
        let is_wanted = only
            .is_none_or(|only| line.windows(only.len()).any(|window| window == only.as_bytes()));
        if is_wanted {
            out.write_all(line)?;
            count += 1;
        }
    }
    carried.drain(..whole);
    Ok(count)
}

/// The last rungs: what KVM's own counters say, and those of interrupts where nothing else may be
/// read.
fn tell_what_is_left(process: Option<u32>, end: Instant, stop: &AtomicBool) {
    let statistics = || statistics::read(Path::new(statistics::FOLDER), process);
    let interrupts =
        || interrupts::parse(&std::fs::read_to_string("/proc/interrupts").unwrap_or_default());
    let before = (statistics(), interrupts());
    let rung = match before {
        (ref statistics, _) if !statistics.is_empty() => Rung::Statistics,
        (_, ref interrupts) if !interrupts.is_empty() => Rung::InterruptCounters,
        _ => return,
    };
    fall_back(rung);
    sleep_until(end, stop);
    let (before, after) = match rung {
        Rung::Statistics => (before.0, statistics()),
        _ => (before.1, interrupts()),
    };
    for (name, count) in after {
        let earlier = before.get(name).copied().unwrap_or(0);
        println!("{:>12} {name}", count.saturating_sub(earlier));
    }
}
