//! The line to the session.

use crate::protocol::{FromAgent, PORT, ToAgent};
use anyhow::Context;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The line to the session.
pub(super) struct Line {
    input: BufReader<File>,
    output: File,
}

impl Line {
    pub(super) fn open() -> anyhow::Result<Self> {
        let path = port()?;
        let output = File::options().read(true).write(true).open(&path);
        let output = output.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { input: BufReader::new(output.try_clone()?), output })
    }

    pub(super) fn send(&mut self, message: &FromAgent) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.output.write_all(&line)?)
    }

    pub(super) fn receive(&mut self) -> anyhow::Result<ToAgent> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(ToAgent::PowerOff);
        }
        Ok(serde_json::from_str(&line)?)
    }
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
