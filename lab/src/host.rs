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

/// The initial RAM disk of a host: this program, the modules with `parameters` of theirs
/// (MODULE.NAME=VALUE each), and what the workload's guests need.
pub fn initramfs(
    kernel: &Kernel,
    parameters: &[String],
    workload: Option<&Workload>,
) -> anyhow::Result<Initramfs> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut host = Initramfs::default();
    host.add_program("/init", &program)?;
    host.link("/bin/avicenna", "/init");
    for (index, (name, bytes)) in kernel.modules.iter().enumerate() {
        host.add(format!("{}/{index:02}-{name}", agent::MODULES), bytes.clone());
    }
    if !parameters.is_empty() {
        parameters.iter().try_for_each(|parameter| check_parameter(kernel, parameter))?;
        host.add(agent::PARAMETERS, parameters.join("\n").into_bytes());
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

/// Whether a parameter is for a module of this kernel, and not the one that the lab itself sets.
fn check_parameter(kernel: &Kernel, parameter: &str) -> anyhow::Result<()> {
    let parts =
        parameter.split_once('.').and_then(|(module, rest)| Some((module, rest.split_once('=')?)));
    let (module, (name, value)) =
        parts.with_context(|| format!("{parameter:?} is not MODULE.NAME=VALUE"))?;
    let modules: Vec<&str> =
        kernel.modules.iter().filter_map(|(file, _)| file.strip_suffix(".ko")).collect();
    anyhow::ensure!(
        modules.contains(&module),
        "{parameter}: the host loads no module {module}, but {}",
        modules.join(", ")
    );
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    anyhow::ensure!(is_word(name) && is_word(value), "{parameter:?} is not MODULE.NAME=VALUE");
    anyhow::ensure!(
        (module, name) != ("kvm_amd", "avic"),
        "{parameter}: AVIC is what the lab compares: --feature, or --off of lab exec"
    );
    Ok(())
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
pub fn shell_initramfs(kernel: &Kernel, parameters: &[String]) -> anyhow::Result<Initramfs> {
    let mut host = initramfs(kernel, parameters, None)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_for_modules_that_are_loaded_and_not_for_avic() {
        let modules = ["kvm.ko", "kvm_amd.ko"].map(|name| (name.to_owned(), Vec::new())).to_vec();
        let kernel = Kernel { name: "test".into(), image: Vec::new(), modules };
        for (parameter, complaint) in [
            ("kvm.halt_poll_ns=0", None),
            ("kvm_amd.vgif=0", None),
            ("kvm_intel.nested=0", Some("no module kvm_intel, but kvm, kvm_amd")),
            ("kvm_amd.avic=0", Some("--feature")),
            ("kvm.halt_poll_ns", Some("MODULE.NAME=VALUE")),
            ("kvm.=0", Some("MODULE.NAME=VALUE")),
            ("kvm.a=0 b=1", Some("MODULE.NAME=VALUE")),
            ("halt_poll_ns=0", Some("MODULE.NAME=VALUE")),
        ] {
            let error = check_parameter(&kernel, parameter).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), complaint.is_some(), "{parameter}: {error:?}");
            let complaint = complaint.unwrap_or_default();
            assert!(error.unwrap_or_default().contains(complaint), "{parameter}");
        }
    }
}
