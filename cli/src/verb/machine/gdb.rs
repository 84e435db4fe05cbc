//! `--gdb ADDR`: the machine waits for a debugger, obeys it, and goes on alone when it leaves.

use super::console::Console;
use anyhow::Context;
use arch::address::Linear;
use arch::identity::CpuIndex;
use board::debugger::{
    DebugRegisters, DebuggedMachine, Debuggee, Ending, Others, Stop, StopPoint, serve,
};
use board::{Machine, Outcome};
use std::net::TcpListener;

/// Waits for a debugger at an address such as 127.0.0.1:1234 (or :1234) and serves it.
pub fn debug(
    machine: &mut Machine,
    console: &mut Console,
    address: &str,
    status: fn(Outcome) -> u8,
) -> anyhow::Result<Ending> {
    let full = match address.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => address.to_owned(),
    };
    let listener = TcpListener::bind(&full).with_context(|| format!("cannot listen at {full}"))?;
    remark!("avicenna: waiting for a debugger: target remote {}", listener.local_addr()?);
    let (stream, _) = listener.accept().with_context(|| format!("nobody came to {full}"))?;
    stream.set_nodelay(true)?;
    let mut visited = Visited { inner: DebuggedMachine::new(machine, status), console };
    Ok(serve(&mut visited, stream)?)
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
