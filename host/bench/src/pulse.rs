//! The machine's function for measuring interrupts, given to a guest: its MSI-X vector raises an
//! event that KVM turns into an interrupt of a virtual processor, or has the IOMMU post.
//!
//! The event is joined to KVM only when the guest runs and waits for it: kernels up to 6.12 decide
//! then whether an interrupt can be posted, and do not look again when AVIC comes later.

use crate::error::BenchError;
use crate::memory::Ram;
use crate::vfio::Function;
use crate::virtual_machine::VirtualMachine;
use arch::msi::MessageAddress;
use kvm_bindings::{KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_irq_routing_entry, kvm_msi};
use kvm_ioctls::VmFd;
use std::io;
use std::sync::Arc;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EventFd};

/// Registers of the function's first BAR. [docs/device-interrupts.md]
const CONTROL: u64 = 0x00;
const PERIOD: u64 = 0x04;
const COUNT: u64 = 0x08;
const SENT: u64 = 0x0C;
const PLACE_LOW: u64 = 0x10;
const PLACE_HIGH: u64 = 0x14;
const VECTORS: u64 = 0x18;
const REFUSED: u64 = 0x1C;
const RUNS: u32 = 1;
/// The interrupt's number in KVM's routes: behind the pins of the I/O APIC.
const GSI: u32 = crate::devices::IO_APIC_PINS as u32;

/// A function that a virtual machine has been given.
pub struct Pulse {
    function: Function,
    /// What the function reaches; it must outlive the function.
    _ram: Ram,
    vm: Arc<VmFd>,
    /// What the MSI-X vector raises, once it does.
    event: Option<EventFd>,
    address: String,
}

/// Where a guest takes an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// APIC ID of the virtual processor, at most 255.
    pub apic_id: u8,
    /// Of the handler.
    pub vector: u8,
}

impl Pulse {
    /// Takes the function of this host at `address`, such as `0000:00:1d.0`, for a virtual machine
    /// that has not run yet, and lets it reach all of the guest's memory.
    pub fn give_to(vm: &VirtualMachine, address: &str) -> Result<Self, BenchError> {
        let function = Function::open(address)?;
        let (ram, vm) = vm.parts();
        let lent = ram.lend_to(&function);
        let pulse = Self { function, _ram: ram, vm, event: None, address: address.into() };
        lent.map_err(|error| pulse.refused("VFIO_IOMMU_MAP_DMA", error))?;
        Ok(pulse)
    }

    /// Sends `count` interrupts, one each `period_ns`, each after a write to guest memory at
    /// `page`.
    pub fn start(
        &mut self,
        target: Target,
        page: u64,
        period_ns: u32,
        count: u32,
    ) -> Result<(), BenchError> {
        self.connect(target)?;
        let writes = [
            (CONTROL, 0),
            (PLACE_LOW, page as u32),
            (PLACE_HIGH, (page >> 32) as u32),
            (PERIOD, period_ns),
            (COUNT, count),
            (VECTORS, 1),
            (CONTROL, RUNS),
        ];
        let write = |(register, value)| self.function.write(register, value);
        writes.into_iter().try_for_each(write).map_err(|error| self.refused("its registers", error))
    }

    /// Joins the function's vector to a virtual processor's; the same event for both is what lets
    /// the kernel post. [KVM-API "KVM_IRQFD"]
    fn connect(&mut self, target: Target) -> Result<(), BenchError> {
        let mut route =
            kvm_irq_routing_entry { gsi: GSI, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
        let message = message(target);
        route.u.msi.address_lo = message.address_lo;
        route.u.msi.data = message.data;
        let routes = KvmIrqRouting::from_entries(&[route])
            .map_err(|error| self.refused("a route", io::Error::other(format!("{error:?}"))))?;
        self.vm
            .set_gsi_routing(&routes)
            .map_err(|error| BenchError::kvm("KVM_SET_GSI_ROUTING", error))?;
        if self.event.is_some() {
            return Ok(());
        }
        let event = EventFd::new(EFD_CLOEXEC).map_err(|error| self.refused("an event", error))?;
        self.vm.register_irqfd(&event, GSI).map_err(|error| BenchError::kvm("KVM_IRQFD", error))?;
        self.function
            .interrupt_by(&event)
            .map_err(|error| self.refused("VFIO_DEVICE_SET_IRQS", error))?;
        self.event = Some(event);
        Ok(())
    }

    /// Whether there are interrupts left to send.
    pub fn is_running(&self) -> Result<bool, BenchError> {
        Ok(self.read(CONTROL)? & RUNS != 0)
    }

    /// Interrupts sent, and those whose write was refused and that therefore were not.
    pub fn sent(&self) -> Result<(u32, u32), BenchError> {
        Ok((self.read(SENT)?, self.read(REFUSED)?))
    }

    /// Interrupts a virtual processor once, by KVM alone.
    pub fn tell(&self, target: Target) -> Result<(), BenchError> {
        let sent = self.vm.signal_msi(message(target));
        sent.map(drop).map_err(|error| BenchError::kvm("KVM_SIGNAL_MSI", error))
    }

    fn read(&self, register: u64) -> Result<u32, BenchError> {
        self.function.read(register).map_err(|error| self.refused("its registers", error))
    }

    fn refused(&self, what: &str, error: io::Error) -> BenchError {
        BenchError::Function {
            address: self.address.clone(),
            what: what.into(),
            error: error.to_string(),
        }
    }
}

/// Fixed, to one processor by its physical identifier.
fn message(target: Target) -> kvm_msi {
    kvm_msi {
        address_lo: MessageAddress::new()
            .with_window(0xFEE)
            .with_destination_low(target.apic_id)
            .into_bits(),
        data: target.vector.into(),
        ..kvm_msi::default()
    }
}
