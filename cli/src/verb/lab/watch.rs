//! `avicenna lab watch`: one interrupt, step by step.

use super::arguments::HostArguments;
use super::kernel::real_kernel;
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::Status;
use crate::terminal;
use lab::ground::Ground;
use lab::lesson::{self, Doing, Kind, Lesson, Subject};
use lab::plan::Setting;
use lab::watch::{Told, Watch};
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Which interrupt
    #[arg(value_enum)]
    event: Event,
    #[command(flatten)]
    host: HostArguments,
    /// With AVIC or APICv off or on
    #[arg(long, value_enum, default_value_t = Switch::On)]
    feature: Switch,
    /// Why, of watch inhibit
    #[arg(long, value_enum, value_name = "CAUSE", default_value_t = Cause::BlockIrq)]
    inhibit: Cause,
    /// Mode of the guest's APICs
    #[arg(long, value_name = "MODE", default_value = "x2apic", value_parser = ["xapic", "x2apic"])]
    apic: String,
    /// Print all steps at once, as is done where there is no terminal
    #[arg(long)]
    list: bool,
    /// Name at most so many functions of KVM a step, from where it looks at the exit
    #[arg(long, value_name = "N", default_value_t = 12)]
    functions: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Event {
    /// An IPI to a vCPU that runs
    Ipi,
    /// An interrupt of the guest's timer
    Timer,
    /// An IPI to a vCPU that has halted
    Wake,
    /// An interrupt of a device that the guest is given, to a vCPU that runs
    Device,
    /// The same to a vCPU that has halted
    DeviceWake,
    /// KVM inhibits AVIC or APICv of a vCPU that runs, and ends that (--inhibit)
    Inhibit,
}

/// What KVM is made to inhibit for.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Cause {
    /// A debugger that blocks interrupts (BLOCKIRQ)
    BlockIrq,
    /// Hyper-V's synthetic interrupts with AutoEOI (HYPERV)
    AutoEoi,
    /// An APIC with another ID than it was made with (APIC_ID_MODIFIED)
    ApicId,
    /// An APIC that is not where it was made (APIC_BASE_MODIFIED)
    ApicBase,
    /// KVM's timer in reinject mode, AMD only (PIT_REINJ)
    Pit,
}

impl From<Cause> for lesson::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::BlockIrq => Self::BlockIrq,
            Cause::AutoEoi => Self::AutoEoi,
            Cause::ApicId => Self::ApicId,
            Cause::ApicBase => Self::ApicBase,
            Cause::Pit => Self::Pit,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Switch {
    Off,
    On,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let kind = match arguments.event {
        Event::Ipi => Kind::Ipi,
        Event::Timer => Kind::Timer,
        Event::Wake => Kind::Wake,
        Event::Device => Kind::Device,
        Event::DeviceWake => Kind::DeviceWake,
        Event::Inhibit => Kind::Inhibit(arguments.inhibit.into()),
    };
    let host = arguments.host.host_for(&kind.needs())?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let kernel = real_kernel(&arguments.host, &host, &mut watch)?;
    let store = arguments.host.store();
    let ground = Ground {
        host: &host,
        kernel: &kernel,
        additions: arguments.host.additions(),
        store: store.as_ref(),
    };
    let subject = Subject {
        ground,
        kind,
        apic: &arguments.apic,
        setting: match arguments.feature {
            Switch::Off => Setting::Off,
            Switch::On => Setting::On,
        },
    };
    let mut sandbox = Sandbox::default();
    let shut = || arguments.host.shut_in(&mut sandbox);
    let (follower, title) = lesson::open(&subject, shut, &mut watch)?;
    watch.stage("following it");
    let lesson = follower.follow(title, &mut watch)?;
    stages.close();
    let is_asked = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if arguments.list || !is_asked {
        terminal::print(&lesson.to_text(terminal::columns(), arguments.functions));
    } else {
        ask(&lesson, arguments.functions);
    }
    Ok(if lesson.is_whole { Status::Clean } else { Status::CannotTell }.into())
}

/// What the reader wants to see next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Forward,
    Back,
    Exit,
    All,
    Leave,
}

fn move_of(line: &str) -> Option<Move> {
    Some(match line.trim() {
        "" | "n" => Move::Forward,
        "b" => Move::Back,
        "x" => Move::Exit,
        "a" => Move::All,
        "q" => Move::Leave,
        _ => return None,
    })
}

/// Shows a step at a time, as the reader asks for it.
fn ask(lesson: &Lesson, functions: usize) {
    const KEYS: &str = "Enter: next   b: back   x: next VM exit   a: all   q: leave\n";
    let columns = terminal::columns();
    terminal::print(&format!("{}\n{KEYS}", lesson.title));
    let mut lines = std::io::stdin().lock().lines();
    let mut place = 0;
    while let Some(step) = lesson.steps.get(place) {
        terminal::print(&step.to_text(columns, functions));
        let Some(Ok(line)) = lines.next() else { return };
        place = match move_of(&line) {
            Some(Move::Forward) => place + 1,
            Some(Move::Back) => place.saturating_sub(1),
            Some(Move::Exit) => next_exit(lesson, place),
            Some(Move::All) => {
                let rest = lesson.steps[place + 1..].iter();
                terminal::print(
                    &rest.map(|step| step.to_text(columns, functions)).collect::<String>(),
                );
                lesson.steps.len()
            }
            Some(Move::Leave) => return,
            None => {
                terminal::print(KEYS);
                place
            }
        };
    }
    terminal::print(&lesson.closing());
}

/// The next VM exit behind a place, or the end.
fn next_exit(lesson: &Lesson, place: usize) -> usize {
    let mut behind = lesson.steps.iter().enumerate().skip(place + 1);
    behind.find(|(_, step)| step.doing == Doing::Exit).map_or(lesson.steps.len(), |(next, _)| next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_are_shown_are_those_that_work() {
        let rows = [
            ("", Some(Move::Forward)),
            ("n", Some(Move::Forward)),
            ("b\n", Some(Move::Back)),
            (" x", Some(Move::Exit)),
            ("a", Some(Move::All)),
            ("q", Some(Move::Leave)),
            ("help", None),
        ];
        for (line, expected) in rows {
            assert_eq!(move_of(line), expected, "{line:?}");
        }
    }
}
