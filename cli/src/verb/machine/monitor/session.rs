//! The monitor behind a socket file: lines in, answers out, a prompt between them.

use super::command::{Command, LONGEST_LINE, PROMPT, parse};
use super::control::{Control, Next};
use crate::verb::machine::socket::{Connection, SocketFile};
use board::Machine;

const GREETING: &str = "avicenna monitor; help says what can be said\n";

/// One peer at a time; others wait until it has gone.
pub struct Server {
    file: SocketFile,
    session: Option<Session>,
}

struct Session {
    connection: Connection,
    lines: Lines,
    /// The answer to `until` is owed, and lines behind it wait.
    awaits_goal: bool,
}

impl Server {
    pub fn new(file: SocketFile) -> Self {
        Self { file, session: None }
    }

    /// Whether a peer is there.
    pub fn is_met(&self) -> bool {
        self.session.is_some()
    }

    /// Obeys what has come.
    pub fn serve(&mut self, control: &mut Control, machine: &mut Machine) -> Next {
        if self.session.is_none()
            && let Some(mut connection) = Connection::of_next(&self.file)
        {
            connection.send(format!("{GREETING}{PROMPT}").as_bytes());
            self.session =
                Some(Session { connection, lines: Lines::default(), awaits_goal: false });
        }
        let Some(session) = &mut self.session else { return Next::Stay };
        let next = session.serve(control, machine);
        session.connection.flush();
        let is_over = session.connection.is_over() && !session.is_owed_something();
        if is_over || session.connection.is_lost {
            self.session = None;
        }
        next
    }

    /// Tells what `until` came to, or that the machine has ended.
    pub fn tell(&mut self, text: &str) {
        if let Some(session) = &mut self.session {
            session.awaits_goal = false;
            session.connection.send(format!("{text}{PROMPT}").as_bytes());
        }
    }
}

impl Session {
    fn is_owed_something(&self) -> bool {
        self.awaits_goal || self.lines.has_next()
    }

    fn serve(&mut self, control: &mut Control, machine: &mut Machine) -> Next {
        if self.lines.have_room() {
            let bytes = self.connection.receive();
            self.lines.add(&bytes);
        }
        if self.connection.is_ended {
            self.lines.end();
        }
        while let Some(line) = self.lines.next(self.awaits_goal) {
            let answer = line.and_then(|line| parse(&line, control.cpu)).and_then(|command| {
                let Some(command) = command else { return Ok(None) };
                let awaits_goal = matches!(command, Command::Until(_) | Command::Next);
                control.obey(machine, command).map(|reply| Some((reply, awaits_goal)))
            });
            match answer {
                Ok(None) => self.connection.send(PROMPT.as_bytes()),
                Ok(Some((reply, awaits_goal))) => {
                    self.awaits_goal = awaits_goal;
                    let prompt = if awaits_goal { "" } else { PROMPT };
                    self.connection.send(format!("{}{prompt}", reply.text).as_bytes());
                    if reply.next == Next::Quit || awaits_goal {
                        return reply.next;
                    }
                }
                Err(why) => self.connection.send(format!("error: {why}\n{PROMPT}").as_bytes()),
            }
        }
        Next::Stay
    }
}

/// Bytes of lines that wait for an answer to `until`; a peer that sends more has to wait itself.
const MOST_WAITING: usize = 1 << 16;

/// Bytes that become lines.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// A line is too long; its rest is dropped.
    is_dropping: bool,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn have_room(&self) -> bool {
        self.bytes.len() < MOST_WAITING
    }

    /// What stands behind the last end of line is a line as well.
    fn end(&mut self) {
        if !self.bytes.is_empty() && self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
    }

    fn has_next(&self) -> bool {
        self.bytes.contains(&b'\n')
    }

    /// The next line, or what is wrong with it; while `until` is under way only those that end it.
    fn next(&mut self, awaits_goal: bool) -> Option<Result<String, String>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            if self.bytes.len() > LONGEST_LINE {
                self.bytes.clear();
                self.is_dropping = true;
            }
            return None;
        };
        let line = String::from_utf8_lossy(&self.bytes[..end]).trim().to_owned();
        if awaits_goal && !["stop", "quit", "q"].contains(&line.as_str()) {
            return None;
        }
        self.bytes.drain(..=end);
        if std::mem::take(&mut self.is_dropping) || line.len() > LONGEST_LINE {
            return Some(Err(format!("a line of more than {LONGEST_LINE} bytes")));
        }
        Some(Ok(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_in_pieces_and_too_long_ones_are_refused_once() {
        let mut lines = Lines::default();
        lines.add(b"info la");
        assert_eq!(lines.next(false), None);
        lines.add(b"pic\r\nstop\nun");
        assert_eq!(lines.next(false), Some(Ok("info lapic".into())));
        assert_eq!(lines.next(true), Some(Ok("stop".into())));
        lines.end();
        assert_eq!(lines.next(true), None);
        assert_eq!(lines.next(false), Some(Ok("un".into())));
        for _ in 0..10 {
            lines.add(&[b'x'; LONGEST_LINE]);
            assert_eq!(lines.next(false), None);
        }
        lines.add(b"\nstop\n");
        assert!(lines.next(false).is_some_and(|line| line.is_err()));
        assert_eq!(lines.next(false), Some(Ok("stop".into())));
        assert!(lines.bytes.is_empty());
        lines.add(&[b'\n'; MOST_WAITING]);
        assert!(!lines.have_room());
        assert_eq!(lines.next(true), None);
        assert_eq!(lines.next(false), Some(Ok(String::new())));
        assert!(lines.have_room());
    }
}
