//! virtio devices over PCI, modern interface only: the transport, and the device models behind it.
//! [VIRTIO "Virtio Over PCI Bus"]
//!
//! Requests are served when the guest notifies; the answer is there before its next instruction.
//! Work per notification is bounded, and what is left is done a little later.
//!
//! DEVIATION(VIRTIO "PCI configuration access capability"): not offered; all registers are reached
//! through the memory region.
//! DEVIATION(VIRTIO "Packed Virtqueues"): not offered.

use crate::lanes;
use crate::pci::{Attachment, Bar, Configuration, Function, Identity, Msix, PciDevice, Room};
use crate::request::{Name, PciRequest, Places};
use crate::storage::{Disk, WriteMode};
use arch::pci::{Command, FunctionAddress, capability, class, header};
use arch::time::Picoseconds;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

pub mod block;
mod chain;
pub mod console;
pub mod entropy;
pub mod network;
pub mod nine_p;
mod queue;
mod round;

use block::Block;
use console::Console;
use entropy::Entropy;
use network::Network;
use nine_p::NineP;
use queue::{Broken, MAXIMUM_SIZE, NO_VECTOR, Queue};
use round::{Budget, Progress};

const VENDOR: u16 = 0x1AF4;
/// Device identifiers of the modern interface start here.
const DEVICE_BASE: u16 = 0x1040;
const REVISION: u8 = 1;
/// The region with all registers, and the one with the MSI-X table.
const REGISTERS_BAR: usize = 0;
const MSIX_BAR: usize = 1;
const REGISTERS_SIZE: u32 = 0x4000;
const NOTIFY_MULTIPLIER: u32 = 4;
/// Work left over is taken up again after this long.
const PAUSE: Picoseconds = Picoseconds::from_microseconds(10);

bitflags! {
    /// Features of the transport. [VIRTIO "Reserved Feature Bits"]
    struct Feature: u64 {
        const INDIRECT_DESCRIPTORS = 1 << 28;
        const EVENT_INDEX = 1 << 29;
        const VERSION_1 = 1 << 32;
        const ACCESS_PLATFORM = 1 << 33;
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Status: u8 {
        const ACKNOWLEDGE = 1;
        const DRIVER = 2;
        const DRIVER_OK = 4;
        const FEATURES_OK = 8;
        const NEEDS_RESET = 64;
        const FAILED = 128;
    }
}

/// The interrupt status: a queue was used, or the configuration changed.
const CAUSE_QUEUE: u8 = 1;
const CAUSE_CONFIGURATION: u8 = 2;

/// The device behind the transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Model {
    /// Frames to and from a packet source.
    Network(Network),
    /// A disk.
    Block(Block),
    /// A console and named byte channels.
    Console(Console),
    /// Reproducible random bytes.
    Entropy(Entropy),
    /// A file system that is elsewhere, by 9P messages.
    NineP(NineP),
}

impl Model {
    /// [VIRTIO "Device Types"]
    fn kind(&self) -> u16 {
        match self {
            Self::Network(_) => 1,
            Self::Block(_) => 2,
            Self::Console(_) => 3,
            Self::Entropy(_) => 4,
            Self::NineP(_) => 9,
        }
    }

    fn class(&self) -> u16 {
        match self {
            Self::Network(_) => class::ETHERNET,
            Self::Block(_) => class::MASS_STORAGE,
            Self::Console(_) => class::COMMUNICATION,
            Self::Entropy(_) | Self::NineP(_) => class::UNDEFINED,
        }
    }

    fn queue_count(&self) -> usize {
        match self {
            Self::Network(_) => 2,
            Self::Block(_) | Self::Entropy(_) | Self::NineP(_) => 1,
            Self::Console(console) => console.queue_count(),
        }
    }

    fn features(&self) -> u64 {
        match self {
            Self::Network(network) => network.features(),
            Self::Block(block) => block.features(),
            Self::Console(console) => console.features(),
            Self::Entropy(_) => 0,
            Self::NineP(nine_p) => nine_p.features(),
        }
    }

    fn read_configuration(&self, offset: u64, size: u8) -> u32 {
        match self {
            Self::Network(network) => network.read_configuration(offset, size),
            Self::Block(block) => block.read_configuration(offset, size),
            Self::Console(console) => console.read_configuration(offset, size),
            Self::Entropy(_) => 0,
            Self::NineP(nine_p) => nine_p.read_configuration(offset, size),
        }
    }

    fn process(
        &mut self,
        queues: &mut [Queue],
        index: usize,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        match self {
            Self::Network(network) => network.process(queues, index, port, budget),
            Self::Console(console) => console.process(queues, index, port, budget),
            Self::Block(block) => match queues.get_mut(index) {
                Some(queue) => block.process(queue, port, budget),
                None => Ok(Progress::Idle),
            },
            Self::Entropy(entropy) => match queues.get_mut(index) {
                Some(queue) => entropy.process(queue, port, budget),
                None => Ok(Progress::Idle),
            },
            Self::NineP(nine_p) => match queues.get_mut(index) {
                Some(queue) => nine_p.process(queue, port, budget),
                None => Ok(Progress::Idle),
            },
        }
    }
}

impl PciRequest for Model {
    type Device = Virtio;

    const NAMES: &'static [Name<Self>] = &[
        Name {
            name: "virtio-blk",
            takes: "file=PATH, writes=memory|refused|through, serial=TEXT",
            ask: |options| {
                let serial = options.take("serial").unwrap_or("disk").to_owned();
                Ok(Self::Block(Block { disk: options.disk()?, serial }))
            },
        },
        Name {
            name: "virtio-rng",
            takes: "seed=N",
            ask: |options| {
                Ok(Self::Entropy(Entropy::new(options.number("seed", 0..=u64::MAX, 0)?)))
            },
        },
    ];

    fn places(&self) -> Places {
        Places::VIRTIO
    }

    fn functions(
        &self,
        _number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<Virtio>> {
        vec![Virtio::new(self.clone()).function(at[0], room)]
    }

    fn digest(&self) -> String {
        match self {
            Self::Block(Block { disk, .. }) => {
                format!("disk {} {}", disk.sectors(), disk.mode() != WriteMode::Through)
            }
            Self::Console(console) => format!("console {:?}", console.names()),
            Self::Network(_) => "network".to_owned(),
            Self::Entropy(_) => "entropy".to_owned(),
            Self::NineP(nine_p) => format!("9p {:?}", nine_p.tag()),
        }
    }

    fn disk(&self) -> Option<&Disk> {
        match self {
            Self::Block(block) => Some(&block.disk),
            Self::Network(_) | Self::Console(_) | Self::Entropy(_) | Self::NineP(_) => None,
        }
    }
}

/// A virtio device behind the PCI transport: status, negotiated features and queues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Virtio {
    /// The kind of device.
    pub model: Model,
    status: Status,
    device_feature_select: u32,
    driver_feature_select: u32,
    driver_features: u64,
    queue_select: u16,
    configuration_vector: u16,
    interrupt_causes: u8,
    queues: Vec<Queue>,
    /// When left-over work is taken up.
    resume_at: Option<Picoseconds>,
}

impl PciDevice for Virtio {
    fn read(&mut self, port: &mut Attachment, _: usize, offset: u64, size: u8) -> u32 {
        let Some((kind, offset)) = Window::at(offset) else { return 0 };
        match kind {
            WindowKind::Common => lanes::load(&self.common(), offset, size) as u32,
            WindowKind::InterruptStatus if offset == 0 => {
                port.set_pin(false);
                core::mem::take(&mut self.interrupt_causes).into()
            }
            WindowKind::Device => self.model.read_configuration(offset, size),
            WindowKind::InterruptStatus | WindowKind::Notify => 0,
        }
    }

    fn write(&mut self, port: &mut Attachment, _: usize, offset: u64, size: u8, value: u32) {
        match Window::at(offset) {
            Some((WindowKind::Common, offset)) => self.write_common(port, offset, size, value),
            Some((WindowKind::Notify, offset)) => {
                self.process(port, (offset / u64::from(NOTIFY_MULTIPLIER)) as usize);
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Picoseconds> {
        let own = match &self.model {
            Model::Network(network) => network.next_deadline(),
            _ => None,
        };
        match (own, self.resume_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, port: &mut Attachment) {
        if let Model::Network(network) = &mut self.model {
            network.source.advance(port.now());
            self.process(port, 0);
        }
        if self.resume_at.is_some_and(|at| at <= port.now()) {
            self.resume_at = None;
            (0..self.queues.len()).for_each(|index| self.process(port, index));
        }
    }

    fn disk_mut(&mut self) -> Option<&mut Disk> {
        match &mut self.model {
            Model::Block(block) => Some(&mut block.disk),
            Model::Network(_) | Model::Console(_) | Model::Entropy(_) | Model::NineP(_) => None,
        }
    }

    fn has_session_elsewhere(&self) -> bool {
        matches!(&self.model, Model::NineP(nine_p) if nine_p.is_in_use())
    }
}

impl Virtio {
    /// A device before its driver's reset.
    pub fn new(model: Model) -> Self {
        let queues = vec![Queue::default(); model.queue_count()];
        Self {
            model,
            status: Status::empty(),
            device_feature_select: 0,
            driver_feature_select: 0,
            driver_features: 0,
            queue_select: 0,
            configuration_vector: NO_VECTOR,
            interrupt_causes: 0,
            queues,
            resume_at: None,
        }
    }

    /// The function at a place, with its regions assigned and capabilities in place.
    fn function(self, address: FunctionAddress, room: &mut Room) -> Function<Self> {
        let kind = self.model.kind();
        let mut configuration = Configuration::new(Identity {
            vendor: VENDOR,
            device: DEVICE_BASE + kind,
            revision: REVISION,
            class: self.model.class(),
            programming_interface: 0,
            subsystem_vendor: VENDOR,
            subsystem: DEVICE_BASE + kind,
        });
        let vectors = self.queues.len() as u16 + 1;
        let registers = Bar::Memory32 { size: REGISTERS_SIZE };
        let table = Bar::Memory32 { size: Msix::region_size(vectors) };
        configuration.set_bar(REGISTERS_BAR, registers, room.allocate(registers));
        configuration.set_bar(MSIX_BAR, table, room.allocate(table));
        configuration.set_command(Command::MEMORY_SPACE);
        configuration.set(header::INTERRUPT_PIN, 1, 1);
        for window in WINDOWS {
            window.describe(&mut configuration);
        }
        let msix = Msix::add(&mut configuration, vectors, MSIX_BAR as u8);
        Function::new(address, configuration, self).with_msix(msix, MSIX_BAR)
    }

    /// Whether the driver has said DRIVER_OK and the device found no broken queue since.
    pub fn is_running(&self) -> bool {
        self.status.contains(Status::DRIVER_OK) && !self.status.contains(Status::NEEDS_RESET)
    }

    /// Input for a port of a console; gives how many bytes were taken.
    pub(crate) fn receive_input(
        &mut self,
        port: &mut Attachment,
        console_port: usize,
        bytes: &[u8],
    ) -> usize {
        let Model::Console(console) = &mut self.model else { return 0 };
        let accepted = console.receive(console_port, bytes);
        self.process(port, console::input_queue(console_port));
        accepted
    }

    /// The end of a console port's input; false as long as the guest has not read what came before.
    pub(crate) fn end_input(&mut self, port: &mut Attachment, console_port: usize) -> bool {
        let Model::Console(console) = &mut self.model else { return false };
        let is_told = console.end_input(console_port);
        self.process(port, console::CONTROL_INPUT);
        is_told
    }

    fn features(&self) -> u64 {
        self.model.features()
            | (Feature::INDIRECT_DESCRIPTORS
                | Feature::EVENT_INDEX
                | Feature::VERSION_1
                | Feature::ACCESS_PLATFORM)
                .bits()
    }

    /// Serves queue `index`, then tells the driver where it wants to be told.
    fn process(&mut self, port: &mut Attachment, index: usize) {
        if !self.is_running() || index >= self.queues.len() {
            return;
        }
        let mut budget = Budget::of_a_round();
        match self.model.process(&mut self.queues, index, port, &mut budget) {
            Ok(Progress::Idle) => {}
            Ok(Progress::HasMore) => self.resume_at = Some(port.now().saturating_add(PAUSE)),
            Err(Broken) => return self.need_reset(port),
        }
        // A model may have served other queues too.
        for index in 0..self.queues.len() {
            match self.queues[index].finish(port) {
                Ok(true) => self.interrupt(port, CAUSE_QUEUE, self.queues[index].vector),
                Ok(false) => {}
                Err(Broken) => return self.need_reset(port),
            }
        }
    }

    /// [VIRTIO "Driver Requirements: Device Status Field"], DEVICE_NEEDS_RESET
    fn need_reset(&mut self, port: &mut Attachment) {
        self.status.insert(Status::NEEDS_RESET);
        self.queues.iter_mut().for_each(|queue| queue.is_broken = true);
        self.resume_at = None;
        self.interrupt(port, CAUSE_CONFIGURATION, self.configuration_vector);
    }

    fn interrupt(&mut self, port: &mut Attachment, cause: u8, vector: u16) {
        if port.is_msix_enabled() {
            if vector != NO_VECTOR {
                port.signal_msix(vector);
            }
            return;
        }
        self.interrupt_causes |= cause;
        port.set_pin(true);
    }

    fn reset(&mut self, port: &mut Attachment) {
        port.set_pin(false);
        match &mut self.model {
            Model::Console(console) => console.reset(),
            Model::Network(network) => network.source.stop(),
            Model::NineP(nine_p) => nine_p.reset(),
            Model::Block(_) | Model::Entropy(_) => {}
        }
        self.status = Status::empty();
        self.device_feature_select = 0;
        self.driver_feature_select = 0;
        self.driver_features = 0;
        self.queue_select = 0;
        self.configuration_vector = NO_VECTOR;
        self.interrupt_causes = 0;
        self.queues.fill(Queue::default());
        self.resume_at = None;
    }

    fn write_status(&mut self, port: &mut Attachment, value: u8) {
        if value == 0 {
            return self.reset(port);
        }
        let was_running = self.is_running();
        // Bits are only ever added; the device keeps its own.
        let mut asked = Status::from_bits_truncate(value) - Status::NEEDS_RESET;
        let is_acceptable = self.driver_features & !self.features() == 0
            && self.driver_features & Feature::VERSION_1.bits() != 0;
        if !is_acceptable && !self.status.contains(Status::FEATURES_OK) {
            asked.remove(Status::FEATURES_OK);
        }
        if !(self.status | asked).contains(Status::FEATURES_OK) {
            asked.remove(Status::DRIVER_OK);
        }
        self.status.insert(asked);
        if self.is_running() && !was_running {
            self.start(port);
        }
    }

    fn start(&mut self, port: &mut Attachment) {
        for queue in &mut self.queues {
            let has = |feature: Feature| self.driver_features & feature.bits() != 0;
            queue.has_indirect = has(Feature::INDIRECT_DESCRIPTORS);
            queue.has_event_index = has(Feature::EVENT_INDEX);
        }
        if let Model::Network(network) = &mut self.model {
            network.source.start(port.now());
        }
        // Buffers may have been offered before the device was live.
        (0..self.queues.len()).for_each(|index| self.process(port, index));
    }
}

mod common;
use common::{WINDOWS, Window, WindowKind};

#[cfg(test)]
mod tests;
