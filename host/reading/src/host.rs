//! All that is known of one host.

use crate::cpu::CpuKind;
use crate::fact::{Fact, Reading};
use crate::function::{InterruptCounter, RemappingEntry};
use crate::initial_disk::InitialDisk;
use crate::iommu::Iommu;
use crate::kernel::{Kernel, KernelFeature};
use crate::module::{AMD_MODULE, INTEL_MODULE, Module, same_parameter};
use crate::table::{Dmar, Ivrs, Madt};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A text file of the host that an operator edits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigurationFile {
    /// Absolute, as the host has it.
    pub path: String,
    /// The whole content.
    pub text: String,
}

/// How the host keeps its kernel command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// Those that may hold a kernel command line: GRUB's defaults, boot loader entries, `cmdline`.
    pub files: Vec<ConfigurationFile>,
    /// Names of the boot tools that are installed.
    pub tools: BTreeSet<String>,
}

/// A running virtual machine, as far as the host shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunningVm {
    /// Of the process that runs it, as the host numbers it.
    pub pid: u32,
    /// The name its command line gives it.
    pub name: Option<String>,
    /// Words of its command line, program first.
    pub arguments: Vec<String>,
    /// Domain XML of the running machine (libvirt's status file), where readable.
    pub xml: Option<ConfigurationFile>,
    /// KVM's statistics of this machine, where debugfs is readable.
    pub statistics: Fact<BTreeMap<String, u64>>,
    /// Addresses of the PCI functions that it has through vfio, such as `0000:3b:00.1`.
    pub functions: Fact<Vec<String>>,
}

/// All that is known of one host.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// What was read: "live host", a directory, a file.
    pub origin: String,
    /// Why more may have been there than could be read, such as an archive that is cut off.
    pub incomplete: Option<String>,
    /// Of `uname`.
    pub kernel: Fact<Kernel>,
    /// `/proc/cmdline`.
    pub command_line: Fact<String>,
    /// Fields of `/etc/os-release` by name: `ID`, `VERSION_ID`, …
    pub distribution: Fact<BTreeMap<String, String>>,
    /// A processor that is not x86's, such as "an arm64"; `None` where nothing says so.
    #[serde(skip)]
    pub foreign: Option<&'static str>,
    /// One entry for each kind of core.
    pub cpus: Vec<CpuKind>,
    /// By name; a module that is absent was looked for and is not loaded.
    pub modules: BTreeMap<String, Fact<Module>>,
    /// Units below `/sys/class/iommu`.
    pub iommus: Fact<Vec<Iommu>>,
    /// The ACPI table of AMD's IOMMUs.
    pub ivrs: Fact<Ivrs>,
    /// The ACPI table of Intel's IOMMUs.
    pub dmar: Fact<Dmar>,
    /// The ACPI table of local and I/O APICs.
    pub madt: Fact<Madt>,
    /// Lines of the kernel log about IOMMUs, KVM and interrupts.
    pub log: Fact<Vec<String>>,
    /// Rows of `/proc/interrupts`.
    pub interrupts: Fact<Vec<InterruptCounter>>,
    /// Interrupt remapping entries, where the kernel has the debugfs files of its IOMMUs.
    pub remapping_entries: Fact<Vec<RemappingEntry>>,
    /// Names of the inhibit reasons as the running kernel numbers them, by bit.
    pub inhibit_names: Fact<BTreeMap<u32, String>>,
    /// Files of the modprobe.d folders, in the order in which modprobe reads them.
    pub modprobe: Fact<Vec<ConfigurationFile>>,
    /// Machines of QEMU and other VMMs among the host's processes.
    pub vms: Fact<Vec<RunningVm>>,
    /// Machines as they will be started next: libvirt's and Proxmox's definitions.
    pub definitions: Vec<ConfigurationFile>,
    /// What `enable` needs to change the kernel command line.
    pub boot: Boot,
    /// What the running kernel's initial RAM disk loads; looked into where it may matter.
    #[serde(skip)]
    pub initial_disk: Fact<InitialDisk>,
}

impl Facts {
    /// A module by its name with underscores. Unreadable when nobody looked for it.
    pub fn module(&self, name: &str) -> Fact<&Module> {
        match self.modules.get(name) {
            Some(fact) => fact.as_ref(),
            None => Fact::unreadable(format!("/sys/module/{name}"), "not looked for"),
        }
    }

    /// A module's parameter. Absent when the module is loaded without it, or not loaded at all.
    pub fn parameter(&self, module: &str, name: &str) -> Fact<String> {
        let place = format!("/sys/module/{module}/parameters/{name}");
        let fact = self.module(module);
        match fact.reading {
            Reading::Value(module) => {
                module.parameters.get(name).cloned().unwrap_or_else(|| Fact::absent(place))
            }
            Reading::Absent => Fact::unreadable(place, "the module is not loaded"),
            Reading::Unreadable(why) => Fact::unreadable(place, why),
            Reading::NotUnderstood(what) => Fact { place, reading: Reading::NotUnderstood(what) },
        }
    }

    /// The kernel with what the host shows of it: parameters that it has, names it gives, lines of
    /// its log.
    pub fn running_kernel(&self) -> Option<Kernel> {
        use KernelFeature as F;
        let kernel = self.kernel.get()?;
        let mut shown = vec![];
        let parameters = [
            (AMD_MODULE, "enable_ipiv", F::AmdIpiv),
            (AMD_MODULE, "force_avic", F::ForceAvic),
            (INTEL_MODULE, "enable_ipiv", F::IntelIpiv),
            (AMD_MODULE, "enable_device_posted_irqs", F::DevicePostedIrqs),
            (INTEL_MODULE, "enable_device_posted_irqs", F::DevicePostedIrqs),
        ];
        for (module, name, feature) in parameters {
            let module = self.modules.get(module).and_then(Fact::get);
            if module
                .is_some_and(|module| module.parameters.get(name).is_some_and(|it| !it.is_absent()))
            {
                shown.push((feature, true));
            }
        }
        if self.log_line("x2AVIC enabled").is_some() {
            shown.push((F::X2avic, true));
        }
        if let Some(names) = self.inhibit_names.get().filter(|names| names.len() > 4) {
            let has_reason = names.values().any(|name| name.eq_ignore_ascii_case("x2apic"));
            shown.push((F::X2avic, !has_reason));
        }
        Some(kernel.with(shown))
    }

    /// Whether the kernel has what some version brought; `None` where that is not known.
    pub fn kernel_has(&self, feature: KernelFeature) -> Option<bool> {
        self.running_kernel()?.has(feature)
    }

    /// The first line of the kernel log that contains `text`.
    pub fn log_line(&self, text: &str) -> Option<&str> {
        self.log.get()?.iter().find(|line| line.contains(text)).map(String::as_str)
    }

    /// The words of the kernel command line; empty when it is not known.
    pub fn command_line_words(&self) -> impl Iterator<Item = &str> {
        self.command_line.get().map(String::as_str).unwrap_or("").split_whitespace()
    }

    /// The last value given to a kernel argument such as `amd_iommu_intr`.
    pub fn kernel_argument(&self, name: &str) -> Option<&str> {
        self.command_line_words()
            .filter_map(|word| word.split_once('='))
            .filter(|(key, _)| same_parameter(key, name))
            .map(|(_, value)| value)
            .last()
    }

    /// True if a comma-separated list given to a kernel argument contains `word`.
    pub fn kernel_argument_has(&self, name: &str, word: &str) -> bool {
        self.command_line_words()
            .filter_map(|text| text.split_once('='))
            .filter(|(key, _)| same_parameter(key, name))
            .any(|(_, values)| values.split(',').any(|value| value == word))
    }

    /// Whether this system's files are made from a description of all of it: NixOS, Guix.
    pub fn is_described(&self) -> bool {
        let id = self.distribution.get().and_then(|fields| fields.get("ID"));
        id.is_some_and(|id| matches!(id.as_str(), "nixos" | "guix"))
    }

    /// Whether anything here is of a running kernel, and not of hardware alone.
    pub fn has_kernel(&self) -> bool {
        self.kernel.get().is_some()
            || self.command_line.get().is_some()
            || self.modules.values().any(|module| !module.is_unknown())
    }
}
