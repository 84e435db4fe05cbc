//! What standard input and output are to the guest, where they are not its first serial port.

use super::console::Console;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use anyhow::{Context, anyhow};
use board::Machine;
use board::channel::Channel;
use change::{Like, Output};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
// The verb that takes these in has a group of this name.
#[group(skip)]
pub struct Arguments {
    /// What the guest writes to its first serial port goes to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    serial: Option<PathBuf>,
    /// Standard input goes to the console port of this name (--console NAME=FILE) instead of the
    /// first serial port
    #[arg(long, value_name = "NAME")]
    stdin: Option<String>,
}

/// Where the serial port's output and standard input go.
pub struct SerialPort {
    file: Option<(PathBuf, File)>,
    stdin: Option<String>,
    port: Option<Channel>,
}

impl SerialPort {
    /// The file is there from now on.
    pub fn open(arguments: &Arguments, sandbox: &mut Sandbox) -> anyhow::Result<Self> {
        let open = |path: &PathBuf| -> anyhow::Result<(PathBuf, File)> {
            let output: Output = sandbox.output(path)?;
            Ok((path.clone(), output.grow(Like::Umask)?))
        };
        let file = arguments.serial.as_ref().map(open).transpose()?;
        Ok(Self { file, stdin: arguments.stdin.clone(), port: None })
    }

    /// Finds the console port that standard input is for.
    pub fn connect(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        if let Some(name) = &self.stdin {
            let none = || Usage::of(anyhow!("--stdin {name}: there is no --console {name}=FILE"));
            self.port = Some(machine.channel(name).ok_or_else(none)?);
        }
        Ok(())
    }

    /// Shows what the guest wrote.
    pub fn write(&mut self, console: &mut Console, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.file {
            None => console.write(bytes),
            Some((path, file)) => {
                file.write_all(bytes)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Standard input has ended. A serial port has no way to say so.
    pub fn end(&mut self, machine: &mut Machine) {
        self.port.take_if(|port| machine.end_channel(*port));
    }

    /// Gives the guest what was typed; how many bytes of it were taken.
    pub fn read(&self, machine: &mut Machine, bytes: &[u8]) -> usize {
        match self.port {
            Some(port) => machine.feed_channel(port, bytes),
            None => machine.type_at_console(0, bytes),
        }
    }
}
