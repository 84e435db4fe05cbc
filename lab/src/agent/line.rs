//! The line to the session, read by a thread of its own: while a command runs, what the session
//! says and what the command does come in any order.

use crate::protocol::{FromAgent, PORT, Stream, ToAgent};
use anyhow::Context;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What an agent waits for.
#[derive(Debug)]
pub(super) enum Event {
    /// The session says something, with the bytes that follow it, if any do.
    Said(ToAgent, Vec<u8>),
    /// The session breaks off.
    Broken(anyhow::Error),
    /// A command wrote.
    Wrote(Stream, String),
    /// There is nothing more to come from one of its streams.
    Closed,
    /// It has ended.
    Ended(std::io::Result<ExitStatus>),
}

/// The line to the session.
pub(super) struct Line {
    port: File,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Of the message that was received last.
    bytes: Vec<u8>,
}

impl Line {
    pub(super) fn open() -> anyhow::Result<Self> {
        let path = port()?;
        let port = File::options().read(true).write(true).open(&path);
        Self::over(port.with_context(|| format!("cannot open {}", path.display()))?)
    }

    /// The same over any file.
    pub(super) fn over(port: File) -> anyhow::Result<Self> {
        let (sender, events) = channel();
        let (input, own) = (port.try_clone()?, sender.clone());
        let listens = move || listen(BufReader::new(input), &own);
        std::thread::Builder::new().spawn(listens).context("no thread for the session's line")?;
        Ok(Self { port, events, sender, bytes: Vec::new() })
    }

    pub(super) fn send(&mut self, message: &FromAgent) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.port.write_all(&line)?)
    }

    /// A file's bytes behind their number.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.send(&FromAgent::File(bytes.len() as u64))?;
        Ok(self.port.write_all(bytes)?)
    }

    /// What the session says next; what a command has left behind comes too late.
    pub(super) fn receive(&mut self) -> anyhow::Result<ToAgent> {
        loop {
            match self.events.recv()? {
                Event::Said(message, bytes) => {
                    self.bytes = bytes;
                    return Ok(message);
                }
                Event::Broken(error) => return Err(error),
                Event::Wrote(..) | Event::Closed | Event::Ended(_) => {}
            }
        }
    }

    /// The bytes that came with the message that was received last.
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Where those tell what they see who watch a command.
    pub(super) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Whatever happens next.
    pub(super) fn event(&self) -> anyhow::Result<Event> {
        Ok(self.events.recv()?)
    }

    /// The same, if it happens soon.
    pub(super) fn event_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.events.recv_timeout(time)
    }
}

/// Passes on what the session says, to its end.
fn listen(mut input: impl BufRead, sender: &Sender<Event>) {
    loop {
        let event = match message(&mut input) {
            Ok(Some((message, bytes))) => Event::Said(message, bytes),
            Ok(None) => Event::Said(ToAgent::PowerOff, Vec::new()),
            Err(error) => Event::Broken(error),
        };
        let is_last = matches!(&event, Event::Said(ToAgent::PowerOff, _) | Event::Broken(_));
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}

/// The next message with the bytes that it announces.
fn message(input: &mut impl BufRead) -> anyhow::Result<Option<(ToAgent, Vec<u8>)>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let message: ToAgent = serde_json::from_str(&line)?;
    let size = match message {
        ToAgent::Input(size) | ToAgent::Put(_, size) => usize::try_from(size)?,
        _ => 0,
    };
    let mut bytes = vec![0; size];
    input.read_exact(&mut bytes)?;
    Ok(Some((message, bytes)))
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
