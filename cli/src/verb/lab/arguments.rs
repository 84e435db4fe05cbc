//! The options that say which host is emulated.

use crate::sandbox::{self, Sandbox};
use crate::status::Usage;
use crate::verb::machine::size::parse_bytes;
use crate::verb::machine::{devices, model, platform};
use arch::cpuid::Feature;
use bench::{InterruptChip, Timer};
use board::topology::{Topology, TopologyError};
use cpu::CpuModel;
use device::intel_82599::Wire;
use lab::drive::recording::symbols_of;
use lab::host::Host;
use lab::host::booted::Store;
use lab::host::image::Additions;
use lab::plan::{Function, Needs};
use std::path::PathBuf;
use std::time::Duration;

/// More processors than a host has here.
const MOST_CPUS: u16 = 512;
/// Local APIC IDs of 8 bits, all ones being everybody.
const LAST_WITHOUT_REMAPPING: u32 = 254;
/// RAM of an emulated host.
const USUAL_MEMORY: u64 = 1 << 30;
/// A kernel with its initial RAM disk needs this much.
const LEAST_MEMORY: u64 = 256 << 20;

#[derive(Clone, clap::Args)]
pub(super) struct HostArguments {
    #[command(flatten)]
    pub(super) model: model::Arguments,
    #[command(flatten)]
    platform: platform::Arguments,
    /// Processors of the emulated host, each a core of one socket
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_CPUS)))]
    cpus: u16,
    /// Its processors by what they share: sockets=2,dies=1,ccx=2,cores=4,threads=2, levels that
    /// are not named being one. Each socket is a node of memory
    #[arg(long, value_name = "LEVEL=N,...", conflicts_with = "cpus", value_parser = parse_topology)]
    topology: Option<Topology>,
    /// RAM of the emulated host [default: 1G; 4G for selftests and kut]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub(super) memory: Option<u64>,
    /// debian-12, debian-13 (the default) or debian-sid, each of one version (lab/kernels.toml),
    /// builtin, a kernel file with its modules beside it, a kernel package (.deb), unpacked or not,
    /// or a folder in which a kernel was built
    #[arg(long, value_name = "KERNEL")]
    pub(super) kernel: Option<String>,
    /// A module of this machine in place of the kernel's own, such as a kvm-amd.ko just built
    #[arg(long = "module", value_name = "FILE")]
    pub(super) modules: Vec<PathBuf>,
    /// One more module of the kernel that the host loads, such as ioatdma; those that it depends on
    /// come with it
    #[arg(long = "load", value_name = "NAME")]
    pub(super) loaded: Vec<String>,
    /// A parameter of a module that the host loads, such as kvm.halt_poll_ns=0
    #[arg(long = "parameter", value_name = "MODULE.NAME=VALUE")]
    pub(super) parameters: Vec<String>,
    /// More words for the command line of the host's kernel
    #[arg(long, value_name = "STR", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// A file or folder of this machine to take along, at the same path or at another
    #[arg(long = "add", value_name = "PATH[=PATH THERE]")]
    files: Vec<String>,
    /// A device by its name, with options of its own: --device help lists them
    #[arg(long = "device", value_name = "NAME[,KEY=VALUE...]", value_parser = devices::parse_device)]
    pub(super) devices: Vec<String>,
    /// Write what the machine does after the host's boot to a file, for machine trace
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
    /// Boot the host even if an earlier run kept a snapshot of it, and keep none
    #[arg(long)]
    no_snapshot: bool,
    /// Seconds of virtual time after which a virtual machine or a command is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) limit: u64,
    /// Seconds of this machine's time that each stage of a run may take
    #[arg(long, value_name = "SECONDS", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..))]
    host_limit: u64,
}

impl HostArguments {
    /// Processors of the emulated host.
    pub(super) fn cpus(&self) -> u16 {
        self.topology.map_or(self.cpus, |topology| topology.cpu_count())
    }

    fn topology(&self) -> anyhow::Result<Topology> {
        match self.topology {
            Some(topology) => Ok(topology),
            None => Topology::of_cores(self.cpus).map_err(Usage::of),
        }
    }

    pub(super) fn host(&self) -> anyhow::Result<Host> {
        self.host_for(&Needs::default())
    }

    /// With the functions that a workload needs, and the IOMMU that they need, or as the options
    /// say.
    pub(super) fn host_for(&self, needs: &Needs) -> anyhow::Result<Host> {
        let model = self.model.model().map_err(Usage::of)?;
        if !model.has(Feature::Svm) && !model.has(Feature::Vmx) {
            return Err(Usage::of(anyhow::anyhow!(
                "--cpu {}: KVM needs a processor that runs virtual machines, and this one has \
                 neither SVM nor VMX: choose one of {}",
                self.model.description(),
                CpuModel::names_where(|model| model.has(Feature::Svm) || model.has(Feature::Vmx))
            )));
        }
        let iommu = self.platform.iommu(&model, needs.function.is_some())?;
        let topology = self.topology()?;
        let last = topology.cpus().last().map_or(0, |cpu| topology.apic_id(cpu).0);
        if iommu.is_none() && last > LAST_WITHOUT_REMAPPING {
            return Err(Usage::of(anyhow::anyhow!(
                "{} processors with APIC IDs up to {last}: Linux reaches those beyond \
                 {LAST_WITHOUT_REMAPPING} only if an IOMMU remaps interrupts, and this host has none",
                topology.cpu_count()
            )));
        }
        let costs = self.model.costs(&model).map_err(Usage::of)?;
        let memory = self.memory.unwrap_or(USUAL_MEMORY);
        let append = self.append.clone();
        let has_pulse = self.platform.pulse || needs.function == Some(Function::Pulse);
        let mut wires = self.platform.wires(0)?;
        if needs.function == Some(Function::Wire) && wires.first() != Some(&Wire::Pair) {
            wires.insert(0, Wire::Pair);
        }
        let devices = devices::requests(&self.devices)?;
        let folders = Vec::new();
        Ok(Host {
            model,
            costs,
            iommu,
            has_pulse,
            wires,
            devices,
            folders,
            topology,
            memory,
            append,
        })
    }

    pub(super) fn additions(&self) -> Additions<'_> {
        Additions { parameters: &self.parameters, files: &self.files }
    }

    /// Where snapshots are, unless they are not wanted or there is no place for them.
    pub(super) fn store(&self) -> Option<Store> {
        (!self.no_snapshot).then(Store::open)?.ok()
    }

    /// Shuts the process in, which has read by now what it needs of this machine; what it is yet to
    /// put in its place is in `sandbox`.
    pub(super) fn shut_in(&self, sandbox: &mut Sandbox) {
        lab::host::kept_folders().into_iter().for_each(|folder| sandbox.keeps(folder));
        if let Some(trace) = &self.trace {
            sandbox.puts(&symbols_of(trace));
        }
        sandbox.raise(&self.sandbox);
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.host_limit)
    }
}

fn parse_topology(text: &str) -> Result<Topology, String> {
    let topology: Topology = text.parse().map_err(|why: TopologyError| why.to_string())?;
    match topology.cpu_count() {
        1..=MOST_CPUS => Ok(topology),
        count => Err(format!("{count} processors are too many: at most {MOST_CPUS}")),
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes < LEAST_MEMORY => {
            let least = LEAST_MEMORY >> 20;
            Err(format!("{bytes} bytes are too few for a kernel with KVM: at least {least}M"))
        }
        bytes => Ok(bytes),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Chip {
    Split,
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pit {
    /// Outside KVM
    Off,
    /// In KVM, late ticks are injected
    Reinject,
    /// In KVM, late ticks are dropped
    Discard,
}

/// What KVM is made to inhibit AVIC and APICv for, by a processor that does not run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Inhibit {
    /// Hyper-V's synthetic interrupts with AutoEOI (HYPERV)
    AutoEoi,
    /// A debugger that blocks interrupts (BLOCKIRQ)
    BlockIrq,
    /// An APIC with another ID than it was made with (APIC_ID_MODIFIED)
    ApicId,
    /// An APIC that is not where it was made (APIC_BASE_MODIFIED)
    ApicBase,
}

impl From<Inhibit> for bench::Inhibit {
    fn from(inhibit: Inhibit) -> Self {
        match inhibit {
            Inhibit::AutoEoi => Self::AutoEoi,
            Inhibit::BlockIrq => Self::BlockIrq,
            Inhibit::ApicId => Self::ApicId,
            Inhibit::ApicBase => Self::ApicBase,
        }
    }
}

/// The part of a virtual machine's configuration that both `lab` and `bench` offer. KVM's timer
/// needs KVM's interrupt chip.
pub fn interrupts(chip: Chip, pit: Pit) -> (InterruptChip, Timer) {
    let timer = match pit {
        Pit::Off => Timer::Process,
        Pit::Reinject => Timer::KernelReinject,
        Pit::Discard => Timer::KernelDiscard,
    };
    let is_full = chip == Chip::Full || pit != Pit::Off;
    (if is_full { InterruptChip::Full } else { InterruptChip::Split }, timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_kernel_starts_in_is_refused_with_what_would_do() {
        assert_eq!(parse_memory("256M"), Ok(256 << 20));
        for text in ["12", "64M", "255M"] {
            assert!(parse_memory(text).expect_err(text).contains("at least 256M"), "{text}");
        }
    }
}
