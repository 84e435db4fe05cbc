//! What looks at a machine while it runs, and makes it stand: a monitor at the terminal or behind a
//! socket file, and QEMU's machine protocol.

pub mod command;
mod control;
pub mod form;
mod framing;
mod line_editor;
mod prompt;
mod qmp;
mod session;
#[cfg(test)]
mod tests;

use super::console::Console;
use super::ending::describe;
use super::socket::SocketFile;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use anyhow::anyhow;
use board::{Limits, Machine, Outcome};
use command::parse;
use control::{Control, Next};
use line_editor::LineEditor;
pub use prompt::Prompt;
use qmp::Wish;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What stands for it where a socket file can be named.
const TERMINAL: &str = "-";

/// Between two looks at socket files while the machine stands.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(clap::Args)]
// The verb that takes these in has a group of this name.
#[group(skip)]
pub struct Arguments {
    /// Begin at a monitor's prompt, which shows the machine's parts and steps through the run
    /// (help says what can be said; Ctrl-A c comes back to it); with =SOCKET, the monitor is at a
    /// socket file for this user alone, and the machine runs
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = TERMINAL,
        conflicts_with = "gdb"
    )]
    monitor: Option<PathBuf>,
    /// Serve a subset of QEMU's machine protocol at a socket file for this user alone
    #[arg(long, value_name = "SOCKET", conflicts_with = "gdb")]
    qmp: Option<PathBuf>,
    /// Stand still until a monitor or a client of --qmp lets the machine go on
    #[arg(long)]
    stopped: bool,
    /// Stand still until a client has come to each of the socket files of --monitor and --qmp
    #[arg(long)]
    await_clients: bool,
}

/// What looks at the machine.
pub struct Monitors {
    control: Control,
    terminal: Option<LineEditor>,
    lines: Option<session::Server>,
    qmp: Option<qmp::Server>,
    awaits_clients: bool,
    /// What `until` came to, for the prompt.
    met: String,
    interrupt: &'static AtomicBool,
}

/// What is to become of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Run,
    /// It ends, as a user or a client wants.
    Quit,
    /// The machine begins again.
    Reset,
}

impl Monitors {
    /// Opens what there is to be, before the wall is up.
    pub fn open(
        arguments: &Arguments,
        sandbox: &mut Sandbox,
        status: fn(Outcome) -> u8,
        interrupt: &'static AtomicBool,
    ) -> anyhow::Result<Self> {
        let is_at_terminal =
            arguments.monitor.as_ref().is_some_and(|at| at.as_os_str() == TERMINAL);
        if is_at_terminal && arguments.qmp.is_some() {
            return Err(Usage::of(anyhow!(
                "--monitor at the terminal would keep clients of --qmp waiting: --monitor=SOCKET"
            )));
        }
        let is_met_by_nobody = arguments.monitor.is_none() && arguments.qmp.is_none();
        if is_met_by_nobody && (arguments.stopped || arguments.await_clients) {
            return Err(Usage::of(anyhow!(
                "nobody could let the machine go on: --stopped and --await-clients need --monitor \
                 or --qmp"
            )));
        }
        let terminal = is_at_terminal.then(LineEditor::open);
        let socket = arguments.monitor.as_ref().filter(|_| !is_at_terminal);
        let lines = socket.map(|path| SocketFile::open(path, sandbox)).transpose()?;
        let qmp = arguments.qmp.as_ref().map(|path| SocketFile::open(path, sandbox)).transpose()?;
        let is_stopped = arguments.stopped || is_at_terminal;
        Ok(Self {
            control: Control::new(is_stopped, status, interrupt),
            terminal,
            lines: lines.map(session::Server::new),
            qmp: qmp.map(qmp::Server::new),
            awaits_clients: arguments.await_clients,
            met: String::new(),
            interrupt,
        })
    }

    /// Whether standard input is the monitor's, terminal or not.
    pub fn takes_input(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether records are to be collected.
    pub fn wants_records(&self) -> bool {
        self.terminal.is_some() || self.lines.is_some() || self.qmp.is_some()
    }

    /// Keeps the last of what happened, before it is taken elsewhere.
    pub fn note(&mut self, machine: &Machine) {
        if self.wants_records() {
            self.control.note(machine);
        }
    }

    /// The machine is to stand, if there is a prompt to come to.
    pub fn stop(&mut self) {
        self.control.is_stopped |= self.terminal.is_some();
    }

    /// Serves all that has come; as long as the machine stands, all that comes.
    pub fn attend(&mut self, machine: &mut Machine, console: &mut Console) -> Verdict {
        loop {
            if let Some(verdict) = self.serve_sockets(machine) {
                return verdict;
            }
            if !self.is_held_up() {
                return Verdict::Run;
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Verdict::Quit;
            }
            match &mut self.terminal {
                Some(editor) => {
                    console.suspend();
                    crate::terminal::print(&std::mem::take(&mut self.met));
                    let next = ask(editor, &mut self.control, machine);
                    console.resume();
                    if next == Next::Quit {
                        return Verdict::Quit;
                    }
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    fn is_held_up(&mut self) -> bool {
        let is_met = |server: Option<bool>| server.unwrap_or(true);
        let lines = is_met(self.lines.as_ref().map(session::Server::is_met));
        let qmp = is_met(self.qmp.as_ref().map(qmp::Server::is_met));
        self.awaits_clients &= !(lines && qmp);
        self.control.is_stopped || self.awaits_clients
    }

    fn serve_sockets(&mut self, machine: &mut Machine) -> Option<Verdict> {
        let before = self.control.is_stopped;
        if let Some(server) = &mut self.lines
            && server.serve(&mut self.control, machine) == Next::Quit
        {
            self.tell_quit();
            return Some(Verdict::Quit);
        }
        if self.control.is_stopped != before {
            let name = if before { "RESUME" } else { "STOP" };
            self.tell_event(name);
        }
        match self.qmp.as_mut()?.serve(&mut self.control, machine) {
            Wish::Nothing => None,
            Wish::Quit => Some(Verdict::Quit),
            Wish::Reset => Some(Verdict::Reset),
        }
    }

    fn tell_event(&mut self, name: &str) {
        if let Some(server) = &mut self.qmp {
            server.tell(name, &Value::Null);
        }
    }

    /// Says that the guest has reset the machine, which goes on.
    pub fn tell_reset(&mut self) {
        if let Some(server) = &mut self.qmp {
            let data = serde_json::json!({ "guest": true, "reason": "guest-reset" });
            server.tell("RESET", &data);
        }
    }

    fn tell_quit(&mut self) {
        if let Some(server) = &mut self.qmp {
            let data = serde_json::json!({ "guest": false, "reason": "host-ui" });
            server.tell("SHUTDOWN", &data);
        }
    }

    /// Runs, at most to the limits, and stops where a monitor wants it.
    pub fn run(&mut self, machine: &mut Machine, limits: Limits) -> Option<Outcome> {
        let (outcome, met) = self.control.run(machine, limits);
        if let Some(met) = met {
            if let Some(server) = &mut self.lines {
                server.tell(&met);
            }
            self.met = met;
            self.tell_event("STOP");
        }
        outcome
    }

    /// The machine has ended by itself: at a prompt it can be looked at still.
    pub fn end(&mut self, machine: &mut Machine, console: &mut Console, outcome: Outcome) {
        if let Some(server) = &mut self.qmp {
            server.tell_end(outcome);
        }
        let text = format!("the machine has ended: {}\n", describe(outcome));
        if let Some(server) = &mut self.lines {
            server.tell(&text);
        }
        if let Some(editor) = &mut self.terminal {
            console.suspend();
            crate::terminal::print(&text);
            // Until the user has seen enough; each line is a turn.
            while ask(editor, &mut self.control, machine) != Next::Quit {}
            console.resume();
        }
    }
}

/// Reads a line and obeys it. The end of the input is a wish to leave.
fn ask(editor: &mut LineEditor, control: &mut Control, machine: &mut Machine) -> Next {
    let Some(line) = editor.next() else { return Next::Quit };
    let command = match parse(&line, control.cpu) {
        Ok(Some(command)) => command,
        Ok(None) => return Next::Stay,
        Err(why) => {
            say!("error: {why}");
            return Next::Stay;
        }
    };
    match control.obey(machine, command) {
        Ok(reply) => {
            crate::terminal::print(&reply.text);
            reply.next
        }
        Err(why) => {
            say!("error: {why}");
            Next::Stay
        }
    }
}
