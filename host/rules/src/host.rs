//! What is known of a host: the vocabulary rules speak and the reader of hosts fills.
//!
//! Every value says where it was read, and a value that could not be read says why: rules must be
//! able to tell "no" from "not known". Left out: everything without influence on interrupt
//! virtualization.

pub mod cpu;
pub mod function;
pub mod iommu;
pub mod kernel;
pub mod table;

pub use cpu::{CpuKind, Cpuid, Vendor};
pub use function::{RemappingEntry, Signalling, VfioInterrupt};
pub use iommu::{AmdFeatures, Iommu, IommuKind};
pub use kernel::{Kernel, KernelFeature};
pub use table::{Dmar, Ivhd, Ivrs, Madt};

use crate::configuration::dialect::module_options;
use crate::configuration::{InputError, ModuleOption};
use crate::feature::{AMD_MODULE, INTEL_MODULE};
use crate::finding::Evidence;
use crate::position::Lines;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading<T> {
    /// As it was read and decoded.
    Value(T),
    /// Looked for, and not there: the kernel, the CPU or the board does not offer it.
    Absent,
    /// Not known: no permission, not recorded. The text says which.
    Unreadable(String),
    /// Read, and no value of the form that belongs there. The text says what was found.
    NotUnderstood(String),
}

impl<T> Reading<T> {
    /// Another value in place of this one; without one, why there is none.
    fn and_then<U>(self, convert: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => convert(value),
            Reading::Absent => Reading::Absent,
            Reading::Unreadable(why) => Reading::Unreadable(why),
            Reading::NotUnderstood(what) => Reading::NotUnderstood(what),
        }
    }
}

/// A reading with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact<T> {
    /// Path, register, CPUID leaf or table it was looked for in.
    pub place: String,
    /// What was found there.
    pub reading: Reading<T>,
}

impl<T> Fact<T> {
    /// A value that was read.
    pub fn value(place: impl Into<String>, value: T) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Value(value) }
    }

    /// Looked for, and not there.
    pub fn absent(place: impl Into<String>) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Absent }
    }

    /// Not known, and why.
    pub fn unreadable(place: impl Into<String>, why: impl Into<String>) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Unreadable(why.into()) }
    }

    /// The value, if it was read.
    pub fn get(&self) -> Option<&T> {
        match &self.reading {
            Reading::Value(value) => Some(value),
            Reading::Absent | Reading::Unreadable(_) | Reading::NotUnderstood(_) => None,
        }
    }

    /// Known not to be there, which is an answer.
    pub fn is_absent(&self) -> bool {
        matches!(self.reading, Reading::Absent)
    }

    /// Not known, which is not an answer: nothing was read, or nothing that was understood.
    pub fn is_unknown(&self) -> bool {
        matches!(self.reading, Reading::Unreadable(_) | Reading::NotUnderstood(_))
    }

    /// The same place, another value. What cannot be converted was not understood.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Result<U, String>) -> Fact<U> {
        let reading = self
            .reading
            .and_then(|value| convert(value).map_or_else(Reading::NotUnderstood, Reading::Value));
        Fact { place: self.place, reading }
    }

    /// The same place, another value that is always there.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Fact<U> {
        let reading = self.reading.and_then(|value| Reading::Value(convert(value)));
        Fact { place: self.place, reading }
    }

    /// The same place and reason, the value by reference.
    pub fn as_ref(&self) -> Fact<&T> {
        let reading = match &self.reading {
            Reading::Value(value) => Reading::Value(value),
            Reading::Absent => Reading::Absent,
            Reading::Unreadable(why) => Reading::Unreadable(why.clone()),
            Reading::NotUnderstood(what) => Reading::NotUnderstood(what.clone()),
        };
        Fact { place: self.place.clone(), reading }
    }

    /// The fact as evidence; `show` renders the value.
    pub fn evidence<D: Display>(
        &self,
        what: impl Into<String>,
        show: impl FnOnce(&T) -> D,
    ) -> Evidence {
        let value = match &self.reading {
            Reading::Value(value) => show(value).to_string(),
            Reading::Absent => "not there".into(),
            Reading::Unreadable(why) => format!("not known: {why}"),
            Reading::NotUnderstood(what) => format!("not understood: {what}"),
        };
        Evidence::new(what, &self.place, value)
    }
}

/// A loaded or built-in kernel module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Module {
    /// No reference count: built into the kernel, cannot be reloaded.
    pub is_builtin: bool,
    /// Reference count of `/sys/module/NAME/refcnt`; `None` where there is none.
    pub users: Option<u32>,
    /// By name, as below `/sys/module/NAME/parameters`.
    pub parameters: BTreeMap<String, Fact<String>>,
}

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

/// One line of /proc/interrupts that counts posted or remapped interrupts: `PIN`, `NPI`, `PIW`, …,
/// those of IOMMUs, and those of functions that vfio has given away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterruptCounter {
    /// The first column, without its colon.
    pub label: String,
    /// Sum over all CPUs.
    pub total: u64,
    /// What the row says behind the counts.
    pub description: String,
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

    /// The value modprobe.d gives to a module's option, with the file: the last one read counts.
    pub fn modprobe_option(&self, module: &str, option: &str) -> Option<(String, String)> {
        // `install` lines act last, whatever file they are in.
        let installed = self.last_option(module, option, module_options::installed);
        installed.or_else(|| self.last_option(module, option, module_options::given))
    }

    /// All that files of modprobe.d and the kernel command line give modules and the kernel.
    pub fn given_options(&self) -> Vec<ModuleOption> {
        let files = self.modprobe.get().into_iter().flatten();
        let mut all: Vec<ModuleOption> = files
            .flat_map(|file| module_options::modprobe(&Lines::new(&file.text)).unwrap_or_default())
            .collect();
        if let Some(text) = self.command_line.get() {
            all.extend(module_options::kernel_command_line(&Lines::new(text)).unwrap_or_default());
        }
        all
    }

    /// The option that a line `install MODULE …` gives, which no other line overrides.
    pub fn installed_option(&self, module: &str, option: &str) -> Option<(String, String)> {
        self.last_option(module, option, module_options::installed)
    }

    fn last_option(
        &self,
        module: &str,
        option: &str,
        read: impl Fn(&Lines<'_>) -> Result<Vec<ModuleOption>, InputError>,
    ) -> Option<(String, String)> {
        let mut found = None;
        for file in self.modprobe.get()? {
            let lines = Lines::new(&file.text);
            // A file that is too long for a configuration is none.
            for given in read(&lines).unwrap_or_default() {
                if same_parameter(&given.module, module) && same_parameter(&given.name, option) {
                    let value = given.value.unwrap_or_else(|| "1".to_owned());
                    found = Some((value, file.path.clone()));
                }
            }
        }
        found
    }

    /// What the module is given when it is loaded: modprobe appends the kernel command line's
    /// parameters to those of its files, and the last one counts.
    pub fn given_option(&self, module: &str, option: &str) -> Option<(String, String)> {
        self.kernel_argument(&format!("{module}.{option}"))
            .map(|value| (value.to_string(), self.command_line.place.clone()))
            .or_else(|| self.modprobe_option(module, option))
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

/// The kernel takes `-` and `_` for the same in names of modules and parameters.
fn same_parameter(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .all(|(a, b)| a == b || (a == b'-' && b == b'_') || (a == b'_' && b == b'-'))
}

/// A boolean parameter as the kernel prints it and as people write it.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim() {
        "Y" | "y" | "1" | "on" | "true" => Some(true),
        "N" | "n" | "0" | "off" | "false" => Some(false),
        _ => None,
    }
}
