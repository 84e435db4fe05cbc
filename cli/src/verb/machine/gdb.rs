//! `--gdb ADDR`: the machine waits for a debugger, obeys it, and goes on alone when it leaves.

use super::console::Console;
use super::monitor::command::{Command, parse};
use super::socket::SocketFile;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use anyhow::{Context, anyhow};
use arch::address::Linear;
use arch::identity::CpuIndex;
use board::debugger::{
    Backwards, DebugRegisters, DebuggedMachine, Debuggee, Ending, Others, Stop, StopPoint, serve,
};
use board::inspection::View;
use board::{Machine, Outcome};
use gdbstub::conn::{Connection, ConnectionExt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether the end is asked for.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a debugger is waited for.
pub enum Door {
    /// An address of this machine or, if every peer is let in, another.
    Tcp(TcpListener),
    /// A file, for this user alone.
    File(SocketFile),
}

impl Door {
    /// At an address such as 127.0.0.1:1234 or :1234, or in a file, which has a slash in its name.
    pub fn open(address: &str, is_open: bool, sandbox: &mut Sandbox) -> anyhow::Result<Door> {
        if !address.contains('/') {
            return listen(address, is_open).map(Door::Tcp);
        }
        SocketFile::open(Path::new(address), sandbox).map(Door::File)
    }

    fn name(&self) -> io::Result<String> {
        Ok(match self {
            Door::Tcp(listener) => listener.local_addr()?.to_string(),
            Door::File(file) => file.path().display().to_string(),
        })
    }

    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Door::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Door::File(file) => Stream::File(file.accept()?),
        })
    }

    /// Waits for a debugger; `None` if an end is wanted before one comes.
    pub fn wait(&self, stop: &'static AtomicBool) -> anyhow::Result<Option<Line>> {
        remark!("avicenna: waiting for a debugger: target remote {}", self.name()?);
        while !stop.load(Ordering::Relaxed) {
            match self.accept() {
                Ok(stream) => {
                    stream.set_nonblocking(false)?;
                    stream.set_timeouts()?;
                    return Ok(Some(Line { stream, ahead: None, stop }));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("no debugger could come"),
            }
        }
        Ok(None)
    }
}

fn listen(address: &str, is_open: bool) -> anyhow::Result<TcpListener> {
    let full = match address.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => address.to_owned(),
    };
    let cannot = || format!("cannot listen at {full}");
    let places: Vec<_> = full.to_socket_addrs().with_context(cannot)?.collect();
    if let Some(place) = places.iter().find(|place| !place.ip().is_loopback() && !is_open) {
        return Err(Usage::of(anyhow!(
            "--gdb {address}: anyone who reaches {place} could read and write the machine's memory; \
             --gdb-any allows it"
        )));
    }
    let listener = TcpListener::bind(&places[..]).with_context(cannot)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The two kinds of connection.
enum Stream {
    Tcp(TcpStream),
    File(UnixStream),
}

impl Stream {
    fn set_nonblocking(&self, is_set: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(is_set),
            Stream::File(stream) => stream.set_nonblocking(is_set),
        }
    }

    fn set_timeouts(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(PAUSE)).and(stream.set_write_timeout(Some(PAUSE)))
            }
            Stream::File(stream) => {
                stream.set_read_timeout(Some(PAUSE)).and(stream.set_write_timeout(Some(PAUSE)))
            }
        }
    }

    fn read(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        let length = match self {
            Stream::Tcp(stream) => Read::read(stream, &mut byte)?,
            Stream::File(stream) => Read::read(stream, &mut byte)?,
        };
        if length == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(byte[0]) }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::File(stream) => stream,
        }
    }
}

/// The connection, which ends when an interrupt signal comes.
pub struct Line {
    stream: Stream,
    /// Looked at, but not taken yet.
    ahead: Option<u8>,
    stop: &'static AtomicBool,
}

impl Line {
    fn check(&self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::Error::other("interrupted")),
            false => Ok(()),
        }
    }
}

impl Connection for Line {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.write_all(&[byte])
    }

    /// A peer that does not listen is waited for, but not longer than the run is wanted.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.check()?;
            match self.stream.writer().write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => bytes = &bytes[length..],
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.writer().flush()
    }
}

impl ConnectionExt for Line {
    fn read(&mut self) -> io::Result<u8> {
        if let Some(byte) = self.ahead.take() {
            return Ok(byte);
        }
        loop {
            self.check()?;
            match self.stream.read() {
                Ok(byte) => return Ok(byte),
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        self.check()?;
        if self.ahead.is_none() {
            self.stream.set_nonblocking(true)?;
            let outcome = self.stream.read();
            self.stream.set_nonblocking(false)?;
            match outcome {
                Ok(byte) => self.ahead = Some(byte),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.ahead)
    }
}

/// Whether a call is to be made again.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Waits for a debugger and serves it.
pub fn debug(
    machine: &mut Machine,
    console: &mut Console,
    door: Door,
    stop: &'static AtomicBool,
    status: fn(Outcome) -> u8,
) -> anyhow::Result<Ending> {
    let Some(line) = door.wait(stop)? else { return Ok(Ending::Killed) };
    let mut show = |machine: &mut Machine| {
        let written = machine.take_console();
        let bytes: Vec<u8> =
            written.into_iter().filter(|(port, _)| *port == 0).map(|(_, byte)| byte).collect();
        if !bytes.is_empty() {
            console.write(&bytes);
        }
        None
    };
    attend(DebuggedMachine::new(machine, status), line, &mut show)
}

/// What is done between stretches of a machine that is debugged: the exit status if what runs on it
/// has ended.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&mut Machine) -> Option<u8>;

/// Serves a debugger that has come.
pub fn attend(
    inner: DebuggedMachine<'_>,
    line: Line,
    meanwhile: Meanwhile<'_>,
) -> anyhow::Result<Ending> {
    let stop = line.stop;
    match serve(&mut Visited { inner, meanwhile }, line) {
        // What broke is the connection, as it should.
        Err(_) if stop.load(Ordering::Relaxed) => Ok(Ending::Killed),
        outcome => Ok(outcome?),
    }
}

/// The machine, with what is to be seen to while it runs.
struct Visited<'a> {
    inner: DebuggedMachine<'a>,
    meanwhile: Meanwhile<'a>,
}

impl Visited<'_> {
    /// A part of the machine, as the monitor shows it.
    fn info(&self, command: &str) -> Result<String, String> {
        let Some(Command::Info { query, form }) = parse(command, CpuIndex(0))? else {
            return Err("must be: info WHAT [CPU] [ADDRESS]".to_owned());
        };
        let Machine { state, memory, .. } = &*self.inner.machine;
        let sheets = View { state, memory }.look(query).map_err(|absent| absent.to_string())?;
        Ok(form.of(&sheets))
    }
}

impl Debuggee for Visited<'_> {
    fn cpu_count(&self) -> u16 {
        self.inner.cpu_count()
    }

    fn describe(&self, cpu: CpuIndex) -> String {
        self.inner.describe(cpu)
    }

    fn registers(&self, cpu: CpuIndex) -> DebugRegisters {
        self.inner.registers(cpu)
    }

    fn set_registers(&mut self, cpu: CpuIndex, registers: &DebugRegisters) -> bool {
        self.inner.set_registers(cpu, registers)
    }

    fn read_memory(&mut self, cpu: CpuIndex, start: Linear, into: &mut [u8]) -> usize {
        self.inner.read_memory(cpu, start, into)
    }

    fn write_memory(&mut self, cpu: CpuIndex, start: Linear, from: &[u8]) -> bool {
        self.inner.write_memory(cpu, start, from)
    }

    fn insert(&mut self, point: StopPoint) -> bool {
        self.inner.insert(point)
    }

    fn remove(&mut self, point: StopPoint) -> bool {
        self.inner.remove(point)
    }

    fn step(&mut self, cpu: CpuIndex, others: Others) -> Stop {
        let stop = self.inner.step(cpu, others);
        (self.meanwhile)(self.inner.machine).map_or(stop, |status| Stop::Off { status })
    }

    fn goes_back(&self) -> bool {
        self.inner.goes_back()
    }

    fn run_back(&mut self, how: Backwards) -> Option<Stop> {
        self.inner.run_back(how)
    }

    fn run(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        let stop = self.inner.run(only);
        // A point at the very end is not missed: the end is told when the machine is to go on.
        match (stop, (self.meanwhile)(self.inner.machine)) {
            (None, Some(status)) => Some(Stop::Off { status }),
            (stop, _) => stop,
        }
    }

    fn take_words(&mut self) -> String {
        self.inner.take_words()
    }

    fn command(&mut self, command: &str) -> String {
        match command.split_whitespace().next() {
            Some("info") => self.info(command).unwrap_or_else(|why| format!("error: {why}\n")),
            Some("help") | None => {
                self.inner.command("help")
                    + "info WHAT [CPU] [ADDRESS]             "
                    + "as machine run --monitor has it\n"
            }
            _ => self.inner.command(command),
        }
    }
}
