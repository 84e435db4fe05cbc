//! The way of an interrupt, from what causes it to the processor that takes it.
//!
//! 1. A device, an I/O APIC or a processor puts an effect into the outbox ([`Wiring`]).
//! 2. A message that a function signalled meets the IOMMU, which lets it pass, makes it another
//!    interrupt, posts it to a vCPU, or drops it ([`Delivery::pass_iommu`]).
//! 3. What is posted takes its steps: the vector is requested in memory, then a doorbell is rung, a
//!    notification sent or the GA log written ([`Delivery::step_postings`]). What that causes is
//!    an effect again.
//! 4. An interrupt finds its targets, takes its time to each by distance, and lies in their inboxes
//!    ([`Delivery::send`]); so does a doorbell ([`Delivery::ring`]).
//! 5. When a processor's clock has come that far, it takes the interrupt out ([`receive`]): its
//!    local APIC accepts it, or the guest that it runs is told.

mod inbox;
mod posting;

pub use inbox::{Arrival, Inbox, Messages};
pub use posting::Postings;

use crate::cost::CostProfile;
use crate::record::Recorder;
use crate::topology::{Distance, Topology};
use crate::wiring::Wiring;
use arch::apic::{InterruptMessage, Scope};
use arch::identity::{ApicId, CpuIndex};
use arch::msi::{DestinationWidth, MessageSignalled};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Initiator, Outbox};
use cpu::{Attention, Cpu};
use interrupt::route;
use iommu::{Posting, PostingStep, Remapped, Signal};

/// What interrupts travel through: the machine but for its schedule.
pub struct Delivery<'a> {
    pub wiring: &'a mut Wiring,
    pub memory: &'a mut GuestMemory,
    pub cpus: &'a mut [Cpu],
    pub inboxes: &'a mut [Inbox],
    pub postings: &'a mut Postings,
    pub topology: &'a Topology,
    pub costs: &'a CostProfile,
}

/// An effect that is for nobody on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outward {
    pub initiator: Initiator,
    pub at: Picoseconds,
    pub effect: Effect,
}

/// What came of a delivery, in lists that serve the next one as well.
#[derive(Default)]
pub struct Delivered {
    /// Processors that something is on its way to, some of them more than once.
    pub reached: Vec<usize>,
    /// For the host: output, and the ends of the run.
    pub outward: Vec<Outward>,
    effects: Outbox,
    targets: Vec<CpuIndex>,
}

impl Delivery<'_> {
    /// Takes the effects in the outbox to where they lead, until there are none; what came of it
    /// is added.
    pub fn run(&mut self, delivered: &mut Delivered) {
        while !self.wiring.outbox.is_empty() {
            // What most deliveries are.
            if let Some((initiator, at, effect)) = self.wiring.outbox.take_only() {
                self.deliver(initiator, at, effect, delivered);
                continue;
            }
            let mut effects = std::mem::take(&mut delivered.effects);
            std::mem::swap(&mut self.wiring.outbox, &mut effects);
            for (initiator, at, effect) in effects.drain() {
                self.deliver(initiator, at, effect, delivered);
            }
            delivered.effects = effects;
        }
    }

    fn deliver(
        &mut self,
        initiator: Initiator,
        at: Picoseconds,
        effect: Effect,
        delivered: &mut Delivered,
    ) {
        match effect {
            Effect::MessageSignalled(message) => {
                self.wiring.recorder.note_message(initiator, at, message);
                self.deliver_message(initiator, at, message, delivered);
            }
            Effect::Interrupt { message, scope } => {
                self.send(initiator, at, &message, scope, delivered);
            }
            Effect::LegacyInterrupt { asserted } => {
                for inbox in self.inboxes.iter_mut() {
                    inbox.push(at, Arrival::Lint0(asserted));
                }
                delivered.reached.extend(0..self.inboxes.len());
            }
            Effect::Doorbell { target } => {
                self.ring(initiator, at, target, &mut delivered.reached);
            }
            Effect::PowerOff
            | Effect::Reset
            | Effect::DebugExit { .. }
            | Effect::Console { .. }
            | Effect::ChannelOutput { .. } => {
                self.wiring.recorder.note_end(at, effect);
                delivered.outward.push(Outward { initiator, at, effect });
            }
            // They ended at the interrupt controllers.
            Effect::Line { .. } | Effect::EndOfInterrupt { .. } => {}
        }
    }

    /// A message becomes an interrupt: of the processors, of a guest, or none.
    fn deliver_message(
        &mut self,
        initiator: Initiator,
        at: Picoseconds,
        message: MessageSignalled,
        delivered: &mut Delivered,
    ) {
        let is_taken = match self.pass_iommu(initiator, at, message) {
            Remapped::Unchanged => match message.interrupt(DestinationWidth::Fifteen) {
                Some(interrupt) => {
                    self.send(initiator, at, &interrupt, Scope::Destination, delivered)
                }
                None => true,
            },
            Remapped::Interrupt(interrupt) => {
                self.send(initiator, at, &interrupt, Scope::Destination, delivered)
            }
            Remapped::Posting(posting) => {
                self.post(at, posting);
                true
            }
            Remapped::Aborted => false,
        };
        if !is_taken {
            self.wiring.io_apic.not_accepted(message);
        }
    }

    /// What becomes of a message that was written into the interrupt window.
    fn pass_iommu(
        &mut self,
        initiator: Initiator,
        at: Picoseconds,
        message: MessageSignalled,
    ) -> Remapped<Posting> {
        let (Some(iommu), Initiator::Device(requester)) = (&mut self.wiring.iommu, initiator)
        else {
            return Remapped::Unchanged;
        };
        let outcome = iommu.remap(self.memory, requester, message);
        self.wiring.carry(self.memory, at, outcome.signals);
        outcome.result
    }

    /// Posts to a guest's virtual APIC: all steps at this moment, between two turns of processors,
    /// or each at a moment of its own.
    fn post(&mut self, at: Picoseconds, mut posting: Posting) {
        if self.postings.step != Picoseconds::ZERO {
            return self.postings.push(at, posting);
        }
        let mut signals = Vec::new();
        // Bounded: five steps.
        while self.step_posting(at, &mut posting, &mut signals) {}
        self.wiring.carry(self.memory, at, signals);
    }

    /// Takes the steps of postings that are due.
    pub fn step_postings(&mut self, now: Picoseconds) {
        // Bounded: what goes on waits for a later moment.
        while let Some((at, mut posting)) = self.postings.take(now) {
            let mut signals = Vec::new();
            if self.step_posting(at, &mut posting, &mut signals) {
                self.postings.push(at, posting);
            }
            self.wiring.carry(self.memory, at, signals);
        }
    }

    /// False if there was no further step.
    fn step_posting(
        &mut self,
        at: Picoseconds,
        posting: &mut Posting,
        signals: &mut Vec<Signal>,
    ) -> bool {
        let Some(iommu) = &mut self.wiring.iommu else { return false };
        let outcome = posting.step(iommu, self.memory);
        signals.extend(outcome.signals);
        self.wiring.recorder.note_posting(posting.requester(), at, outcome.result);
        outcome.result != PostingStep::Complete
    }

    /// Puts a message into the inboxes of its targets; false if it has none.
    fn send(
        &mut self,
        initiator: Initiator,
        at: Picoseconds,
        message: &InterruptMessage,
        scope: Scope,
        delivered: &mut Delivered,
    ) -> bool {
        let Delivered { reached, targets, .. } = delivered;
        let sender = sender(initiator);
        let apics = self.cpus.iter().map(|cpu| &cpu.apic);
        route::targets(message, scope, sender, apics, targets);
        for target in &*targets {
            let index = usize::from(target.0);
            let distance = self.distance(sender, *target);
            self.inboxes[index].note_message(distance);
            let arrival = at + self.travel(distance);
            self.inboxes[index].push(arrival, Arrival::Message(*message));
            if sender == Some(*target) {
                // What a processor sends to itself arrives before its next instruction.
                let clock = &mut self.cpus[index].clock;
                clock.move_to(arrival.max(clock.now()));
            }
            reached.push(index);
        }
        !targets.is_empty()
    }

    fn ring(
        &mut self,
        initiator: Initiator,
        at: Picoseconds,
        target: ApicId,
        reached: &mut Vec<usize>,
    ) {
        let Some(cpu) = self.topology.cpu(target) else { return };
        let distance = self.distance(sender(initiator), cpu);
        let arrival = at + self.travel(distance);
        self.inboxes[usize::from(cpu.0)].note_message(distance);
        self.inboxes[usize::from(cpu.0)].push(arrival, Arrival::Doorbell);
        reached.push(cpu.0.into());
    }

    /// How far it is from a processor; `None` from a device.
    fn distance(&self, sender: Option<CpuIndex>, target: CpuIndex) -> Option<Distance> {
        sender.map(|sender| self.topology.distance(sender, target))
    }

    /// How long that takes.
    fn travel(&self, distance: Option<Distance>) -> Picoseconds {
        distance.map_or(self.costs.device_message(), |distance| self.costs.message(distance))
    }
}

const fn sender(initiator: Initiator) -> Option<CpuIndex> {
    match initiator {
        Initiator::Cpu(cpu) => Some(cpu),
        _ => None,
    }
}

/// Hands a processor what has arrived by now.
pub fn receive(cpu: &mut Cpu, inbox: &mut Inbox, recorder: &mut Recorder, at: Picoseconds) {
    while let Some(arrival) = inbox.take(at.max(cpu.clock.now())) {
        let acceptance = match arrival {
            Arrival::Message(message) => {
                recorder.note_accepted(cpu.index, at.max(cpu.clock.now()), &message);
                cpu.apic.accept(&message)
            }
            Arrival::Lint0(level) => {
                let acceptance = cpu.apic.lint0(level);
                cpu.pending.raise(Attention::INTERRUPT);
                acceptance
            }
            Arrival::Doorbell => {
                cpu.receive_doorbell();
                continue;
            }
        };
        cpu.accepted(acceptance);
    }
}
