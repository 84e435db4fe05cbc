//! A unit: what it is, its state, and what it causes.

use arch::address::Device;
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register::{
    EventControl, FaultStatus, QueueAddress, RemappingTableAddress, RootTableAddress,
};
use arch::vt_d::{Capability, ExtendedCapability, FaultReason, FaultRecord, GlobalCommand};
use bus::Effect;
use serde::{Deserialize, Serialize};

/// Where the only fault record is.
pub(super) const RECORD: u64 = 0x220;
/// Where the registers are that invalidate translations without the queue.
pub(super) const INVALIDATION: u64 = 0xF0;

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// What it can do, as its register says.
    pub capability: Capability,
    /// More of it.
    pub extended: ExtendedCapability,
}

impl Model {
    /// A unit with tables of three and four levels, large pages, a queue and interrupt remapping;
    /// posting came with Broadwell-EP.
    pub const fn server(has_posting: bool) -> Self {
        let capability = Capability::new()
            .with_domains(6)
            .with_levels(0b110)
            .with_address_bits(47)
            .with_fault_records((RECORD >> 4) as u16)
            .with_large_pages(0b11)
            .with_has_page_invalidation(true)
            .with_most_mask(18)
            .with_drains_writes(true)
            .with_drains_reads(true)
            .with_has_posting(has_posting);
        let extended = ExtendedCapability::new()
            .with_is_coherent(true)
            .with_has_queue(true)
            .with_has_remapping(true)
            .with_has_x2apic(true)
            .with_has_pass_through(true)
            .with_has_snoop_control(true)
            .with_invalidation_registers((INVALIDATION >> 4) as u16)
            .with_most_index_mask(15);
        Self { capability, extended }
    }
}

/// What a unit causes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A message of its own, which is never remapped.
    Message(MessageSignalled),
    /// A notification for a processor.
    Notify(Effect),
    /// Nobody has to do anything, but who watches is told: something was refused.
    Refused {
        /// Whose access or interrupt it was.
        requester: RequesterId,
        /// Why.
        reason: FaultReason,
        /// The page of an access; bits 63:48 are the index of an interrupt.
        address: Device,
    },
}

/// Where and whether messages of one kind are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventMessage {
    pub control: EventControl,
    pub data: u32,
    pub address: u32,
    pub upper_address: u32,
}

impl EventMessage {
    pub const RESET: Self =
        Self { control: EventControl::MASKED, data: 0, address: 0, upper_address: 0 };
}

/// Registers and what else outlives an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VtD {
    pub(super) model: Model,
    pub(super) status: GlobalCommand,
    pub(super) root_register: u64,
    /// In use since the last SRTP.
    pub(super) root: RootTableAddress,
    pub(super) remapping_register: u64,
    /// In use since the last SIRTP.
    pub(super) remapping: RemappingTableAddress,
    pub(super) context_command: u64,
    pub(super) invalidation: [u64; 2],
    pub(super) faults: FaultStatus,
    pub(super) record: FaultRecord,
    pub(super) fault_event: EventMessage,
    pub(super) queue: QueueAddress,
    pub(super) queue_head: u64,
    pub(super) queue_tail: u64,
    pub(super) is_wait_complete: bool,
    pub(super) completion_event: EventMessage,
    /// What was caused since the last [`Self::take_signals`].
    #[serde(skip)]
    pub(super) signals: Vec<Signal>,
}

impl VtD {
    /// A unit after reset: all accesses and interrupts pass.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            status: GlobalCommand::empty(),
            root_register: 0,
            root: RootTableAddress::new(),
            remapping_register: 0,
            remapping: RemappingTableAddress::new(),
            context_command: 0,
            invalidation: [0; 2],
            faults: FaultStatus::empty(),
            record: FaultRecord::new(),
            fault_event: EventMessage::RESET,
            queue: QueueAddress::new(),
            queue_head: 0,
            queue_tail: 0,
            is_wait_complete: false,
            completion_event: EventMessage::RESET,
            signals: Vec::new(),
        }
    }

    /// What it is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was caused since the last call, oldest first.
    pub fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }
}
