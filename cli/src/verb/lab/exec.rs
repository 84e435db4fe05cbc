//! `avicenna lab exec`: a command on the emulated host.

use super::arguments::HostArguments;
use super::debug;
use super::kernel::real_kernel;
use super::keyboard::{Keyboard, Keys, size_of_terminal};
use super::share;
use super::stages::{INTERRUPT, Stages, status_of};
use crate::sandbox::Sandbox;
use crate::status::Usage;
use arch::time::Picoseconds;
use change::{Like, Output};
use lab::drive::recording::Recording;
use lab::drive::session::{Session, Typed};
use lab::host::image;
use lab::plan::{Experiment, Needs, Setting};
use lab::protocol::Command;
use lab::watch::{Told, Watch};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// With KVM's module loaded so that the feature is off: avic=0 or enable_apicv=0
    #[arg(long)]
    off: bool,
    /// Pass standard input on; without it the command's is empty
    #[arg(long, short, conflicts_with = "gdb")]
    interactive: bool,
    /// Give the command a terminal, which is this one: every key is its, but those behind Ctrl-A
    /// (Ctrl-A x leaves, Ctrl-A h helps)
    #[arg(long, short = 't', conflicts_with_all = ["gdb", "interactive"])]
    terminal: bool,
    /// A file or folder of this machine that comes to the host after its boot, which a change of it
    /// does not repeat
    #[arg(long = "root", value_name = "PATH[=PATH THERE]")]
    brought: Vec<String>,
    #[command(flatten)]
    share: share::Arguments,
    /// A file of the host to fetch when the command has ended
    #[arg(long = "get", value_name = "PATH THERE[=PATH]", value_parser = fetched)]
    fetched: Vec<(String, PathBuf)>,
    /// A variable for the command
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
    /// Where the command starts; without it at the root
    #[arg(long, short = 'C', value_name = "PATH THERE", value_parser = absolute)]
    chdir: Option<String>,
    #[command(flatten)]
    debug: debug::Arguments,
    /// Write there, as JSON, how many VM exits the machine itself performed meanwhile
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// The verb or program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Without a place here, the file's own name in this folder.
fn fetched(text: &str) -> Result<(String, PathBuf), String> {
    let (there, here) = match text.split_once('=') {
        Some((there, here)) => (there, Path::new(here).to_owned()),
        None => (text, Path::new(text).file_name().map(PathBuf::from).unwrap_or_default()),
    };
    match here.as_os_str().is_empty() || !there.starts_with('/') {
        true => Err("must be a path from / on, or one with =PATH".to_owned()),
        false => Ok((there.to_owned(), here)),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| "must be NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn absolute(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("must be a path of the host, which begins with /".to_owned()),
    }
}

/// The command's output and exit status are this one's.
pub(super) fn run(arguments: &Arguments, verbs: &[&str]) -> anyhow::Result<ExitCode> {
    let mut host = arguments.host.host()?;
    arguments.share.add_to(&mut host)?;
    let mut stages = Stages::open();
    stages.belong_to_a_terminal(arguments.terminal);
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let kernel = real_kernel(&arguments.host, &host, &mut watch)?;
    let additions = arguments.host.additions();
    let mut initramfs =
        image::initramfs(&kernel, &host, &additions, &Needs::default()).map_err(Usage::of)?;
    let brought = image::brought(&arguments.brought).map_err(Usage::of)?;
    let shared = arguments.command.first().and_then(|name| arguments.share.here(name));
    let places = (&brought, shared.as_deref());
    let command = image::with_command(&mut initramfs, &arguments.command, verbs, places);
    let (words, program) = command.map_err(Usage::of)?;
    let store = arguments.host.store();
    let notes = [("command".to_owned(), arguments.command.join(" "))];
    let trace = arguments.host.trace.as_deref();
    let trace = trace.map(|path| Recording::create(path, &notes)).transpose()?;
    let mut sandbox = Sandbox::default();
    let counters = arguments.counters.as_deref();
    let counters = counters.map(|path| sandbox.output(path)).transpose()?;
    let outputs = arguments.fetched.iter().map(|(_, here)| sandbox.output(here));
    let outputs = outputs.collect::<Result<Vec<Output>, _>>()?;
    let visitor = arguments.debug.open(&mut sandbox)?;
    arguments.share.name_inputs(&mut sandbox);
    arguments.host.shut_in(&mut sandbox);
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &mut watch)?;
    let setting = if arguments.off { Setting::Off } else { Setting::On };
    let arm = Experiment::of_model(&host.model, &[setting]).arm(setting);
    watch.stage(&arguments.command.join(" "));
    session.load(&arm.parameters, &mut watch)?;
    session.put(&program, &mut watch)?;
    session.put(&brought, &mut watch)?;
    arguments.share.mount(&mut session, &mut watch)?;
    session.record(trace);
    session.debug(visitor);
    let status = arguments.perform(words, &mut session, &mut watch)?;
    if let Some(mut recording) = session.take_recording() {
        session.name_code(&mut recording, &mut watch)?;
        recording.finish()?;
    }
    for ((there, _), mut output) in arguments.fetched.iter().zip(outputs) {
        output.write_all(&session.get(there, &mut watch)?)?;
        output.finish(Like::Umask)?;
    }
    stages.close();
    if let Some(mut output) = counters {
        output.write_all(&serde_json::to_vec_pretty(&session.counters().all().exits)?)?;
        output.finish(Like::Umask)?;
    }
    Ok(status_of(status))
}

impl Arguments {
    fn perform(
        &self,
        words: Vec<String>,
        session: &mut Session,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<i32> {
        let mut environment = self.environment.clone();
        if let Some(kind) = std::env::var("TERM").ok().filter(|_| self.terminal) {
            environment.insert(0, ("TERM".to_owned(), kind));
        }
        let command = Command {
            environment,
            folder: self.chdir.clone(),
            takes_input: self.interactive || self.terminal,
            terminal: self.terminal.then(size_of_terminal),
            ..Command::new(words)
        };
        let limit = Picoseconds::from_milliseconds(self.host.limit.saturating_mul(1000));
        if self.terminal {
            let mut keys = Keys::open();
            return session.run_with(&command, limit, &mut || keys.take(), watch);
        }
        let mut keyboard = self.interactive.then(Keyboard::open).transpose()?;
        let mut typed = || keyboard.as_mut().map_or(Typed::End, Keyboard::take);
        session.run_with(&command, limit, &mut typed, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_comes_under_its_own_name_or_another() {
        for (text, expected) in [
            ("/tmp/out", Some(("/tmp/out", "out"))),
            ("/tmp/out=here/x", Some(("/tmp/out", "here/x"))),
            ("out", None),
            ("/", None),
            ("/tmp/out=", None),
        ] {
            let expected = expected.map(|(there, here)| (there.to_owned(), PathBuf::from(here)));
            assert_eq!(fetched(text).ok(), expected, "{text}");
        }
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(variable("=b").is_err() && variable("A").is_err());
    }
}
