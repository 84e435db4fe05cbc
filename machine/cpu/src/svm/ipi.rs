//! An IPI that AVIC sends, from the write of the ICR to the last doorbell. [APM2 "AVIC IPI
//! Delivery"]
//!
//! The instruction that writes the ICR begins it and is over. The steps are taken at the boundary
//! behind it, before the next instruction: others may look between two of them, and what a step
//! costs passes before it is taken.

use super::avic::{Avic, IpiOutcome, IpiSend, IpiStep};
use super::state::Exit;
use crate::costs::Step;
use crate::state::Attention;
use crate::{Bus, Cpu};
use arch::apic::Icr;
use arch::svm::ExitCode;
use bus::{ControlBlock, Effect, Happening};

/// How a turn of sending ends.
enum Turn {
    /// Others go first: time has passed, or steps are taken one at a time.
    Others,
    /// The last step was taken.
    Over(IpiOutcome),
}

/// The ICR was written with this.
pub(super) fn begin(cpu: &mut Cpu, bus: &mut Bus<'_>, command: Icr) {
    let Some(guest) = cpu.guest.running.svm_mut() else { return };
    let (block, icr) = (ControlBlock::Vmcb(guest.vmcb), command.into_bits());
    guest.ipi = Some(Box::new(IpiSend::new(command)));
    cpu.pending.raise(Attention::GUEST_BOUNDARY);
    bus.platform.record(cpu.visit(), Happening::VirtualIpi { block, icr });
}

/// Goes on with what [`begin`] began: up to the next write of an IRR, or by one step. True if
/// some are left.
pub(super) fn go_on(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool {
    let Some(guest) = cpu.guest.running.svm_mut() else { return false };
    let (Some(avic), Some(mut ipi)) = (guest.avic, guest.ipi.take()) else { return false };
    match turn(cpu, bus, &avic, &mut ipi) {
        Turn::Others => {
            if let Some(guest) = cpu.guest.running.svm_mut() {
                guest.ipi = Some(ipi);
            }
            cpu.pending.raise(Attention::YIELD);
            true
        }
        Turn::Over(outcome) => {
            finish(cpu, outcome);
            false
        }
    }
}

fn turn(cpu: &mut Cpu, bus: &mut Bus<'_>, avic: &Avic, ipi: &mut IpiSend) -> Turn {
    let visit = cpu.visit();
    loop {
        if pays_first(cpu, avic, ipi) {
            return Turn::Others;
        }
        match ipi.step(avic, bus.memory) {
            IpiStep::Continue => {}
            IpiStep::Late => {
                cpu.clock.take(Step::AvicSend);
                return Turn::Others;
            }
            IpiStep::Posted { page, vector } => {
                set_paid(cpu, false);
                bus.platform.record(visit, Happening::Posted { place: page, vector });
            }
            IpiStep::Doorbell(target) => {
                bus.platform.effect(visit, Effect::Doorbell { target });
                cpu.pending.raise(Attention::YIELD);
            }
            IpiStep::Complete(outcome) => return Turn::Over(outcome),
        }
        if cpu.guest.svm.behaviour.sends_ipis_in_steps || cpu.stands_apart {
            return Turn::Others;
        }
    }
}

/// What sending takes comes before IRR is written: a target that looks at its page by itself
/// finds the vector no sooner than the doorbell would have told it. True if that time passed now.
fn pays_first(cpu: &mut Cpu, avic: &Avic, ipi: &IpiSend) -> bool {
    let is_paid = cpu.guest.running.svm().is_none_or(|guest| guest.ipi_is_paid);
    let Some(page) = ipi.next_page().filter(|_| !is_paid && !avic.behaviour.erratum_1235) else {
        return false;
    };
    // To itself a processor writes without tables and doorbell.
    let is_own = page == avic.backing_page.0;
    cpu.clock.take(if is_own { Step::AvicWrite } else { Step::AvicSend });
    set_paid(cpu, true);
    true
}

fn set_paid(cpu: &mut Cpu, is_paid: bool) {
    if let Some(guest) = cpu.guest.running.svm_mut() {
        guest.ipi_is_paid = is_paid;
    }
}

fn finish(cpu: &mut Cpu, outcome: IpiOutcome) {
    match outcome {
        IpiOutcome::Delivered { reaches_sender: true } => {
            cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
        }
        IpiOutcome::Delivered { reaches_sender: false } => {}
        IpiOutcome::Exit(incomplete) => {
            if let Some(guest) = cpu.guest.running.svm_mut() {
                guest.exit = Some(Exit {
                    code: ExitCode::AvicIncompleteIpi,
                    info: incomplete.into_exit_info(),
                    next_rip: 0,
                });
            }
        }
    }
}
