//! This program as the first process of the emulated host: it loads KVM, runs the steps that the
//! session sends, and answers with what happened.

mod command;
pub mod device;
mod function;
mod guest;
mod interface;
mod module;
mod mounts;
mod peer;
mod step;
mod tracing;
mod traffic;

use crate::protocol::{COMMAND_LINE, FromAgent, PORT, ToAgent};
use anyhow::Context;
use board::cost::Provenance;
use module::Modules;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the initial RAM disk has kernel modules, in the order in which they are loaded.
pub(crate) const MODULES: &str = "/lib/modules-in-order";
/// Where it has parameters for them.
pub(crate) const PARAMETERS: &str = "/lib/module-parameters";
/// Where it has what the machine's times rest on, as JSON.
pub(crate) const COSTS: &str = "/lib/avicenna-costs.json";
/// Where it has a Linux guest.
pub(crate) const GUEST_KERNEL: &str = "/guest/vmlinuz";
pub(crate) const GUEST_INITRD: &str = "/guest/initrd";
/// Where it has the command of a guest.
pub(crate) const GUEST_COMMAND: &str = "/command";
/// The word that makes this program the first process of a guest; a workload follows.
pub(crate) const GUEST_COMMAND_LINE: &str = "avicenna.guest=";
/// What an interactive lab runs.
pub(crate) const SHELL: &str = "/bin/sh";

/// What times rest on, if this program runs on a host of the lab: they are computed there.
pub fn costs() -> Option<Provenance> {
    serde_json::from_slice(&std::fs::read(COSTS).ok()?).ok()
}

/// Whether this process is the first of an emulated host or of a guest there. Takes over for good
/// if so.
pub fn take_over() {
    if std::process::id() != 1 || mounts::early().is_err() {
        return;
    }
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let words: Vec<&str> = command_line.split_ascii_whitespace().collect();
    if let Some(workload) = words.iter().find_map(|word| word.strip_prefix(GUEST_COMMAND_LINE)) {
        guest::run(workload);
    } else if words.contains(&COMMAND_LINE) {
        if let Err(error) = run() {
            println!("avicenna: {error:#}");
        }
    } else {
        return;
    }
    power_off();
}

fn power_off() -> ! {
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The line to the session.
struct Line {
    input: BufReader<File>,
    output: File,
}

impl Line {
    fn open() -> anyhow::Result<Self> {
        let path = port()?;
        let output = File::options().read(true).write(true).open(&path);
        let output = output.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { input: BufReader::new(output.try_clone()?), output })
    }

    fn send(&mut self, message: &FromAgent) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.output.write_all(&line)?)
    }

    fn receive(&mut self) -> anyhow::Result<ToAgent> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(ToAgent::PowerOff);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// The device of the port, which the kernel names by number; its name is in sysfs.
fn port() -> anyhow::Result<PathBuf> {
    for _ in 0..200 {
        let ports = std::fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten();
        for port in ports {
            let name = std::fs::read_to_string(port.path().join("name")).unwrap_or_default();
            if name.trim() == PORT {
                return Ok(Path::new("/dev").join(port.file_name()));
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!("the host has no virtio console with a port named {PORT}")
}

fn run() -> anyhow::Result<()> {
    mounts::late();
    let mut modules = Modules::load_all()?;
    let mut line = Line::open()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    line.send(&FromAgent::Ready(release.trim().into()))?;
    loop {
        let answer = match line.receive()? {
            ToAgent::Prepare(step) => step::perform(&mut line, &mut modules, &step)
                .map(|result| FromAgent::Finished(Box::new(result))),
            ToAgent::Load(parameters) => modules.load(&parameters).map(|_| FromAgent::Standby),
            ToAgent::Run(arguments) => command::run(&arguments),
            ToAgent::Symbols => symbols(),
            ToAgent::Go => continue,
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

/// The names of the kernel's code, which without KASLR is where its image has it, and of the
/// modules' where they were loaded.
fn symbols() -> anyhow::Result<FromAgent> {
    let all = std::fs::read_to_string("/proc/kallsyms").context("the kernel has no kallsyms")?;
    let is_code = |line: &&str| matches!(line.split(' ').nth(1), Some("t" | "T"));
    let code = all.lines().filter(is_code);
    Ok(FromAgent::Symbols(code.fold(String::new(), |text, line| text + line + "\n")))
}

/// What went wrong, with what the kernel had to say at last.
fn failure(error: &anyhow::Error) -> String {
    const LAST: usize = 8;
    let log = step::kernel_log();
    let last = log[log.len().saturating_sub(LAST)..].iter();
    last.fold(format!("{error:#}"), |text, line| text + "\n  kernel: " + line)
}
