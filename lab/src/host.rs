//! The emulated host: the machine and the kernel that it starts with.

mod apt;
pub mod booted;
pub(crate) mod cache;
pub mod distribution;
mod elf;
pub mod image;
pub mod initramfs;
pub mod kernel;
mod package;
pub mod pin;
pub(crate) mod program;

use crate::plan::Arm;
use crate::protocol::{COMMAND_LINE, PORT};
use anyhow::Context;
use arch::cpuid::Feature;
use board::cost::CostProfile;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, IommuModel, Machine};
use cpu::CpuModel;
use device::virtio::Model;
use device::virtio::console::Console;
use device::virtio::nine_p::NineP;
use kernel::Kernel;

/// From 6.5 on Linux starts all processors at the same time, and all except one spin until the last
/// is up: beyond so many that is most of what there is to emulate.
const MOST_AT_ONCE: u16 = 64;

/// Folders in which runs on a booted host keep things for later ones.
pub fn kept_folders() -> Vec<std::path::PathBuf> {
    [booted::FOLDER, crate::drive::expected::FOLDER]
        .into_iter()
        .filter_map(|part| cache::folder(part).ok())
        .collect()
}

/// What to boot.
#[derive(Clone, Debug)]
pub struct Host {
    /// Of its processors.
    pub model: CpuModel,
    /// What things take, where it is not what the model's own profile says.
    pub costs: Option<CostProfile>,
    /// How many they are, and what they share.
    pub topology: Topology,
    /// Nothing if functions reach memory and processors directly.
    pub iommu: Option<IommuModel>,
    /// Whether the function for measuring interrupts is there.
    pub has_pulse: bool,
    /// Wires that virtual functions of a network controller are at.
    pub wires: Vec<device::intel_82599::Wire>,
    /// More devices, as `machine run --device` takes them.
    pub devices: Vec<device::Request>,
    /// Folders of this machine that it can mount.
    pub folders: Vec<NineP>,
    /// Bytes of RAM.
    pub memory: u64,
    /// More words for the kernel's command line.
    pub append: String,
}

impl Host {
    /// What the machine is built from.
    pub(crate) fn configuration(&self) -> anyhow::Result<Configuration> {
        Ok(Configuration {
            model: self.model.clone(),
            costs: self.costs.clone(),
            topology: self.topology,
            memory: self.memory,
            seed: 0,
            start: device::Date::default(),
            iommu: self.iommu,
            functions: [
                self.functions(),
                vec![Model::Console(Console::new(&[PORT.to_owned()])).into()],
            ]
            .concat(),
        })
    }

    /// What things take.
    pub(crate) fn costs(&self) -> anyhow::Result<CostProfile> {
        Ok(self.configuration()?.costs()?)
    }

    /// The same, for what fits costs or draws from them.
    pub fn cost_profile(&self) -> anyhow::Result<CostProfile> {
        self.costs()
    }

    /// The same host, its kernel told more.
    pub fn told(&self, words: &str) -> Self {
        let append = format!("{} {words}", self.append).trim_start().to_owned();
        Self { append, ..self.clone() }
    }

    /// The functions that hosts have for the kernel's sake, not for the lab's.
    pub fn functions(&self) -> Vec<device::Request> {
        let pulse = self.has_pulse.then_some(device::pulse::Request.into());
        let wires = self.wires.iter().map(|wire| (*wire).into());
        let folders = self.folders.iter().map(|folder| Model::NineP(folder.clone()).into());
        pulse.into_iter().chain(wires).chain(self.devices.iter().cloned()).chain(folders).collect()
    }

    /// Modules that mount its folders.
    pub fn modules_of_folders(&self) -> &'static [&'static str] {
        if self.folders.is_empty() { &[] } else { &["9pnet_virtio", "9p"] }
    }

    /// Modules that set the processors' clock, where software can: without a module for it, Linux
    /// has a driver for Intel's parts alone, and no governor that follows a person.
    pub fn modules_of_clock(&self) -> &'static [&'static str] {
        match self.model.has(Feature::HwPstate) {
            true => &["acpi_cpufreq", "cpufreq_userspace"],
            false => &[],
        }
    }

    /// The machine at power-on.
    pub(crate) fn power_on(&self) -> anyhow::Result<Machine> {
        Ok(Machine::new(&self.configuration()?)?)
    }

    /// What the host's kernel is told.
    pub(crate) fn command_line(&self) -> String {
        let one_by_one =
            if self.topology.cpu_count() > MOST_AT_ONCE { " cpuhp.parallel=off" } else { "" };
        let own =
            format!("console=ttyS0 quiet panic=-1 {COMMAND_LINE}{one_by_one} {}", self.append);
        own.trim_end().to_owned()
    }

    /// The host of an arm of an experiment.
    pub fn of_arm(&self, arm: &Arm) -> anyhow::Result<Self> {
        let mut host = self.clone();
        for name in &arm.without {
            let feature = Feature::from_name(name)
                .with_context(|| format!("{}: no feature of CPUs is called {name}", arm.label))?;
            host.model.remove_feature(feature);
        }
        host.append = format!("{} {}", host.append, arm.host).trim().to_owned();
        Ok(host)
    }
}

/// Puts the kernel into a machine that is about to start it.
pub(crate) fn load(
    machine: &mut Machine,
    kernel: &Kernel,
    cpio: &[u8],
    command_line: &str,
) -> anyhow::Result<()> {
    machine.load(&Images {
        kernel: Source::of(&kernel.name, &kernel.image),
        initrd: Some(Source::of("initial RAM disk", cpio)),
        modules: &[],
        command_line,
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processors_are_started_one_after_the_other() {
        let model = CpuModel::named("zen4").expect("a model");
        let host = |cpus| Host {
            model: model.clone(),
            costs: None,
            topology: Topology::of_cores(cpus).expect("so many are possible"),
            iommu: None,
            has_pulse: false,
            wires: Vec::new(),
            devices: Vec::new(),
            folders: Vec::new(),
            memory: 1 << 30,
            append: "quiet".into(),
        };
        let words = |cpus| host(cpus).command_line();
        assert!(!words(64).contains("cpuhp"), "{}", words(64));
        assert!(words(65).contains(" cpuhp.parallel=off quiet"), "{}", words(65));
    }
}
