//! `--gdb ADDR`: the machine waits for a debugger, obeys it, and goes on alone when it leaves.

use super::console::Console;
use crate::status::Usage;
use anyhow::{Context, anyhow};
use arch::address::Linear;
use arch::identity::CpuIndex;
use board::debugger::{
    DebugRegisters, DebuggedMachine, Debuggee, Ending, Others, Stop, StopPoint, serve,
};
use board::{Machine, Outcome};
use gdbstub::conn::{Connection, ConnectionExt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether somebody wants an end.
const PAUSE: Duration = Duration::from_millis(50);

/// Where to wait, and for whom.
pub struct Door<'a> {
    /// Such as 127.0.0.1:1234 or :1234.
    pub address: &'a str,
    /// Whoever comes is let in, from wherever.
    pub is_open: bool,
    /// An interrupt signal came.
    pub stop: &'static AtomicBool,
}

impl Door<'_> {
    fn listen(&self) -> anyhow::Result<TcpListener> {
        let full = match self.address.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.address.to_owned(),
        };
        let cannot = || format!("cannot listen at {full}");
        let places: Vec<_> = full.to_socket_addrs().with_context(cannot)?.collect();
        if let Some(place) = places.iter().find(|place| !place.ip().is_loopback() && !self.is_open)
        {
            return Err(Usage::of(anyhow!(
                "--gdb {}: whoever reaches {place} could read and write the machine's memory; \
                 --gdb-any allows it",
                self.address
            )));
        }
        let listener = TcpListener::bind(&places[..]).with_context(cannot)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Waits for a debugger; `None` if an end is wanted before one comes.
    fn wait(&self) -> anyhow::Result<Option<Line>> {
        let listener = self.listen()?;
        remark!("avicenna: waiting for a debugger: target remote {}", listener.local_addr()?);
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PAUSE))?;
                    return Ok(Some(Line { stream, stop: self.stop }));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("no debugger could come"),
            }
        }
        Ok(None)
    }
}

/// The connection, which ends when an interrupt signal comes.
struct Line {
    stream: TcpStream,
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
        Write::write_all(&mut self.stream, &[byte])
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(&mut self.stream, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(&mut self.stream)
    }
}

impl ConnectionExt for Line {
    fn read(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        loop {
            self.check()?;
            match Read::read(&mut self.stream, &mut byte) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(byte[0]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        self.check()?;
        let mut byte = [0];
        self.stream.set_nonblocking(true)?;
        let outcome = TcpStream::peek(&self.stream, &mut byte);
        self.stream.set_nonblocking(false)?;
        match outcome {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(byte[0])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Waits for a debugger and serves it.
pub fn debug(
    machine: &mut Machine,
    console: &mut Console,
    door: &Door<'_>,
    status: fn(Outcome) -> u8,
) -> anyhow::Result<Ending> {
    let Some(line) = door.wait()? else { return Ok(Ending::Killed) };
    let mut visited = Visited { inner: DebuggedMachine::new(machine, status), console };
    match serve(&mut visited, line) {
        // What broke is the connection, as it should.
        Err(_) if door.stop.load(Ordering::Relaxed) => Ok(Ending::Killed),
        outcome => Ok(outcome?),
    }
}

/// The machine, whose console is seen to while it runs.
struct Visited<'a> {
    inner: DebuggedMachine<'a>,
    console: &'a mut Console,
}

impl Visited<'_> {
    fn show(&mut self) {
        let written = self.inner.machine.take_console();
        let bytes: Vec<u8> =
            written.into_iter().filter(|(port, _)| *port == 0).map(|(_, byte)| byte).collect();
        if !bytes.is_empty() {
            self.console.write(&bytes);
        }
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
        self.show();
        stop
    }

    fn run(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        let stop = self.inner.run(only);
        self.show();
        stop
    }
}
