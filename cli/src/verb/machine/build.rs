//! Which machine to build, and what it begins with: the options that `machine run` and `machine
//! serve` share.

use super::devices;
use super::firmware;
use super::model;
use super::platform;
use super::size::parse_bytes;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::source::Named;
use anyhow::{Context, bail};
use board::load::Module;
use board::topology::Topology;
use board::{Configuration, Images, Machine, MachineError};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The largest file that is taken for a kernel, with what debuggers want of it.
const LARGEST_KERNEL: u64 = 2 << 30;
const KERNEL_LIMIT: &str = "the most that is read of a kernel";
const MEMORY_LIMIT: &str = "what the machine has of memory";

#[derive(clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    pub model: model::Arguments,
    /// Logical processors, each a core of one socket
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u16,
    /// Processors by what they share: sockets=2,dies=1,ccx=2,cores=4,threads=2, levels that are
    /// not named being one. Each socket is a node of memory
    #[arg(long, value_name = "LEVEL=N,...", conflicts_with = "cpus")]
    topology: Option<Topology>,
    /// RAM, such as 512M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_bytes)]
    memory: u64,
    /// Linux bzImage, ELF64 vmlinux with PVH note, or Multiboot 1 or 2 image
    #[arg(long, value_name = "FILE", required_unless_present_any = ["restore", "firmware"])]
    pub kernel: Option<PathBuf>,
    #[command(flatten)]
    pub firmware: firmware::Arguments,
    /// Continue from a snapshot, with the same options for CPUs, memory and devices
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "firmware", "initrd", "append", "module", "seed"])]
    pub restore: Option<PathBuf>,
    /// Initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Kernel command line
    #[arg(long, value_name = "STR", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// A module for a Multiboot kernel: FILE, or "FILE its command line"
    #[arg(long, value_name = "FILE")]
    module: Vec<String>,
    #[command(flatten)]
    platform: platform::Arguments,
    #[command(flatten)]
    pub devices: devices::Arguments,
    /// Seed of the processors' random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// After how many runs code is translated, for the host to execute it itself (x86-64 Linux
    /// hosts; everything but the host's time stays the same)
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, default_missing_value = "64")]
    native: Option<u16>,
    /// Translate nothing: interpret all code
    #[arg(long, conflicts_with_all = ["native", "verify_native"])]
    interpret: bool,
    /// Repeat every Kth entry into translated code in the interpreter and compare; status 1 if they
    /// differ
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    verify_native: Option<u64>,
}

/// A machine, and what it was built from.
pub struct Built {
    pub machine: Machine,
    pub configuration: Configuration,
}

impl Arguments {
    /// The files that are read.
    pub fn name_inputs(&self, sandbox: &mut Sandbox) {
        let modules = self.module.iter().map(|module| Path::new(path_of_module(module).0));
        let files = [&self.kernel, &self.restore, &self.initrd].into_iter().flatten();
        let files = files.map(PathBuf::as_path).chain(modules);
        files.chain(self.model.files()).for_each(|path| {
            sandbox.reads(path);
        });
        self.firmware.name_inputs(sandbox);
        self.devices.name_inputs(sandbox);
    }

    /// The machine, at its first instruction or as a snapshot has it.
    pub fn build(&self) -> anyhow::Result<Built> {
        let mut built = self.put_together()?;
        self.choose_executor(&mut built.machine);
        Ok(built)
    }

    /// Who executes code: the host, translated, unless arguments or the host say otherwise.
    fn choose_executor(&self, machine: &mut Machine) {
        if self.interpret {
            return machine.interpret();
        }
        let is_asked_for = self.native.is_some() || self.verify_native.is_some();
        let runs = self.native.unwrap_or(cpu::native::HEAT);
        if is_asked_for && let Err(absence) = machine.translate(runs) {
            remark!("avicenna: code is interpreted: {absence}");
        }
        machine.verify(self.verify_native.unwrap_or(0));
    }

    fn topology(&self) -> anyhow::Result<Topology> {
        match self.topology {
            Some(topology) => Ok(topology),
            None => Topology::of_cores(self.cpus).map_err(Usage::of),
        }
    }

    fn put_together(&self) -> anyhow::Result<Built> {
        let model = self.model.model().map_err(Usage::of)?;
        let configuration = Configuration {
            costs: self.model.costs(&model).map_err(Usage::of)?,
            iommu: self.platform.iommu(&model, false)?,
            functions: self.devices.functions(&self.platform)?,
            model,
            topology: self.topology()?,
            memory: self.memory,
            seed: self.seed,
            start: device::Date::default(),
        };
        if let Some(path) = &self.restore {
            let name = path.display().to_string();
            let file = facts::source::open(path).with_context(|| format!("cannot open {name}"))?;
            let machine = Machine::restore(&configuration, &name, BufReader::new(file))?;
            return Ok(Built { machine, configuration });
        }
        let mut machine = Machine::new(&configuration)?;
        match self.firmware.files()? {
            Some(files) => files.power_on(&mut machine)?,
            None => load(&mut machine, self)?,
        }
        self.devices.feed(&mut machine)?;
        Ok(Built { machine, configuration })
    }
}

/// A module's file, and its command line.
fn path_of_module(module: &str) -> (&str, &str) {
    module.split_once(' ').unwrap_or((module, ""))
}

fn load(machine: &mut Machine, arguments: &Arguments) -> anyhow::Result<()> {
    let Some(kernel_path) = &arguments.kernel else { bail!("a kernel is missing") };
    let kernel = Named::open(kernel_path, LARGEST_KERNEL, KERNEL_LIMIT)?;
    let kernel_name = kernel_path.display().to_string();
    let open = |path: &Path| Named::open(path, arguments.memory, MEMORY_LIMIT);
    let initrd = arguments.initrd.as_deref().map(open).transpose()?;
    let initrd_name =
        arguments.initrd.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let mut modules = Vec::new();
    for module in &arguments.module {
        let (path, command_line) = path_of_module(module);
        modules.push((path, command_line, open(Path::new(path))?));
    }
    let modules: Vec<Module<'_>> = modules
        .iter()
        .map(|(name, command_line, file)| Module { file: file.source(name), command_line })
        .collect();
    machine
        .load(&Images {
            kernel: kernel.source(&kernel_name),
            initrd: initrd.as_ref().map(|file| file.source(&initrd_name)),
            modules: &modules,
            command_line: &arguments.append,
        })
        .map_err(|error| match error {
            MachineError::Memory(_) => Usage::of(error),
            _ => error.into(),
        })?;
    Ok(())
}
