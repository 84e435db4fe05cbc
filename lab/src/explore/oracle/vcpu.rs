//! A vCPU as the silicon shows it: where it is, and what waits for it.

use super::Rule;
use super::page::{Page, posted};
use super::said::{self, Said};
use super::wait::{self, Sight, Verdict, Wait, Wrong};
use crate::silicon::{self, remapping::Posting};
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::identity::Vector;
use arch::svm::ExitCode;
use arch::svm::vmcb::save;
use arch::vmx::field::guest;
use board::Machine;
use cpu::{Activity, Cpu};

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

/// A vCPU.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The address of its VMCB or VMCS.
    block: SystemPhysical,
    cpu: u16,
    place: Place,
    wait: Option<Wait>,
    /// Since it entered its guest: that it is said to be elsewhere.
    stray: Option<Wait>,
    /// Whether the processor gave it its interrupts when it was last seen in its guest.
    is_virtual: Option<bool>,
    /// Whether it entered its guest at the beginning of a segment last.
    is_at_zero: bool,
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
        let place = Place::Out { halted: false };
        Self { block, cpu, place, wait: None, stray: None, is_virtual: None, is_at_zero: false }
    }

    /// Whether it enters its guest at the beginning of a segment, which it did not last.
    pub(super) fn begins(&mut self, is_at_zero: bool) -> bool {
        !std::mem::replace(&mut self.is_at_zero, is_at_zero) && is_at_zero
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
        self.stray = None;
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

    /// Judges it as it is now, with what functions' messages are posted to: rules that have been
    /// broken for long enough, each time once.
    pub(super) fn judge(
        &mut self,
        machine: &Machine,
        postings: &[Posting],
    ) -> [Option<Verdict>; 2] {
        let waits = self.see(machine, postings);
        let strays = self.see_elsewhere(machine, postings);
        let Self { place, cpu, wait, stray, .. } = self;
        let is_inside = *place == Place::InGuest;
        [
            wait::lasts(wait, waits, machine, *cpu, is_inside),
            wait::lasts(stray, strays, machine, *cpu, is_inside),
        ]
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
        let by_table = || said::by_table(machine, self.block).map(|one| said(one.to));
        let by_whom = || said::by_postings(machine, self.block, postings).map(|one| said(one.to));
        let asleep = waiting(Rule::Asleep, waits);
        let wrong = asleep.or_else(unended).or_else(by_table);
        wrong.or_else(|| by_whom().filter(|_| is_open)).map_or(Sight::Right, Sight::Wrong)
    }

    /// Whether others send what interrupts one that is in its guest to another processor.
    fn see_elsewhere(&self, machine: &Machine, postings: &[Posting]) -> Sight {
        let Some(cpu) = machine.state.cpus.get(usize::from(self.cpu)) else { return Sight::Right };
        if self.place != Place::InGuest || !cpu.is_guest() || !takes_virtual(cpu) {
            return Sight::Right;
        }
        let by_table = said::by_table(machine, self.block);
        let by_postings = said::by_postings(machine, self.block, postings);
        let mut said = by_table.into_iter().chain(by_postings);
        match said.find(|one| one.on != cpu.apic.id()) {
            Some(Said { to, .. }) => {
                Sight::Wrong(Wrong { rule: Rule::Elsewhere, vector: Vector(0), way: Some(to) })
            }
            None => Sight::Right,
        }
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
