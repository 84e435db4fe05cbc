//! The emulated host: the machine, the kernel and the initial RAM disk that it starts with.

use crate::agent;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::protocol::{COMMAND_LINE, PORT};
use crate::workload::Workload;
use anyhow::Context;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Machine};
use cpu::CpuModel;
use device::virtio::Model;
use device::virtio::console::Console;
use std::path::PathBuf;

/// What to boot.
#[derive(Clone, Debug)]
pub struct Host {
    pub model: CpuModel,
    pub cpus: u16,
    /// Bytes of RAM.
    pub memory: u64,
}

/// The initial RAM disk of a host: this program, the modules and what the workload's guests need.
pub fn initramfs(kernel: &Kernel, workload: Option<&Workload>) -> anyhow::Result<Initramfs> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut host = Initramfs::default();
    host.add_program("/init", &program)?;
    host.link("/bin/avicenna", "/init");
    for (index, (name, bytes)) in kernel.modules.iter().enumerate() {
        host.add(format!("{}/{index:02}-{name}", agent::MODULES), bytes.clone());
    }
    if let Some(workload) = workload.filter(|workload| workload.is_linux()) {
        let mut guest = Initramfs::default();
        guest.add_program("/init", &program)?;
        if let Workload::Command(command) = workload {
            add_command(&mut guest, command)?;
        }
        host.add(agent::GUEST_KERNEL, kernel.image.clone());
        host.add(agent::GUEST_INITRD, guest.to_cpio());
    }
    Ok(host)
}

/// A program of this machine with its arguments, which the shell's quotes do not reach.
fn add_command(guest: &mut Initramfs, command: &str) -> anyhow::Result<()> {
    let mut words = command.split_ascii_whitespace();
    let name = words.next().context("an empty command")?;
    let program = which(name).with_context(|| format!("no program {name} on this machine"))?;
    guest.add_program(&program.to_string_lossy(), &program)?;
    let program = program.to_string_lossy().into_owned();
    let lines: Vec<&str> = std::iter::once(program.as_str()).chain(words).collect();
    guest.add(agent::GUEST_COMMAND, lines.join("\n").into_bytes());
    Ok(())
}

/// A program's file, as a shell finds it.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return std::fs::canonicalize(name).ok();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .and_then(|path| std::fs::canonicalize(path).ok())
}

impl Host {
    /// What the machine is built from.
    pub(crate) fn configuration(&self) -> anyhow::Result<Configuration> {
        Ok(Configuration {
            model: self.model.clone(),
            topology: Topology::of_cores(self.cpus)?,
            memory: self.memory,
            seed: 0,
            start: device::Date::default(),
            virtio: vec![Model::Console(Console::new(&[PORT.to_owned()]))],
        })
    }

    /// The machine at power-on.
    pub(crate) fn power_on(&self) -> anyhow::Result<Machine> {
        Ok(Machine::new(&self.configuration()?)?)
    }
}

/// Puts the kernel into a machine that is about to start it.
pub(crate) fn load(machine: &mut Machine, kernel: &Kernel, cpio: &[u8]) -> anyhow::Result<()> {
    machine.load(&Images {
        kernel: Source { name: &kernel.name, bytes: &kernel.image },
        initrd: Some(Source { name: "initial RAM disk", bytes: cpio }),
        modules: &[],
        command_line: &command_line(),
    })?;
    Ok(())
}

/// What the host's kernel is told.
pub(crate) fn command_line() -> String {
    format!("console=ttyS0 quiet panic=-1 {COMMAND_LINE}")
}

/// An initial RAM disk that has a shell of this machine besides, with the common tools that are
/// found here.
pub fn shell_initramfs(kernel: &Kernel) -> anyhow::Result<Initramfs> {
    let mut host = initramfs(kernel, None)?;
    if let Some(busybox) = which("busybox") {
        host.add_program("/bin/busybox", &busybox)?;
        for tool in [
            "sh", "ls", "cat", "dmesg", "grep", "head", "tail", "ps", "vi", "less", "echo", "mount",
        ] {
            host.link(format!("/bin/{tool}"), "busybox");
        }
        return Ok(host);
    }
    anyhow::ensure!(which("sh").is_some(), "this machine has no shell to take along");
    for tool in ["sh", "ls", "cat", "dmesg", "grep", "head", "tail", "ps"] {
        if let Some(program) = which(tool) {
            host.add_program(&format!("/bin/{tool}"), &program)?;
        }
    }
    Ok(host)
}
