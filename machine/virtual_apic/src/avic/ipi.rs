//! Sending an IPI, a step at a time. [APM2 "AVIC IPI Virtualization"]
//!
//! [`IpiSend`] is a value: between any two steps another processor may run. A step does at most one
//! access that another processor could tell apart, or causes one doorbell. The order that no
//! hypervisor can do without is IRR first, IsRunning second: a hypervisor that takes a virtual
//! processor off its core clears IsRunning first and looks at IRR second, so that one of the two
//! sees the other.

use super::destination::{Destination, Exception, MEMBERS};
use super::{Avic, BackingPage, ExitIndex, InvalidTargets, SelfKey};
use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::apic::{DeliveryMode, Icr};
use arch::identity::{ApicId, Vector};
use arch::svm::avic::{
    FIRST_LEGAL_VECTOR, IncompleteIpi, IncompleteIpiReason, LOGICAL_ENTRY_SIZE, LogicalEntry,
    PHYSICAL_ENTRY_SIZE, PhysicalEntry, register,
};
use interrupt::page::{ApicPage, Bank};
use serde::{Deserialize, Serialize};

/// An IPI on its way. The ICR is in the backing page already.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IpiSend {
    command: u64,
    destination: Option<Destination>,
    /// Targets found but not yet interrupted; directed IPIs look all of them up first.
    targets: [Target; MEMBERS],
    found: u8,
    next: u8,
    /// Members looked up, or the next index of a broadcast.
    cursor: u16,
    phase: Phase,
    failure: Option<(IncompleteIpiReason, u16)>,
    reaches_sender: bool,
    /// Erratum 1235: the write of the target's request has been put off once.
    is_late: bool,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiStep {
    /// More steps follow.
    Continue,
    /// Erratum 1235: IsRunning has been read, and others run before the request becomes visible.
    Late,
    /// The vector is in IRR of this backing page; more steps follow.
    Posted {
        /// Its physical address.
        page: SystemPhysical,
        /// The one requested.
        vector: Vector,
    },
    /// The doorbell of this core is to be rung; more steps follow.
    Doorbell(ApicId),
    /// There is no further step.
    Complete(IpiOutcome),
}

/// How the IPI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiOutcome {
    /// Without an exit.
    Delivered {
        /// The sender's own page was among the targets: it evaluates its interrupts.
        reaches_sender: bool,
    },
    /// #VMEXIT 401h, after the instruction.
    Exit(IncompleteIpi),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Start,
    LookUp,
    /// The physical entry behind a valid entry of the logical table.
    LookUpPhysical {
        logical_index: u16,
        guest_apic_id: u8,
    },
    NextTarget,
    ClearTriggerMode,
    SetRequest,
    ReadRunning,
    Ring(ApicId),
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
struct Target {
    /// Into the physical table; None for the sender by shorthand.
    entry: Option<u16>,
    /// What exit 401h would report.
    exit_index: u16,
    page: SystemPhysical,
    /// Erratum 1235: the core to ring, as read before the request was set.
    early_host: Option<ApicId>,
}

impl IpiSend {
    /// The IPI that this ICR asks for, with nothing done yet.
    pub fn new(command: Icr) -> Self {
        Self {
            command: command.into_bits(),
            destination: None,
            targets: [Target::default(); MEMBERS],
            found: 0,
            next: 0,
            cursor: 0,
            phase: Phase::Start,
            failure: None,
            reaches_sender: false,
            is_late: false,
        }
    }

    /// Takes all steps at once; the cores to ring go to `ring`, in order.
    pub fn run(
        mut self,
        avic: &Avic,
        memory: &mut impl SharedMemory,
        mut ring: impl FnMut(ApicId),
    ) -> IpiOutcome {
        // Bounded: eight steps for each of at most 4,096 entries.
        loop {
            match self.step(avic, memory) {
                IpiStep::Continue | IpiStep::Late | IpiStep::Posted { .. } => {}
                IpiStep::Doorbell(core) => ring(core),
                IpiStep::Complete(outcome) => return outcome,
            }
        }
    }

    /// The backing page whose IRR the next step writes, if it does.
    pub fn next_page(&self) -> Option<SystemPhysical> {
        matches!(self.phase, Phase::SetRequest).then(|| self.page().0)
    }

    /// Takes the next step.
    pub fn step(&mut self, avic: &Avic, memory: &mut impl SharedMemory) -> IpiStep {
        match self.phase {
            Phase::Start => return self.start(avic, memory),
            Phase::LookUp => self.look_up(avic, memory),
            Phase::LookUpPhysical { logical_index, guest_apic_id } => {
                self.look_up_physical(avic, memory, guest_apic_id.into(), Some(logical_index));
            }
            Phase::NextTarget => self.next_target(avic),
            Phase::ClearTriggerMode => {
                self.page().within(memory).remove(Bank::TriggerMode, self.vector());
                self.phase = Phase::SetRequest;
            }
            Phase::SetRequest if self.puts_request_off(avic) => {
                self.is_late = true;
                return IpiStep::Late;
            }
            Phase::SetRequest => {
                let (page, vector) = (self.page().0, self.vector());
                self.set_request(avic, memory);
                return IpiStep::Posted { page, vector };
            }
            Phase::ReadRunning => self.read_running(avic, memory),
            Phase::Ring(core) => {
                self.target_done();
                return IpiStep::Doorbell(core);
            }
            Phase::Finish => return IpiStep::Complete(self.outcome()),
        }
        IpiStep::Continue
    }

    /// Type and vector come before any look-up. [APM2 "AVIC IPI Delivery Not Completed"]
    fn start(&mut self, avic: &Avic, memory: &mut impl SharedMemory) -> IpiStep {
        let command = Icr::from_bits(self.command);
        let is_deasserted = !command.is_asserted() && avic.behaviour.deassert_is_invalid_type;
        let refusal = if command.delivery_mode() != DeliveryMode::Fixed
            || command.is_level()
            || is_deasserted
        {
            Some(IncompleteIpiReason::InvalidInterruptType)
        } else if command.vector() < FIRST_LEGAL_VECTOR {
            Some(IncompleteIpiReason::InvalidVector)
        } else {
            None
        };
        if let Some(reason) = refusal {
            self.fail(reason, 0);
            self.phase = Phase::Finish;
            return IpiStep::Continue;
        }
        let destination = Destination::of(command, avic, memory);
        self.destination = Some(destination);
        self.phase = match destination {
            Destination::Own => {
                self.add(Target { page: avic.backing_page.0, ..Target::default() });
                Phase::NextTarget
            }
            _ if destination.is_empty() && avic.behaviour.empty_destination_exits => {
                self.fail(IncompleteIpiReason::TargetNotRunning, 0);
                Phase::Finish
            }
            _ => Phase::LookUp,
        };
        IpiStep::Continue
    }

    /// Reads one entry: of the physical table, or of the logical one.
    fn look_up(&mut self, avic: &Avic, memory: &mut impl SharedMemory) {
        match self.destination {
            Some(Destination::Physical { index }) => {
                if self.cursor == 0 {
                    self.cursor = 1;
                    self.look_up_physical(avic, memory, index, None);
                } else {
                    self.phase = Phase::NextTarget;
                }
            }
            Some(Destination::PhysicalCluster { first, members }) => {
                match self.next_member(members) {
                    Some(k) => self.look_up_physical(avic, memory, first + u32::from(k), None),
                    None => self.phase = Phase::NextTarget,
                }
            }
            Some(Destination::LogicalTable { first, members }) => match self.next_member(members) {
                Some(k) => self.look_up_logical(avic, memory, first + k),
                None => self.phase = Phase::NextTarget,
            },
            Some(Destination::Everyone { but, last }) => self.look_up_next(avic, memory, but, last),
            Some(Destination::Own) | None => self.phase = Phase::NextTarget,
        }
    }

    /// The lowest member not looked up yet.
    fn next_member(&mut self, members: u16) -> Option<u16> {
        let rest = u32::from(members) >> self.cursor << self.cursor;
        (rest != 0).then(|| {
            let member = rest.trailing_zeros() as u16;
            self.cursor = member + 1;
            member
        })
    }

    fn look_up_logical(&mut self, avic: &Avic, memory: &mut impl SharedMemory, index: u16) {
        let at = avic.logical_table.offset(u64::from(index) * LOGICAL_ENTRY_SIZE);
        let entry = LogicalEntry::from_bits(memory.read_u32(at));
        if entry.is_valid() {
            let guest_apic_id = entry.guest_apic_id();
            self.phase = Phase::LookUpPhysical { logical_index: index, guest_apic_id };
        } else {
            self.invalid(avic, IncompleteIpiReason::InvalidTarget, index);
        }
    }

    fn look_up_physical(
        &mut self,
        avic: &Avic,
        memory: &mut impl SharedMemory,
        index: u32,
        logical_index: Option<u16>,
    ) {
        self.phase = Phase::LookUp;
        let reported = u16::try_from(index & 0xFFF).unwrap_or(0);
        let entry = match u16::try_from(index) {
            Ok(index) if index <= avic.max_index => avic.physical_entry(memory, index),
            _ => PhysicalEntry::new(),
        };
        if !entry.is_valid() {
            return self.invalid(avic, IncompleteIpiReason::InvalidTarget, reported);
        }
        if !avic.is_physical(entry.backing_page()) {
            return self.invalid(avic, IncompleteIpiReason::InvalidBackingPage, reported);
        }
        let exit_index = match avic.behaviour.logical_exit_index {
            ExitIndex::LogicalTable => logical_index.unwrap_or(reported),
            ExitIndex::PhysicalTable => reported,
        };
        self.add(Target::of(entry, reported, exit_index));
    }

    /// One entry of a broadcast, which skips invalid ones and interrupts each valid one before it
    /// looks at the next.
    fn look_up_next(
        &mut self,
        avic: &Avic,
        memory: &mut impl SharedMemory,
        but: Exception,
        last: u16,
    ) {
        let index = self.cursor;
        if index > last {
            self.phase = Phase::Finish;
            return;
        }
        self.cursor += 1;
        let entry = avic.physical_entry(memory, index);
        let is_left_out = but == Exception::Sender && avic.is_own(memory, index, entry);
        if !entry.is_valid() || is_left_out {
            return;
        }
        if !avic.is_physical(entry.backing_page()) {
            return self.fail(IncompleteIpiReason::InvalidBackingPage, index);
        }
        self.found = 0;
        self.next = 0;
        self.add(Target::of(entry, index, index));
        self.phase = Phase::NextTarget;
    }

    /// Begins to interrupt the next target, or ends the directed IPI or the broadcast's round.
    fn next_target(&mut self, avic: &Avic) {
        let is_broadcast = matches!(self.destination, Some(Destination::Everyone { .. }));
        self.phase = if self.next < self.found {
            avic.first_delivery_phase()
        } else if is_broadcast {
            Phase::LookUp
        } else {
            Phase::Finish
        };
    }

    /// Of a target that was seen to run: one that was not will be woken in any case.
    fn puts_request_off(&self, avic: &Avic) -> bool {
        avic.behaviour.erratum_1235 && !self.is_late && self.target().early_host.is_some()
    }

    /// The locked OR into IRR of the target's page.
    fn set_request(&mut self, avic: &Avic, memory: &mut impl SharedMemory) {
        let (page, vector) = (self.page(), self.vector());
        page.within(memory).insert(Bank::Request, vector);
        self.reaches_sender |= page == avic.backing_page;
        let target = self.target();
        match target.entry {
            // The sender by shorthand: no table, no doorbell, no exit.
            None => self.target_done(),
            Some(_) if !avic.behaviour.erratum_1235 => self.phase = Phase::ReadRunning,
            Some(_) => self.ring_or_fail(target.early_host),
        }
    }

    /// IsRunning and the core come from one read of the entry, after IRR was written.
    fn read_running(&mut self, avic: &Avic, memory: &mut impl SharedMemory) {
        let target = self.target();
        let entry = avic.physical_entry(memory, target.entry.unwrap_or(0));
        self.ring_or_fail(entry.is_running().then(|| entry.host()));
    }

    fn ring_or_fail(&mut self, host: Option<ApicId>) {
        match host {
            Some(core) => self.phase = Phase::Ring(core),
            None => {
                self.fail(IncompleteIpiReason::TargetNotRunning, self.target().exit_index);
                self.target_done();
            }
        }
    }

    fn target_done(&mut self) {
        self.is_late = false;
        self.next += 1;
        self.phase = Phase::NextTarget;
    }

    fn invalid(&mut self, avic: &Avic, reason: IncompleteIpiReason, index: u16) {
        self.fail(reason, index);
        self.phase = match avic.behaviour.invalid_targets {
            InvalidTargets::RefuseAll => Phase::Finish,
            InvalidTargets::DeliverToOthers => Phase::LookUp,
        };
    }

    /// One exit reports one failure: the first.
    fn fail(&mut self, reason: IncompleteIpiReason, index: u16) {
        self.failure.get_or_insert((reason, index));
    }

    fn outcome(&self) -> IpiOutcome {
        let command = Icr::from_bits(self.command);
        match self.failure {
            None => IpiOutcome::Delivered { reaches_sender: self.reaches_sender },
            Some((reason, index)) => IpiOutcome::Exit(IncompleteIpi {
                command: command.low(),
                destination: command.high(),
                reason,
                index,
            }),
        }
    }

    fn add(&mut self, target: Target) {
        self.targets[usize::from(self.found) % MEMBERS] = target;
        self.found += 1;
    }

    fn target(&self) -> Target {
        self.targets[usize::from(self.next) % MEMBERS]
    }

    fn page(&self) -> BackingPage {
        BackingPage(self.target().page)
    }

    fn vector(&self) -> Vector {
        Vector(Icr::from_bits(self.command).vector())
    }
}

impl Target {
    fn of(entry: PhysicalEntry, index: u16, exit_index: u16) -> Self {
        Self {
            entry: Some(index),
            exit_index,
            page: entry.backing_page(),
            early_host: entry.is_running().then(|| entry.host()),
        }
    }
}

impl Avic {
    /// Reads an entry of the physical table.
    pub fn physical_entry(&self, memory: &mut impl SharedMemory, index: u16) -> PhysicalEntry {
        let at = self.physical_table.offset(u64::from(index) * PHYSICAL_ENTRY_SIZE);
        PhysicalEntry::from_bits(memory.read_u64(at))
    }

    fn first_delivery_phase(&self) -> Phase {
        if self.behaviour.ipi_clears_trigger_mode {
            Phase::ClearTriggerMode
        } else {
            Phase::SetRequest
        }
    }

    fn is_own(&self, memory: &mut impl SharedMemory, index: u16, entry: PhysicalEntry) -> bool {
        match self.behaviour.self_key {
            SelfKey::BackingPage => entry.backing_page() == self.backing_page.0,
            SelfKey::ApicId => {
                let id = self.backing_page.within(memory).read_u32(register::APIC_ID);
                let id = if self.is_x2apic() { id } else { id >> 24 };
                u32::from(index) == id
            }
        }
    }
}
