//! `avicenna exits live`: the exits of the last interval, as a good system monitor shows them.

use super::arguments::RungName;
use super::beside::{End, Output};
use super::counters::{Counters, since};
use super::interrupt::stop_on_interrupt;
#[cfg(feature = "terminal")]
use super::screen::Screen;
use super::watch::{Watch, Whom, summary_of, with_remedy};
#[cfg(feature = "terminal")]
use anyhow::Context as _;
use capture::live::Rung;
#[cfg(feature = "terminal")]
use report::exits::Grouping;
#[cfg(feature = "terminal")]
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    whom: Whom,
    /// Seconds between readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Seconds to run [default: until q or Ctrl-C, or until COMMAND ends]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Only this way to see exits [default: the best that works]
    #[arg(long, value_enum)]
    rung: Option<RungName>,
    /// Socket of the machine's QEMU monitor, for KVM's counters
    #[arg(long, value_name = "SOCKET")]
    qmp: Option<PathBuf>,
    /// Started once watching has begun; its output is kept out of the view (key o) and printed
    /// afterwards on standard error
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
    let step = Duration::from_secs_f64(arguments.interval);
    let mut end = End::new(arguments.duration, &arguments.command, &stop);
    match start(&arguments, process)? {
        Seen::Counted(rung, counters) => counted(rung, counters, step, &mut end)?,
        #[cfg(feature = "terminal")]
        Seen::Exits(watch) if has_screen() => {
            end.begin(Output::Kept)?;
            let mut terminal = ratatui::try_init()?;
            // Consoles without a second screen would show what was there before, and leave the
            // view.
            let outcome = terminal
                .clear()
                .map_err(Into::into)
                .and_then(|()| Screen::new(watch).show(&mut terminal, step, &mut end));
            let cleared = terminal.clear();
            ratatui::restore();
            // The command's words and the summary are for the user at the terminal.
            let printed = end.print_kept(&mut std::io::stderr().lock());
            let report = outcome?;
            cleared?;
            printed.context("cannot print what the command said")?;
            let text = report.to_text_within(Grouping::Reason, crate::terminal::columns());
            crate::terminal::print(&text);
        }
        Seen::Exits(watch) => plain(watch, step, &mut end)?,
    }
    Ok(end.status())
}

/// Whether standard output is a terminal that knows its size: a serial line may not.
#[cfg(feature = "terminal")]
fn has_screen() -> bool {
    let size = ratatui::crossterm::terminal::size();
    std::io::stdout().is_terminal() && size.is_ok_and(|(columns, rows)| columns > 0 && rows > 0)
}

/// What the best method that works here shows.
enum Seen {
    Exits(Watch),
    Counted(Rung, Counters),
}

/// The text of every event is not for looking at while it scrolls by, so its rung is left out.
fn start(arguments: &Arguments, process: Option<u32>) -> anyhow::Result<Seen> {
    let only = arguments.rung.map(Rung::from);
    anyhow::ensure!(only != Some(Rung::Text), "text is for recording: exits record --rung text");
    let mut refusal = None;
    for rung in only.map_or(Rung::ALL.to_vec(), |rung| vec![rung]) {
        let seen = match rung {
            Rung::Text => continue,
            Rung::Monitor if arguments.qmp.is_none() && only.is_none() => continue,
            Rung::Bpf | Rung::Histogram => Watch::start(rung, process).map(Seen::Exits),
            _ => Counters::start(rung, process, arguments.qmp.as_deref())
                .map_err(|error| error.context(format!("no {}", rung.name())))
                .map(|counters| Seen::Counted(rung, counters)),
        };
        match seen {
            Ok(seen) => return Ok(seen),
            Err(error) => {
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

/// Lines of what was counted in each interval: all that the lower rungs show.
fn counted(
    rung: Rung,
    mut counters: Counters,
    step: Duration,
    end: &mut End<'_>,
) -> anyhow::Result<()> {
    remark!("avicenna: {}, {}", rung.name(), rung.cost());
    let (begun, mut before) = (Instant::now(), counters.read()?);
    end.begin(Output::StandardError)?;
    let mut is_last = false;
    while !is_last {
        end.sleep(step);
        is_last = end.has_come();
        let after = counters.read()?;
        let counts: Vec<String> = since(&before, &after)
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name}={count}"))
            .collect();
        let counts = if counts.is_empty() { "nothing".into() } else { counts.join(", ") };
        let line = format!("{:.3} {counts}\n", begun.elapsed().as_secs_f64());
        if !crate::terminal::print(&line) {
            break;
        }
        before = after;
    }
    Ok(())
}

/// Lines for a pipe: time, exits per second, and the most frequent reasons.
fn plain(mut watch: Watch, step: Duration, end: &mut End<'_>) -> anyhow::Result<()> {
    let rung = watch.rung;
    remark!("avicenna: exits are {}, {}", rung.name(), rung.cost());
    end.begin(Output::StandardError)?;
    let (mut start_ns, mut is_last) = (0, false);
    while !is_last {
        end.sleep(step);
        is_last = end.has_come();
        let interval = watch.poll()?;
        let summary = summary_of(rung, &interval, start_ns, None);
        let reasons: Vec<String> = summary
            .table
            .rows
            .iter()
            .take(8)
            .map(|row| format!("{}={:.0}/s@{:.2}us", row.name, row.per_second, row.mean_ns / 1e3))
            .collect();
        let line = format!(
            "{:.3} exits={} avoidable={:.1}% unknown={:.1}% {}",
            interval.end_ns as f64 / 1e9,
            summary.table.count,
            summary.ceiling.avoidable.count_share,
            summary.ceiling.unknown.count_share,
            reasons.join(" ")
        );
        if !crate::terminal::print(&format!("{}\n", line.trim_end())) {
            break;
        }
        start_ns = interval.end_ns;
    }
    Ok(())
}
