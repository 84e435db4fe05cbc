//! Senders against hypervisors that take vCPUs off their cores and put them back:
//! every interleaving of their steps.
//!
//! The hypervisors' steps are those that any must take, and KVM does: to block, clear IsRunning,
//! then look at IRR, then sleep; to run, set IsRunning, then VMRUN; on an incomplete IPI, ring the
//! doorbell of a target that is in its guest, or else wake it.

use crate::machine::{Memory, avic, memory, page};
use arch::apic::Icr;
use arch::identity::ApicId;
use std::collections::HashSet;
use virtual_apic::avic::{
    Avic, AvicBehaviour, AvicMode, DoorbellReception, IpiOutcome, IpiSend, IpiStep,
};

const VECTOR: u8 = 0xFD;
const DESTINATION: u32 = 0x4000 | VECTOR as u32;
const ALL_BUT_SELF: u32 = DESTINATION | 3 << 18;

/// What a target's hypervisor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// In the guest on `core`, to leave it by HLT.
    BlockingGuest {
        core: u16,
    },
    /// In the guest on `core`, to be preempted and put on another core.
    PreemptedGuest {
        core: u16,
    },
    ClearRunning,
    LookAtRequests,
    /// Sleeps unless woken since it decided to block.
    Sleep,
    Asleep,
    /// Off its core, waiting for another.
    Preempt,
    SetRunning {
        core: u16,
    },
    Vmrun {
        core: u16,
    },
    /// In the guest for good.
    Guest {
        core: u16,
    },
}

impl Target {
    fn guest_core(self) -> Option<u16> {
        match self {
            Self::BlockingGuest { core } | Self::PreemptedGuest { core } | Self::Guest { core } => {
                Some(core)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Sending(Box<IpiSend>),
    /// After exit 401h: its hypervisor kicks target `next` and those above.
    Kicking {
        next: usize,
    },
    Done,
}

/// Everything that steps can change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    memory: Memory,
    /// Targets 1, 2, …; APIC 0 sends.
    targets: Vec<(Target, bool)>,
    senders: Vec<Sender>,
    /// Doorbells that have been rung and not yet heard.
    ringing: Vec<u16>,
}

#[derive(Clone, Copy)]
struct Rules {
    behaviour: AvicBehaviour,
    /// KVM's workaround: IsRunning is never set.
    never_sets_running: bool,
}

/// The core on which a vCPU continues that was preempted or woken.
fn second_core(target: usize) -> u16 {
    20 + target as u16
}

impl World {
    fn new(rules: Rules, targets: &[Target], commands: &[(u32, u32)]) -> Self {
        let mut running = vec![(0, Some(0))];
        for (index, target) in targets.iter().enumerate() {
            let core = target.guest_core().filter(|_| !rules.never_sets_running);
            running.push((index as u16 + 1, core));
        }
        let send = |&(low, destination): &(u32, u32)| {
            Sender::Sending(Box::new(IpiSend::new(Icr::from_dwords(low, destination << 24))))
        };
        Self {
            memory: memory(AvicMode::Xapic, &running),
            targets: targets.iter().map(|&target| (target, false)).collect(),
            senders: commands.iter().map(send).collect(),
            ringing: Vec::new(),
        }
    }

    fn avic(&self, rules: Rules, index: u16) -> Avic {
        Avic { backing_page: page(index).0, behaviour: rules.behaviour, ..avic(AvicMode::Xapic) }
    }

    /// Every world that one step of one agent leads to.
    fn successors(&self, rules: Rules) -> Vec<Self> {
        let senders = (0..self.senders.len()).filter_map(|n| self.step_sender(rules, n));
        let targets = (0..self.targets.len()).filter_map(|n| self.step_target(rules, n));
        let doorbells = (0..self.ringing.len()).map(|n| self.hear(rules, n));
        senders.chain(targets).chain(doorbells).collect()
    }

    fn step_sender(&self, rules: Rules, n: usize) -> Option<Self> {
        let mut next = self.clone();
        next.senders[n] = match self.senders[n].clone() {
            Sender::Sending(mut ipi) => match ipi.step(&self.avic(rules, 0), &mut next.memory) {
                IpiStep::Continue | IpiStep::Late | IpiStep::Posted { .. } => Sender::Sending(ipi),
                IpiStep::Doorbell(ApicId(core)) => {
                    next.ringing.push(core as u16);
                    Sender::Sending(ipi)
                }
                IpiStep::Complete(IpiOutcome::Delivered { .. }) => Sender::Done,
                IpiStep::Complete(IpiOutcome::Exit(_)) => Sender::Kicking { next: 0 },
            },
            Sender::Kicking { next: target } if target < self.targets.len() => {
                next.kick(target);
                Sender::Kicking { next: target + 1 }
            }
            Sender::Kicking { .. } => Sender::Done,
            Sender::Done => return None,
        };
        Some(next)
    }

    fn kick(&mut self, target: usize) {
        match self.targets[target].0.guest_core() {
            Some(core) => self.ringing.push(core),
            None => self.targets[target].1 = true,
        }
    }

    fn step_target(&self, rules: Rules, n: usize) -> Option<Self> {
        let mut next = self.clone();
        let index = n as u16 + 1;
        let (state, is_woken) = self.targets[n];
        let core = second_core(n);
        let (following, keeps_wake) = match state {
            Target::BlockingGuest { .. } => (Target::ClearRunning, false),
            Target::PreemptedGuest { .. } => (Target::Preempt, false),
            Target::ClearRunning => {
                next.memory.set_running(index, None);
                (Target::LookAtRequests, true)
            }
            Target::LookAtRequests if page(index).is_requested(&self.memory, VECTOR) => {
                (Target::SetRunning { core }, true)
            }
            Target::LookAtRequests => (Target::Sleep, true),
            Target::Sleep if is_woken => (Target::SetRunning { core }, false),
            Target::Sleep => (Target::Asleep, false),
            Target::Asleep if is_woken => (Target::SetRunning { core }, false),
            Target::Asleep => return None,
            Target::Preempt => {
                next.memory.set_running(index, None);
                (Target::SetRunning { core }, true)
            }
            Target::SetRunning { core } => {
                let shown = (!rules.never_sets_running).then_some(core);
                next.memory.set_running(index, shown);
                (Target::Vmrun { core }, true)
            }
            Target::Vmrun { core } => {
                next.evaluate(rules, index);
                (Target::Guest { core }, true)
            }
            Target::Guest { .. } => return None,
        };
        next.targets[n] = (following, is_woken && keeps_wake);
        Some(next)
    }

    /// The doorbell reaches its core, whatever that does by now.
    fn hear(&self, rules: Rules, n: usize) -> Self {
        let mut next = self.clone();
        let core = next.ringing.remove(n);
        for (target, (state, _)) in self.targets.iter().enumerate() {
            let index = target as u16 + 1;
            let running = (state.guest_core() == Some(core)).then(|| self.avic(rules, index));
            if DoorbellReception::of(running.as_ref()) == DoorbellReception::Evaluate {
                next.evaluate(rules, index);
            }
        }
        next
    }

    fn evaluate(&mut self, rules: Rules, index: u16) {
        let avic = self.avic(rules, index);
        if let Some(vector) = avic.deliverable(&mut self.memory) {
            avic.accept(&mut self.memory, vector);
        }
    }

    /// Whether each target has taken the interrupt.
    fn is_delivered(&self) -> bool {
        (1..=self.targets.len()).all(|n| page(n as u16).is_in_service(&self.memory, VECTOR))
    }
}

/// Runs every interleaving; the worlds in which nothing can move, and how many of them have lost
/// an interrupt.
fn explore(rules: Rules, targets: &[Target], commands: &[(u32, u32)]) -> (usize, usize) {
    let start = World::new(rules, targets, commands);
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let (mut ends, mut lost) = (0, 0);
    while let Some(world) = open.pop() {
        assert!(seen.len() < 2_000_000, "the state space stays small");
        let successors = world.successors(rules);
        if successors.is_empty() {
            ends += 1;
            lost += usize::from(!world.is_delivered());
        }
        open.extend(successors.into_iter().filter(|next| seen.insert(next.clone())));
    }
    (ends, lost)
}

const ARCHITECTED: Rules = Rules { behaviour: DEFAULT, never_sets_running: false };
const ERRATUM: Rules =
    Rules { behaviour: AvicBehaviour { erratum_1235: true, ..DEFAULT }, never_sets_running: false };
const DEFAULT: AvicBehaviour = AvicBehaviour::DEFAULT;

const BLOCKING: Target = Target::BlockingGuest { core: 1 };
const PREEMPTED: Target = Target::PreemptedGuest { core: 1 };
const SCHEDULED: Target = Target::SetRunning { core: 1 };
const TO_1: (u32, u32) = (DESTINATION, 1);

fn check_nothing_is_lost(rules: Rules, targets: &[Target], commands: &[(u32, u32)]) {
    let (ends, lost) = explore(rules, targets, commands);
    assert!(ends > 0);
    assert_eq!(lost, 0, "{targets:?} of {ends}");
}

#[test]
fn no_interrupt_is_lost_to_a_target_that_blocks() {
    check_nothing_is_lost(ARCHITECTED, &[BLOCKING], &[TO_1]);
}

#[test]
fn no_interrupt_is_lost_to_a_target_that_moves_to_another_core() {
    check_nothing_is_lost(ARCHITECTED, &[PREEMPTED], &[TO_1]);
}

#[test]
fn no_interrupt_is_lost_to_a_target_that_is_being_scheduled() {
    check_nothing_is_lost(ARCHITECTED, &[SCHEDULED], &[TO_1]);
    check_nothing_is_lost(ARCHITECTED, &[Target::Asleep], &[TO_1]);
}

#[test]
fn no_interrupt_of_two_senders_is_lost() {
    for target in [BLOCKING, PREEMPTED, SCHEDULED] {
        check_nothing_is_lost(ARCHITECTED, &[target], &[TO_1, TO_1]);
    }
}

#[test]
fn no_target_of_a_broadcast_loses_it() {
    let second = Target::BlockingGuest { core: 2 };
    for targets in [[BLOCKING, second], [PREEMPTED, second], [SCHEDULED, second]] {
        check_nothing_is_lost(ARCHITECTED, &targets, &[(ALL_BUT_SELF, 0)]);
    }
}

#[test]
fn erratum_1235_loses_wake_ups() {
    for target in [BLOCKING, PREEMPTED] {
        let (ends, lost) = explore(ERRATUM, &[target], &[TO_1]);
        assert!(0 < lost && lost < ends, "{target:?}: {lost} of {ends}");
    }
}

#[test]
fn erratum_1235_does_no_harm_while_is_running_is_never_set() {
    let workaround = Rules { never_sets_running: true, ..ERRATUM };
    for target in [BLOCKING, PREEMPTED, SCHEDULED] {
        check_nothing_is_lost(workaround, &[target], &[TO_1]);
    }
    check_nothing_is_lost(workaround, &[BLOCKING], &[TO_1, TO_1]);
}

/// A hypervisor that looks at IRR before it clears IsRunning loses interrupts on any silicon: the
/// search is able to fail.
#[test]
fn looking_before_clearing_is_running_loses_wake_ups() {
    let world = |state| {
        let mut world = World::new(ARCHITECTED, &[BLOCKING], &[TO_1]);
        world.targets[0].0 = state;
        world
    };
    // Past the look at an empty IRR, IsRunning still set.
    let mut open = vec![world(Target::Sleep)];
    let mut lost = false;
    while let Some(world) = open.pop() {
        let successors = world.successors(ARCHITECTED);
        lost |= successors.is_empty() && !world.is_delivered();
        open.extend(successors);
    }
    assert!(lost);
}
