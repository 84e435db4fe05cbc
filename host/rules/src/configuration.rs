//! Configurations as people and tools write them, read into [`VmConfiguration`]s and module
//! options.
//!
//! Every reader is pure, bounded and keeps the place of what it reads. What cannot be resolved here
//! (a variable, an included file) is said to be unknown, and never silently taken for a default.

pub(crate) mod firecracker;
pub(crate) mod kubevirt;
pub(crate) mod libvirt_log;
pub(crate) mod libvirt_xml;
pub(crate) mod module_options;
pub(crate) mod other_vmm;
pub(crate) mod pairs;
pub(crate) mod proxmox;
pub(crate) mod qemu;
pub(crate) mod qemu_arguments;
pub(crate) mod qemu_machine;
mod qemu_program;
pub(crate) mod qemu_readconfig;
pub(crate) mod shell;
#[cfg(test)]
mod tests;
pub(crate) mod yaml;

use crate::finding::Position;
use crate::position::Lines;
use crate::version::Version;
use crate::vm::VmConfiguration;
pub use module_options::ModuleOption;
use serde::Serialize;
pub use shell::settings;
use std::fmt;

/// Bytes of one input.
pub const MAX_BYTES: usize = 16 << 20;

/// What an input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Shell text, scripts, unit files with command lines of QEMU or another VMM.
    CommandLine,
    /// NUL-separated words: `/proc/PID/cmdline`.
    ProcessCommandLine,
    /// A file for QEMU's `-readconfig`.
    Readconfig,
    /// Domain XML, or libvirt's status file with a domain in it.
    LibvirtXml,
    /// libvirt's log of a QEMU domain, which holds the command lines that were run.
    LibvirtLog,
    /// Proxmox VE's `/etc/pve/qemu-server/ID.conf`.
    Proxmox,
    /// Manifests with a KubeVirt `VirtualMachine` or `VirtualMachineInstance`.
    Kubevirt,
    /// What Firecracker's `--config-file` takes, JSON.
    Firecracker,
    /// A file of modprobe.d: options of modules.
    Modprobe,
    /// `/proc/cmdline`, or a boot loader's setting that holds one.
    KernelCommandLine,
}

impl Kind {
    /// Every kind, in the order in which messages list them.
    pub const ALL: [Self; 10] = [
        Self::CommandLine,
        Self::ProcessCommandLine,
        Self::Readconfig,
        Self::LibvirtXml,
        Self::LibvirtLog,
        Self::Proxmox,
        Self::Kubevirt,
        Self::Firecracker,
        Self::Modprobe,
        Self::KernelCommandLine,
    ];

    /// As `--kind` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::ProcessCommandLine => "process-command-line",
            Self::Readconfig => "readconfig",
            Self::LibvirtXml => "libvirt-xml",
            Self::LibvirtLog => "libvirt-log",
            Self::Proxmox => "proxmox",
            Self::Kubevirt => "kubevirt",
            Self::Firecracker => "firecracker",
            Self::Modprobe => "modprobe",
            Self::KernelCommandLine => "kernel-command-line",
        }
    }

    /// Describes host parameters rather than virtual machines.
    pub fn is_of_host(self) -> bool {
        matches!(self, Self::Modprobe | Self::KernelCommandLine)
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("'{name}' is no kind of input; known are {}", names.join(", "))
        })
    }
}

/// What the caller knows and the input may not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// QEMU's version, which decides what its machine types have by default.
    pub qemu: Option<Version>,
}

/// An input that could not be read, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputError {
    /// `None` where it is about the input as a whole.
    pub position: Option<Position>,
    /// What is wrong, without the place.
    pub message: String,
}

impl InputError {
    /// An error about one place.
    pub fn at(position: Position, message: String) -> Self {
        Self { position: Some(position), message }
    }

    fn whole(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(at) => write!(f, "{}:{}: {}", at.line, at.column, self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for InputError {}

/// What an input holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Contents {
    /// As which kind the input was read.
    pub kind: Kind,
    /// In the order of the text; empty for a host's parameters.
    pub vms: Vec<VmConfiguration>,
    /// Parameters of modules and of the kernel; empty for machines.
    pub options: Vec<ModuleOption>,
}

impl serde::Serialize for ModuleOption {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.value.as_deref().map_or(String::new(), |value| format!("={value}"));
        let module =
            if self.module.is_empty() { String::new() } else { format!("{}.", self.module) };
        serializer.collect_str(&format!("{module}{}{value}", self.name))
    }
}

/// Recognizes an input by its content.
pub fn detect(text: &str) -> Option<Kind> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.is_empty() {
        return None;
    }
    if text.contains('\0') {
        return Some(Kind::ProcessCommandLine);
    }
    if libvirt_log::is_log(text) {
        return Some(Kind::LibvirtLog);
    }
    if start.starts_with('<') {
        return Some(Kind::LibvirtXml);
    }
    if kubevirt::is_manifest(text) {
        return Some(Kind::Kubevirt);
    }
    if firecracker::is_configuration(text) {
        return Some(Kind::Firecracker);
    }
    if module_options::is_modprobe(text) {
        return Some(Kind::Modprobe);
    }
    if has_machine(text) {
        return Some(Kind::CommandLine);
    }
    if is_readconfig(text) {
        return Some(Kind::Readconfig);
    }
    if proxmox::is_configuration(text) {
        return Some(Kind::Proxmox);
    }
    module_options::is_kernel_command_line(text).then_some(Kind::KernelCommandLine)
}

/// Whether shell text starts a machine.
fn has_machine(text: &str) -> bool {
    // A configuration's "args: -cpu …" is not one.
    if proxmox::is_configuration(text) {
        return false;
    }
    let Ok(commands) = shell::run(text) else { return false };
    let lines = Lines::new("");
    !qemu_arguments::invocations(&commands).is_empty()
        || commands.iter().any(|command| other_vmm::machine(command, "", &lines).is_some())
}

fn is_readconfig(text: &str) -> bool {
    let mut lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(header) = lines.next() else { return false };
    const GROUPS: [&str; 26] = [
        "accel",
        "action",
        "boot-opts",
        "chardev",
        "device",
        "drive",
        "fsdev",
        "global",
        "machine",
        "memory",
        "mon",
        "name",
        "netdev",
        "numa",
        "object",
        "overcommit",
        "rtc",
        "sandbox",
        "smbios",
        "smp-opts",
        "spice",
        "tpmdev",
        "trace",
        "virtfs",
        "vnc",
        "fw_cfg",
    ];
    let inner = header.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| {
        inner.split_whitespace().next().is_some_and(|group| GROUPS.contains(&group))
    })
}

/// Reads an input; `kind` of `None` means to recognize it.
pub fn read(
    file: &str,
    text: &str,
    kind: Option<Kind>,
    hints: &Hints,
) -> Result<Contents, InputError> {
    if text.len() > MAX_BYTES {
        return Err(InputError::whole(format!("too big: more than {} MiB", MAX_BYTES >> 20)));
    }
    let kind = kind.or_else(|| detect(text)).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        match text.trim().is_empty() {
            true => InputError::whole("empty"),
            false => {
                let names = names.join(", ");
                InputError::whole(format!(
                    "unknown: not recognized as any of {names} (--kind says)"
                ))
            }
        }
    })?;
    let lines = Lines::new(text);
    let mut contents = Contents { kind, vms: Vec::new(), options: Vec::new() };
    match kind {
        Kind::CommandLine => {
            let commands = shell::run(text)?;
            contents.vms = qemu_arguments::machines(&commands, file, &lines, hints);
        }
        Kind::ProcessCommandLine => {
            let commands = shell::nul_separated(text)?;
            contents.vms = qemu_arguments::machines(&commands, file, &lines, hints);
        }
        Kind::Readconfig => contents.vms = vec![qemu_readconfig::machine(file, &lines, hints)?],
        Kind::LibvirtXml => contents.vms = libvirt_xml::machines(file, &lines, hints)?,
        Kind::LibvirtLog => contents.vms = libvirt_log::machines(file, &lines, hints)?,
        Kind::Proxmox => contents.vms = vec![proxmox::machine(file, &lines, hints)?],
        Kind::Kubevirt => contents.vms = kubevirt::machines(file, &lines, hints)?,
        Kind::Firecracker => contents.vms = vec![firecracker::machine(file, &lines)?],
        Kind::Modprobe => contents.options = module_options::modprobe(&lines)?,
        Kind::KernelCommandLine => contents.options = module_options::kernel_command_line(&lines)?,
    }
    if contents.vms.is_empty() && !kind.is_of_host() {
        return Err(InputError::whole(format!("no virtual machine in this {}", kind.name())));
    }
    Ok(contents)
}
