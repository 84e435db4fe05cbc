//! Senders against a hypervisor that preempts, blocks, wakes and moves a vCPU: every
//! interleaving of their steps.
//!
//! The hypervisor's steps are those that any must take, and KVM does. To preempt: suppress
//! notifications. To block: take what is posted, name the wake-up vector, and look at ON once more.
//! To run: name the new core and the notification vector, allow notifications, look whether
//! something was posted meanwhile; then, interrupts off, clear ON, take what is posted, enter.

use crate::machine::{
    Memory, NOTIFICATION, XAPIC, apicv, contains, control, descriptor, memory_with_table,
    set_control,
};
use arch::identity::Vector;
use arch::vmx::apicv::{GuestInterruptStatus, NotificationControl};
use interrupt::page::{ApicPage, Bank};
use std::collections::{BTreeSet, HashSet};
use virtual_apic::SharedMemory;
use virtual_apic::apicv::{
    Apicv, IpiSend, IpiStep, PostedInterruptProcessing, ProcessingStep, post_from_device,
};

/// The vCPU that receives; APIC 0 sends.
const TARGET: u16 = 1;
const WAKE_UP: u8 = 0xF1;
const FIRST_CORE: u16 = 1;
const SECOND_CORE: u16 = 2;
/// Two vectors in different quadwords of a descriptor.
const LOW: u8 = 0x31;
const HIGH: u8 = 0xE1;

/// What becomes of a guest that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Plan {
    Stay,
    Block,
    Preempt,
}

/// Where the hypervisor goes once it has taken what was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum After {
    Enter,
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Take {
    LookAtOutstanding,
    ClearOutstanding,
    Requests { quadword: u8 },
}

/// What the target, or its hypervisor, does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    Guest {
        core: u16,
        plan: Plan,
    },
    Processing {
        core: u16,
        plan: Plan,
        processing: PostedInterruptProcessing,
    },
    Suppress,
    NameWakeUp {
        core: u16,
    },
    /// Sleeps unless woken since it left the guest.
    Sleep,
    NameNotification {
        core: u16,
    },
    LookAtRequests {
        core: u16,
    },
    DisableInterrupts {
        core: u16,
    },
    Take {
        core: u16,
        take: Take,
        after: After,
    },
    Enter {
        core: u16,
    },
}

impl Target {
    /// The core whose external interrupts wait, or are taken by the guest.
    fn guest_core(self) -> Option<u16> {
        match self {
            Self::Guest { core, .. }
            | Self::Processing { core, .. }
            | Self::Take { core, after: After::Enter, .. }
            | Self::Enter { core } => Some(core),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    /// A guest's IPI without an exit.
    Ipi(IpiSend),
    Device {
        vector: u8,
        is_urgent: bool,
    },
    /// A hypervisor on another core.
    Software {
        vector: u8,
        phase: Phase,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    SetRequest,
    SetOutstanding,
    Kick,
}

fn ipi(vector: u8) -> Sender {
    Sender::Ipi(IpiSend::new(Vector(vector), TARGET.into()))
}

fn device(vector: u8) -> Sender {
    Sender::Device { vector, is_urgent: false }
}

fn software(vector: u8) -> Sender {
    Sender::Software { vector, phase: Phase::SetRequest }
}

/// What a hypervisor may get wrong.
#[derive(Clone, Copy)]
struct Hypervisor {
    looks_at_requests_when_it_allows_notifications: bool,
    clears_outstanding_before_it_takes_requests: bool,
    looks_at_outstanding_when_it_blocks: bool,
}

const ARCHITECTED: Hypervisor = Hypervisor {
    looks_at_requests_when_it_allows_notifications: true,
    clears_outstanding_before_it_takes_requests: true,
    looks_at_outstanding_when_it_blocks: true,
};

/// Everything that steps can change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    memory: Memory,
    target: Target,
    status: GuestInterruptStatus,
    is_recognized: bool,
    is_woken: bool,
    /// The core whose wake-up handler looks at the target.
    wake_up_core: Option<u16>,
    senders: Vec<Sender>,
    /// Physical interrupts that have been sent and not yet been taken: core and vector. A local
    /// APIC merges equal ones.
    pending: BTreeSet<(u16, u8)>,
    /// How often each vector has been delivered.
    deliveries: [(u8, u8); 2],
}

impl World {
    fn new(target: Target, senders: &[Sender]) -> Self {
        let mut world = Self {
            memory: memory_with_table(),
            target,
            status: GuestInterruptStatus::new(),
            is_recognized: false,
            is_woken: false,
            wake_up_core: None,
            senders: senders.to_vec(),
            pending: BTreeSet::new(),
            deliveries: [(LOW, 0), (HIGH, 0)],
        };
        world.set_control(|control| control.with_destination(u32::from(FIRST_CORE) << 8));
        match target {
            // As the steps that led there left it.
            Target::Sleep => {
                world.wake_up_core = Some(FIRST_CORE);
                world.set_control(|control| control.with_vector(WAKE_UP));
            }
            Target::NameNotification { .. } => {
                world.set_control(|control| control.with_is_suppressed(true));
            }
            _ => {}
        }
        world
    }

    fn control(&self) -> NotificationControl {
        control(&self.memory, TARGET)
    }

    /// One locked access.
    fn set_control(&mut self, change: impl Fn(NotificationControl) -> NotificationControl) {
        let control = change(self.control());
        set_control(&mut self.memory, TARGET, control);
    }

    /// Lets the target's processor work on its page.
    fn with_apicv<T>(&mut self, work: impl FnOnce(&mut Apicv, &mut Memory) -> T) -> T {
        let mut apicv = Apicv {
            posted_descriptor: descriptor(TARGET),
            status: self.status,
            is_recognized: self.is_recognized,
            ..apicv(XAPIC)
        };
        let outcome = work(&mut apicv, &mut self.memory);
        (self.status, self.is_recognized) = (apicv.status, apicv.is_recognized);
        outcome
    }

    /// Every world that one step of one agent leads to.
    fn successors(&self, hypervisor: Hypervisor) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self) -> bool| {
            let mut next = self.clone();
            if change(&mut next) {
                worlds.push(next);
            }
        };
        for n in 0..self.senders.len() {
            add(&|world| world.step_sender(n));
        }
        for &(core, vector) in &self.pending {
            add(&|world| world.interrupt(core, vector));
        }
        add(&|world| world.step_target(hypervisor));
        add(&Self::deliver);
        add(&Self::end_interrupt);
        worlds
    }

    fn step_sender(&mut self, n: usize) -> bool {
        self.senders[n] = match self.senders[n] {
            Sender::Ipi(mut ipi) => match ipi.step(&apicv(XAPIC), &mut self.memory) {
                IpiStep::Continue => Sender::Ipi(ipi),
                IpiStep::Notify(notification) => {
                    self.notify(notification.control);
                    Sender::Ipi(ipi)
                }
                IpiStep::Complete(_) => Sender::Done,
            },
            Sender::Device { vector, is_urgent } => {
                let descriptor = descriptor(TARGET);
                let outcome =
                    post_from_device(&mut self.memory, descriptor, Vector(vector), is_urgent);
                if let Ok(Some(notification)) = outcome {
                    self.notify(notification.control);
                }
                Sender::Done
            }
            Sender::Software { vector, phase } => self.post_by_software(vector, phase),
            Sender::Done => return false,
        };
        true
    }

    fn post_by_software(&mut self, vector: u8, phase: Phase) -> Sender {
        match phase {
            Phase::SetRequest => {
                crate::machine::post(&mut self.memory, TARGET, vector);
                Sender::Software { vector, phase: Phase::SetOutstanding }
            }
            Phase::SetOutstanding if self.control().is_outstanding() => Sender::Done,
            Phase::SetOutstanding => {
                self.set_control(|control| control.with_is_outstanding(true));
                Sender::Software { vector, phase: Phase::Kick }
            }
            Phase::Kick => {
                match self.target.guest_core() {
                    Some(core) => _ = self.pending.insert((core, NOTIFICATION.0)),
                    None => self.is_woken = true,
                }
                Sender::Done
            }
        }
    }

    fn notify(&mut self, control: NotificationControl) {
        self.pending.insert((control.apic_id(false) as u16, control.vector()));
    }

    /// A core takes a physical interrupt, whatever it does by now.
    fn interrupt(&mut self, core: u16, vector: u8) -> bool {
        if self.target.guest_core() == Some(core) {
            // Not while interrupts are off or another is being processed.
            let Target::Guest { plan, .. } = self.target else { return false };
            if self.with_apicv(|apicv, _| apicv.is_notification(Vector(vector))) {
                let processing = PostedInterruptProcessing::new();
                self.target = Target::Processing { core, plan, processing };
            }
        } else if vector == WAKE_UP && self.wake_up_core == Some(core) {
            self.is_woken |= self.control().is_outstanding();
        }
        self.pending.remove(&(core, vector))
    }

    fn deliver(&mut self) -> bool {
        let is_possible = matches!(self.target, Target::Guest { .. }) && self.is_recognized;
        if is_possible {
            let vector = self.with_apicv(|apicv, memory| apicv.deliver(memory));
            for (_, count) in self.deliveries.iter_mut().filter(|row| row.0 == vector.0) {
                *count += 1;
            }
        }
        is_possible
    }

    fn end_interrupt(&mut self) -> bool {
        let is_possible =
            matches!(self.target, Target::Guest { .. }) && self.status.servicing() != 0;
        if is_possible {
            self.with_apicv(|apicv, memory| apicv.virtualize_eoi(memory));
        }
        is_possible
    }

    fn step_target(&mut self, hypervisor: Hypervisor) -> bool {
        self.target = match self.target {
            Target::Guest { plan: Plan::Stay, .. } => return false,
            // An interrupt that can be delivered ends HLT before it exits.
            Target::Guest { plan: Plan::Block, .. } if self.is_recognized => return false,
            Target::Guest { core, plan: Plan::Block } => {
                self.is_woken = false;
                Target::Take { core, take: Take::LookAtOutstanding, after: After::Block }
            }
            Target::Guest { plan: Plan::Preempt, .. } => Target::Suppress,
            Target::Processing { core, plan, mut processing } => {
                match self.with_apicv(|apicv, memory| processing.step(apicv, memory)) {
                    ProcessingStep::Complete => Target::Guest { core, plan },
                    _ => Target::Processing { core, plan, processing },
                }
            }
            Target::Suppress => {
                self.set_control(|control| control.with_is_suppressed(true));
                Target::NameNotification { core: SECOND_CORE }
            }
            Target::NameWakeUp { core } => {
                self.wake_up_core = Some(core);
                self.set_control(|control| control.with_vector(WAKE_UP));
                if self.control().is_outstanding() && hypervisor.looks_at_outstanding_when_it_blocks
                {
                    self.pending.insert((core, WAKE_UP));
                }
                Target::Sleep
            }
            Target::Sleep if !self.is_woken => return false,
            Target::Sleep => Target::NameNotification { core: SECOND_CORE },
            Target::NameNotification { core } => {
                self.wake_up_core = None;
                self.set_control(|control| {
                    let control = control.with_destination(u32::from(core) << 8);
                    control.with_vector(NOTIFICATION.0).with_is_suppressed(false)
                });
                if hypervisor.looks_at_requests_when_it_allows_notifications {
                    Target::LookAtRequests { core }
                } else {
                    Target::DisableInterrupts { core }
                }
            }
            Target::LookAtRequests { core } => {
                let base = descriptor(TARGET);
                if (0..4).any(|quadword| self.memory.read_u64(base.offset(quadword * 8)) != 0) {
                    self.set_control(|control| control.with_is_outstanding(true));
                }
                Target::DisableInterrupts { core }
            }
            Target::DisableInterrupts { core } => {
                Target::Take { core, take: Take::LookAtOutstanding, after: After::Enter }
            }
            Target::Take { core, take, after } => self.take(hypervisor, core, take, after),
            Target::Enter { core } => {
                self.with_apicv(|apicv, memory| apicv.enter(memory));
                Target::Guest { core, plan: Plan::Stay }
            }
        };
        true
    }

    /// One step of the hypervisor's way from the descriptor to the page.
    fn take(&mut self, hypervisor: Hypervisor, core: u16, take: Take, after: After) -> Target {
        let clears_first = hypervisor.clears_outstanding_before_it_takes_requests;
        let take = match take {
            Take::LookAtOutstanding if !self.control().is_outstanding() => None,
            Take::LookAtOutstanding if clears_first => Some(Take::ClearOutstanding),
            Take::LookAtOutstanding => Some(Take::Requests { quadword: 0 }),
            Take::ClearOutstanding => {
                self.set_control(|control| control.with_is_outstanding(false));
                clears_first.then_some(Take::Requests { quadword: 0 })
            }
            Take::Requests { quadword } => {
                self.take_requests(quadword);
                match quadword {
                    0 => Some(Take::Requests { quadword: HIGH / 64 }),
                    _ => (!clears_first).then_some(Take::ClearOutstanding),
                }
            }
        };
        match (take, after) {
            (Some(take), _) => Target::Take { core, take, after },
            (None, After::Enter) => Target::Enter { core },
            (None, After::Block) if self.status.requesting() != 0 => {
                Target::DisableInterrupts { core }
            }
            (None, After::Block) => Target::NameWakeUp { core },
        }
    }

    fn take_requests(&mut self, quadword: u8) {
        let at = descriptor(TARGET).offset(u64::from(quadword) * 8);
        let requests = self.memory.fetch_and_u64(at, 0);
        self.with_apicv(|apicv, memory| {
            let mut page = apicv.page.within(memory);
            for bit in (0..64).filter(|bit| requests >> bit & 1 != 0) {
                page.insert(Bank::Request, Vector(quadword * 64 + bit));
            }
            let highest = page.highest(Bank::Request).map_or(0, |vector| vector.0);
            apicv.status.set_requesting(highest);
        });
    }

    /// Whether each vector that was sent has been delivered, at most as often as it was sent.
    fn is_served(&self, sent: &[Sender]) -> bool {
        self.deliveries.iter().all(|&(vector, count)| {
            let posts = sent.iter().filter(|sender| sender.sends(vector)).count();
            usize::from(posts != 0) <= count.into()
                && usize::from(count) <= posts
                && !contains(&self.memory, Bank::Request, vector)
        })
    }
}

impl Sender {
    fn sends(self, what: u8) -> bool {
        match self {
            Self::Ipi(send) => send == IpiSend::new(Vector(what), TARGET.into()),
            Self::Device { vector, .. } | Self::Software { vector, .. } => vector == what,
            Self::Done => false,
        }
    }
}

/// Runs every interleaving; how many worlds there are in which nothing can move, and in how many of
/// them an interrupt is lost.
fn explore(hypervisor: Hypervisor, target: Target, senders: &[Sender]) -> (usize, usize) {
    let start = World::new(target, senders);
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let (mut ends, mut lost) = (0, 0);
    while let Some(world) = open.pop() {
        assert!(seen.len() < 2_000_000, "the state space stays small");
        let successors = world.successors(hypervisor);
        if successors.is_empty() {
            ends += 1;
            lost += usize::from(!world.is_served(senders));
        }
        open.extend(successors.into_iter().filter(|next| seen.insert(next.clone())));
    }
    (ends, lost)
}

const BLOCKING: Target = Target::Guest { core: FIRST_CORE, plan: Plan::Block };
const PREEMPTED: Target = Target::Guest { core: FIRST_CORE, plan: Plan::Preempt };
const STAYING: Target = Target::Guest { core: FIRST_CORE, plan: Plan::Stay };
const SCHEDULED: Target = Target::NameNotification { core: FIRST_CORE };
const ALL: [Target; 5] = [STAYING, BLOCKING, PREEMPTED, SCHEDULED, Target::Sleep];

fn check_nothing_is_lost(target: Target, senders: &[Sender]) {
    let (ends, lost) = explore(ARCHITECTED, target, senders);
    assert!(ends > 0);
    assert_eq!(lost, 0, "{target:?} {senders:?}, of {ends}");
}

#[test]
fn no_interrupt_of_a_sender_is_lost_wherever_the_target_is() {
    for target in ALL {
        for sender in [ipi, device, software] {
            check_nothing_is_lost(target, &[sender(LOW)]);
            check_nothing_is_lost(target, &[sender(HIGH)]);
        }
    }
}

#[test]
fn no_interrupt_of_two_senders_is_lost() {
    for target in ALL {
        for (first, second) in
            [(ipi(LOW), ipi(HIGH)), (ipi(LOW), device(HIGH)), (software(HIGH), ipi(LOW))]
        {
            check_nothing_is_lost(target, &[first, second]);
        }
    }
}

#[test]
fn the_same_vector_of_two_senders_is_delivered_once_or_twice() {
    for target in ALL {
        check_nothing_is_lost(target, &[ipi(LOW), device(LOW)]);
        check_nothing_is_lost(target, &[ipi(LOW), software(LOW)]);
    }
}

#[test]
fn an_urgent_interrupt_of_a_device_is_not_lost_either() {
    for target in ALL {
        let urgent = Sender::Device { vector: HIGH, is_urgent: true };
        check_nothing_is_lost(target, &[ipi(LOW), urgent]);
    }
}

fn check_is_found(hypervisor: Hypervisor, target: Target, senders: &[Sender]) {
    let (ends, lost) = explore(hypervisor, target, senders);
    assert!(0 < lost && lost < ends, "{target:?} {senders:?}: {lost} of {ends}");
}

#[test]
fn allowing_notifications_without_a_look_at_the_requests_loses_interrupts() {
    let hypervisor =
        Hypervisor { looks_at_requests_when_it_allows_notifications: false, ..ARCHITECTED };
    check_is_found(hypervisor, PREEMPTED, &[ipi(LOW)]);
    check_is_found(hypervisor, SCHEDULED, &[ipi(LOW)]);
    check_is_found(hypervisor, PREEMPTED, &[device(LOW)]);
}

#[test]
fn taking_requests_before_on_is_cleared_loses_interrupts() {
    let hypervisor =
        Hypervisor { clears_outstanding_before_it_takes_requests: false, ..ARCHITECTED };
    check_is_found(hypervisor, PREEMPTED, &[ipi(LOW), ipi(HIGH)]);
    check_is_found(hypervisor, SCHEDULED, &[device(HIGH), ipi(LOW)]);
}

#[test]
fn blocking_without_a_look_at_on_loses_wake_ups() {
    let hypervisor = Hypervisor { looks_at_outstanding_when_it_blocks: false, ..ARCHITECTED };
    check_is_found(hypervisor, BLOCKING, &[ipi(LOW)]);
    check_is_found(hypervisor, BLOCKING, &[device(LOW)]);
}
