//! Commands of the emulated host, and its shell.

use super::line::Line;
use crate::linux::place::SHELL;
use crate::protocol::{FromAgent, Stream};
use anyhow::Context;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;

/// Bytes that are told at once at most.
const PIECE: usize = 8192;

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

/// Runs a program with its arguments, and tells what it writes as it does.
pub(super) fn run(line: &mut Line, arguments: &[String]) -> anyhow::Result<FromAgent> {
    let (program, arguments) = arguments.split_first().context("no command")?;
    let mut command = command(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let (sender, pieces) = mpsc::channel();
    let streams: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
        (Stream::Output, child.stdout.take().map(|pipe| Box::new(pipe) as _)),
        (Stream::Errors, child.stderr.take().map(|pipe| Box::new(pipe) as _)),
    ];
    for (stream, pipe) in streams {
        let sender = sender.clone();
        std::thread::spawn(move || read(pipe, |text| sender.send((stream, text)).is_ok()));
    }
    // The channel ends with its last sender.
    drop(sender);
    for (stream, text) in pieces {
        line.send(&FromAgent::Wrote(stream, text))?;
    }
    Ok(FromAgent::Left(status(child.wait()?)))
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
