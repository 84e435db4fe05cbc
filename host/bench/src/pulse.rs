//! The machine's function for measuring interrupts, given to a guest that needs no PCI for it: the
//! guest says where it takes the interrupt, and this process writes the function's registers.

use crate::error::BenchError;
use crate::memory::Ram;
use crate::routes::{Vector, kvm_message};
use crate::vfio::{Function, Region};
use crate::virtual_machine::VirtualMachine;
use arch::address::Device;
use arch::msi::{MessageAddress, MessageSignalled};
use kvm_ioctls::VmFd;
use std::sync::Arc;

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

/// A function that a virtual machine has been given.
pub struct Pulse {
    function: Function,
    registers: Region,
    /// What the function reaches; it must outlive the function.
    _ram: Ram,
    vm: Arc<VmFd>,
    vector: Vector,
    /// Whether the function raises the vector's event.
    is_connected: bool,
}

/// Where a guest takes an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// APIC ID of the vCPU, at most 255.
    pub apic_id: u8,
    /// Of the handler.
    pub vector: u8,
}

impl Pulse {
    /// Takes the function of this host at `address`, such as `0000:00:1d.0`, for a virtual machine
    /// that has not run yet, and lets it reach all of the guest's memory.
    pub fn give_to(vm: &VirtualMachine, address: &str) -> Result<Self, BenchError> {
        let function = Function::open(address)?;
        let registers = function.region(0)?;
        let (ram, vm, routes) = vm.parts();
        let lent = ram.lend_to(&function);
        lent.map_err(|error| function.refused("VFIO_IOMMU_MAP_DMA", error))?;
        function.set_bus_master(true)?;
        let vector = Vector::new(&routes);
        let vector = vector.map_err(|error| function.refused("an event", error))?;
        Ok(Self { function, registers, _ram: ram, vm, vector, is_connected: false })
    }

    /// Sends nothing more of what it was started for.
    pub fn stop(&self) -> Result<(), BenchError> {
        self.write(CONTROL, 0)
    }

    /// Sends `count` interrupts, one each `period_ns`, each after a write of 16 bytes to guest
    /// memory at `page`: its number, from 1 on, and the time.
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
        writes.into_iter().try_for_each(|(register, value)| self.write(register, value))
    }

    /// Joins the function's vector to a vCPU's.
    fn connect(&mut self, target: Target) -> Result<(), BenchError> {
        self.vector.join(message(target))?;
        if !self.is_connected {
            self.function.interrupt_by(std::iter::once(&self.vector.event))?;
            self.is_connected = true;
        }
        Ok(())
    }

    /// KVM takes no more of its interrupts, and no IOMMU posts them, until it is started again.
    pub fn part(&mut self) -> Result<(), BenchError> {
        self.vector.part()
    }

    /// Whether there are interrupts left to send.
    pub fn is_running(&self) -> Result<bool, BenchError> {
        Ok(self.read(CONTROL)? & RUNS != 0)
    }

    /// Interrupts sent, and those whose write was refused and that therefore were not.
    pub fn sent(&self) -> Result<(u32, u32), BenchError> {
        Ok((self.read(SENT)?, self.read(REFUSED)?))
    }

    /// Interrupts a vCPU once, by KVM alone.
    pub fn tell(&self, target: Target) -> Result<(), BenchError> {
        let sent = self.vm.signal_msi(kvm_message(message(target), false));
        sent.map(drop).map_err(|error| BenchError::kvm("KVM_SIGNAL_MSI", error))
    }

    fn read(&self, register: u64) -> Result<u32, BenchError> {
        let mut bytes = [0; 4];
        let read = self.function.read(&self.registers, register, &mut bytes);
        read.map_err(|error| self.function.refused("its registers", error))?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn write(&self, register: u64, value: u32) -> Result<(), BenchError> {
        let written = self.function.write(&self.registers, register, &value.to_le_bytes());
        written.map_err(|error| self.function.refused("its registers", error))
    }
}

/// Fixed, to one processor by its physical identifier.
fn message(target: Target) -> MessageSignalled {
    let address = MessageAddress::new().with_window(0xFEE).with_destination_low(target.apic_id);
    MessageSignalled { address: Device(address.into_bits().into()), data: target.vector.into() }
}
