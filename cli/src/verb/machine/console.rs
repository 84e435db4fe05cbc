//! The guest's serial console on standard input and output.
//!
//! On a terminal, standard input is raw, so that every key reaches the guest; Ctrl-A is the escape:
//! Ctrl-A x leaves, Ctrl-A c comes to the monitor, Ctrl-A h helps, Ctrl-A Ctrl-A sends Ctrl-A.

use board::Recall;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{self, OptionalActions, Termios};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

const ESCAPE: u8 = 1;
const HELP: &[u8] = b"\r\nCtrl-A x  leave\r\nCtrl-A s  status line\r\nCtrl-A h  this help\r\n\
    Ctrl-A c  the monitor's prompt, with --monitor\r\nCtrl-A Ctrl-A  send Ctrl-A\r\n";
/// Chunks of input that wait for the guest.
const WAITING_CHUNKS: usize = 64;

/// What the person at the keyboard wants besides typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Leave,
    Status,
    Monitor,
}

/// Between two looks whether the keyboard is another's for a while.
const LOOK_NS: i64 = 50_000_000;

pub struct Console {
    input: Option<Receiver<Vec<u8>>>,
    /// Typed, but not taken by the guest's serial port yet.
    pending: Vec<u8>,
    is_escaped: bool,
    saved: Option<Termios>,
    /// The keyboard is another's for a while.
    is_suspended: Arc<AtomicBool>,
}

impl Console {
    /// Takes nothing of standard input, which is another's.
    pub fn without_input() -> Self {
        let is_suspended = Arc::default();
        Self { input: None, pending: Vec::new(), is_escaped: false, saved: None, is_suspended }
    }

    /// Takes over standard input. A key that is not for the guest recalls the machine, so that it
    /// is obeyed at once; what is typed for the guest waits for the end of a slice of virtual time.
    pub fn open(recall: Recall) -> Self {
        let mut console = Self::without_input();
        if std::io::stdin().is_terminal() {
            console.saved = termios::tcgetattr(std::io::stdin()).ok();
            console.resume();
        }
        let (sender, receiver) = sync_channel(WAITING_CHUNKS);
        let is_raw = console.is_raw();
        let is_suspended = Arc::clone(&console.is_suspended);
        let reader = std::thread::Builder::new().spawn(move || {
            let mut buffer = [0; 256];
            let mut is_escaped = false;
            while let Some(length) = read_keys(&is_suspended, &mut buffer) {
                let has_command = has_command(&mut is_escaped, &buffer[..length]);
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
                if is_raw && has_command {
                    recall.ring();
                }
            }
        });
        match reader {
            Ok(_) => console.input = Some(receiver),
            Err(error) => remark!("avicenna: what is typed does not reach the guest: {error}"),
        }
        console
    }

    /// The terminal is as it was before, and what is typed is another's.
    pub fn suspend(&self) {
        self.is_suspended.store(true, Ordering::Relaxed);
        if let Some(saved) = &self.saved {
            let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }

    /// What is typed is the guest's again; a terminal that cannot be raw stays as it is.
    pub fn resume(&mut self) {
        if let Some(saved) = &self.saved {
            let mut raw = saved.clone();
            raw.make_raw();
            if termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).is_err() {
                self.saved = None;
            }
        }
        self.is_suspended.store(false, Ordering::Relaxed);
    }

    pub fn is_raw(&self) -> bool {
        self.saved.is_some()
    }

    /// Collects what was typed. Bytes for the guest wait in [`Console::pending`].
    pub fn poll(&mut self) -> Option<Request> {
        loop {
            let received = self.input.as_ref()?.try_recv();
            match received {
                Ok(bytes) => {
                    for byte in bytes {
                        if let Some(request) = self.key(byte) {
                            return Some(request);
                        }
                    }
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    self.input = None;
                    return None;
                }
            }
        }
    }

    fn key(&mut self, byte: u8) -> Option<Request> {
        if !self.is_raw() {
            self.pending.push(byte);
            return None;
        }
        if !std::mem::take(&mut self.is_escaped) {
            if byte == ESCAPE {
                self.is_escaped = true;
            } else {
                self.pending.push(byte);
            }
            return None;
        }
        match byte {
            b'x' | b'q' => return Some(Request::Leave),
            b's' => return Some(Request::Status),
            b'c' => return Some(Request::Monitor),
            ESCAPE => self.pending.push(ESCAPE),
            _ => self.write(HELP),
        }
        None
    }

    /// Whether standard input has ended, and the guest has taken all of it.
    pub fn has_ended(&self) -> bool {
        self.input.is_none() && self.pending.is_empty()
    }

    pub fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    pub fn write(&mut self, bytes: &[u8]) {
        // A closed standard output is not a reason to stop the guest.
        let mut output = std::io::stdout().lock();
        let _ = output.write_all(bytes).and_then(|()| output.flush());
    }
}

/// Waits for what is typed while the keyboard is the guest's; how many bytes, `None` at the end.
fn read_keys(is_suspended: &AtomicBool, into: &mut [u8]) -> Option<usize> {
    let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    loop {
        if is_suspended.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_nanos(LOOK_NS as u64));
            continue;
        }
        let stdin = std::io::stdin();
        let is_ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait));
        // A key that woke us may be the other's already.
        if is_ready == Ok(0) || is_ready.is_err() || is_suspended.load(Ordering::Relaxed) {
            match is_ready {
                Err(error) if error != Errno::INTR => return None,
                _ => continue,
            }
        }
        match rustix::io::read(&stdin, &mut *into) {
            Ok(length @ 1..) => return Some(length),
            Err(error) if error == Errno::INTR => {}
            Ok(0) | Err(_) => return None,
        }
    }
}

/// Whether any key follows the escape. `is_escaped` is the state between two chunks.
fn has_command(is_escaped: &mut bool, bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| {
        let was_escaped = std::mem::replace(is_escaped, !*is_escaped && *byte == ESCAPE);
        found || was_escaped
    })
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_behind_the_escape_is_a_command_also_in_the_next_chunk() {
        let rows: [(&[&[u8]], bool); 6] = [
            (&[b"\x01x"], true),
            (&[b"a\x01", b"x"], true),
            (&[b"\x01\x01"], true),
            (&[b"a\x01"], false),
            (&[b"x", b"x"], false),
            (&[b"\x01", b""], false),
        ];
        for (chunks, expected) in rows {
            let mut is_escaped = false;
            let found = chunks.iter().any(|chunk| has_command(&mut is_escaped, chunk));
            assert_eq!(found, expected, "{chunks:?}");
        }
    }
}
