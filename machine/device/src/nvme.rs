//! An NVM Express controller with one namespace over a disk: a pair of queues and an MSI-X vector
//! for each processor. [NVME "Controller Architecture"]
//!
//! A command is read when its queue's doorbell says that it is there, and done [`LATENCY`] later,
//! behind the data of those before it at [`BYTE`] a byte: a fast drive on four lanes. What it reads
//! and writes moves at that moment, as does its completion.
//!
//! DEVIATION(NVME "Interrupts"): MSI-X only; a pin and MSI, with their masks, are not there.
//! Coalescing is kept and not done.
//! DEVIATION(NVME "Register Definition"): RDY follows EN at once, and shutdown is complete at once.

use crate::lanes;
use crate::pci::{
    Attachment, Bar, Configuration as Space, Express, Function, Identity, Msix, PciDevice, Room,
};
use crate::request::{Name, PciRequest, Places};
use crate::storage::{Disk, WriteMode};
use arch::nvme::command::{HAS_SCATTER_GATHER, IS_FUSED, Submission, admin, io};
use arch::nvme::register::{
    self, AdminAttributes, Capabilities, Configuration, SHUTDOWN_COMPLETE, Status as State,
};
use arch::nvme::status::Status;
use arch::nvme::{PROGRAMMING_INTERFACE, REGISTERS_BAR, SUBMISSION_SIZE};
use arch::pci::{Command, FunctionAddress, class};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

mod access;
mod administration;
mod event;
mod feature;
mod identity;
mod limit;
mod log;
mod prp;
mod queue;

use event::Events;
use feature::Features;
pub use limit::MAXIMUM_QUEUE_PAIRS;
use limit::{IDENTITY, MAXIMUM_ENTRIES, MAXIMUM_TRANSFER, VECTORS};
use log::Log;
use queue::Queues;

/// The region with the MSI-X table, which takes two base address registers.
const TABLE_BAR: usize = 4;
const REGION_SIZE: u64 = 0x4000;
/// Commands that are read from queues before the first of them is done.
const MAXIMUM_IN_FLIGHT: usize = 256;

/// From a command's doorbell to its end, without its data.
const LATENCY: Picoseconds = Picoseconds::from_microseconds(10);
/// A byte of data at 4 GB/s, in picoseconds.
const BYTE: u64 = 250;

/// A command that was read and is not done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct InFlight {
    queue: u16,
    command: Submission,
    due: Picoseconds,
    /// How it ends without being done.
    fate: Option<Status>,
}

/// The controller behind its registers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Controller {
    /// What the namespace's blocks are.
    pub disk: Disk,
    /// Tells controllers apart: their serial numbers and names derive from it.
    number: u8,
    configuration: Configuration,
    state: State,
    admin_attributes: AdminAttributes,
    admin_submission: u64,
    admin_completion: u64,
    queues: Queues,
    /// In the order in which they are due.
    in_flight: VecDeque<InFlight>,
    /// When the data of all that was read from I/O queues has moved.
    busy_until: Picoseconds,
    features: Features,
    events: Events,
    log: Log,
}

/// The request for a controller with this disk.
#[derive(Clone, Debug)]
pub struct Drive(pub Disk);

impl PciRequest for Drive {
    type Device = Controller;

    const NAMES: &'static [Name<Self>] = &[Name {
        name: "nvme",
        takes: "file=PATH, writes=memory|refused|through",
        ask: |options| options.disk().map(Self),
    }];

    fn places(&self) -> Places {
        Places::SERVER
    }

    fn functions(
        &self,
        number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<Controller>> {
        vec![Controller::new(self.0.clone(), number).function(at[0], room)]
    }

    fn digest(&self) -> String {
        format!("nvme {} {}", self.0.sectors(), self.0.mode() != WriteMode::Through)
    }

    fn disk(&self) -> Option<&Disk> {
        Some(&self.0)
    }
}

impl PciDevice for Controller {
    fn read(&mut self, _: &mut Attachment, _: usize, offset: u64, size: u8) -> u32 {
        let high = |value: u32| u64::from(value) << 32;
        let register = match offset & !7 {
            register::CAPABILITIES => capabilities().into_bits(),
            register::VERSION => register::VERSION_1_4.into(),
            register::MASK_CLEAR => high(self.configuration.into_bits()),
            0x18 => high(self.state.into_bits()),
            0x20 => high(self.admin_attributes.into_bits()),
            register::ADMIN_SUBMISSION => self.admin_submission,
            register::ADMIN_COMPLETION => self.admin_completion,
            _ => 0,
        };
        lanes::extract(register, offset & 7, size) as u32
    }

    /// Writes a dword; anything else has no effect.
    fn write(&mut self, port: &mut Attachment, _: usize, offset: u64, size: u8, value: u32) {
        if size != 4 || !offset.is_multiple_of(4) {
            return;
        }
        match offset {
            register::CONFIGURATION => self.configure(Configuration::from_bits(value)),
            register::ADMIN_ATTRIBUTES => {
                let kept = AdminAttributes::from_bits(value);
                self.admin_attributes = AdminAttributes::new()
                    .with_last_submission(kept.last_submission())
                    .with_last_completion(kept.last_completion());
            }
            0x28 | 0x2C => replace_half(&mut self.admin_submission, offset, value),
            0x30 | 0x34 => replace_half(&mut self.admin_completion, offset, value),
            register::DOORBELLS.. => self.ring(port, offset - register::DOORBELLS, value),
            _ => {}
        }
    }

    /// As after power-on: a function-level reset. What is stored stays.
    fn reset(&mut self) {
        self.disable();
        self.configuration = Configuration::new();
        self.admin_attributes = AdminAttributes::new();
        (self.admin_submission, self.admin_completion) = (0, 0);
    }

    fn next_deadline(&self) -> Option<Picoseconds> {
        if !self.is_running() {
            return None;
        }
        self.in_flight.iter().find(|one| self.queues.has_room(one.queue)).map(|one| one.due)
    }

    /// Does what is due, as far as completion queues have room.
    fn advance(&mut self, port: &mut Attachment) {
        let now = port.now();
        self.tell_events(port);
        // Bounded: what is read meanwhile is due later.
        while self.is_running()
            && let Some(at) = self
                .in_flight
                .iter()
                .position(|one| one.due <= now && self.queues.has_room(one.queue))
            && let Some(one) = self.in_flight.remove(at)
        {
            self.execute(port, &one);
            self.tell_events(port);
            self.fetch(port);
        }
    }

    fn disk_mut(&mut self) -> Option<&mut Disk> {
        Some(&mut self.disk)
    }
}

impl Controller {
    /// A controller at power-on.
    pub fn new(disk: Disk, number: u8) -> Self {
        Self {
            disk,
            number,
            configuration: Configuration::new(),
            state: State::new(),
            admin_attributes: AdminAttributes::new(),
            admin_submission: 0,
            admin_completion: 0,
            queues: Queues::default(),
            in_flight: VecDeque::new(),
            busy_until: Picoseconds::ZERO,
            features: Features::default(),
            events: Events::default(),
            log: Log::default(),
        }
    }

    /// The function at a place.
    fn function(self, address: FunctionAddress, room: &mut Room) -> Function<Self> {
        let (vendor, device) = IDENTITY;
        let mut configuration = Space::new(Identity {
            vendor,
            device,
            class: class::NON_VOLATILE_MEMORY,
            programming_interface: PROGRAMMING_INTERFACE,
            subsystem_vendor: vendor,
            ..Identity::default()
        });
        for index in [REGISTERS_BAR, TABLE_BAR] {
            let bar = Bar::Memory64 { size: REGION_SIZE };
            configuration.set_bar(index, bar, room.allocate(bar));
        }
        configuration.set_command(Command::MEMORY_SPACE);
        let msix = Msix::add(&mut configuration, VECTORS, TABLE_BAR as u8);
        let express = Express::add(&mut configuration);
        let function = Function::new(address, configuration, self);
        function.with_msix(msix, TABLE_BAR).with_express(express)
    }

    /// All except the registers of the admin queues is reset. [NVME "Controller Level Reset"]
    fn disable(&mut self) {
        self.state = State::new();
        self.queues = Queues::default();
        self.in_flight.clear();
        self.busy_until = Picoseconds::ZERO;
        self.features = Features::default();
        self.events = Events::default();
    }

    fn is_running(&self) -> bool {
        self.state.is_ready() && !self.state.has_failed() && self.state.shutdown() == 0
    }

    fn configure(&mut self, wanted: Configuration) {
        let before = core::mem::replace(&mut self.configuration, wanted);
        match (before.is_enabled(), wanted.is_enabled()) {
            (false, true) => self.enable(),
            (true, false) => self.disable(),
            _ => {}
        }
        if wanted.shutdown() != 0 && self.state.shutdown() == 0 {
            if self.disk.flush().is_err() {
                self.state.set_has_failed(true);
            }
            self.state.set_shutdown(SHUTDOWN_COMPLETE);
        }
    }

    fn enable(&mut self) {
        let wanted = self.configuration;
        if (wanted.command_set(), wanted.page(), wanted.arbitration()) != (0, 0, 0) {
            self.state.set_has_failed(true);
            return;
        }
        let attributes = self.admin_attributes;
        self.queues.open_admin(
            (self.admin_submission, u32::from(attributes.last_submission()) + 1),
            (self.admin_completion, u32::from(attributes.last_completion()) + 1),
        );
        self.state.set_is_ready(true);
    }

    /// A doorbell, `offset` from the first. [NVME "Submission Queue y Tail Doorbell"]
    fn ring(&mut self, port: &mut Attachment, offset: u64, value: u32) {
        if !self.is_running() {
            return;
        }
        let index = offset / register::DOORBELL_SIZE;
        let Ok(queue) = u16::try_from(index / 2) else { return };
        let rung = if index.is_multiple_of(2) {
            self.queues.submit(queue, value)
        } else {
            self.queues.release(queue, value)
        };
        if let Err(event) = rung {
            self.log.note(queue, None, Status::INVALID_QUEUE);
            self.events.raise(event);
        }
        self.fetch(port);
        self.advance(port);
    }

    /// Reads commands, a queue after the other. [NVME "Command Arbitration"]
    fn fetch(&mut self, port: &mut Attachment) {
        while self.is_running()
            && self.in_flight.len() < MAXIMUM_IN_FLIGHT
            && let Some((queue, address)) = self.queues.take()
        {
            let mut bytes = [0; SUBMISSION_SIZE as usize];
            if port.read(address, &mut bytes).is_err() {
                self.state.set_has_failed(true);
                return;
            }
            let command = Submission::from_bytes(&bytes);
            let fate = self.is_there(queue, command.identifier);
            let fate = fate.then_some(Status::IDENTIFIER_CONFLICT);
            let due = self.due(port.now(), queue, &command);
            let at = self.in_flight.partition_point(|one| one.due <= due);
            self.in_flight.insert(at, InFlight { queue, command, due, fate });
        }
    }

    fn is_there(&self, queue: u16, identifier: u16) -> bool {
        let same = |one: &InFlight| one.queue == queue && one.command.identifier == identifier;
        self.in_flight.iter().any(same) || queue == 0 && self.events.has_request(identifier)
    }

    /// When a command that is read now is done; those of the admin queue do not wait for data.
    fn due(&mut self, now: Picoseconds, queue: u16, command: &Submission) -> Picoseconds {
        let due = now.saturating_add(LATENCY);
        if queue == 0 {
            return due;
        }
        let bytes = match command.opcode {
            io::READ | io::WRITE => access::length(command).min(MAXIMUM_TRANSFER),
            _ => 0,
        };
        self.busy_until = due.max(self.busy_until).saturating_add(Picoseconds(bytes * BYTE));
        self.busy_until
    }

    fn execute(&mut self, port: &mut Attachment, one: &InFlight) {
        let command = &one.command;
        let is_request = one.queue == 0 && command.opcode == admin::ASYNCHRONOUS_EVENT_REQUEST;
        let ended = match one.fate {
            Some(fate) => Err(fate),
            None if command.flags & (IS_FUSED | HAS_SCATTER_GATHER) != 0 => {
                Err(Status::INVALID_FIELD)
            }
            None if is_request && self.events.take_request(command.identifier) => return,
            None if is_request => Err(Status::EVENT_REQUEST_LIMIT),
            None if one.queue == 0 => self.administer(port, command),
            None => self.access(port, command).map(|()| 0),
        };
        let (result, status) = match ended {
            Ok(result) => (result, Status::SUCCESS),
            Err(status) => {
                self.log.note(one.queue, Some(command), status);
                (0, status.with_has_more(true))
            }
        };
        self.complete(port, one.queue, command.identifier, result, status);
    }

    /// Writes a completion, then interrupts. There is room. [NVME "Completion Queue Entry"]
    fn complete(
        &mut self,
        port: &mut Attachment,
        queue: u16,
        identifier: u16,
        result: u32,
        status: Status,
    ) {
        let Some(posted) = self.queues.post(queue, identifier, result, status) else { return };
        if port.write(posted.address, &posted.completion.to_bytes()).is_err() {
            self.state.set_has_failed(true);
        } else if let Some(vector) = posted.vector {
            port.signal_msix(vector);
        }
    }

    fn tell_events(&mut self, port: &mut Attachment) {
        // Bounded: each turn takes a request.
        while self.is_running()
            && self.queues.has_room(0)
            && let Some((identifier, event)) = self.events.next()
        {
            self.complete(port, 0, identifier, event.result(), Status::SUCCESS);
        }
    }
}

fn capabilities() -> Capabilities {
    Capabilities::new()
        .with_last_entry((MAXIMUM_ENTRIES - 1) as u16)
        .with_needs_contiguous_queues(true)
        .with_timeout(2)
        .with_command_sets(1)
}

/// Half of a page's address.
fn replace_half(register: &mut u64, offset: u64, value: u32) {
    *register = lanes::insert(*register, offset % 8, 4, value.into()) & !0xFFF;
}

#[cfg(test)]
mod tests;
