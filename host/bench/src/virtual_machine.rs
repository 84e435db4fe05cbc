//! Making a virtual machine.

use crate::configuration::{Configuration, InterruptChip, Timer};
use crate::devices::{Devices, IO_APIC_PINS};
use crate::error::BenchError;
use crate::inhibit::{Inhibit, Inhibitor, set_reinjection};
use crate::lines::Raiser;
use crate::memory::{Ram, empty_image};
use crate::message::Messenger;
use crate::processor;
use crate::routes::Routes;
use crate::saver::{Saver, Stop};
use crate::tickets::Tickets;
use arch::identity::CpuIndex;
use board::Images;
use board::firmware::{self, FirmwareOptions};
use board::load::{self, BootRequest};
use board::topology::Topology;
use kvm_bindings::{
    KVM_CAP_SPLIT_IRQCHIP, KVM_CAP_X2APIC_API, KVM_PIT_SPEAKER_DUMMY,
    KVM_X2APIC_API_DISABLE_BROADCAST_QUIRK, KVM_X2APIC_API_USE_32BIT_IDS, kvm_enable_cap,
    kvm_pit_config,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use std::sync::{Arc, Mutex, PoisonError};

/// FFh is everyone.
const LAST_XAPIC_ID: u32 = 0xFE;
/// Where Intel's processors keep a task state segment for real mode; below the firmware's ROM.
const TASK_STATE: usize = 0xFFFB_D000;

/// A virtual machine that stands at its kernel's first instruction.
pub struct VirtualMachine {
    // In this order: the virtual machine ends with the last of what holds it, and its memory after.
    pub(crate) vcpus: Vec<VcpuFd>,
    /// What the virtual machine is inhibited by, for as long as it lives.
    _spare: Option<VcpuFd>,
    pub(crate) devices: Arc<Mutex<Devices>>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) is_pinned: bool,
    pub(crate) is_read_by_line: bool,
    description: String,
}

impl VirtualMachine {
    /// Makes the machine and loads its images. Fails as [`BenchError`] says.
    pub fn new(configuration: &Configuration, images: &Images<'_>) -> Result<Self, BenchError> {
        let kvm = Kvm::new().map_err(BenchError::NoKvm)?;
        check(&kvm, configuration)?;
        let vm = kvm.create_vm().map_err(|error| BenchError::kvm("KVM_CREATE_VM", error))?;
        let vm = Arc::new(vm);
        let topology = Topology::of_cores(configuration.vcpus)
            .map_err(|error| BenchError::Board(error.into()))?;
        let (ram, boot) = load(configuration, images, &topology)?;
        ram.give_to(&vm)?;
        vm.set_tss_address(TASK_STATE)
            .map_err(|error| BenchError::kvm("KVM_SET_TSS_ADDR", error))?;
        create_interrupt_chip(&vm, configuration)?;
        let supported = processor::supported_cpuid(&kvm)?;
        let mut vcpus = Vec::new();
        for index in 0..configuration.vcpus {
            let id = topology.apic_id(CpuIndex(index)).0;
            let vcpu = vm
                .create_vcpu(id.into())
                .map_err(|error| BenchError::kvm("KVM_CREATE_VCPU", error))?;
            processor::set_cpuid(&vcpu, &supported, configuration, &topology, id)?;
            processor::enable_fast_strings(&vcpu)?;
            vcpus.push(vcpu);
        }
        let last = topology.apic_id(CpuIndex(configuration.vcpus - 1)).0;
        if configuration.has_x2apic && last > LAST_XAPIC_ID {
            vcpus.iter().try_for_each(processor::enter_x2apic)?;
        }
        processor::start(&vcpus[0], &boot)?;
        let spare = spare(&vm, configuration)?;
        let devices = Devices::new(configuration, ram, vm);
        Ok(Self {
            stop: Arc::new(Stop::new(vcpus.len())),
            vcpus,
            devices: Arc::new(Mutex::new(devices)),
            is_pinned: configuration.is_pinned,
            is_read_by_line: false,
            _spare: spare,
            description: boot.description,
        })
    }

    /// What the guest prints is looked at when a line ends, not from time to time.
    pub fn read_by_line(&mut self) {
        self.is_read_by_line = true;
    }

    /// Gives the guest the function of this host at `address`, such as `0000:00:15.0`, which is
    /// bound to vfio-pci: a function on its bus 0, with the same registers and MSI-X vectors.
    /// For a virtual machine that has not run yet.
    pub fn give(&self, address: &str) -> Result<(), BenchError> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).give(address)
    }

    /// What KVM inhibits this virtual machine for while it runs; it must not run yet. None for
    /// KVM's timer chip, which it must have, and which inhibits while it injects ticks late that
    /// the guest missed.
    pub fn inhibitor(&self, inhibit: Option<Inhibit>) -> Result<Inhibitor, BenchError> {
        let (_, vm, _) = self.parts();
        Inhibitor::new(vm, self.vcpus.len() as u64, inhibit)
    }

    /// Who sends messages to its processors from a thread of the host.
    pub fn messenger(&self) -> Result<Messenger, BenchError> {
        let (_, vm, _) = self.parts();
        let count = self.vcpus.len() as u16;
        let topology =
            Topology::of_cores(count).map_err(|error| BenchError::Board(error.into()))?;
        Ok(Messenger::new(vm, count, &topology))
    }

    /// Who raises lines of its I/O APIC from a thread of the host; it must not run yet.
    pub fn raiser(&self) -> Raiser {
        Raiser::new(&self.devices)
    }

    /// Who makes a ledger of so many accounts, once the guest has said where it is.
    pub fn tickets(&self, accounts: usize) -> impl FnOnce(u64) -> Tickets + Send + 'static {
        let (ram, ..) = self.parts();
        move |at| Tickets::new(ram, at, accounts)
    }

    /// Who saves and restores its processors while it runs.
    pub fn saver(&self) -> Saver {
        Saver(self.stop.clone())
    }

    /// Its memory, itself as KVM has it, and its routes of messages.
    pub(crate) fn parts(&self) -> (Ram, Arc<VmFd>, Arc<Mutex<Routes>>) {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.parts()
    }

    /// What was loaded, for readers.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// A processor that the guest knows nothing of, where one is needed to inhibit the virtual machine.
fn spare(vm: &VmFd, configuration: &Configuration) -> Result<Option<VcpuFd>, BenchError> {
    let Some(inhibit) = configuration.inhibit else { return Ok(None) };
    let spare = vm
        .create_vcpu(configuration.vcpus.into())
        .map_err(|error| BenchError::kvm("KVM_CREATE_VCPU", error))?;
    inhibit.set(&spare)?;
    Ok(Some(spare))
}

/// Bytes of a guest, which lie below the hole for devices.
pub const MOST_MEMORY: u64 = bus::HOLE_START;

fn check(kvm: &Kvm, configuration: &Configuration) -> Result<(), BenchError> {
    let most = kvm.get_max_vcpus();
    if configuration.vcpus == 0 || usize::from(configuration.vcpus) > most {
        return Err(BenchError::Processors { asked: configuration.vcpus, most });
    }
    let most = MOST_MEMORY;
    if configuration.memory > most {
        return Err(BenchError::TooMuchMemory { asked: configuration.memory, most });
    }
    if configuration.timer != Timer::Process && configuration.interrupt_chip != InterruptChip::Full
    {
        return Err(BenchError::TimerWithoutChip);
    }
    Ok(())
}

/// Fills memory as firmware and boot loader do.
fn load(
    configuration: &Configuration,
    images: &Images<'_>,
    topology: &Topology,
) -> Result<(Ram, load::BootState), BenchError> {
    let mut image = empty_image(configuration.memory)?;
    let options = FirmwareOptions::new(topology);
    let firmware = firmware::install(&mut image, &options).map_err(board::MachineError::from)?;
    let request = BootRequest {
        kernel: images.kernel,
        command_line: images.command_line,
        initrd: images.initrd,
        modules: images.modules,
        memory_map: &firmware.memory_map,
        rsdp: Some(firmware.rsdp),
    };
    let boot = load::load(&mut image, &request).map_err(board::MachineError::from)?;
    Ok((Ram::of_image(&image)?, boot))
}

fn create_interrupt_chip(vm: &VmFd, configuration: &Configuration) -> Result<(), BenchError> {
    match configuration.interrupt_chip {
        InterruptChip::Full => {
            vm.create_irq_chip().map_err(|error| BenchError::kvm("KVM_CREATE_IRQCHIP", error))?;
        }
        InterruptChip::Split => {
            enable(vm, KVM_CAP_SPLIT_IRQCHIP, IO_APIC_PINS.into(), "KVM_CAP_SPLIT_IRQCHIP")?;
        }
    }
    if configuration.has_wide_ids() {
        let flags = KVM_X2APIC_API_USE_32BIT_IDS | KVM_X2APIC_API_DISABLE_BROADCAST_QUIRK;
        enable(vm, KVM_CAP_X2APIC_API, flags.into(), "KVM_CAP_X2APIC_API")?;
    }
    if configuration.timer == Timer::Process {
        return Ok(());
    }
    let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..kvm_pit_config::default() };
    vm.create_pit2(pit).map_err(|error| BenchError::kvm("KVM_CREATE_PIT2", error))?;
    if configuration.timer == Timer::KernelDiscard {
        set_reinjection(vm, false)?;
    }
    Ok(())
}

fn enable(vm: &VmFd, cap: u32, argument: u64, request: &'static str) -> Result<(), BenchError> {
    let capability = kvm_enable_cap { cap, args: [argument, 0, 0, 0], ..Default::default() };
    vm.enable_cap(&capability).map_err(|error| BenchError::kvm(request, error))
}
