//! What would be wrong if it lasted, and for how long is too long.

use super::{Rule, Way};
use arch::identity::Vector;
use arch::time::Picoseconds;
use board::Machine;

/// A wake-up that takes longer is lost: on an idle processor a kernel takes a tenth.
pub const PATIENCE_ASLEEP: Picoseconds = Picoseconds::from_nanoseconds(300_000);
/// The same for a guest that runs on, which takes an interrupt between two instructions, or is
/// interrupted for it within two microseconds. It begins again while anybody is held up, who may be
/// about to send that interruption.
const PATIENCE_RUNNING: Picoseconds = Picoseconds::from_nanoseconds(40_000);
/// It must be seen so often, in its guest and able to take it, each time having gone on by so many
/// instructions: a processor that is held up executes none.
const LOOKS: u32 = 4;
const INSTRUCTIONS: u64 = 500;
/// Or it must have entered its guest so often meanwhile: one that halts and is not given what it is
/// woken for is hardly ever seen there.
const ENTRIES: u32 = 8;

/// No processor that runs is ahead of the others by as much.
const HELD: Picoseconds = Picoseconds::from_nanoseconds(1_000);

/// Something that must not last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub rule: Rule,
    /// What waited first.
    pub vector: u8,
    since: Picoseconds,
    /// Since when nobody has been held up, from there on.
    calm: Picoseconds,
    /// What its processor had executed when it was last counted.
    instructions: u64,
    /// How often it was seen in its guest since, and how often it entered it.
    looks: u32,
    pub entries: u32,
    /// For how long processors had been held up then.
    held: Picoseconds,
    is_raised: bool,
}

/// What a look at a vCPU says.
pub(super) enum Sight {
    /// Nothing is wrong.
    Right,
    /// What may be wrong does not show here: it goes on if it had begun.
    Hidden,
    /// This would be wrong if it lasted.
    Wrong(Wrong),
}

/// What would be wrong if it lasted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrong {
    pub rule: Rule,
    /// What waits.
    pub vector: Vector,
    /// Who is told what is not so: a function, or the guest's other processors. Nothing where how
    /// the vector came says it.
    pub way: Option<Way>,
}

impl Wrong {
    pub fn waits(rule: Rule, vector: Vector) -> Self {
        Self { rule, vector, way: None }
    }
}

/// What lasted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub wrong: Wrong,
    pub since: Picoseconds,
}

/// Whether what a look at a vCPU says has lasted for too long now: one of this processor, which
/// is in its guest or is not.
pub(super) fn lasts(
    wait: &mut Option<Wait>,
    sight: Sight,
    machine: &Machine,
    cpu: u16,
    is_inside: bool,
) -> Option<Verdict> {
    let wrong = match sight {
        Sight::Wrong(wrong) => wrong,
        Sight::Hidden => return None,
        Sight::Right => {
            *wait = None;
            return None;
        }
    };
    let Wrong { rule, vector, .. } = wrong;
    let now = machine.state.now;
    let instructions = machine.state.cpus[usize::from(cpu)].clock.instructions();
    if wait.is_none_or(|wait| wait.rule != rule) {
        let held = machine.longest_hold();
        let (looks, entries, since) = (0, 0, now);
        *wait = Some(Wait {
            rule,
            vector: vector.0,
            since,
            calm: now,
            instructions,
            looks,
            entries,
            held,
            is_raised: false,
        });
    }
    let wait = wait.as_mut()?;
    if is_anybody_held(machine) {
        (wait.calm, wait.looks, wait.entries) = (now, 0, 0);
    }
    // It may be on another processor than it was.
    let is_further = instructions.abs_diff(wait.instructions) >= INSTRUCTIONS;
    if is_inside && is_further {
        (wait.looks, wait.instructions) = (wait.looks + 1, instructions);
    }
    // While a processor is held up, the hypervisor cannot be blamed.
    let held = Picoseconds(machine.longest_hold().0.saturating_sub(wait.held.0));
    let lasted = Picoseconds(now.0.saturating_sub(wait.since.0));
    let is_too_long = match rule {
        Rule::NotTaken | Rule::Elsewhere => {
            now.0.saturating_sub(wait.calm.0) > PATIENCE_RUNNING.0
                && (wait.looks >= LOOKS || wait.entries >= ENTRIES)
        }
        _ => lasted > PATIENCE_ASLEEP.saturating_add(held),
    };
    if !is_too_long || std::mem::replace(&mut wait.is_raised, true) {
        return None;
    }
    Some(Verdict { wrong, since: wait.since })
}

/// A processor that is held up has its clock ahead of all others'.
pub(super) fn is_anybody_held(machine: &Machine) -> bool {
    let soon = machine.state.now.saturating_add(HELD);
    machine.state.cpus.iter().any(|cpu| cpu.clock.now() > soon)
}
