//! Commands of the emulated host, and its shell.

use crate::linux::place::SHELL;
use crate::protocol::FromAgent;
use anyhow::Context;
use std::fs::File;
use std::process::{Command, ExitStatus};

const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin";

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", PATH).env("HOME", "/root").env("TERM", "vt100");
    command
}

/// As shells count: 128 and the signal's number for a process that one ended.
fn status(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs a program with its arguments.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<FromAgent> {
    let (program, arguments) = arguments.split_first().context("no command")?;
    let output = command(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let [out, error] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(FromAgent::Said(out, error, status(output.status)))
}

/// Gives the console to a shell, as the terminal that controls it: only then does Ctrl-C reach what
/// runs there.
pub(super) fn shell(rows: u16, columns: u16) -> anyhow::Result<FromAgent> {
    // The first process has no session yet, and whoever leads one can be given a terminal.
    let _ = rustix::process::setsid();
    let console = File::options().read(true).write(true).open("/dev/ttyS0")?;
    rustix::process::ioctl_tiocsctty(&console).context("the console controls no session")?;
    // A serial line does not tell its terminal's size, without which nothing is drawn.
    let size =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&console, size)?;
    println!("avicenna lab: KVM is loaded; `avicenna check`, `avicenna bench`; exit ends the lab");
    let left = command(SHELL)
        .arg("-i")
        .stdin(console.try_clone()?)
        .stdout(console.try_clone()?)
        .stderr(console)
        .status()
        .context("cannot start the shell")?;
    Ok(FromAgent::Left(status(left)))
}
