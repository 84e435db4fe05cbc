//! A vCPU as the silicon shows it: where it is, and what waits for it.

use super::Rule;
use super::page::{Page, posted};
use crate::silicon;
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
const PATIENCE_ASLEEP: Picoseconds = Picoseconds::from_nanoseconds(300_000);
/// The same for a guest that runs on, which takes an interrupt between two instructions.
const PATIENCE_RUNNING: Picoseconds = Picoseconds::from_nanoseconds(100_000);
/// So many instructions it must have executed meanwhile: a processor that is held up executes none.
const MOST_INSTRUCTIONS: u64 = 2_000;

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
    since: Picoseconds,
    /// What its processor had executed then.
    instructions: u64,
    /// For how long processors had been held up then.
    held: Picoseconds,
    is_raised: bool,
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
        (self.place, self.wait) = (Place::InGuest, None);
        before != cpu
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

    /// It takes an interrupt: what waits from now on has not waited before.
    pub(super) fn accept(&mut self) {
        self.wait = None;
    }

    pub(super) fn leave(&mut self, halted: bool) {
        (self.place, self.wait) = (Place::Out { halted }, None);
    }

    /// The processor that it runs on, or ran on last.
    pub fn cpu(&self) -> u16 {
        self.cpu
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Judges it as it is now: a rule that has been broken for long enough, since when, and the
    /// vector that waits, each time once.
    pub(super) fn judge(&mut self, machine: &Machine) -> Option<(Rule, Picoseconds, Vector)> {
        let Some((rule, vector)) = self.suspect(machine) else {
            self.wait = None;
            return None;
        };
        let now = machine.state.now;
        let instructions = machine.state.cpus[usize::from(self.cpu)].clock.instructions();
        if self.wait.is_none_or(|wait| wait.rule != rule) {
            let held = machine.longest_hold();
            self.wait = Some(Wait { rule, since: now, instructions, held, is_raised: false });
        }
        let wait = self.wait.as_mut()?;
        // While a processor is held up, the hypervisor cannot be blamed.
        let held = Picoseconds(machine.longest_hold().0.saturating_sub(wait.held.0));
        let lasted = Picoseconds(now.0.saturating_sub(wait.since.0));
        let is_too_long = match rule {
            Rule::NotTaken => {
                lasted > PATIENCE_RUNNING.saturating_add(held)
                    && instructions - wait.instructions > MOST_INSTRUCTIONS
            }
            _ => lasted > PATIENCE_ASLEEP.saturating_add(held),
        };
        if !is_too_long || std::mem::replace(&mut wait.is_raised, true) {
            return None;
        }
        Some((rule, wait.since, vector))
    }

    /// What would be wrong if it lasted.
    fn suspect(&self, machine: &Machine) -> Option<(Rule, Vector)> {
        let cpu = machine.state.cpus.get(usize::from(self.cpu))?;
        match self.place {
            Place::InGuest => {
                // Without AVIC and APICv it is the hypervisor who has to interrupt the guest.
                let runs = cpu.pending.activity() == Activity::Running && cpu.is_guest();
                let waits = self.waiting(machine).filter(|_| runs && is_open(cpu));
                waits.map(|vector| (Rule::NotTaken, vector))
            }
            Place::Out { halted: true } if is_idle(cpu) => {
                let waits = self.waiting(machine).filter(|_| self.is_open_outside(machine));
                let is_said = || self.is_said_to_run(machine).then_some(Vector(0));
                let asleep = waits.map(|vector| (Rule::Asleep, vector));
                let unended = || Some((Rule::InService, self.unended(machine)?));
                asleep.or_else(unended).or_else(|| Some((Rule::SaidToRun, is_said()?)))
            }
            Place::Out { .. } => None,
        }
    }

    /// The interrupt in its virtual APIC that its priorities let through.
    fn waiting(&self, machine: &Machine) -> Option<Vector> {
        let memory = &machine.memory;
        let page = silicon::apic_page(machine, self.block)?;
        let descriptor = silicon::descriptor(machine, self.block);
        Page::new(memory, page).deliverable(descriptor.and_then(|one| posted(memory, one)))
    }

    /// The interrupt that is in service although the vCPU halted where it would be woken: the guest
    /// of the mix never halts in a handler.
    fn unended(&self, machine: &Machine) -> Option<Vector> {
        let page = silicon::apic_page(machine, self.block)?;
        let served = Page::new(&machine.memory, page).in_service();
        served.filter(|_| self.is_open_outside(machine))
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
