//! The devices of the virtual machine, shared by its processors' threads.

use crate::configuration::{Configuration, InterruptChip, Timer};
use crate::error::BenchError;
use crate::given::Given;
use crate::lines::{Change, Lines};
use crate::memory::{RAM_SLOTS, Ram};
use crate::outcome::Outcome;
use crate::routes::{PinMessages, Routes, kvm_message};
use crate::vfio::Function;
use arch::address::SystemPhysical;
use arch::identity::{RequesterId, Vector};
use arch::msi::MessageSignalled;
use arch::pci::FunctionAddress;
use arch::time::Picoseconds;
use bus::{Context, Effect, Outbox};
use device::registry::Request;
use device::storage::Disk;
use device::virtio::Model;
use device::virtio::block::Block;
use device::{Chipset, ChipsetConfiguration, Date, map};
use interrupt::io_apic::{IoApic, IoApicModel};
use kvm_ioctls::VmFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Instant;

/// Where the I/O APIC is, and how much it decodes.
const IO_APIC: std::ops::Range<u64> = 0xFEC0_0000..0xFEC0_1000;
/// Pins of the I/O APIC, as in KVM's own.
pub(crate) const IO_APIC_PINS: u8 = 24;

/// A disk of so many bytes, if there are any.
fn disk(bytes: u64) -> Option<Request> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
    let disk = Disk::in_memory(vec![0; bytes]);
    Some(Model::Block(Block { disk, serial: "disk0".into() }).into())
}

/// Everything outside the processors that this process emulates.
pub(crate) struct Devices {
    chipset: Chipset,
    /// Functions of the host; in front of the memory that they reach.
    given: Vec<Given>,
    /// Disks in front of them on the bus.
    disks: u8,
    /// Of KVM's memory slots.
    next_slot: u32,
    routes: Arc<Mutex<Routes>>,
    has_wide_ids: bool,
    /// None where KVM has the interrupt chip.
    io_apic: Option<IoApic>,
    has_kernel_timer: bool,
    /// Devices whose lines a thread of the host raises, where there are any.
    pub(crate) lines: Option<Lines>,
    vm: Arc<VmFd>,
    /// Behind the virtual machine, which must not outlive it.
    ram: Ram,
    started: Instant,
    /// What the guest wrote to its serial ports: (port, byte).
    pub(crate) console: Vec<(u8, u8)>,
    /// Who is woken at the end of each line of it.
    pub(crate) reader: Option<Thread>,
    pub(crate) outcome: Option<Outcome>,
}

impl Devices {
    pub(crate) fn new(configuration: &Configuration, ram: Ram, vm: Arc<VmFd>) -> Self {
        let chipset = Chipset::new(&ChipsetConfiguration {
            cpus: configuration.vcpus,
            memory_size: configuration.memory,
            start: Date::default(),
            functions: disk(configuration.disk).into_iter().collect(),
            ..ChipsetConfiguration::default()
        });
        let model =
            IoApicModel { version: 0x20, pins: IO_APIC_PINS, requester: RequesterId(0x00A0) };
        let is_split = configuration.interrupt_chip == InterruptChip::Split;
        Self {
            chipset,
            given: Vec::new(),
            disks: u8::from(configuration.disk > 0),
            next_slot: RAM_SLOTS,
            routes: Arc::new(Mutex::new(Routes::new(configuration, vm.clone()))),
            has_wide_ids: configuration.has_wide_ids(),
            io_apic: is_split.then(|| IoApic::new(model)),
            has_kernel_timer: configuration.timer != Timer::Process,
            lines: None,
            ram,
            vm,
            started: Instant::now(),
            console: Vec::new(),
            reader: None,
            outcome: None,
        }
    }

    /// The guest's memory, the virtual machine as KVM has it, and its routes of messages.
    pub(crate) fn parts(&self) -> (Ram, Arc<VmFd>, Arc<Mutex<Routes>>) {
        (self.ram.clone(), self.vm.clone(), self.routes.clone())
    }

    /// Puts the host's function at `address` on the guest's bus.
    pub(crate) fn give(&mut self, address: &str) -> Result<(), BenchError> {
        let function = Function::open(address)?;
        let lent = self.ram.lend_to(&function);
        lent.map_err(|error| function.refused("VFIO_IOMMU_MAP_DMA", error))?;
        let device = map::FIRST_VIRTIO_DEVICE + self.disks + self.given.len() as u8;
        let place = FunctionAddress::new(0, device, 0);
        let (pci, slot) = (&mut self.chipset.pci, &mut self.next_slot);
        self.given.push(Given::new(function, pci, place, &self.routes, slot)?);
        Ok(())
    }

    /// Makes the functions as the guest's registers say. What the host refuses ends the run.
    fn settle_given(&mut self) {
        for given in &mut self.given {
            if let Err(error) = given.settle(&mut self.chipset.pci, &self.vm) {
                self.outcome.get_or_insert(Outcome::Failed(error.to_string()));
            }
        }
    }

    /// The function that answers at an address, its region and the offset in that.
    fn given_at(&self, address: u64) -> Option<(usize, usize, u64)> {
        self.given.iter().enumerate().find_map(|(index, given)| {
            let (bar, offset) = given.decode(&self.chipset.pci, address)?;
            Some((index, bar, offset))
        })
    }

    /// Time since the virtual machine was made.
    fn now(&self) -> Picoseconds {
        Picoseconds(self.started.elapsed().as_nanos() as u64 * 1000)
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Chipset, &mut Context<'_>) -> T) -> T {
        let mut outbox = Outbox::default();
        let now = self.now();
        let mut context = Context { now, memory: &mut self.ram, outbox: &mut outbox };
        let result = act(&mut self.chipset, &mut context);
        let effects: Vec<Effect> = outbox.drain().map(|(_, _, effect)| effect).collect();
        for effect in effects {
            self.settle(effect);
        }
        result
    }

    fn settle(&mut self, effect: Effect) {
        match effect {
            Effect::Line { gsi, asserted } => self.set_line(gsi, asserted),
            Effect::MessageSignalled(message) => self.signal(message),
            Effect::Console { port, byte } => {
                self.console.push((port, byte));
                if let Some(reader) = self.reader.as_ref().filter(|_| byte == b'\n') {
                    reader.unpark();
                }
            }
            Effect::PowerOff => self.end(Outcome::PowerOff),
            Effect::Reset => self.end(Outcome::Reset),
            Effect::DebugExit { value } => self.end(Outcome::DebugExit(value)),
            Effect::Interrupt { .. }
            | Effect::EndOfInterrupt { .. }
            | Effect::LegacyInterrupt { .. }
            | Effect::Doorbell { .. }
            | Effect::ChannelOutput { .. } => {}
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
    }

    pub(crate) fn set_line(&mut self, gsi: u8, asserted: bool) {
        let is_kernels = self.has_kernel_timer && gsi == map::PIT_LINE;
        match &mut self.io_apic {
            _ if is_kernels => {}
            Some(io_apic) => {
                let pin = if gsi == map::PIT_LINE { map::PIT_IO_APIC_PIN } else { gsi };
                let mut effects = Vec::new();
                io_apic.set_line(pin, asserted, &mut effects);
                self.settle_all(effects);
            }
            // A line that KVM refuses does not exist; the guest cannot have unmasked it.
            None => drop(self.vm.set_irq_line(gsi.into(), asserted)),
        }
    }

    /// Before a pin sends: KVM then tells of its EOI.
    fn route_pins(&mut self, pins: PinMessages) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = routes.set_pins(pins) {
            drop(routes);
            self.end(Outcome::Failed(error.to_string()));
        }
    }

    fn settle_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.settle(effect);
        }
    }

    /// Delivers a message; the answer of KVM is the number of local APICs that took it.
    fn signal(&mut self, message: MessageSignalled) {
        let msi = kvm_message(message, self.has_wide_ids);
        let taken = self.vm.signal_msi(msi).unwrap_or(0);
        if let (false, Some(io_apic)) = (taken > 0, &mut self.io_apic) {
            io_apic.not_accepted(message);
        }
    }

    pub(crate) fn port_in(&mut self, port: u16, data: &mut [u8]) {
        let size = data.len() as u8;
        let value = self.with(|chipset, cx| chipset.port_in(cx, port, size));
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }

    pub(crate) fn port_out(&mut self, port: u16, data: &[u8]) {
        let mut value = [0; 4];
        value[..data.len()].copy_from_slice(data);
        let value = u32::from_le_bytes(value);
        if let Some((lines, line)) = self.lines.as_ref().zip(Lines::of_port(port)) {
            if let Some(Change { pin, is_asserted }) = lines.serve(line, value) {
                self.set_line(pin, is_asserted);
            }
            return;
        }
        self.with(|chipset, cx| chipset.port_out(cx, port, data.len() as u8, value));
        if (map::PCI_CONFIGURATION_DATA..map::PCI_CONFIGURATION_END).contains(&port) {
            self.settle_given();
        }
    }

    pub(crate) fn read(&mut self, address: u64, data: &mut [u8]) {
        let size = data.len() as u8;
        if let Some((index, bar, offset)) = self.given_at(address) {
            return self.given[index].read(&self.chipset.pci, bar, offset, data);
        }
        let value = match &mut self.io_apic {
            Some(io_apic) if IO_APIC.contains(&address) => {
                io_apic.read_mmio((address - IO_APIC.start) as u16, size)
            }
            _ => self.with(|chipset, cx| chipset.read(cx, SystemPhysical(address), size)),
        };
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }

    pub(crate) fn write(&mut self, address: u64, data: &[u8]) {
        if let Some((index, bar, offset)) = self.given_at(address) {
            self.given[index].write(&mut self.chipset.pci, bar, offset, data);
            return self.settle_given();
        }
        let mut value = [0; 8];
        value[..data.len()].copy_from_slice(data);
        let (value, size) = (u64::from_le_bytes(value), data.len() as u8);
        match &mut self.io_apic {
            Some(io_apic) if IO_APIC.contains(&address) => {
                let mut effects = Vec::new();
                io_apic.write_mmio((address - IO_APIC.start) as u16, size, value, &mut effects);
                let pins = std::array::from_fn(|pin| io_apic.level_message(pin as u8));
                self.route_pins(pins);
                self.settle_all(effects);
            }
            _ => self.with(|chipset, cx| chipset.write(cx, SystemPhysical(address), size, value)),
        }
        if (map::ECAM.0..map::ECAM_END.0).contains(&address) {
            self.settle_given();
        }
    }

    /// A local APIC finished a level-triggered vector of the split interrupt chip.
    pub(crate) fn end_of_interrupt(&mut self, vector: u8) {
        if let Some(io_apic) = &mut self.io_apic {
            let mut effects = Vec::new();
            io_apic.end_of_interrupt(Vector(vector), &mut effects);
            self.settle_all(effects);
        }
    }

    /// Does what is due; how long until the next thing is, if there is one.
    pub(crate) fn advance(&mut self) -> Option<std::time::Duration> {
        let now = self.now();
        if self.chipset.next_deadline().is_some_and(|at| at <= now) {
            self.with(|chipset, cx| chipset.advance(cx));
        }
        let next = self.chipset.next_deadline()?;
        let left = next.0.saturating_sub(self.now().0);
        Some(std::time::Duration::from_nanos(left.div_ceil(1000)))
    }

    /// Types at a serial port; how many bytes it took.
    pub(crate) fn type_at(&mut self, port: u8, bytes: &[u8]) -> usize {
        self.with(|chipset, cx| chipset.receive(cx, port, bytes))
    }
}
