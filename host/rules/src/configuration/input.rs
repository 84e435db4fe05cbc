//! What an input is, what the caller knows of it, and why it could not be read.

use crate::finding::Position;
use reading::version::Version;
use serde::Serialize;
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
    /// What `vm.create` of Cloud Hypervisor's API takes, JSON.
    CloudHypervisor,
    /// A file of modprobe.d: options of modules.
    Modprobe,
    /// `/proc/cmdline`, or a boot loader's setting that holds one.
    KernelCommandLine,
}

impl Kind {
    /// Every kind, in the order in which messages list them.
    pub const ALL: [Self; 11] = [
        Self::CommandLine,
        Self::ProcessCommandLine,
        Self::Readconfig,
        Self::LibvirtXml,
        Self::LibvirtLog,
        Self::Proxmox,
        Self::Kubevirt,
        Self::Firecracker,
        Self::CloudHypervisor,
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
            Self::CloudHypervisor => "cloud-hypervisor",
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
            format!("'{name}' is not a kind of input; known are {}", names.join(", "))
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

    /// An error about the input as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
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

/// `NAME[=VALUE]` of a module, or of the kernel itself (`module` is empty).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleOption {
    /// Underscores for dashes, as the kernel has it.
    pub module: String,
    /// Of the parameter, as it is written.
    pub name: String,
    /// `None` where it is named alone, which the kernel takes for a boolean that is on.
    pub value: Option<String>,
    /// The whole `NAME=VALUE`.
    pub at: Position,
    /// The value only; where there is none, an empty range at the end.
    pub value_at: Position,
}
