//! Commands of the emulated host, and its shell.

use super::line::{Event, Line};
use super::terminal::{self, Terminal};
use crate::linux::place::SHELL;
use crate::protocol::{self, FromAgent, Stream, ToAgent};
use anyhow::Context;
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Bytes that are told at once at most.
const PIECE: usize = 8192;
/// What a program wrote before its end is read by then, although others hold its pipes.
const AFTER_THE_END: Duration = Duration::from_millis(20);

const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin";

fn command(program: &str) -> Command {
    usual(Command::new(program))
}

/// With the usual variables.
fn usual(mut command: Command) -> Command {
    command.env("PATH", PATH).env("HOME", "/root").env("TERM", "vt100");
    command
}

/// As shells count: 128 and the signal's number for a process that one ended.
fn status(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs a program with its arguments, passes on what is typed, and tells what it writes as it does.
/// It is over when the program is, whatever that started.
pub(super) fn run(line: &mut Line, wanted: &protocol::Command) -> anyhow::Result<FromAgent> {
    let running = start(line, wanted)?;
    let (mut open, mut typed) = (running.streams, running.typed);
    let ended = loop {
        match line.event()? {
            Event::Wrote(stream, text) => line.send(&FromAgent::Wrote(stream, text))?,
            Event::Closed => open -= 1,
            Event::Ended(status) => break status?,
            // Nothing is the end: with its sender goes the program's standard input.
            Event::Said(ToAgent::Input(0), _) => typed = None,
            Event::Said(ToAgent::Input(_), bytes) => {
                let is_read = typed.as_ref().is_some_and(|typed| typed.send(bytes).is_ok());
                typed = typed.filter(|_| is_read);
            }
            Event::Said(ToAgent::Stop, _) => {
                // What it started goes with it, unless that has left its group.
                let _ = rustix::process::kill_process_group(running.group, Signal::KILL);
            }
            Event::Said(other, _) => anyhow::bail!("{other:?} while a command runs"),
            Event::Broken(error) => return Err(error),
        }
    };
    while open > 0 {
        match line.event_within(AFTER_THE_END) {
            Ok(Event::Wrote(stream, text)) => line.send(&FromAgent::Wrote(stream, text))?,
            Ok(Event::Closed) => open -= 1,
            // Said too late.
            Ok(Event::Said(ToAgent::Input(_) | ToAgent::Stop, _)) => {}
            Ok(other) => anyhow::bail!("{other:?} at a command's end"),
            Err(_) => break,
        }
    }
    Ok(FromAgent::Left(status(ended)))
}

/// A program that was started, and is watched by threads.
struct Running {
    group: Pid,
    /// How many it writes to.
    streams: usize,
    /// Takes what is typed.
    typed: Option<Sender<Vec<u8>>>,
}

fn start(line: &Line, wanted: &protocol::Command) -> anyhow::Result<Running> {
    let (program, arguments) = wanted.arguments.split_first().context("no command")?;
    let mut command = match wanted.terminal {
        Some(_) => usual(terminal::command(program)),
        None => command(program),
    };
    command.args(arguments).envs(wanted.environment.iter().cloned());
    if let Some(folder) = &wanted.folder {
        let about = std::fs::metadata(folder);
        let about = about.with_context(|| format!("cannot start in {folder}"))?;
        anyhow::ensure!(about.is_dir(), "cannot start in {folder}: not a folder");
        command.current_dir(folder);
    }
    match wanted.terminal {
        Some(size) => start_at_terminal(line, command, size),
        None => start_with_pipes(line, command, wanted),
    }
}

/// With one stream, which is what is to be seen.
fn start_at_terminal(
    line: &Line,
    mut command: Command,
    size: (u16, u16),
) -> anyhow::Result<Running> {
    let Terminal { controller, program } = Terminal::open(size)?;
    command.stdin(program.try_clone()?).stdout(program.try_clone()?).stderr(program);
    let child = command.spawn().context("cannot start")?;
    // With it go this side's copies of the program's end: what is to be seen ends with the last.
    drop(command);
    listen(line, Stream::Output, Some(Box::new(controller.try_clone()?)))?;
    let (sender, bytes) = channel::<Vec<u8>>();
    let typed = move || type_on(controller, bytes.iter().chain([terminal::END_OF_FILE.to_vec()]));
    begin(typed)?;
    await_end(line, child, 1, Some(sender))
}

fn start_with_pipes(
    line: &Line,
    mut command: Command,
    wanted: &protocol::Command,
) -> anyhow::Result<Running> {
    let stdin = if wanted.takes_input { Stdio::piped() } else { Stdio::null() };
    let command = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.process_group(0).spawn();
    let program = wanted.arguments.first().map_or("", String::as_str);
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    listen(line, Stream::Output, child.stdout.take().map(|pipe| Box::new(pipe) as _))?;
    listen(line, Stream::Errors, child.stderr.take().map(|pipe| Box::new(pipe) as _))?;
    let mut typed = None;
    if let Some(pipe) = child.stdin.take() {
        let (sender, bytes) = channel::<Vec<u8>>();
        begin(move || type_on(pipe, bytes.iter()))?;
        typed = Some(sender);
    }
    await_end(line, child, 2, typed)
}

/// Tells what comes from one of a program's streams, to its end.
fn listen(line: &Line, stream: Stream, pipe: Option<Box<dyn Read + Send>>) -> anyhow::Result<()> {
    let sender = line.sender();
    begin(move || {
        read(pipe, |text| sender.send(Event::Wrote(stream, text)).is_ok());
        let _ = sender.send(Event::Closed);
    })
}

/// Tells of a program's end.
fn await_end(
    line: &Line,
    mut child: Child,
    streams: usize,
    typed: Option<Sender<Vec<u8>>>,
) -> anyhow::Result<Running> {
    let (group, sender) = (Pid::from_child(&child), line.sender());
    begin(move || drop(sender.send(Event::Ended(child.wait()))))?;
    Ok(Running { group, streams, typed })
}

fn begin(work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map(drop).context("no thread that follows the command")
}

/// Gives a program its input, which ends with what is typed.
fn type_on(mut pipe: impl Write, bytes: impl Iterator<Item = Vec<u8>>) {
    for bytes in bytes {
        // A program may end before it has read everything.
        if pipe.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Gives what comes from a pipe in whole characters, until it ends or nobody takes it.
fn read(pipe: Option<Box<dyn Read + Send>>, mut take: impl FnMut(String) -> bool) {
    let Some(mut pipe) = pipe else { return };
    let (mut left, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        match pipe.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => left.extend_from_slice(&piece[..count]),
        }
        let text = whole(&mut left);
        if !text.is_empty() && !take(text) {
            return;
        }
    }
    if !left.is_empty() {
        take(String::from_utf8_lossy(&left).into_owned());
    }
}

/// Takes everything except the beginning of a character whose end is still to come.
fn whole(bytes: &mut Vec<u8>) -> String {
    let cut = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    String::from_utf8_lossy(&bytes.drain(..cut).collect::<Vec<u8>>()).into_owned()
}

/// Gives the console to a shell, as the terminal that controls it: only then does Ctrl-C reach what
/// runs there.
pub(super) fn shell(rows: u16, columns: u16) -> anyhow::Result<FromAgent> {
    // The first process has no session yet, and the leader of one can be given a terminal.
    let _ = rustix::process::setsid();
    let console = File::options().read(true).write(true).open("/dev/ttyS0")?;
    rustix::process::ioctl_tiocsctty(&console)
        .context("cannot make the console the controlling terminal")?;
    // A serial line does not tell its terminal's size, without which nothing is drawn.
    let size =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&console, size)?;
    say!("avicenna lab: KVM is loaded; `avicenna check`, `avicenna bench`; exit ends the lab");
    let left = command(SHELL)
        .arg("-i")
        .stdin(console.try_clone()?)
        .stdout(console.try_clone()?)
        .stderr(console)
        .status()
        .context("cannot start the shell")?;
    Ok(FromAgent::Left(status(left)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_character_in_two_pieces_is_told_whole_and_what_is_none_is_replaced() {
        for (pieces, told) in [
            (&[&b"ab"[..], b"c"][..], &["ab", "c"][..]),
            (&[b"a\xC2", b"\xB5s"], &["a", "\u{b5}s"]),
            (&[b"\xE2\x96", b"\x93"], &["", "\u{2593}"]),
            (&[b"a\xFFb"], &["a\u{fffd}b"]),
        ] {
            let mut bytes = Vec::new();
            let found: Vec<String> = pieces
                .iter()
                .map(|piece| {
                    bytes.extend_from_slice(piece);
                    whole(&mut bytes)
                })
                .collect();
            assert_eq!(found, told, "{pieces:?}");
        }
    }

    /// A line whose other end the test has.
    fn line() -> (Line, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let theirs = File::from(std::os::fd::OwnedFd::from(theirs));
        (Line::over(theirs).expect("a line"), ours)
    }

    /// What an agent tells of a command that is sent `said` while it runs.
    fn told(script: &str, takes_input: bool, said: &[u8]) -> (String, FromAgent) {
        let (mut line, mut session) = line();
        session.write_all(said).expect("room");
        let arguments = ["sh", "-c", script].map(str::to_owned).to_vec();
        let wanted = protocol::Command { takes_input, ..protocol::Command::new(arguments) };
        let left = run(&mut line, &wanted).expect("a shell");
        line.send(&FromAgent::Standby).expect("room");
        let mut text = String::new();
        let mut input = BufReader::new(session);
        while !text.ends_with("\"standby\"\n") {
            input.read_line(&mut text).expect("messages");
        }
        (text, left)
    }

    #[test]
    fn what_is_typed_reaches_the_program_to_its_end_and_what_it_writes_is_told() {
        let (text, left) = told("cat; exit 3", true, b"{\"input\":4}\nabc\n{\"input\":0}\n");
        assert_eq!(left, FromAgent::Left(3));
        assert!(text.contains(r#"["output","abc\n"]"#), "{text}");
    }

    #[test]
    fn a_command_is_over_when_its_program_is_although_others_hold_its_output() {
        let (text, left) = told("sleep 60 & echo started", false, b"");
        assert_eq!(left, FromAgent::Left(0));
        assert!(text.contains("started"), "{text}");
    }

    #[test]
    fn a_command_that_is_stopped_is_ended_by_a_signal_and_keeps_what_it_wrote() {
        let (_, left) = told("echo one; sleep 60", false, b"\"stop\"\n");
        assert_eq!(left, FromAgent::Left(128 + 9));
    }

    #[test]
    fn what_a_pipe_has_is_taken_to_its_end_even_if_it_ends_inside_a_character() {
        let mut all = String::new();
        let pipe = std::io::Cursor::new(b"first\nlast\xE2".to_vec());
        read(Some(Box::new(pipe)), |text| {
            all += &text;
            true
        });
        assert_eq!(all, "first\nlast\u{fffd}");
    }
}
