//! AMD's IOMMU. [IOMMU "Architecture"]
//!
//! Nothing is cached: each access and each interrupt reads the tables as they are, so that every
//! invalidation is complete at once. [`Behaviour`] has the opposite, which loses interrupts.
//!
//! DEVIATION(IOMMU "I/O Page Tables for Guest Translations"): guest page tables, page requests and
//! remote translation caches (ATS) are not there, and not among the features.
//!
//! DEVIATION(IOMMU "Exclusion Range Base Register"): the range is kept and has no effect.

use arch::amd_vi::register::{DeviceTableBase, InterruptDestination, RingBase};
use arch::amd_vi::{Control, Event, ExtendedFeatures, ExtendedFeatures2, Status};
use arch::apic::{DeliveryMode, InterruptMessage};
use arch::identity::{ApicId, RequesterId, Vector};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod command;
mod device;
mod log;
mod post;
mod register;
mod remap;
mod translate;

#[cfg(test)]
mod tests;

pub use post::{Posting, PostingStep};
pub use remap::Remapped;

/// What an IOMMU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// What it can do, as its register and its firmware table say.
    pub features: ExtendedFeatures,
    /// More of it.
    pub features2: ExtendedFeatures2,
    /// Its own function, whose messages are never remapped.
    pub requester: RequesterId,
}

impl Model {
    /// What a part offers, as far as it is implemented. Four levels of tables more than kernels
    /// begin with are there on every part, so all of them offer six.
    pub const fn of(part: ExtendedFeatures, requester: RequesterId) -> Self {
        let implemented = ExtendedFeatures::new()
            .with_has_x2apic(part.has_x2apic())
            .with_has_invalidate_all(part.has_invalidate_all())
            .with_has_guest_apic(part.has_guest_apic())
            .with_host_levels(part.host_levels())
            .with_guest_apic_modes(part.guest_apic_modes() & ExtendedFeatures::VIRTUAL_APIC);
        Self { features: implemented, features2: ExtendedFeatures2::new(), requester }
    }

    /// The most levels of page tables.
    const fn levels(self) -> u8 {
        let levels = 4 + self.features.host_levels();
        if levels > 6 { 6 } else { levels }
    }
}

/// Points in which silicon differs from the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// A guest entry is read once and kept until it is invalidated, with the fields that must be
    /// read for each interrupt: a vCPU that has since stopped is taken to run.
    pub keeps_whole_entries: bool,
}

/// What an IOMMU causes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// An interrupt of its own, sent as its extended registers say.
    Interrupt(InterruptMessage),
    /// Its function sends its message, where software has enabled that.
    Message,
    /// The doorbell of this core is to be rung.
    Doorbell(ApicId),
    /// Nobody has to do anything, but who watches is told: something was refused.
    Refused(Event),
}

/// Registers and what else outlives an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdVi {
    model: Model,
    behaviour: Behaviour,
    control: Control,
    status: Status,
    device_table: DeviceTableBase,
    commands: Ring,
    events: Ring,
    guest_log: Ring,
    guest_log_tail_address: u64,
    exclusion: [u64; 2],
    event_interrupt: InterruptDestination,
    page_request_interrupt: InterruptDestination,
    guest_log_interrupt: InterruptDestination,
    /// Guest entries by function and index, where the behaviour keeps them.
    kept: BTreeMap<(u16, u32), u128>,
    /// What was caused since the last [`Self::take_signals`].
    #[serde(skip)]
    signals: Vec<Signal>,
}

/// A ring in memory: who produces into it moves the tail, who consumes the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ring {
    base: RingBase,
    head: u64,
    tail: u64,
}

impl Ring {
    /// Offset of the entry behind the one at `offset`, where entries have `size` bytes.
    fn behind(self, offset: u64, size: u64) -> u64 {
        (offset + size) % self.base.bytes()
    }

    /// Whether nothing fits any more: one entry stays free.
    fn is_full(self, size: u64) -> bool {
        self.behind(self.tail, size) == self.head % self.base.bytes()
    }
}

impl AmdVi {
    /// An IOMMU after reset: all accesses and interrupts pass.
    pub fn new(model: Model, behaviour: Behaviour) -> Self {
        Self {
            model,
            behaviour,
            control: Control::new(),
            status: Status::empty(),
            device_table: DeviceTableBase::new(),
            commands: Ring::default(),
            events: Ring::default(),
            guest_log: Ring::default(),
            guest_log_tail_address: 0,
            exclusion: [0; 2],
            event_interrupt: InterruptDestination::new(),
            page_request_interrupt: InterruptDestination::new(),
            guest_log_interrupt: InterruptDestination::new(),
            kept: BTreeMap::new(),
            signals: Vec::new(),
        }
    }

    /// What it is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Whether devices' accesses and interrupts are looked up at all.
    pub fn is_enabled(&self) -> bool {
        self.control.is_enabled()
    }

    /// What was caused since the last call, oldest first.
    pub fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    /// An interrupt of its own. [IOMMU "IOMMU Interrupts"]
    fn interrupt(&mut self, destination: InterruptDestination) {
        let signal = if self.control.has_x2apic_messages() {
            Signal::Interrupt(InterruptMessage {
                destination: destination.destination(),
                destination_mode: destination.destination_mode(),
                delivery_mode: match destination.is_arbitrated() {
                    true => DeliveryMode::LowestPriority,
                    false => DeliveryMode::Fixed,
                },
                vector: Vector(destination.vector()),
                is_level: false,
                is_asserted: true,
                is_x2apic: true,
            })
        } else {
            Signal::Message
        };
        self.signals.push(signal);
    }
}
