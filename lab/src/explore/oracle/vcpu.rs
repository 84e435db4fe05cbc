//! A vCPU as the silicon shows it: where it is, and what waits for it.

use super::page::{Page, posted};
use super::{Rule, Way};
use crate::silicon::{self, remapping::Posting};
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::identity::Vector;
use arch::svm::ExitCode;
use arch::svm::avic::{PHYSICAL_ENTRY_SIZE, PhysicalEntry};
use arch::svm::vmcb::{control, save};
use arch::time::Picoseconds;
use arch::vmx::field::guest;
use board::Machine;
use cpu::{Activity, Cpu};

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

/// [SDM3 "Basic VM-Exit Reasons"]
const VMX_HLT: u32 = 12;

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between entry and exit.
    InGuest,
    /// With the hypervisor.
    Out {
        /// It left by HLT.
        halted: bool,
    },
}

/// Something that must not last.
#[derive(Clone, Copy, Debug)]
struct Wait {
    rule: Rule,
    /// What waited first.
    vector: u8,
    since: Picoseconds,
    /// Since when nobody has been held up, from there on.
    calm: Picoseconds,
    /// What its processor had executed when it was last counted.
    instructions: u64,
    /// How often it was seen in its guest since, and how often it entered it.
    looks: u32,
    entries: u32,
    /// For how long processors had been held up then.
    held: Picoseconds,
    is_raised: bool,
}

/// What a look at a vCPU says.
enum Sight {
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
    fn waits(rule: Rule, vector: Vector) -> Self {
        Self { rule, vector, way: None }
    }
}

/// What lasted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub wrong: Wrong,
    pub since: Picoseconds,
}

/// A vCPU.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The address of its VMCB or VMCS.
    block: SystemPhysical,
    cpu: u16,
    place: Place,
    wait: Option<Wait>,
    /// Whether the processor gave it its interrupts when it was last seen in its guest.
    is_virtual: Option<bool>,
}

/// Whether a guest of SVM leaves to sleep.
pub fn svm_halts(code: ExitCode) -> bool {
    matches!(code, ExitCode::Hlt | ExitCode::IdleHlt)
}

/// Whether a guest of VMX leaves to sleep.
pub fn vmx_halts(reason: u32) -> bool {
    reason & 0xFFFF == VMX_HLT
}

impl Vcpu {
    pub(super) fn new(block: SystemPhysical, cpu: u16) -> Self {
        Self { block, cpu, place: Place::Out { halted: false }, wait: None, is_virtual: None }
    }

    /// It enters its guest; whether it was on another processor before.
    pub(super) fn enter(&mut self, cpu: u16) -> bool {
        let before = std::mem::replace(&mut self.cpu, cpu);
        self.go(Place::InGuest);
        if let Some(wait) = &mut self.wait {
            wait.entries += 1;
        }
        before != cpu
    }

    /// What sleeps waits from there on; what is not given its interrupts waits on.
    fn go(&mut self, place: Place) {
        self.place = place;
        self.wait = self.wait.filter(|wait| wait.rule == Rule::NotTaken);
    }

    /// Whether AVIC or APICv was switched since it was last seen in its guest.
    pub(super) fn is_switched(&mut self, machine: &Machine) -> bool {
        let Some(cpu) = machine.state.cpus.get(usize::from(self.cpu)) else { return false };
        if self.place != Place::InGuest || !cpu.is_guest() {
            return false;
        }
        let now = takes_virtual(cpu);
        self.is_virtual.replace(now).is_some_and(|before| before != now)
    }

    /// It takes an interrupt: what waits from now on has not waited before, unless it should have
    /// been taken first.
    pub(super) fn accept(&mut self, vector: u8) {
        self.wait = self.wait.filter(|wait| vector < wait.vector);
    }

    pub(super) fn leave(&mut self, halted: bool) {
        self.go(Place::Out { halted });
    }

    /// The processor that it runs on, or ran on last.
    pub fn cpu(&self) -> u16 {
        self.cpu
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Judges it as it is now, with what functions' messages are posted to: a rule that has been
    /// broken for long enough, each time once.
    pub(super) fn judge(&mut self, machine: &Machine, postings: &[Posting]) -> Option<Verdict> {
        let wrong = match self.see(machine, postings) {
            Sight::Wrong(wrong) => wrong,
            Sight::Hidden => return None,
            Sight::Right => {
                self.wait = None;
                return None;
            }
        };
        let Wrong { rule, vector, .. } = wrong;
        let now = machine.state.now;
        let instructions = machine.state.cpus[usize::from(self.cpu)].clock.instructions();
        if self.wait.is_none_or(|wait| wait.rule != rule) {
            let held = machine.longest_hold();
            let (looks, entries, since) = (0, 0, now);
            self.wait = Some(Wait {
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
        let wait = self.wait.as_mut()?;
        if is_anybody_held(machine) {
            (wait.calm, wait.looks, wait.entries) = (now, 0, 0);
        }
        // It may be on another processor than it was.
        let is_further = instructions.abs_diff(wait.instructions) >= INSTRUCTIONS;
        if self.place == Place::InGuest && is_further {
            (wait.looks, wait.instructions) = (wait.looks + 1, instructions);
        }
        // While a processor is held up, the hypervisor cannot be blamed.
        let held = Picoseconds(machine.longest_hold().0.saturating_sub(wait.held.0));
        let lasted = Picoseconds(now.0.saturating_sub(wait.since.0));
        let is_too_long = match rule {
            Rule::NotTaken => {
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

    fn see(&self, machine: &Machine, postings: &[Posting]) -> Sight {
        let Some(cpu) = machine.state.cpus.get(usize::from(self.cpu)) else { return Sight::Right };
        let waits = self.waiting(machine);
        match (self.place, waits) {
            (Place::InGuest, Some(vector)) => {
                // Without AVIC and APICv it is the hypervisor who has to interrupt the guest.
                let runs = cpu.pending.activity() == Activity::Running && cpu.is_guest();
                match runs && is_open(cpu) {
                    true => Sight::Wrong(Wrong::waits(Rule::NotTaken, vector)),
                    false => Sight::Right,
                }
            }
            (Place::Out { halted: true }, _) if is_idle(cpu) => {
                self.see_asleep(machine, postings, waits)
            }
            (Place::Out { halted: true }, Some(vector)) if self.is_open_outside(machine) => {
                Sight::Wrong(Wrong::waits(Rule::NotTaken, vector))
            }
            (Place::Out { halted: false }, Some(_)) => Sight::Hidden,
            _ => Sight::Right,
        }
    }

    /// What is wrong with one that sleeps on an idle processor.
    fn see_asleep(&self, machine: &Machine, postings: &[Posting], waits: Option<Vector>) -> Sight {
        let is_open = self.is_open_outside(machine);
        let waiting = |rule, vector: Option<Vector>| {
            vector.filter(|_| is_open).map(|vector| Wrong::waits(rule, vector))
        };
        let unended = || waiting(Rule::InService, self.in_service(machine));
        let said = |way| Wrong { rule: Rule::SaidToRun, vector: Vector(0), way: Some(way) };
        let by_table = || self.is_said_to_run(machine).then(|| said(Way::Physical));
        let by_whom = || self.who_thinks_it_runs(machine, postings).map(said);
        let asleep = waiting(Rule::Asleep, waits);
        let wrong = asleep.or_else(unended).or_else(by_table);
        wrong.or_else(|| by_whom().filter(|_| is_open)).map_or(Sight::Right, Sight::Wrong)
    }

    /// The interrupt in its virtual APIC that its priorities let through.
    fn waiting(&self, machine: &Machine) -> Option<Vector> {
        let memory = &machine.memory;
        let page = silicon::apic_page(machine, self.block)?;
        let descriptor = silicon::descriptor(machine, self.block);
        Page::new(memory, page).deliverable(descriptor.and_then(|one| posted(memory, one)))
    }

    /// The interrupt that is in service: the guest of the mix never halts in a handler.
    fn in_service(&self, machine: &Machine) -> Option<Vector> {
        let page = silicon::apic_page(machine, self.block)?;
        Page::new(&machine.memory, page).in_service()
    }

    /// Where those who send to it put vectors: its backing page, or its posted-interrupt
    /// descriptor.
    pub(super) fn place_of_requests(&self, machine: &Machine) -> Option<SystemPhysical> {
        silicon::descriptor(machine, self.block).or_else(|| silicon::apic_page(machine, self.block))
    }

    /// RFLAGS.IF as it left.
    fn is_open_outside(&self, machine: &Machine) -> bool {
        let flags = match silicon::vmcs(machine, self.block) {
            None => silicon::vmcb(machine, self.block).map_or(0, |vmcb| vmcb.get(save::RFLAGS)),
            Some(vmcs) => vmcs.get(guest::RFLAGS),
        };
        flags & rflags::IF != 0
    }

    /// The entry of AVIC's physical table that names its backing page says that it runs.
    fn is_said_to_run(&self, machine: &Machine) -> bool {
        let Some(vmcb) = silicon::vmcb(machine, self.block) else { return false };
        let Some(page) = silicon::apic_page(machine, self.block) else { return false };
        let pointer = vmcb.get(control::AVIC_PHYSICAL_TABLE);
        (0..=u64::from(pointer.max_index())).any(|index| {
            let at = pointer.table().offset(index * PHYSICAL_ENTRY_SIZE);
            let entry = PhysicalEntry::from_bits(machine.memory.read_u64(at).unwrap_or(0));
            entry.is_valid() && entry.is_running() && entry.backing_page() == page
        })
    }

    /// Who would post to it as if it ran: a function, by its remapping entry or by the descriptor,
    /// or another processor of its guest.
    fn who_thinks_it_runs(&self, machine: &Machine, postings: &[Posting]) -> Option<Way> {
        let page = silicon::apic_page(machine, self.block);
        let descriptor = silicon::descriptor(machine, self.block);
        let is_announced = silicon::is_announced_as_running(machine, self.block);
        let is_wrong = |posting: &Posting| match posting {
            Posting::Entry(entry) => entry.is_running() && Some(entry.backing_page()) == page,
            Posting::Descriptor(at) => is_announced && Some(*at) == descriptor,
        };
        if postings.iter().any(is_wrong) {
            return Some(Way::Device);
        }
        let by_others = is_announced && silicon::virtualizes_ipis(machine, self.block);
        by_others.then_some(Way::Physical)
    }
}

/// A processor that is held up has its clock ahead of all others'.
pub(super) fn is_anybody_held(machine: &Machine) -> bool {
    let soon = machine.state.now.saturating_add(HELD);
    machine.state.cpus.iter().any(|cpu| cpu.clock.now() > soon)
}

/// HLT or MWAIT of the host: nobody there has anything to run.
fn is_idle(cpu: &Cpu) -> bool {
    matches!(cpu.pending.activity(), Activity::Halted | Activity::Waiting) && !cpu.is_guest()
}

/// Whether the processor itself gives the running guest its interrupts.
fn takes_virtual(cpu: &Cpu) -> bool {
    let running = &cpu.guest.running;
    running.svm().is_some_and(|guest| guest.avic.is_some())
        || running.vmx().is_some_and(|guest| {
            guest.apicv.as_ref().is_some_and(|apicv| apicv.controls.delivers_interrupts)
        })
}

/// The running software takes interrupts.
fn is_open(cpu: &Cpu) -> bool {
    cpu.registers.flags.has(rflags::IF)
}
