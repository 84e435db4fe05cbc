//! The computer as a whole: its parts, how it is put together, and how software gets into it.

use crate::channel::Channels;
use crate::clocked::Clocked;
use crate::cost::{CostError, CostProfile};
use crate::delivery::{Delivered, Inbox, Postings};
use crate::firmware::{self, FirmwareOptions, TooLittleMemory};
use crate::load::{self, BootRequest, BootState, EntryMode, LoadError, Module, Source};
use crate::moments::Moments;
use crate::outcome::Outcome;
use crate::recall::Recall;
use crate::store_buffers;
use crate::topology::{BadTopology, Level, Topology};
use crate::turn::Turn;
use crate::waits::Waits;
use crate::wiring::Wiring;
use arch::apic::ApicBase;
use arch::control::{Cr0, Cr4, Efer};
use arch::cpuid::Feature;
use arch::identity::CpuIndex;
use arch::segment::{Attributes, Segment, SegmentRegister};
use arch::time::Picoseconds;
use bus::{GuestMemory, HostMemoryExhausted, MemoryLayout, StoreBuffer};
use cpu::decode::Dialect;
use cpu::{Attention, CodeCache, Cpu, CpuModel, ModelError, Placement};
use device::onboard::Onboard;
use device::{ChipsetConfiguration, Date, Request};
use interrupt::local_apic::{LocalApic, LocalApicModel};
use serde::{Deserialize, Serialize};

/// FFh is everyone.
const LAST_XAPIC_ID: u32 = 0xFE;

/// What to build.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What the processors implement; they are all alike.
    pub model: CpuModel,
    /// What things take; without it, what the model's own profile says.
    pub costs: Option<CostProfile>,
    /// How many processors there are, and what they share.
    pub topology: Topology,
    /// Bytes of RAM.
    pub memory: u64,
    /// Seeds the processors' random-number generators.
    pub seed: u64,
    /// What the real-time clock shows at power-on.
    pub start: Date,
    /// The IOMMU, if there is to be one; [`crate::server_iommu`] has those of models.
    pub iommu: Option<iommu::Model>,
    /// Functions on the PCI bus, in the order of their places among those of their kind.
    pub functions: Vec<Request>,
}

impl Configuration {
    /// Processors and RAM, at the model's own costs and from the clock's first moment.
    pub fn of(model: CpuModel, topology: Topology, memory: u64) -> Self {
        Self {
            model,
            costs: None,
            topology,
            memory,
            seed: 0,
            start: Date::default(),
            iommu: None,
            functions: Vec::new(),
        }
    }
}

/// The files to start with.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// What runs first, in one of the formats of [`load`].
    pub kernel: Source<'a>,
    /// The initial RAM disk.
    pub initrd: Option<Source<'a>>,
    /// Further files that a Multiboot or PVH kernel is handed.
    pub modules: &'a [Module<'a>],
    /// The kernel's, without a NUL.
    pub command_line: &'a str,
}

/// Why a machine cannot be built or started.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The CPU model's name or its changes.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model has no cost profile, or a broken one.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// No such shape of machine is possible.
    #[error(transparent)]
    Topology(#[from] BadTopology),
    /// Firmware's tables do not fit.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// The host refused the guest's RAM.
    #[error("this host cannot give the machine {} MiB of memory; ask for less", .0.size >> 20)]
    HostMemory(HostMemoryExhausted),
    /// What was to be started in the place of firmware.
    #[error("{file}: {error}")]
    Firmware {
        /// Its name, as given.
        file: String,
        /// What is wrong with it.
        error: firmware::NotFirmware,
    },
    /// The kernel, or what goes with it, cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// All state that a snapshot holds besides RAM.
#[derive(Clone, Serialize, Deserialize)]
pub struct State {
    /// By index; the first is the bootstrap processor.
    pub cpus: Vec<Cpu>,
    /// Everything outside the processors.
    pub wiring: Wiring,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) postings: Postings,
    /// What was configured; messages take their times from it.
    pub topology: Topology,
    /// The latest moment that the schedule has dealt with.
    pub now: Picoseconds,
    /// By processor: what it has stored and others do not see. None where all is seen at once.
    pub(crate) stores: Vec<StoreBuffer>,
    /// The turn that the last run's limits cut short.
    pub(crate) turn: Option<Turn>,
}

impl State {
    /// What firmware's tables describe, these among them.
    pub(crate) fn firmware_options<'a>(&'a self, tables: &'a [Vec<u8>]) -> FirmwareOptions<'a> {
        let model = self.cpus.first().map(|cpu| &cpu.model);
        FirmwareOptions { extra_tables: tables, model, ..FirmwareOptions::new(&self.topology) }
    }
}

/// An emulated computer.
pub struct Machine {
    /// What a snapshot holds besides RAM.
    pub state: State,
    /// RAM, with the lines of it that hold decoded code.
    pub memory: GuestMemory,
    /// What things take; [`Self::set_costs`] changes it whole.
    pub costs: CostProfile,
    /// Code at the model's clock.
    pub(crate) cache: CodeCache,
    /// Code of processors at clocks that software chose.
    pub(crate) clocked: Clocked,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) console: Vec<(u8, u8)>,
    pub(crate) channels: Channels,
    pub(crate) awaits_output: bool,
    pub(crate) moments: Moments,
    pub(crate) waits: Waits,
    /// Empty between deliveries.
    pub(crate) delivered: Delivered,
    /// The processor that ended the last run before an instruction that a debugger wants to stop
    /// at.
    pub(crate) at_point: Option<CpuIndex>,
    /// Rings to make a run return before its limits.
    pub recall: Recall,
}

impl Configuration {
    /// What things take.
    pub fn costs(&self) -> Result<CostProfile, CostError> {
        match &self.costs {
            Some(costs) => Ok(costs.clone()),
            None => CostProfile::named(self.model.costs()),
        }
    }
}

impl Machine {
    /// A computer at power-on, with empty memory.
    pub fn new(configuration: &Configuration) -> Result<Self, MachineError> {
        let costs = configuration.costs()?;
        let memory = allocate(MemoryLayout::new(configuration.memory))?;
        let topology = configuration.topology;
        let has_amd_iommu =
            matches!(configuration.iommu, Some(iommu::Model { part: iommu::Part::AmdVi(_), .. }));
        let mut functions = configuration.functions.clone();
        functions.extend(has_amd_iommu.then_some(Onboard::AmdIommu.into()));
        let chipset = ChipsetConfiguration {
            cpus: topology.cpu_count(),
            memory_size: configuration.memory,
            start: configuration.start,
            functions,
            ..ChipsetConfiguration::default()
        };
        let cpus: Vec<Cpu> =
            topology.cpus().map(|index| processor(configuration, &costs, index)).collect();
        let model = &configuration.model;
        let mut cache = CodeCache::new(costs.instruction_costs(model), model.dialect());
        let stores = store_buffers::of(configuration);
        if stores.is_empty() {
            cache.translate_as_wanted();
        } else {
            cache.keep_stores();
        }
        Ok(Self {
            state: State {
                inboxes: vec![Default::default(); cpus.len()],
                cpus,
                wiring: Wiring::new(&chipset, configuration.iommu),
                postings: Postings::every(configuration.iommu),
                topology,
                now: Picoseconds::ZERO,
                stores,
                turn: None,
            },
            memory,
            costs,
            cache,
            clocked: Clocked::default(),
            outcome: None,
            console: Vec::new(),
            channels: Channels::default(),
            awaits_output: false,
            moments: Moments::default(),
            waits: Waits::default(),
            delivered: Delivered::default(),
            at_point: None,
            recall: Recall::default(),
        })
    }

    /// Does what firmware and boot loader do; the bootstrap processor then stands at the kernel's
    /// first instruction. Answers what was loaded, for readers.
    pub fn load(&mut self, images: &Images<'_>) -> Result<String, MachineError> {
        let tables = self.remapping_tables();
        let options = self.state.firmware_options(&tables);
        let firmware = firmware::install(&mut self.memory, &options)?;
        let request = BootRequest {
            kernel: images.kernel,
            command_line: images.command_line,
            initrd: images.initrd,
            modules: images.modules,
            memory_map: &firmware.memory_map,
            rsdp: Some(firmware.rsdp),
        };
        let boot = load::load(&mut self.memory, &request)?;
        self.prepare_local_apics();
        enter(&mut self.state.cpus[0], &boot);
        Ok(boot.description)
    }

    /// The tables that announce the IOMMU, if there is one.
    pub(crate) fn remapping_tables(&self) -> Vec<Vec<u8>> {
        let iommu = self.state.wiring.iommu.as_ref();
        iommu.map(|iommu| firmware::remapping_table(&iommu.part())).into_iter().collect()
    }

    /// Firmware leaves the 8259s connected to the bootstrap processor through LINT0 (virtual wire).
    /// Identifiers that xAPIC mode cannot address, it brings into x2APIC mode, with all others.
    fn prepare_local_apics(&mut self) {
        let topology = &self.state.topology;
        let needs_x2apic = topology.cpus().any(|cpu| topology.apic_id(cpu).0 > LAST_XAPIC_ID);
        for cpu in &mut self.state.cpus {
            let mut effects = Vec::new();
            let is_bootstrap = cpu.apic.model().is_bootstrap;
            let lint0 = if is_bootstrap { 0x700 } else { 0x1_0000 };
            let now = cpu.clock.now();
            for (offset, value) in [(0xF0, 0x1FF), (0x350, lint0), (0x360, 0x400)] {
                cpu.apic.write_mmio(offset, 4, value, now, &mut effects);
            }
            if needs_x2apic && cpu.model.has(Feature::X2apic) {
                let base = ApicBase::from_bits(cpu.apic.base()).with_is_x2apic(true);
                let written = cpu.apic.write_base(base.into_bits(), now, cpu.model.physical_bits());
                debug_assert!(written.is_ok(), "from xAPIC to x2APIC mode");
            }
        }
    }

    /// Lets the host execute blocks that have run so often itself, translated. Nothing shows it but
    /// the host's time. A new machine does so by itself, as [`cpu::native::wanted_heat`] says.
    pub fn translate(&mut self, runs: u16) -> Result<(), cpu::native::Absence> {
        self.clocked.clear();
        self.cache.translate(runs)
    }

    /// From now on all is interpreted.
    pub fn interpret(&mut self) {
        self.clocked.clear();
        self.cache.interpret();
    }

    /// Has every `every`th entry into translated code repeated in the interpreter and compared, but
    /// for code of processors whose clock software has changed.
    pub fn verify(&mut self, every: u64) {
        self.cache.verify(every);
    }

    /// What came of [`Machine::verify`], if it was asked for.
    pub fn verified(&self) -> Option<&cpu::native::Verified> {
        self.cache.verified()
    }

    /// Whether blocks are translated.
    pub fn translates(&self) -> bool {
        self.cache.translates()
    }

    /// From now on everything takes what `costs` say.
    pub fn set_costs(&mut self, costs: CostProfile) {
        if let Some(cpu) = self.state.cpus.first() {
            // What decoded code takes is kept with it.
            self.cache.set_costs(costs.instruction_costs(&cpu.model));
        }
        for cpu in &mut self.state.cpus {
            cpu.clock.set_costs(costs.step_costs_at(cpu.clock.core_hertz()));
        }
        self.clocked.clear();
        self.costs = costs;
    }

    /// Instructions completed by all processors.
    pub fn instructions(&self) -> u64 {
        self.state.cpus.iter().map(|cpu| cpu.clock.instructions()).sum()
    }
}

/// Memory, all of it zero.
pub(crate) fn allocate(layout: MemoryLayout) -> Result<GuestMemory, MachineError> {
    GuestMemory::allocate(layout).map_err(MachineError::HostMemory)
}

fn processor(configuration: &Configuration, costs: &CostProfile, index: CpuIndex) -> Cpu {
    let topology = &configuration.topology;
    let mut model = configuration.model.clone();
    let id = topology.apic_id(index);
    model.placement = Placement {
        apic_id: id.0,
        package_cpus: topology.cpus_per(Level::Socket).into(),
        thread_bits: topology.shift(Level::Core) as u8,
        complex_bits: topology.shift(Level::Complex) as u8,
        die_bits: topology.shift(Level::Die) as u8,
        package_bits: topology.shift(Level::Socket) as u8,
        core_cpus: topology.cpus_per(Level::Core),
        complex_cpus: topology.cpus_per(Level::Complex),
        die_cpus: topology.cpus_per(Level::Die),
    };
    let is_bootstrap = index.0 == 0;
    let base = match model.dialect() {
        Dialect::Amd => LocalApicModel::amd(id, is_bootstrap),
        Dialect::Intel => LocalApicModel::intel(id, is_bootstrap),
    };
    // [SDM3 "APIC Timer"]
    let timer_hertz = model.crystal().map_or(base.timer_hertz, |crystal| crystal.hertz);
    let apic = LocalApic::new(LocalApicModel {
        timer_hertz,
        supports_x2apic: model.has(Feature::X2apic),
        supports_tsc_deadline: model.has(Feature::TscDeadline),
        has_extended_space: model.has(Feature::Extapic),
        ..base
    });
    let mut cpu = Cpu::new(index, model, apic, configuration.seed);
    cpu.clock.set_costs(costs.step_costs(&configuration.model));
    cpu
}

/// Puts a processor into the state that a boot protocol asks for.
fn enter(cpu: &mut Cpu, boot: &BootState) {
    cpu.control.set_cr0(Cr0::PROTECTION_ENABLE | Cr0::EXTENSION_TYPE);
    cpu.control.gdtr.base = boot.gdt.0;
    cpu.control.gdtr.limit = boot.gdt_limit;
    let long = boot.mode == EntryMode::Long64;
    if let (true, Some(tables)) = (long, boot.cr3) {
        cpu.control.set_cr4(Cr4::PAE);
        cpu.control.cr3 = tables.0;
        cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE);
        cpu.control.switch_cr0(Cr0::PAGING, true);
    }
    let flat = |selector, attributes| Segment {
        selector,
        attributes: Attributes(attributes),
        limit: 0xFFFF_FFFF,
        base: 0,
    };
    for register in SegmentRegister::ALL {
        let segment = match register {
            SegmentRegister::Cs => flat(boot.code_selector, if long { 0xA9B } else { 0xC9B }),
            _ => flat(boot.data_selector, 0xC93),
        };
        cpu.registers.set_segment(register, segment);
    }
    cpu.control.tr = Segment {
        selector: boot.task_selector,
        attributes: Attributes(0x8B),
        limit: 0x67,
        base: 0,
    };
    cpu.registers.gpr.fill(0);
    for (number, value) in [
        (0, boot.registers.rax),
        (3, boot.registers.rbx),
        (4, boot.registers.rsp),
        (6, boot.registers.rsi),
    ] {
        cpu.registers.gpr[number] = value;
    }
    cpu.registers.ip = boot.entry;
    cpu.pending.raise(Attention::INTERRUPT);
    cpu.translation.tlb.flush_all();
    cpu.update_access_mode();
}
