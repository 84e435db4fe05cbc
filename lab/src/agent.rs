//! This program as the first process of the emulated host: it loads KVM, runs the steps that the
//! session sends, and answers with what happened.

mod command;
mod file;
mod guest;
mod line;
mod log;
mod step;
mod symbols;
mod terminal;
mod together;
pub mod tracing;

use crate::linux::module::Modules;
use crate::linux::place::{COSTS, GUEST_COMMAND_LINE};
use crate::linux::{console, function, mounts};
use crate::protocol::{COMMAND_LINE, FromAgent, ToAgent};
use board::cost::Provenance;
use line::Line;
use log::Log;
use std::time::Duration;

/// What times rest on, if this program runs on a host of the lab: they are computed there.
pub fn costs() -> Option<Provenance> {
    serde_json::from_slice(&std::fs::read(COSTS).ok()?).ok()
}

/// Whether this process is the first of an emulated host or of a guest there, or one that gives a
/// command of the host its terminal. Takes over for good if so.
pub fn take_over() {
    terminal::hand_over();
    if std::process::id() != 1 || mounts::early().is_err() {
        return;
    }
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let words: Vec<&str> = command_line.split_ascii_whitespace().collect();
    if let Some(workload) = words.iter().find_map(|word| word.strip_prefix(GUEST_COMMAND_LINE)) {
        guest::run(workload);
    } else if words.contains(&COMMAND_LINE) {
        if let Err(error) = run() {
            say!("avicenna: {error:#}");
        }
    } else {
        return;
    }
    power_off();
}

fn power_off() -> ! {
    // What was said last tells why it ends.
    console::drain();
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn run() -> anyhow::Result<()> {
    mounts::late();
    let mut modules = Modules::load_all()?;
    let mut line = Line::open()?;
    let mut log = Log::open();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    line.send(&FromAgent::Ready(release.trim().into()))?;
    loop {
        let answer = match line.receive()? {
            ToAgent::Prepare(step) => step::perform(&mut line, &mut modules, &step)
                .map(|result| FromAgent::Finished(Box::new(result))),
            ToAgent::Load(parameters) => modules.load(&parameters).map(|_| FromAgent::Standby),
            ToAgent::Run(command) => command::run(&mut line, &command),
            // For a command that has ended meanwhile.
            ToAgent::Input(_) => {
                line.bytes();
                continue;
            }
            ToAgent::Put(path, _) => file::put(&path, &line.bytes()).map(|()| FromAgent::Standby),
            ToAgent::Link(path, target) => file::link(&path, &target).map(|()| FromAgent::Standby),
            ToAgent::Get(path) => match file::get(&path) {
                Ok(bytes) => {
                    line.send_bytes(&bytes)?;
                    continue;
                }
                Err(error) => Err(error),
            },
            ToAgent::Log => Ok(FromAgent::Log(log.take())),
            ToAgent::Give(address) => function::bind(&address).map(|()| FromAgent::Standby),
            ToAgent::Mount(tag, at) => mounts::folder(&tag, &at).map(|()| FromAgent::Standby),
            ToAgent::Symbols => symbols::all(),
            ToAgent::Name(addresses) => symbols::name(&addresses),
            ToAgent::Go | ToAgent::GoByLine | ToAgent::Stop => continue,
            ToAgent::Shell { rows, columns, parameters } => {
                let left = modules.load(&parameters).and_then(|_| command::shell(rows, columns));
                line.send(&left.unwrap_or_else(|error| FromAgent::Failed(format!("{error:#}"))))?;
                return Ok(());
            }
            ToAgent::PowerOff => return Ok(()),
        };
        line.send(&answer.unwrap_or_else(|error| FromAgent::Failed(failure(&error))))?;
    }
}

/// What went wrong, with what the kernel had to say at last.
fn failure(error: &anyhow::Error) -> String {
    const LAST: usize = 8;
    let log = log::all();
    let last = log[log.len().saturating_sub(LAST)..].iter();
    last.fold(format!("{error:#}"), |text, line| text + "\n  kernel: " + line)
}
